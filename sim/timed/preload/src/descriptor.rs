//! Kinds of file descriptors. Every query asks the kernel, because descriptors are copied, passed
//! on and closed in ways that this library cannot observe.

use std::ffi::{CStr, c_int};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use ferroce_timed_protocol::event_mark::{EVENT_MARK, GET_SIGNAL};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat, readlinkat_raw};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SocketType, getpeername, getsockname, sockopt};

use crate::inner_pipes;

/// Maximum real time until data is readable that has arrived in simulated time.
const TRANSFER_LIMIT_MS: i32 = 5000;

/// A descriptor of the program.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor(BorrowedFd<'static>);

/// Source of a descriptor's readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The program itself: the handler of an interrupt or a timer, or one of its threads.
    Event,
    /// Another process.
    Other,
}

impl Descriptor {
    /// Returns the descriptor of this number. `None`: the number is negative.
    #[inline]
    pub fn new(number: c_int) -> Option<Self> {
        if number < 0 {
            return None;
        }
        // SAFETY: `borrow_raw` forbids -1, which is excluded. The descriptor is used for system
        // calls only, which fail if it is closed.
        #[expect(unsafe_code, reason = "a number that the program calls a descriptor")]
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        Some(Self(borrowed))
    }

    /// Returns the address of a TCP socket.
    pub fn local(self) -> Option<SocketAddr> {
        let local: SocketAddr = getsockname(self.0).ok()?.try_into().ok()?;
        (sockopt::socket_type(self.0) == Ok(SocketType::STREAM)).then_some(local)
    }

    /// Returns the address of the peer of a connected socket.
    pub fn peer(self) -> Option<SocketAddr> {
        getpeername(self.0).ok()??.try_into().ok()
    }

    /// Returns true if it is a TCP socket.
    pub fn is_tcp(self) -> bool {
        self.local().is_some()
    }

    /// Returns the port of a TCP socket that listens.
    pub fn listening_port(self) -> Option<u16> {
        let local = self.local()?;
        (sockopt::socket_acceptconn(self.0) == Ok(true)).then_some(local.port())
    }

    /// Returns true if calls fail rather than wait (`O_NONBLOCK`).
    pub fn is_nonblocking(self) -> bool {
        fcntl_getfl(self.0).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }

    /// Returns the time limit of a receive (`SO_RCVTIMEO`).
    pub fn receive_time_limit(self) -> Option<Duration> {
        sockopt::socket_timeout(self.0, sockopt::Timeout::Recv).unwrap_or(None)
    }

    /// Returns the events of `wanted` that are ready, in real time, after `limit_ms` at most;
    /// negative: no limit.
    pub fn ready_within(self, wanted: PollFlags, limit_ms: i32) -> PollFlags {
        let mut polled = [PollFd::new(&self.0, wanted)];
        let limit = (limit_ms >= 0).then(|| Timespec {
            tv_sec: i64::from(limit_ms / 1000),
            tv_nsec: i64::from(limit_ms % 1000) * 1_000_000,
        });
        match retry_on_intr(|| poll(&mut polled, limit.as_ref())) {
            Ok(0) | Err(_) => PollFlags::empty(),
            Ok(_) => polled[0].revents(),
        }
    }

    /// Returns the events of `wanted` that are ready now.
    #[inline]
    pub fn ready(self, wanted: PollFlags) -> PollFlags {
        self.ready_within(wanted, 0)
    }

    /// Waits for data that has been sent and is still in the kernel. Returns false if it does not
    /// arrive.
    pub fn await_input(self) -> bool {
        !self
            .ready_within(PollFlags::IN, TRANSFER_LIMIT_MS)
            .is_empty()
    }

    /// Waits in real time until something can be sent.
    pub fn await_output(self) -> bool {
        !self
            .ready_within(PollFlags::OUT, TRANSFER_LIMIT_MS)
            .is_empty()
    }

    /// Adds to the counter of an eventfd.
    pub fn add_to_counter(self, count: u64) {
        // A counter that is full is readable.
        let _ = rustix::io::write(self.0, &count.to_ne_bytes());
    }

    /// Sets the counter of an eventfd to zero.
    pub fn clear_counter(self) {
        if !self.ready(PollFlags::IN).is_empty() {
            let mut count = [0; 8];
            // No other thread reads meanwhile.
            let _ = rustix::io::read(self.0, &mut count);
        }
    }

    /// Returns the number.
    #[inline]
    pub fn number(self) -> c_int {
        self.0.as_raw_fd()
    }

    /// Returns what a wait for its input is, for a message.
    pub fn wait_for_input(self) -> &'static str {
        let Ok(status) = fstat(self.0) else {
            return "input";
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Fifo => "input of a pipe",
            FileType::Socket if self.is_tcp() => "input of a TCP socket",
            FileType::Socket => "input of a socket",
            FileType::CharacterDevice => "input of a terminal",
            _ => "input",
        }
    }

    /// Returns what makes it ready.
    pub fn kind(self) -> Kind {
        let mut path = [0; 40];
        let mut name = [0; 32];
        let Some(path) = self.path_in_proc("fd", &mut path) else {
            return Kind::Other;
        };
        let length = readlinkat_raw(CWD, path, &mut name[..]).unwrap_or(0);
        match name.get(..length).unwrap_or(&[]) {
            b"anon_inode:[eventfd]"
            | b"anon_inode:[timerfd]"
            | b"anon_inode:[eventpoll]"
            | b"anon_inode:[signalfd]" => Kind::Event,
            pipe if pipe.starts_with(b"pipe:") && self.is_marked() => Kind::Event,
            name if inode_of(name).is_some_and(inner_pipes::contains) => Kind::Event,
            _ => Kind::Other,
        }
    }

    /// Returns true for the descriptor of an event queue of the verbs library.
    fn is_marked(self) -> bool {
        // SAFETY: `F_GETSIG` takes no argument and accesses no memory; an invalid descriptor is an
        // error.
        #[expect(unsafe_code, reason = "rustix has no F_GETSIG")]
        let signal = unsafe { libc::fcntl(self.number(), GET_SIGNAL) };
        signal == EVENT_MARK
    }

    /// Returns the path of its entry in this folder of `/proc/self`.
    pub fn path_in_proc<'a>(self, folder: &str, path: &'a mut [u8]) -> Option<&'a CStr> {
        let mut rest = &mut *path;
        write!(rest, "/proc/self/{folder}/{}\0", self.number()).ok()?;
        CStr::from_bytes_until_nul(path).ok()
    }

    /// Returns true if another descriptor below `limit` refers to the same socket.
    pub fn has_copies(self, limit: c_int) -> bool {
        let identity = |file: Self| fstat(file.0).map(|status| (status.st_dev, status.st_ino));
        let Ok(own) = identity(self) else {
            return false;
        };
        (0..limit)
            .filter(|number| *number != self.number())
            .filter_map(Self::new)
            .any(|other| identity(other) == Ok(own))
    }

    /// Returns the error of the last connection attempt (`SO_ERROR`).
    pub fn connect_error(self) -> Result<(), c_int> {
        let error = sockopt::socket_error(self.0).and_then(|error| error);
        error.map_err(Errno::raw_os_error)
    }

    /// Sets or clears `O_NONBLOCK`.
    pub fn set_nonblocking(self, is_nonblocking: bool) {
        if let Ok(flags) = fcntl_getfl(self.0) {
            let mut flags = flags;
            flags.set(OFlags::NONBLOCK, is_nonblocking);
            // A descriptor whose flags can be read accepts them.
            let _ = fcntl_setfl(self.0, flags);
        }
    }
}

/// Returns the inode of a pipe or socket by its name in `/proc`: `pipe:[123]`, `socket:[123]`.
fn inode_of(name: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(name).ok()?;
    let number = name
        .strip_prefix("pipe:[")
        .or_else(|| name.strip_prefix("socket:["))?;
    number.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_proc_have_inodes() {
        assert_eq!(inode_of(b"pipe:[4711]"), Some(4711));
        assert_eq!(inode_of(b"socket:[12]"), Some(12));
        assert_eq!(inode_of(b"anon_inode:[eventfd]"), None);
        assert_eq!(inode_of(b"/tmp/pipe:[4711]"), None);
    }
}
