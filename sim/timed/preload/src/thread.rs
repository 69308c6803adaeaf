//! What the library knows of each thread.
//!
//! It lies in the thread's static storage, at a fixed offset from the thread pointer: unlike
//! `thread_local!`, which may ask the dynamic linker for memory, this can be read in any signal
//! handler.
#![expect(unsafe_code, reason = "thread-local storage that needs no memory")]

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_timed_protocol::page::ThreadPage;

/// What the library knows of a thread. All zero: it has not joined.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadState {
    /// Its page. Null: it has not joined.
    page: Cell<*const ThreadPage>,
    /// Calls of this library that it is inside of. Not zero: what it calls now is real.
    depth: Cell<u32>,
    /// Time reads one after the other, with nothing in between.
    pub reads: Cell<u32>,
    /// When the first of them was.
    pub reads_since_ps: Cell<u64>,
    /// When the thread looks next whether anything has changed, if it goes on reading the time.
    pub look_ps: Cell<u64>,
    /// What it calls is real, and its time that of the machine. Counts, as `depth`, which it is part
    /// of.
    real: Cell<u32>,
    /// System calls one after the other in which no time has passed.
    calls_at_once: Cell<u32>,
    /// When the last of them was.
    call_at_once_ps: Cell<u64>,
    /// Who has polled last: what lies at the top of the stack (the return address), and registers.
    pub poll_frame: Cell<usize>,
    pub poll_registers: Cell<u64>,
    /// What of the stack is the program's, from the lowest address to the highest. Zero: not known
    /// yet.
    pub stack_low: Cell<usize>,
    pub stack_high: Cell<usize>,
    /// Those of its calls that were of the verbs library.
    verbs_calls: Cell<u64>,
}

const STATE_BYTES: usize = 88;
const _: () = assert!(size_of::<ThreadState>() == STATE_BYTES);

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 64",
    ".globl ferroce_thread_state",
    ".hidden ferroce_thread_state",
    ".size ferroce_thread_state, {bytes}",
    "ferroce_thread_state:",
    ".zero {bytes}",
    ".popsection",
    bytes = const STATE_BYTES,
);

/// That of the calling thread.
///
/// It must not be handed to another thread, and the type cannot be: it is not `Sync`.
#[inline(always)]
pub fn state<'a>() -> &'a ThreadState {
    let address: *const ThreadState;
    // SAFETY: reads the offset of the storage from the thread pointer, and the thread pointer.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + ferroce_thread_state@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "adrp {0}, :gottprel:ferroce_thread_state",
            "ldr {0}, [{0}, :gottprel_lo12:ferroce_thread_state]",
            "mrs {1}, tpidr_el0",
            "add {0}, {0}, {1}",
            out(reg) address,
            out(reg) _,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: storage of this size and alignment, which lives as long as the thread, all zero at
    // first, which is a value of the type. Signal handlers of the same thread change it only
    // through cells.
    unsafe { &*address }
}

impl ThreadState {
    /// Where the address of its page lies.
    pub const PAGE_OFFSET: usize = offset_of!(Self, page);
    /// Where the number of calls lies that it is inside of.
    pub const DEPTH_OFFSET: usize = offset_of!(Self, depth);
    /// Where the frame lies that has polled last.
    #[cfg(target_arch = "x86_64")]
    pub const POLL_FRAME_OFFSET: usize = offset_of!(Self, poll_frame);
    /// Where its registers lie.
    #[cfg(target_arch = "x86_64")]
    pub const POLL_REGISTERS_OFFSET: usize = offset_of!(Self, poll_registers);
    /// Where the number of time reads lies.
    pub const READS_OFFSET: usize = offset_of!(Self, reads);

    /// The thread's page.
    #[inline(always)]
    pub fn page(&self) -> Option<&'static ThreadPage> {
        // SAFETY: null, or a page of the program's mapping, which stays until the process ends.
        unsafe { self.page.get().as_ref() }
    }

    /// The thread has got a page, or has none any more.
    pub fn set_page(&self, page: Option<&'static ThreadPage>) {
        let page = page.map_or(std::ptr::null(), std::ptr::from_ref);
        self.page.set(page);
    }

    /// Whether the program itself calls, and not the library.
    #[inline(always)]
    pub fn is_outermost(&self) -> bool {
        self.depth.get() == 0
    }

    /// What the thread calls from here on is real.
    #[inline(always)]
    pub fn enter(&self) {
        self.depth.set(self.depth.get().saturating_add(1));
    }

    /// The opposite of [`Self::enter`].
    #[inline(always)]
    pub fn leave(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
    }

    /// Lets the program call as if it were not inside the library; returns what to give to
    /// [`Self::resume`] afterwards.
    pub fn suspend(&self) -> u32 {
        self.depth.replace(0)
    }

    /// The opposite of [`Self::suspend`].
    pub fn resume(&self, depth: u32) {
        self.depth.set(depth);
    }

    /// From here on what the thread does is real: its time is that of the machine.
    pub fn enter_real(&self) {
        self.real.set(self.real.get().saturating_add(1));
        self.enter();
    }

    /// The opposite of [`Self::enter_real`].
    pub fn leave_real(&self) {
        self.real.set(self.real.get().saturating_sub(1));
        self.leave();
    }

    /// Whether the thread's time is that of the machine.
    pub fn is_real(&self) -> bool {
        self.real.get() > 0
    }

    /// A call of the verbs library.
    #[inline]
    pub fn count_verbs(&self) {
        self.verbs_calls.set(self.verbs_calls.get() + 1);
    }

    /// A system call has ended at `now_ps`, when it began. How many there were before, with no time
    /// in between.
    #[inline]
    pub fn count_call_at_once(&self, now_ps: u64) -> u32 {
        let before = match self.call_at_once_ps.replace(now_ps) == now_ps {
            true => self.calls_at_once.get(),
            false => 0,
        };
        self.calls_at_once.set(before.saturating_add(1));
        before
    }

    /// The last of these calls has cost something: the row goes on at `now_ps`.
    pub fn count_calls_on(&self, now_ps: u64) {
        self.call_at_once_ps.set(now_ps);
    }

    /// How many calls the thread has made that were not of the verbs library.
    pub fn other_calls(&self) -> u64 {
        let calls = self.page().map_or(0, |page| page.calls.load(Relaxed));
        calls.wrapping_sub(self.verbs_calls.get())
    }

    /// As the thread of a child process begins.
    pub fn forget(&self) {
        self.set_page(None);
        self.depth.set(0);
        self.reads.set(0);
        self.real.set(0);
        self.verbs_calls.set(0);
        self.calls_at_once.set(0);
    }

    /// Something else than reading the time is done.
    #[inline(always)]
    pub fn end_reads(&self) {
        self.reads.set(0);
    }
}
