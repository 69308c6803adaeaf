//! Programs outside of the world that connect to one in it.
//!
//! They run in real time, so the arrival of their bytes has no simulated time: they are refused,
//! with a message on standard error. The world identifies them, because it has no report of their
//! connection: while no program of the world connects, a connection that stays in the kernel's
//! backlog comes from outside.

#![expect(unsafe_code, reason = "system calls about a descriptor by its number")]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::event::PollFlags;

use crate::descriptor::Descriptor;
use crate::{joined, os};

/// Printed once.
const REFUSED: &[u8] =
    b"ferroce: a program outside of this simulated world has connected to one in \
    it, and was refused: start it by `ferroce run --world` or `ferroce run --timed`, too\n";
/// Consecutive checks that find a connection in the kernel without a report to the world, until it
/// counts as foreign. A check is made after each sleep of the waiting thread.
const CHECKS: u32 = 10;
/// No socket.
const NONE: c_int = -1;

/// The listening socket of the thread that waits for a connection.
static LISTENER: AtomicI32 = AtomicI32::new(NONE);
/// Consecutive checks that have found one.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// Not zero: the message was printed.
static IS_SAID: AtomicU32 = AtomicU32::new(0);

/// Calls `wait`, which waits for a connection to a listening socket. Foreign peers that connect
/// meanwhile are refused, unless the socket is nonblocking.
pub fn refused_while<T>(listener: Descriptor, is_nonblocking: bool, wait: impl FnOnce() -> T) -> T {
    let number = if is_nonblocking {
        NONE
    } else {
        listener.number()
    };
    SEEN.store(0, Ordering::Relaxed);
    LISTENER.store(number, Ordering::Relaxed);
    let result = wait();
    LISTENER.store(NONE, Ordering::Relaxed);
    result
}

/// Checks the backlog. Called after a waiting thread has slept for a while.
#[cold]
pub fn check() {
    let number = LISTENER.load(Ordering::Relaxed);
    let Some(listener) = Descriptor::new(number) else {
        return;
    };
    // While the clock is held, connections of the world's programs do not arrive either.
    if joined::is_held() || listener.ready(PollFlags::IN).is_empty() {
        return SEEN.store(0, Ordering::Relaxed);
    }
    if SEEN.fetch_add(1, Ordering::Relaxed) + 1 < CHECKS {
        return;
    }
    SEEN.store(0, Ordering::Relaxed);
    os::keeping_errno(|| {
        let (address, length) = (null_mut::<u8>(), null_mut::<u8>());
        let flags = libc::SOCK_CLOEXEC;
        // SAFETY: a system call without an address. A connection is there, so it does not wait.
        let peer = unsafe { libc::syscall(libc::SYS_accept4, number, address, length, flags) };
        if let Some(socket) = Descriptor::new(peer as c_int) {
            refuse(socket);
        }
    });
}

/// Resets a connection: the peer sees an error.
pub fn refuse(socket: Descriptor) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let length = size_of_val(&linger) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_LINGER);
    // SAFETY: the option has this size, and the program does not know the socket.
    unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(socket.number(), level, option, value, length);
        libc::syscall(libc::SYS_close, socket.number());
    }
    if IS_SAID.swap(1, Ordering::Relaxed) == 0 {
        let (text, length) = (REFUSED.as_ptr(), REFUSED.len());
        // SAFETY: writes from a slice of this length.
        unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, text, length) };
    }
}
