//! Signals of this thread, by system call.

#![expect(unsafe_code, reason = "system calls")]

use std::ffi::c_int;

use libc::{sigset_t, syscall};

/// Bytes of a set of signals, for the kernel.
const SET_BYTES: usize = 8;

/// Calls `call` with another mask of signals; null: the same.
pub fn with_mask<T>(mask: *const sigset_t, call: impl FnOnce() -> T) -> T {
    if mask.is_null() {
        return call();
    }
    let mut before = 0_u64;
    let how = libc::SIG_SETMASK;
    let none = std::ptr::null_mut::<u64>();
    // SAFETY: the program's mask, and a local for the one before.
    unsafe {
        syscall(
            libc::SYS_rt_sigprocmask,
            how,
            mask,
            &raw mut before,
            SET_BYTES,
        )
    };
    let result = call();
    let errno = crate::real::errno();
    // SAFETY: the mask from above.
    unsafe {
        syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const before,
            none,
            SET_BYTES,
        )
    };
    crate::real::set_errno(errno);
    result
}

/// What the kernel knows of the handler of a signal.
#[repr(C)]
#[derive(Default)]
struct KernelAction {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// What the program wants done when this signal comes.
fn action(signal: c_int) -> Option<KernelAction> {
    let mut action = KernelAction::default();
    let none = std::ptr::null::<KernelAction>();
    let number = libc::SYS_rt_sigaction;
    // SAFETY: reads into a local of the kernel's layout.
    let result = unsafe { syscall(number, signal, none, &raw mut action, SET_BYTES) };
    (result == 0).then_some(action)
}

/// Whether the program handles this signal.
pub fn has_handler(signal: c_int) -> bool {
    let [default, ignore] = [libc::SIG_DFL, libc::SIG_IGN];
    action(signal).is_some_and(|action| ![default, ignore].contains(&action.handler))
}

/// Whether it wants calls to go on after this signal.
pub fn restarts(signal: c_int) -> bool {
    action(signal).is_none_or(|action| action.flags & libc::SA_RESTART as usize != 0)
}

/// What a timer of POSIX sends along with its signal, as the kernel lays it out.
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
    // SAFETY: the same size, and every value is one of the kernel's structure.
    unsafe { std::mem::transmute(information) }
}

/// Sends a signal to the calling thread, with what a timer sends along.
pub fn raise(signal: c_int, information: Option<&libc::siginfo_t>) {
    // SAFETY: system calls about the calling thread; the information is a whole one.
    unsafe {
        let process = syscall(libc::SYS_getpid) as c_int;
        let thread = syscall(libc::SYS_gettid) as c_int;
        match information {
            Some(information) => {
                let information = std::ptr::from_ref(information);
                syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    process,
                    thread,
                    signal,
                    information,
                )
            }
            None => syscall(libc::SYS_tgkill, process, thread, signal),
        };
    }
}

/// A signal that is sent to the program does nothing, from now on.
#[cfg(not(target_arch = "x86_64"))]
pub fn ignore(signal: c_int) {
    // SAFETY: zero is a value of all its fields.
    let mut action: libc::sigaction = unsafe { std::mem::MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = libc::SIG_IGN;
    // SAFETY: a local.
    unsafe { crate::real::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}
