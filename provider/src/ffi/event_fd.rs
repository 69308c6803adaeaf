//! A semaphore eventfd.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::errno::Errno;

/// A count of posts; each take subtracts one. Readable while the count is not zero.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    /// Creates a count of zero. The descriptor blocks unless the program sets `O_NONBLOCK`.
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: the system call takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(super::boundary::last_errno());
        }
        // SAFETY: `eventfd` has just returned the descriptor, so nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns another descriptor of this count. `flags` as for `open`: `O_CLOEXEC`, `O_NONBLOCK`.
    pub(crate) fn duplicate(&self, flags: i32) -> Result<OwnedFd, Errno> {
        let command = match flags & libc::O_CLOEXEC {
            0 => libc::F_DUPFD,
            _ => libc::F_DUPFD_CLOEXEC,
        };
        // SAFETY: neither call takes pointers.
        let fd = unsafe { libc::syscall(libc::SYS_fcntl, self.number(), command, 0) } as i32;
        if fd < 0 {
            return Err(super::boundary::last_errno());
        }
        if flags & libc::O_NONBLOCK != 0 {
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        // SAFETY: `fcntl` has just returned the descriptor, so nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Adds one.
    ///
    /// Uses a system call: `write` of libc is a cancellation point, and this runs inside calls that
    /// are not.
    pub(crate) fn post(&self) {
        let one = 1_u64;
        // SAFETY: the kernel reads eight bytes of the local `one`. The call can neither block nor
        // fail below 2^64 - 1 events.
        unsafe {
            libc::syscall(
                libc::SYS_write,
                self.number(),
                &raw const one,
                size_of::<u64>(),
            )
        };
    }

    /// Takes one if there is one, whether or not the descriptor blocks.
    pub(crate) fn try_take(&self) -> bool {
        let mut count = 0_u64;
        let buffer = libc::iovec {
            iov_base: (&raw mut count).cast(),
            iov_len: size_of::<u64>(),
        };
        // SAFETY: the kernel writes at most eight bytes to the local `count`, through the local
        // `buffer`. Offset -1 (both halves) means: not positioned.
        let read = unsafe {
            libc::syscall(
                libc::SYS_preadv2,
                self.number(),
                &raw const buffer,
                1,
                -1_i64,
                -1_i64,
                libc::RWF_NOWAIT,
            )
        };
        read == 8
            || (read < 0
                && super::boundary::last_errno().number() == libc::EOPNOTSUPP
                && self.poll_and_take())
    }

    /// Like [`Self::try_take`], for kernels before 5.8, whose eventfd does not support
    /// `RWF_NOWAIT`.
    fn poll_and_take(&self) -> bool {
        let mut count = 0_u64;
        let mut ready = libc::pollfd {
            fd: self.number(),
            events: libc::POLLIN,
            revents: 0,
        };
        let no_wait = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `poll` writes to the local `pollfd`, and the read to a local of eight bytes.
        unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                &raw mut ready,
                1,
                &raw const no_wait,
                std::ptr::null::<u8>(),
                0,
            ) == 1
                && libc::syscall(
                    libc::SYS_read,
                    self.number(),
                    &raw mut count,
                    size_of::<u64>(),
                ) == 8
        }
    }
}
