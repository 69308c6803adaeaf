//! Signals of the program that this library needs itself.
//!
//! From the moment the program joins, this library handles `SIGSEGV`. The program's own handler is
//! kept, and called for all faults except reads of the time stamp counter. No handler of the
//! program runs with `SIGSEGV` blocked: it could not read the counter.
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

use crate::joined;
use crate::next::next;
use crate::os::set_errno;
use crate::signals::{SetMask, without_needed};

/// The program's action for `SIGSEGV`, and earlier ones: a handler may read the latest action while
/// a thread writes the next.
struct Wanted {
    ring: [UnsafeCell<MaybeUninit<Action>>; 16],
    /// Number of actions written. Zero: this library's handler is not installed.
    count: AtomicUsize,
}

// SAFETY: an entry is written before `count` includes it, and overwritten only fifteen writes
// later, so that a reader never sees a partial write.
unsafe impl Sync for Wanted {}

static WANTED: Wanted = Wanted {
    ring: [const { UnsafeCell::new(MaybeUninit::uninit()) }; 16],
    count: AtomicUsize::new(0),
};

impl Wanted {
    fn get(&self) -> Option<Action> {
        let latest = self.count.load(Ordering::Acquire).checked_sub(1)?;
        let place = self.ring[latest % self.ring.len()].get();
        // SAFETY: `count` includes the entry, so it is initialised.
        Some(unsafe { (*place).assume_init() })
    }

    fn set(&self, action: Action) {
        let count = self.count.load(Ordering::Relaxed);
        let place = self.ring[count % self.ring.len()].get();
        // SAFETY: `count` does not include this entry, so no reader uses it.
        unsafe { (*place).write(action) };
        self.count.store(count + 1, Ordering::Release);
    }
}

/// `struct sigaction`; the function has the same name.
type Action = libc::sigaction;
type Sigaction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;

/// Calls the C library's `sigaction`.
///
/// # Safety
/// The contract of `sigaction`.
unsafe fn real_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    match next!(c"sigaction" as Sigaction) {
        // SAFETY: the caller keeps the contract of `sigaction`; the arguments are passed on.
        Some(real) => unsafe { real(signal, new, old) },
        None => {
            set_errno(libc::ENOSYS);
            -1
        }
    }
}

/// Returns the default action.
fn default_action() -> Action {
    // SAFETY: zero is valid for all fields; as the handler it is `SIG_DFL`.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Installs the handler, and removes needed signals from the masks of the program's actions. May be
/// called again.
pub fn install() {
    for signal in 1..=libc::SIGRTMAX() {
        let mut action = default_action();
        // SAFETY: the contract of `sigaction`: no new action, and `action` has room for the old
        // one.
        let is_read = unsafe { real_sigaction(signal, null(), &raw mut action) } == 0;
        let has_handler = ![SIG_DFL, SIG_IGN].contains(&action.sa_sigaction);
        if signal == libc::SIGSEGV && is_read {
            take_over(action);
        } else if is_read && has_handler {
            action.sa_mask = without_needed(action.sa_mask);
            // SAFETY: the contract of `sigaction`: the action that was installed, with fewer
            // signals blocked.
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
    // SAFETY: the contract of `sigaction`: `on_fault` calls only async-signal-safe functions.
    unsafe { real_sigaction(libc::SIGSEGV, &raw const action, null_mut()) };
}

/// Handles `SIGSEGV`: an invalid access, or a read of the time stamp counter.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the contract of `tsc::handle`: these are the arguments of the signal handler.
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
            // SAFETY: the program has registered this function for these arguments. The kernel
            // restores the mask when this handler returns.
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

/// Returns true if a process has sent the signal: then it does not repeat by itself.
fn is_sent(info: *const siginfo_t) -> bool {
    // SAFETY: `info` is the argument of the handler, which the kernel has filled.
    unsafe { (*info).si_code <= 0 }
}

/// Ends the program, as the fault would without this library.
fn end_by(signal: c_int, info: *const siginfo_t) {
    let action = default_action();
    // SAFETY: the contract of `sigaction`: the default action; the faulting instruction faults
    // again.
    unsafe { real_sigaction(signal, &raw const action, null_mut()) };
    if is_sent(info) {
        // SAFETY: `raise` takes no pointers and signals the calling thread.
        unsafe { libc::raise(signal) };
    }
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    if !joined::is_joined() {
        // SAFETY: the caller keeps the contract of `sigaction`; the arguments are passed on.
        return unsafe { real_sigaction(signal, new, old) };
    }
    // SAFETY: by the contract of `sigaction`, `new` is null or a valid action.
    let action = unsafe { new.as_ref() }.map(|new| Action {
        sa_mask: without_needed(new.sa_mask),
        ..*new
    });
    if let (libc::SIGSEGV, Some(current)) = (signal, WANTED.get()) {
        // SAFETY: by the contract of `sigaction`, `old` is null or has room for an action.
        if let Some(old) = unsafe { old.as_mut() } {
            *old = current;
        }
        action.into_iter().for_each(|action| WANTED.set(action));
        return 0;
    }
    let new = action.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: the caller keeps the contract of `sigaction`; the arguments are passed on.
    unsafe { real_sigaction(signal, new, old) }
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
    let current = WANTED.get().filter(|_| joined::is_joined());
    if let (libc::SIGSEGV, Some(current)) = (signal, current) {
        let mut action = default_action();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        WANTED.set(action);
        return current.sa_sigaction;
    }
    match next!(c"signal" as Signal) {
        // SAFETY: the caller keeps the contract of `signal`; the arguments are passed on.
        Some(real) => unsafe { real(signal, handler) },
        None => SIG_ERR,
    }
}

/// # Safety
/// The contract of `real`, of type [`SetMask`].
unsafe fn set_mask(
    real: Option<SetMask>,
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> Option<c_int> {
    let real = real?;
    // SAFETY: the caller guarantees that `new` is null or an initialised set.
    let set = unsafe { new.as_ref() }.filter(|_| joined::is_joined() && how != libc::SIG_UNBLOCK);
    let set = set.copied().map(without_needed);
    let new = set.as_ref().map_or(new, std::ptr::from_ref);
    // SAFETY: the caller keeps the contract of `real`; `new` is null or points to a set.
    Some(unsafe { real(how, new, old) })
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let real = next!(c"pthread_sigmask" as SetMask);
    // SAFETY: the caller keeps the contract of `pthread_sigmask`, which `real` shares.
    unsafe { set_mask(real, how, new, old) }.unwrap_or(libc::ENOSYS)
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    let real = next!(c"sigprocmask" as SetMask);
    // SAFETY: the caller keeps the contract of `sigprocmask`, which `real` shares.
    unsafe { set_mask(real, how, new, old) }.unwrap_or_else(|| {
        set_errno(libc::ENOSYS);
        -1
    })
}
