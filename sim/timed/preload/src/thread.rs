//! State of each thread.
//!
//! It is in static thread-local storage, at a fixed offset from the thread pointer: unlike
//! `thread_local!`, which may ask the dynamic linker for memory, this can be read in any signal
//! handler.
#![expect(unsafe_code, reason = "thread-local storage that needs no memory")]

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_timed_protocol::page::ThreadPage;

/// State of a thread. All zero: it has not joined.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadState {
    /// Its page. Null: it has not joined.
    page: Cell<*const ThreadPage>,
    /// Nesting depth of calls of this library. Not zero: the thread's calls are real.
    depth: Cell<u32>,
    /// Consecutive time reads.
    pub reads: Cell<u32>,
    /// Time of the first of them.
    pub reads_since_ps: Cell<u64>,
    /// Time of the next check for changes, if the thread keeps reading the time.
    pub check_ps: Cell<u64>,
    /// Not zero: its calls are real, and it runs in real time. A count, which is included in
    /// `depth`.
    real: Cell<u32>,
    /// Consecutive system calls without a time advance.
    calls_at_once: Cell<u32>,
    /// Time of the last of them.
    call_at_once_ps: Cell<u64>,
    /// The last poll: the top of the stack (the return address), and registers.
    pub poll_frame: Cell<usize>,
    pub poll_registers: Cell<u64>,
    /// The program's part of the stack, from the lowest address to the highest. Zero: not known
    /// yet.
    pub stack_low: Cell<usize>,
    pub stack_high: Cell<usize>,
    /// Calls of the verbs library.
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

/// Returns the state of the calling thread.
///
/// It must not be passed to another thread; as the type is not `Sync`, it cannot be.
#[inline(always)]
pub fn state<'a>() -> &'a ThreadState {
    let address: *const ThreadState;
    // SAFETY: the instructions only read the offset of the storage and the thread pointer.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + ferroce_thread_state@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: the instructions only read the offset of the storage and the thread pointer.
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
    // SAFETY: the storage has this size and alignment, lives as long as the thread, and begins as
    // zero, which is valid for the type. Signal handlers of the same thread change it only through
    // cells.
    unsafe { &*address }
}

/// Returns true in the first thread of its process.
#[cfg(target_arch = "x86_64")]
pub fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

impl ThreadState {
    /// Offset of the address of its page.
    pub const PAGE_OFFSET: usize = offset_of!(Self, page);
    /// Offset of the nesting depth.
    pub const DEPTH_OFFSET: usize = offset_of!(Self, depth);
    /// Offset of the frame of the last poll.
    #[cfg(target_arch = "x86_64")]
    pub const POLL_FRAME_OFFSET: usize = offset_of!(Self, poll_frame);
    /// Offset of the registers of the last poll.
    #[cfg(target_arch = "x86_64")]
    pub const POLL_REGISTERS_OFFSET: usize = offset_of!(Self, poll_registers);
    /// Offset of the number of time reads.
    pub const READS_OFFSET: usize = offset_of!(Self, reads);

    /// Returns the thread's page.
    #[inline(always)]
    pub fn page(&self) -> Option<&'static ThreadPage> {
        // SAFETY: the pointer is null, or to a page of the program's mapping, which stays until the
        // process ends.
        unsafe { self.page.get().as_ref() }
    }

    /// Sets or clears the thread's page.
    pub fn set_page(&self, page: Option<&'static ThreadPage>) {
        let page = page.map_or(std::ptr::null(), std::ptr::from_ref);
        self.page.set(page);
    }

    /// Returns true if the program makes the call, not this library.
    #[inline(always)]
    pub fn is_outermost(&self) -> bool {
        self.depth.get() == 0
    }

    /// Makes the thread's further calls real.
    #[inline(always)]
    pub fn enter(&self) {
        self.depth.set(self.depth.get().saturating_add(1));
    }

    /// Reverts [`Self::enter`].
    #[inline(always)]
    pub fn leave(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
    }

    /// Lets the program make calls as if it were not inside the library. Returns the value for
    /// [`Self::resume`].
    pub fn suspend(&self) -> u32 {
        self.depth.replace(0)
    }

    /// Reverts [`Self::suspend`].
    pub fn resume(&self, depth: u32) {
        self.depth.set(depth);
    }

    /// Makes the thread's calls real: it runs in real time.
    pub fn enter_real(&self) {
        self.real.set(self.real.get().saturating_add(1));
        self.enter();
    }

    /// Reverts [`Self::enter_real`].
    pub fn leave_real(&self) {
        self.real.set(self.real.get().saturating_sub(1));
        self.leave();
    }

    /// Returns true if the thread runs in real time.
    pub fn is_real(&self) -> bool {
        self.real.get() > 0
    }

    /// Counts a call of the verbs library.
    #[inline]
    pub fn count_verbs(&self) {
        self.verbs_calls.set(self.verbs_calls.get() + 1);
    }

    /// Records a system call that ends at `now_ps`, the time at which it began. Returns how many
    /// came before it without a time advance.
    #[inline]
    pub fn count_call_at_once(&self, now_ps: u64) -> u32 {
        let before = if self.call_at_once_ps.replace(now_ps) == now_ps {
            self.calls_at_once.get()
        } else {
            0
        };
        self.calls_at_once.set(before.saturating_add(1));
        before
    }

    /// Continues the series at `now_ps`: the last of these calls has cost time.
    pub fn count_calls_on(&self, now_ps: u64) {
        self.call_at_once_ps.set(now_ps);
    }

    /// Returns how many calls the thread has made that were not of the verbs library.
    pub fn other_calls(&self) -> u64 {
        let calls = self.page().map_or(0, |page| page.calls.load(Relaxed));
        calls.wrapping_sub(self.verbs_calls.get())
    }

    /// Resets the state, for the thread of a child process.
    pub fn forget(&self) {
        self.set_page(None);
        self.depth.set(0);
        self.reads.set(0);
        self.real.set(0);
        self.verbs_calls.set(0);
        self.calls_at_once.set(0);
    }

    /// Ends a series of time reads.
    #[inline(always)]
    pub fn end_reads(&self) {
        self.reads.set(0);
    }
}
