//! Signals of this thread: its mask, its handlers, and those that the library needs.

#![expect(unsafe_code, reason = "system calls, and functions of libc")]

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::sigset_t;
use rustix::process::getpid;
use rustix::thread::gettid;

use crate::next::next;
use crate::os::system_call;

/// Bytes of a set of signals, for the kernel.
const SET_BYTES: usize = 8;

/// The world sends this signal to a thread that has had its turn for long without making a call.
pub const PROBE_SIGNAL: c_int = 48;
/// The set of [`PROBE_SIGNAL`], as the kernel has it.
pub const PROBE_SET: u64 = 1 << (PROBE_SIGNAL - 1);

/// Signals that must not be blocked.
const NEEDED: [c_int; 3] = [libc::SIGSEGV, libc::SIGTRAP, PROBE_SIGNAL];

/// The type of `pthread_sigmask`.
pub type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// Returns the set without the signals that must not be blocked.
pub fn without_needed(mut set: sigset_t) -> sigset_t {
    for signal in NEEDED {
        // SAFETY: `sigdelset` requires an initialised set; `set` is one.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}

/// Unblocks the needed signals in the calling thread.
pub fn unblock_needed() {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` and `sigaddset` initialise a local set; `pthread_sigmask` reads it and
    // changes only the calling thread's mask.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in NEEDED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        if let Some(real) = next!(c"pthread_sigmask" as SetMask) {
            real(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        }
    }
}

/// Returns true if a signal with a handler has been sent that this mask does not block.
///
/// # Safety
/// `mask` is valid.
pub unsafe fn admits_pending(mask: *const sigset_t) -> bool {
    // SAFETY: the caller guarantees a valid mask, which begins with the kernel's.
    let blocked = unsafe { *mask.cast::<u64>() };
    let admitted = pending() & !blocked;
    (1..=u64::BITS as c_int).any(|signal| admitted & set_of(signal) != 0 && has_handler(signal))
}

/// Runs `call` with another signal mask; null: with the same.
pub fn with_mask<T>(mask: *const sigset_t, call: impl FnOnce() -> T) -> T {
    if mask.is_null() {
        return call();
    }
    let mut before = 0_u64;
    let how = libc::SIG_SETMASK;
    let none = std::ptr::null_mut::<u64>();
    // SAFETY: `rt_sigprocmask` reads the program's mask and writes the previous one to a local.
    unsafe { set_mask(how, mask.cast(), &raw mut before) };
    let result = call();
    let errno = crate::real::errno();
    // SAFETY: `rt_sigprocmask` reads the mask that was saved above.
    unsafe { set_mask(how, &raw const before, none) };
    crate::real::set_errno(errno);
    result
}

/// Returns a set with one signal, as the kernel has it.
pub const fn set_of(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Blocks signals in the calling thread, too. Returns the signals that were blocked before.
pub fn block(signals: u64) -> u64 {
    let mut before = 0;
    // SAFETY: `rt_sigprocmask` reads and writes locals.
    unsafe { set_mask(libc::SIG_BLOCK, &raw const signals, &raw mut before) };
    before
}

/// Restores the signals that were blocked before.
pub fn restore(mask: u64) {
    // SAFETY: `rt_sigprocmask` reads a local.
    unsafe { set_mask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
}

/// Returns the signals that have been sent to the calling thread or its process, and are blocked.
pub fn pending() -> u64 {
    let mut set = 0_u64;
    // SAFETY: `rt_sigpending` writes the set to a local.
    unsafe { system_call(libc::SYS_rt_sigpending, [(&raw mut set).addr(), SET_BYTES]) };
    set
}

/// Changes the signal mask of the calling thread.
///
/// # Safety
/// The masks are null or valid, in the kernel's layout.
unsafe fn set_mask(how: c_int, new: *const u64, before: *mut u64) {
    let arguments = [how as usize, new.addr(), before.addr(), SET_BYTES];
    // SAFETY: the caller keeps the contract of `rt_sigprocmask`.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
}

/// The kernel's view of the handler of a signal.
#[repr(C)]
#[derive(Default)]
struct KernelAction {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// Returns the program's action for this signal.
fn action(signal: c_int) -> Option<KernelAction> {
    let mut action = KernelAction::default();
    let arguments = [signal as usize, 0, (&raw mut action).addr(), SET_BYTES];
    // SAFETY: `rt_sigaction` with no new action writes the old one to a local of the kernel's
    // layout.
    let result = unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
    (result == 0).then_some(action)
}

/// Returns true if the program handles this signal.
pub fn has_handler(signal: c_int) -> bool {
    let [default, ignore] = [libc::SIG_DFL, libc::SIG_IGN];
    action(signal).is_some_and(|action| ![default, ignore].contains(&action.handler))
}

/// Returns true if calls continue after this signal (`SA_RESTART`).
pub fn restarts(signal: c_int) -> bool {
    action(signal).is_none_or(|action| action.flags & libc::SA_RESTART as usize != 0)
}

/// Returns the information that a POSIX timer sends with its signal, in the kernel's layout.
pub fn of_timer(signal: c_int, timer: usize, overruns: c_int, value: u64) -> libc::siginfo_t {
    #[repr(C)]
    struct OfTimer {
        signal: c_int,
        errno: c_int,
        code: c_int,
        padding: c_int,
        timer: c_int,
        overruns: c_int,
        value: u64,
        rest: [u64; 12],
    }
    const _: () = assert!(size_of::<OfTimer>() == size_of::<libc::siginfo_t>());
    let information = OfTimer {
        signal,
        errno: 0,
        code: libc::SI_TIMER,
        padding: 0,
        timer: timer as c_int,
        overruns,
        value,
        rest: [0; 12],
    };
    // SAFETY: both types have the same size, and every value is valid for the kernel's structure.
    unsafe { std::mem::transmute(information) }
}

/// Sends a signal to the calling thread, with the information of a timer.
pub fn raise(signal: c_int, information: Option<&libc::siginfo_t>) {
    let process = getpid().as_raw_nonzero().get() as usize;
    let thread = gettid().as_raw_nonzero().get() as usize;
    // SAFETY: system calls about the calling thread; the information is complete and only read.
    unsafe {
        match information {
            Some(information) => {
                let information = std::ptr::from_ref(information).addr();
                let arguments = [process, thread, signal as usize, information];
                system_call(libc::SYS_rt_tgsigqueueinfo, arguments)
            }
            None => system_call(libc::SYS_tgkill, [process, thread, signal as usize]),
        };
    }
}

/// Ignores a signal from now on.
#[cfg(not(target_arch = "x86_64"))]
pub fn ignore(signal: c_int) {
    // SAFETY: zero is valid for all fields of a `sigaction`: integers, a set and an optional
    // function.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = libc::SIG_IGN;
    // SAFETY: the contract of `sigaction`: it reads a local action, and the old one is not
    // requested.
    unsafe { crate::real::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}
