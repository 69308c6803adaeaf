//! A count of events that can be polled.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_timed_client::event_mark::{EVENT_MARK, SET_SIGNAL};

use crate::errno::Errno;

/// An event in the pipe; the kernel's `struct ib_uverbs_comp_event_desc` has the same size. The
/// event itself is in the queue of the object.
type Event = u64;
/// Its bytes.
pub(crate) const EVENT_BYTES: usize = size_of::<Event>();

/// A count of posts; each take subtracts one. Its descriptor is readable while the count is not
/// zero, and never writable, like the kernel's event descriptors: a program that polls for both
/// directions sleeps until an event comes. (An eventfd is always writable.)
///
/// It is the read end of a pipe; each event is [`EVENT_BYTES`] bytes. Events that do not fit into
/// the pipe are counted and written later.
#[derive(Debug)]
pub(crate) struct EventFd {
    /// The read end, for programs; blocks unless the program sets `O_NONBLOCK`.
    reader: OwnedFd,
    /// Both ends, in a separate open file that never blocks.
    own: File,
    /// Events that the pipe had no room for.
    waiting: AtomicU64,
}

impl EventFd {
    /// Creates a count of zero.
    ///
    /// # Errors
    /// The errors of `pipe2`, and of opening the pipe again in `/proc`.
    pub(crate) fn new() -> Result<Self, Errno> {
        let [reader, _writer] = pipe()?;
        Self::around(reader)
    }

    /// Returns the count in a pipe with this end.
    fn around(reader: OwnedFd) -> Result<Self, Errno> {
        // SAFETY: the system call takes no pointers.
        unsafe { libc::syscall(libc::SYS_fcntl, reader.as_raw_fd(), SET_SIGNAL, EVENT_MARK) };
        let own = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("/proc/self/fd/{}", reader.as_raw_fd()))
            .map_err(|error| Errno::new(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(Self {
            reader,
            own,
            waiting: AtomicU64::new(0),
        })
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
            return Err(super::last_errno());
        }
        if flags & libc::O_NONBLOCK != 0 {
            // SAFETY: `fcntl` with `F_SETFL` takes no pointers.
            unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        // SAFETY: `fcntl` has just returned the descriptor, so nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    pub(crate) fn number(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Adds one.
    pub(crate) fn post(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.refill();
    }

    /// Takes one if there is one, without waiting.
    pub(crate) fn try_take(&self) -> bool {
        let mut event: Event = 0;
        // SAFETY: the kernel writes at most eight bytes to the local `event`.
        let read = unsafe {
            libc::syscall(
                libc::SYS_read,
                self.own.as_raw_fd(),
                &raw mut event,
                EVENT_BYTES,
            )
        };
        self.refill();
        read == EVENT_BYTES as i64
    }

    /// Writes the events that did not fit into the pipe before. Also called when a program has
    /// read.
    pub(crate) fn refill(&self) {
        let claim = |waiting: u64| waiting.checked_sub(1);
        while self
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, claim)
            .is_ok()
        {
            let event: Event = 1;
            // By system call: `write` of libc is a cancellation point, and this runs inside calls
            // that are not.
            // SAFETY: the kernel reads eight bytes of the local `event`.
            let written = unsafe {
                libc::syscall(
                    libc::SYS_write,
                    self.own.as_raw_fd(),
                    &raw const event,
                    EVENT_BYTES,
                )
            };
            if written != EVENT_BYTES as i64 {
                self.waiting.fetch_add(1, Ordering::AcqRel);
                return;
            }
        }
    }
}

/// Where threads wait for an event without taking it.
///
/// A waiting thread copies the event (`tee`) into this pipe. The copy waits like the kernel's
/// commands: a signal whose handler has `SA_RESTART` does not end it, but would end `poll`.
pub(crate) struct WaitingRoom {
    copies: EventFd,
    /// The write end; it blocks.
    writer: OwnedFd,
}

impl WaitingRoom {
    /// Creates the room.
    ///
    /// # Errors
    /// The errors of [`EventFd::new`].
    pub(crate) fn new() -> Result<Self, Errno> {
        let [reader, writer] = pipe()?;
        let copies = EventFd::around(reader)?;
        Ok(Self { copies, writer })
    }

    /// Returns the descriptor to which the next event is copied. Earlier copies are gone.
    pub(crate) fn enter(&self) -> RawFd {
        while self.copies.try_take() {}
        self.writer.as_raw_fd()
    }
}

/// Returns the ends of a new pipe: to read, and to write.
fn pipe() -> Result<[OwnedFd; 2], Errno> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two descriptors to the local `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(super::last_errno());
    }
    // SAFETY: `pipe2` has just returned both descriptors, so nothing else owns them.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what `poll` reports for a descriptor.
    fn polled(fd: RawFd) -> i16 {
        let events = libc::POLLIN | libc::POLLOUT;
        let mut polled = libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        // SAFETY: the kernel writes to the local `polled`.
        unsafe { libc::poll(&raw mut polled, 1, 0) };
        polled.revents
    }

    #[test]
    fn it_is_readable_while_events_wait_and_never_writable() {
        let events = EventFd::new().expect("descriptors");
        assert_eq!(polled(events.number()), 0);
        events.post();
        events.post();
        assert_eq!(polled(events.number()), libc::POLLIN);
        assert!(events.try_take() && events.try_take());
        assert!(!events.try_take());
        assert_eq!(polled(events.number()), 0);
    }

    /// Goal: no event is lost. Method: more than a pipe has room for.
    #[test]
    fn events_beyond_the_room_of_a_pipe_follow() {
        const EVENTS: usize = 20_000;
        let events = EventFd::new().expect("descriptors");
        (0..EVENTS).for_each(|_| events.post());
        assert_ne!(
            events.waiting.load(Ordering::Relaxed),
            0,
            "the pipe has room for all"
        );
        assert_eq!((0..).take_while(|_| events.try_take()).count(), EVENTS);
    }
}
