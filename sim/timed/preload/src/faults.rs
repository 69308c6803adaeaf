//! Signals of the program that this library needs itself.
//!
//! The handler of `SIGSEGV` is this library's as soon as the program has joined. What the program
//! installs is kept, and called for all faults but reads of the time stamp counter. No handler of
//! the program has `SIGSEGV` blocked: the counter could not be read there.
#![expect(
    unsafe_code,
    reason = "signal handlers, and functions of the C library"
)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{SIG_DFL, SIG_ERR, SIG_IGN, sighandler_t, siginfo_t, sigset_t};

use crate::next::next;
use crate::os::set_errno;
use crate::session;
use crate::spin::PROBE_SIGNAL;

/// What the program wants done at a `SIGSEGV`: the latest of a few, so that a handler that reads
/// one is not disturbed by a thread that writes the next.
struct Wanted {
    ring: [UnsafeCell<MaybeUninit<Action>>; 16],
    /// How many have been written. Zero: this library's handler is not installed.
    count: AtomicUsize,
}

// SAFETY: a place is written before `count` says so, and again only fifteen writes later.
unsafe impl Sync for Wanted {}

static WANTED: Wanted = Wanted {
    ring: [const { UnsafeCell::new(MaybeUninit::uninit()) }; 16],
    count: AtomicUsize::new(0),
};

impl Wanted {
    fn get(&self) -> Option<Action> {
        let latest = self.count.load(Ordering::Acquire).checked_sub(1)?;
        let place = self.ring[latest % self.ring.len()].get();
        // SAFETY: it has been written.
        Some(unsafe { (*place).assume_init() })
    }

    fn set(&self, action: Action) {
        let count = self.count.load(Ordering::Relaxed);
        let place = self.ring[count % self.ring.len()].get();
        // SAFETY: nobody reads this place now.
        unsafe { (*place).write(action) };
        self.count.store(count + 1, Ordering::Release);
    }
}

/// Signals that must not be blocked.
const NEEDED: [c_int; 3] = [libc::SIGSEGV, libc::SIGTRAP, PROBE_SIGNAL];

/// A set of signals to be blocked, without those that must not be.
pub fn without_needed(mut set: sigset_t) -> sigset_t {
    for signal in NEEDED {
        // SAFETY: removes a bit of a set.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}

/// `struct sigaction`; the function has the same name.
type Action = libc::sigaction;
type Sigaction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// The C library's `sigaction`.
///
/// # Safety
/// As that.
unsafe fn real_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    match next!(c"sigaction" as Sigaction) {
        // SAFETY: by the contract.
        Some(real) => unsafe { real(signal, new, old) },
        None => {
            set_errno(libc::ENOSYS);
            -1
        }
    }
}

/// An action that does the default.
fn default_action() -> Action {
    // SAFETY: zero is a value of all its fields; as handler it is the default.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Installs the handler, and has the program's own ones not block it. Again is no harm.
pub fn install() {
    for signal in 1..=libc::SIGRTMAX() {
        let mut action = default_action();
        // SAFETY: reads into `action`.
        let is_read = unsafe { real_sigaction(signal, null(), &raw mut action) } == 0;
        let has_handler = ![SIG_DFL, SIG_IGN].contains(&action.sa_sigaction);
        if signal == libc::SIGSEGV && is_read {
            take_over(action);
        } else if is_read && has_handler {
            action.sa_mask = without_needed(action.sa_mask);
            // SAFETY: what was installed, with fewer signals blocked.
            unsafe { real_sigaction(signal, &raw const action, null_mut()) };
        }
    }
}

fn take_over(current: Action) {
    let handler = on_fault as *const c_void as usize;
    if current.sa_sigaction == handler {
        return;
    }
    WANTED.set(current);
    let mut action = default_action();
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    // SAFETY: installs a handler that does only what a handler may.
    unsafe { real_sigaction(libc::SIGSEGV, &raw const action, null_mut()) };
}

/// The calling thread does not block what this library needs.
pub fn unblock() {
    let mut set = MaybeUninit::uninit();
    // SAFETY: initialises the set, and changes the mask of the calling thread.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in NEEDED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        if let Some(real) = next!(c"pthread_sigmask" as SetMask) {
            real(libc::SIG_UNBLOCK, set.as_ptr(), null_mut());
        }
    }
}

/// A thread has made an access that it may not make, or has read its time stamp counter.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments of the handler.
    #[cfg(target_arch = "x86_64")]
    if unsafe { crate::tsc::handle(info, context.cast()) } {
        return;
    }
    let wanted = WANTED.get().unwrap_or_else(default_action);
    match wanted.sa_sigaction {
        SIG_DFL => end_by(signal, info),
        SIG_IGN if is_sent(info) => {}
        SIG_IGN => end_by(signal, info),
        handler => {
            if wanted.sa_flags & libc::SA_RESETHAND != 0 {
                WANTED.set(default_action());
            }
            let mask = without_needed(wanted.sa_mask);
            // SAFETY: the program has given this function for these arguments. The kernel puts the
            // mask back when this handler returns.
            unsafe {
                if let Some(real) = next!(c"pthread_sigmask" as SetMask) {
                    real(libc::SIG_BLOCK, &raw const mask, null_mut());
                }
                if wanted.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}

/// Whether somebody has sent the signal, so that it does not come again by itself.
fn is_sent(info: *const siginfo_t) -> bool {
    // SAFETY: the handler's argument.
    unsafe { (*info).si_code <= 0 }
}

/// The program ends, as it would without this library.
fn end_by(signal: c_int, info: *const siginfo_t) {
    let action = default_action();
    // SAFETY: the default action; the instruction that has failed fails again.
    unsafe { real_sigaction(signal, &raw const action, null_mut()) };
    if is_sent(info) {
        // SAFETY: sends a signal to the calling thread.
        unsafe { libc::raise(signal) };
    }
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    if !session::is_joined() {
        // SAFETY: by the contract.
        return unsafe { real_sigaction(signal, new, old) };
    }
    // SAFETY: by the contract.
    let action = unsafe { new.as_ref() }.map(|new| Action {
        sa_mask: without_needed(new.sa_mask),
        ..*new
    });
    if let (libc::SIGSEGV, Some(current)) = (signal, WANTED.get()) {
        // SAFETY: by the contract.
        if let Some(old) = unsafe { old.as_mut() } {
            *old = current;
        }
        action.into_iter().for_each(|action| WANTED.set(action));
        return 0;
    }
    let new = action.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: by the contract.
    unsafe { real_sigaction(signal, new, old) }
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
    let current = WANTED.get().filter(|_| session::is_joined());
    if let (libc::SIGSEGV, Some(current)) = (signal, current) {
        let mut action = default_action();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        WANTED.set(action);
        return current.sa_sigaction;
    }
    match next!(c"signal" as Signal) {
        // SAFETY: by the contract.
        Some(real) => unsafe { real(signal, handler) },
        None => SIG_ERR,
    }
}

/// # Safety
/// As [`SetMask`].
unsafe fn set_mask(
    real: Option<SetMask>,
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> Option<c_int> {
    let real = real?;
    // SAFETY: by the contract.
    let set = unsafe { new.as_ref() }.filter(|_| session::is_joined() && how != libc::SIG_UNBLOCK);
    let set = set.copied().map(without_needed);
    let new = set.as_ref().map_or(new, std::ptr::from_ref);
    // SAFETY: by the contract.
    Some(unsafe { real(how, new, old) })
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let real = next!(c"pthread_sigmask" as SetMask);
    // SAFETY: by the contract.
    unsafe { set_mask(real, how, new, old) }.unwrap_or(libc::ENOSYS)
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    let real = next!(c"sigprocmask" as SetMask);
    // SAFETY: by the contract.
    unsafe { set_mask(real, how, new, old) }.unwrap_or_else(|| {
        set_errno(libc::ENOSYS);
        -1
    })
}
