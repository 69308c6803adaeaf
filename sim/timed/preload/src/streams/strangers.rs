//! Programs outside of the world that connect to one in it.
//!
//! They have the time of the machine, so that nothing could be said of when their bytes arrive: they
//! are refused, and standard error says so. Who they are the world knows: it has not heard of their
//! connection. As long as nobody of the world connects, a connection that lies in the kernel for
//! long is one of theirs.

#![expect(unsafe_code, reason = "system calls about a descriptor by its number")]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::event::PollFlags;

use crate::descriptor::Descriptor;
use crate::os;

/// What is said once.
const REFUSED: &[u8] =
    b"ferroce: a program outside of this simulated world has connected to one in \
    it, and was refused: start it by `ferroce run --world` or `ferroce run --timed`, too\n";
/// Looks in a row that find a connection in the kernel of which the world has not heard: it is of
/// somebody else. They are as far apart as a thread sleeps that waits for its turn.
const LOOKS: u32 = 10;
/// No socket.
const NONE: c_int = -1;

/// The listening socket of the thread that waits for a connection.
static LISTENER: AtomicI32 = AtomicI32::new(NONE);
/// Looks in a row.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// Not zero: it was said.
static IS_SAID: AtomicU32 = AtomicU32::new(0);

/// Calls `wait`, which waits for a connection to a listening socket. Strangers that connect
/// meanwhile are refused, unless the program does not wait.
pub fn refused_while<T>(listener: Descriptor, is_nonblocking: bool, wait: impl FnOnce() -> T) -> T {
    let number = match is_nonblocking {
        true => NONE,
        false => listener.number(),
    };
    SEEN.store(0, Ordering::Relaxed);
    LISTENER.store(number, Ordering::Relaxed);
    let result = wait();
    LISTENER.store(NONE, Ordering::Relaxed);
    result
}

/// A thread that waits for its turn has slept for a while.
#[cold]
pub fn look() {
    let number = LISTENER.load(Ordering::Relaxed);
    let Some(listener) = Descriptor::new(number) else {
        return;
    };
    if listener.ready(PollFlags::IN).is_empty() {
        return SEEN.store(0, Ordering::Relaxed);
    }
    if SEEN.fetch_add(1, Ordering::Relaxed) + 1 < LOOKS {
        return;
    }
    SEEN.store(0, Ordering::Relaxed);
    os::keeping_errno(|| {
        let (address, length) = (null_mut::<u8>(), null_mut::<u8>());
        let flags = libc::SOCK_CLOEXEC;
        // SAFETY: a system call that wants no address. There is a connection: it does not wait.
        let stranger = unsafe { libc::syscall(libc::SYS_accept4, number, address, length, flags) };
        if let Some(socket) = Descriptor::new(stranger as c_int) {
            refuse(socket);
        }
    });
}

/// Ends a connection at once: the other side sees an error.
pub fn refuse(socket: Descriptor) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let length = size_of_val(&linger) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_LINGER);
    // SAFETY: an option of the size that it has, and a socket of which the program does not know.
    unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(socket.number(), level, option, value, length);
        libc::syscall(libc::SYS_close, socket.number());
    }
    if IS_SAID.swap(1, Ordering::Relaxed) == 0 {
        let (text, length) = (REFUSED.as_ptr(), REFUSED.len());
        // SAFETY: bytes that are there.
        unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, text, length) };
    }
}
