//! Signals and limits of a process that serves others until it is terminated.

use std::io;
use std::time::Duration;

/// Signals that request the end of a process.
const TERMINATION: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Blocks the signals that request the end of this process until [`Termination::wait`] takes them.
#[derive(Debug)]
pub struct Termination {
    signals: libc::sigset_t,
}

impl Termination {
    /// Blocks them in this thread and those that it starts from now on.
    #[must_use]
    pub fn keep() -> Self {
        Self::keep_with(&[])
    }

    /// Does the same as [`Termination::keep`] with further signals, for [`Termination::next`].
    #[must_use]
    pub fn keep_with(others: &[libc::c_int]) -> Self {
        // SAFETY: the set is initialised by sigemptyset before it is read.
        let signals = unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            for signal in TERMINATION.iter().chain(others) {
                libc::sigaddset(&raw mut signals, *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
            signals
        };
        Self { signals }
    }

    /// Waits for a termination signal, at most for `at_most`. Returns true if it came.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> bool {
        let signal = self.next(at_most);
        signal.is_some_and(|signal| TERMINATION.contains(&signal))
    }

    /// Waits for a held signal, at most for `at_most`.
    #[must_use]
    pub fn next(&self, at_most: Duration) -> Option<libc::c_int> {
        let time = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
        };
        // SAFETY: the kernel only reads the set and the time; siginfo is not requested.
        let signal = unsafe {
            libc::sigtimedwait(
                &raw const self.signals,
                std::ptr::null_mut(),
                &raw const time,
            )
        };
        (signal > 0).then_some(signal)
    }
}

/// Sends a signal to a thread of another process, if it is still there.
pub fn send_signal(pid: u32, tid: u32, signal: libc::c_int) {
    // SAFETY: `tgkill` takes only numbers.
    unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            pid as libc::pid_t,
            tid as libc::pid_t,
            signal,
        );
    }
}

/// Raises the limit of open files to its maximum.
///
/// # Errors
/// The error of the system.
pub fn raise_descriptor_limit() -> io::Result<()> {
    // SAFETY: the kernel writes into the local `limit`, and then only reads it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
