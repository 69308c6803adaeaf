//! Signals for a process that waits for its child: the child gets them.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The signals with which other processes ask one to end, or notify it.
const SIGNALS: [libc::c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The child; 0: there is none yet, or none any more.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Signals that came before the child, as bits.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// Passes signals for this process on to its child. A process has one child of this kind.
///
/// Signals of the terminal are not passed on: the child is in the terminal's foreground group, too,
/// and has them already. This process ignores them, to see the child's end.
#[derive(Debug)]
pub struct Forwarding(());

impl Forwarding {
    /// Installs the handlers. Signals are kept until there is a child. A signal that this process
    /// ignores, as under nohup(1), is still ignored.
    #[must_use]
    pub fn start() -> Self {
        for signal in SIGNALS {
            // SAFETY: all zero is an action with an empty mask; the handler calls only
            // async-signal-safe functions.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &raw mut old);
                if old.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = forward as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
        Self(())
    }

    /// Names the child, which gets the signals that have come before.
    pub fn to(&self, child: u32) {
        let child = child.cast_signed();
        CHILD.store(child, Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        for signal in SIGNALS {
            if early >> signal & 1 != 0 {
                send(child, signal);
            }
        }
    }

    /// Forgets the child, which has ended: its number may be given to another process.
    pub fn end(&self) {
        CHILD.store(0, Ordering::SeqCst);
    }
}

extern "C" fn forward(signal: libc::c_int, info: *const libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo_t to a handler with SA_SIGINFO.
    if unsafe { (*info).si_code } == SI_KERNEL {
        return;
    }
    match CHILD.load(Ordering::SeqCst) {
        0 => drop(EARLY.fetch_or(1 << signal, Ordering::SeqCst)),
        child => send(child, signal),
    }
}

/// Origin of signals that the terminal makes: `<asm-generic/siginfo.h>`.
const SI_KERNEL: libc::c_int = 0x80;

/// Sends a signal, and leaves errno as it was: the caller may be a signal handler.
fn send(process: libc::pid_t, signal: libc::c_int) {
    // SAFETY: kill() and errno are async-signal-safe.
    unsafe {
        let errno = *libc::__errno_location();
        libc::kill(process, signal);
        *libc::__errno_location() = errno;
    }
}
