//! The time stamp counter.
//!
//! The kernel turns `rdtsc` and `rdtscp` of an armed thread into a signal, whose handler returns
//! the world's counter. That takes some microseconds. Where possible, the instruction is therefore
//! replaced by a jump to code that does the same in some nanoseconds ([`rewrite`]). The trap stays
//! for sites that are not known yet, or cannot be replaced.
#![expect(unsafe_code, reason = "a signal handler that changes registers")]

pub mod extended_state;
pub mod rewrite;
mod stub;

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, siginfo_t, ucontext_t};

use crate::clock::{self, cycles};
use crate::joined;
use crate::os::{self, SignalsBlocked};
use crate::thread::state;
use crate::tsc_trap::Disarmed;

/// A general protection fault: the kernel's `si_code`.
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

    /// Returns the read at an address of code that is being executed.
    fn at(address: usize) -> Option<Self> {
        let byte = |offset: usize| {
            let place = std::ptr::with_exposed_provenance::<u8>(address + offset);
            // SAFETY: the byte belongs to the instruction that has been fetched, as the bytes
            // before it prove.
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

/// Returns the counter of the calling thread.
fn read_counter() -> u64 {
    match clock::read_ps() {
        Some(clock_ps) => cycles(clock_ps),
        None => read_real_counter(),
    }
}

/// Returns the counter of the machine.
fn read_real_counter() -> u64 {
    let _disarmed = Disarmed::new();
    // SAFETY: x86-64 has the instruction, and it does not trap now.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Prepares the program; called once.
pub fn prepare() {
    extended_state::prepare();
    rewrite::prepare();
}

/// Number of traps, for tests and diagnosis.
static TRAPS: AtomicU32 = AtomicU32::new(0);

/// Returns how often the counter has trapped.
#[unsafe(no_mangle)]
extern "C" fn ferroce_time_traps_v1() -> u32 {
    TRAPS.load(Ordering::Relaxed)
}

/// Handles a segmentation fault that is a read of the counter. Returns false for any other fault.
///
/// # Safety
/// The arguments are the signal handler's.
pub unsafe fn handle(info: *const siginfo_t, context: *mut ucontext_t) -> bool {
    // SAFETY: the caller passes the argument of the signal handler, which the kernel has filled.
    let code = unsafe { (*info).si_code };
    if code != FROM_FAULT {
        return false;
    }
    // SAFETY: the caller passes the argument of the signal handler; the registers are in use only
    // after it returns.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as usize;
    let read = {
        // A handler of the program may reach the same site.
        let _blocked = SignalsBlocked::new();
        let Some(read) = Read::at(at) else {
            // Another thread has rewritten it: the jump is executed next.
            return rewrite::is_replaced(at);
        };
        TRAPS.fetch_add(1, Ordering::Relaxed);
        let may_rewrite = state().is_outermost() && state().page().is_some();
        if may_rewrite && joined::is_running() && rewrite_site(at, read) {
            // The jump is executed next. It runs on the program's own stack, because a read of the
            // time may need more room than a signal stack has.
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

/// Rewrites the site so that it does not trap. Returns false if that is not possible.
fn rewrite_site(at: usize, read: Read) -> bool {
    let after: &[u8] = match read {
        Read::Rdtsc => &[],
        // mov ecx, 0, which leaves the flags alone.
        Read::Rdtscp => &[0xb9, 0, 0, 0, 0],
    };
    let stub = stub::address();
    stub != 0 && rewrite::redirect(at, read.length(), stub, after).is_some()
}
