//! The time stamp counter.
//!
//! The kernel has `rdtsc` and `rdtscp` of an armed thread end in a signal, whose handler says what
//! the counter of the world says. That takes some microseconds; therefore the instruction is
//! replaced by a jump to code that does the same in some nanoseconds, where that is possible
//! ([`rewrite`]). The trap stays for the sites that are not known yet, and for those that cannot be
//! replaced.
//!
//! The kernel hands the trap down to what a thread starts, other programs included, which know
//! nothing of it: [`Disarmed`].
#![expect(
    unsafe_code,
    reason = "a signal handler that changes registers, and system calls"
)]

pub mod rewrite;
mod stub;

pub use stub::SAVE_BYTES;

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, siginfo_t, ucontext_t};

use crate::clock::{self, cycles};
use crate::os::{self, SignalsBlocked, system_call};
use crate::session;
use crate::thread::state;

/// A general protection fault, as the kernel says where a signal comes from.
const FROM_FAULT: c_int = 0x80;

/// An instruction that reads the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Rdtsc,
    Rdtscp,
}

impl Read {
    const fn length(self) -> usize {
        match self {
            Self::Rdtsc => 2,
            Self::Rdtscp => 3,
        }
    }

    /// That at an address of code that is being executed.
    fn at(address: usize) -> Option<Self> {
        let byte = |offset: usize| {
            let place = std::ptr::with_exposed_provenance::<u8>(address + offset);
            // SAFETY: the byte belongs to the instruction that has been fetched, as the ones before
            // it say.
            unsafe { place.read_volatile() }
        };
        if byte(0) != 0x0f {
            return None;
        }
        match byte(1) {
            0x31 => Some(Self::Rdtsc),
            0x01 if byte(2) == 0xf9 => Some(Self::Rdtscp),
            _ => None,
        }
    }
}

/// The counter of the calling thread.
fn read_counter() -> u64 {
    match clock::read_ps() {
        Some(clock_ps) => cycles(clock_ps),
        None => read_real_counter(),
    }
}

/// That of the machine.
fn read_real_counter() -> u64 {
    let _disarmed = Disarmed::new();
    // SAFETY: reads a counter, which does not trap now.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Once for the program.
pub fn prepare() {
    stub::prepare();
    rewrite::prepare();
}

/// From here on the calling thread, and those that it starts, have the counter of the world.
pub fn arm() {
    set_mode(libc::PR_TSC_SIGSEGV);
}

/// The calling thread has the counter of the machine.
pub fn disarm() {
    set_mode(libc::PR_TSC_ENABLE);
}

fn set_mode(mode: c_int) {
    let arguments = [libc::PR_SET_TSC as usize, mode as usize, 0, 0];
    // SAFETY: concerns the calling thread. Where it fails the counter stays that of the machine.
    unsafe { system_call(libc::SYS_prctl, arguments) };
}

fn is_armed() -> bool {
    let mut mode: c_int = 0;
    let arguments = [libc::PR_GET_TSC as usize, (&raw mut mode).addr(), 0, 0];
    // SAFETY: writes `mode`.
    unsafe { system_call(libc::SYS_prctl, arguments) };
    mode == libc::PR_TSC_SIGSEGV
}

/// As long as it lives the calling thread has the counter of the machine, and so has what it
/// starts.
#[derive(Debug)]
pub struct Disarmed {
    was_armed: bool,
}

impl Disarmed {
    /// Disarms the thread.
    pub fn new() -> Self {
        let was_armed = is_armed();
        if was_armed {
            disarm();
        }
        Self { was_armed }
    }
}

impl Drop for Disarmed {
    fn drop(&mut self) {
        if self.was_armed {
            arm();
        }
    }
}

/// Sites that were asked for and trapped, for tests and for the curious.
static TRAPS: AtomicU32 = AtomicU32::new(0);

/// How often the counter has trapped.
#[unsafe(no_mangle)]
extern "C" fn ferroce_time_traps_v1() -> u32 {
    TRAPS.load(Ordering::Relaxed)
}

/// Handles a segmentation fault that is a read of the counter. False: it is none.
///
/// # Safety
/// The arguments of the signal handler.
pub unsafe fn handle(info: *const siginfo_t, context: *mut ucontext_t) -> bool {
    // SAFETY: by the contract.
    let code = unsafe { (*info).si_code };
    if code != FROM_FAULT {
        return false;
    }
    // SAFETY: by the contract. The program may see the registers only when the handler returns.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as usize;
    let read = {
        // A handler of the program may come to the same site.
        let _blocked = SignalsBlocked::new();
        let Some(read) = Read::at(at) else {
            // It has been rewritten meanwhile: the jump is executed now.
            return rewrite::is_replaced(at);
        };
        TRAPS.fetch_add(1, Ordering::Relaxed);
        let may_rewrite = state().is_outermost() && state().page().is_some();
        if may_rewrite && session::is_running() && rewrite_site(at, read) {
            // The jump is executed now: on the program's own stack, which has room for all that a
            // read of the time may lead to.
            return true;
        }
        read
    };
    let counter = os::keeping_errno(read_counter);
    registers[libc::REG_RAX as usize] = (counter & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (counter >> 32) as i64;
    if read == Read::Rdtscp {
        registers[libc::REG_RCX as usize] = 0;
    }
    let next = at + read.length();
    registers[libc::REG_RIP as usize] = rewrite::relocated(next) as i64;
    true
}

/// From now on the site does not trap. False: that is not possible.
fn rewrite_site(at: usize, read: Read) -> bool {
    let after: &[u8] = match read {
        Read::Rdtsc => &[],
        // mov ecx, 0, which leaves the flags alone.
        Read::Rdtscp => &[0xb9, 0, 0, 0, 0],
    };
    let stub = stub::address();
    stub != 0 && rewrite::redirect(at, read.length(), stub, after).is_some()
}
