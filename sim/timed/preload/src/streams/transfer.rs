//! Sending and receiving on a connection.

#![expect(unsafe_code, reason = "the program's buffers go to the kernel")]

use std::ffi::c_int;

use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;
use ferroce_timed_protocol::{PS_PER_NS, STREAM_LATENCY_PS};
use libc::{iovec, ssize_t};

use super::name::{Connection, Stream};
use crate::descriptor::Descriptor;
use crate::own::{Ended, Own};
use crate::real;

/// Longest pause of a sender whose receiver does not read.
const MAX_PAUSE_PS: u64 = 1_000_000_000;

/// State of a stream for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    /// This many bytes.
    Bytes(u64),
    /// The end of the stream.
    End,
    /// Nothing yet.
    Nothing,
    /// A signal handler has run.
    Interrupted,
    /// The world has ended.
    NoWorld,
}

/// Waits until there is something to read, until `deadline_ps` at most.
pub fn wait_readable(own: &Own, stream: Stream, deadline_ps: u64) -> Readable {
    let wait = Wait::OnStream { stream: stream.0 };
    loop {
        match own.wait(&wait, deadline_ps) {
            Ended::Answered(0) => return Readable::End,
            Ended::Answered(bytes) => return Readable::Bytes(bytes),
            Ended::Interrupted { restarts: false } => return Readable::Interrupted,
            Ended::NoWorld => return Readable::NoWorld,
            Ended::TimedOut | Ended::Interrupted { restarts: true } => {
                if own.now_ps() >= deadline_ps {
                    return Readable::Nothing;
                }
            }
        }
    }
}

/// Returns what there is to read now.
pub fn check(own: &Own, stream: Stream) -> Readable {
    wait_readable(own, stream, own.now_ps())
}

/// Returns the deadline of a receive.
fn deadline_ps(own: &Own, descriptor: Descriptor, flags: c_int) -> u64 {
    if flags & libc::MSG_DONTWAIT != 0 || descriptor.is_nonblocking() {
        return own.now_ps();
    }
    descriptor.receive_time_limit().map_or(NEVER_PS, |limit| {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        own.now_ps().saturating_add(limit.saturating_mul(PS_PER_NS))
    })
}

/// Receives into `parts`, like `recvmsg`.
pub fn receive(
    own: &Own,
    descriptor: Descriptor,
    connection: Connection,
    parts: &[iovec],
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let mut room = Room::new(parts);
    if room.left == 0 {
        return 0;
    }
    let stream = connection.incoming;
    let deadline_ps = deadline_ps(own, descriptor, flags);
    let peeks = flags & libc::MSG_PEEK != 0;
    let waits_for_all = flags & libc::MSG_WAITALL != 0 && !peeks;
    loop {
        let most = match wait_readable(own, stream, deadline_ps) {
            Readable::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            // The kernel knows whether the stream ended properly.
            Readable::End => 1,
            Readable::Nothing if room.done == 0 => {
                own.spend_call();
                return real::failed_size(libc::EAGAIN);
            }
            Readable::Interrupted if room.done == 0 => return real::failed_size(libc::EINTR),
            Readable::NoWorld if room.done == 0 => return own.outside(real),
            Readable::Nothing | Readable::Interrupted | Readable::NoWorld => return room.done(),
        };
        let before = room.done;
        let taken = take(descriptor, &mut room, most, peeks);
        let count = room.done - before;
        if count > 0 && !peeks {
            own.store(StoreKind::Receive, 0, &[stream.0, count as u64]);
        }
        match taken {
            Ok(Taken::End) => return room.done(),
            Ok(Taken::All) if waits_for_all && room.left > 0 => {}
            Ok(Taken::All) => return room.done(),
            Err(_) if room.done > 0 => return room.done(),
            Err(errno) => return real::failed_size(errno),
        }
    }
}

/// Result of [`take`].
enum Taken {
    All,
    End,
}

/// Reads up to `most` bytes that have arrived.
fn take(descriptor: Descriptor, room: &mut Room, most: usize, peeks: bool) -> Result<Taken, c_int> {
    let kind = if peeks { libc::MSG_PEEK } else { 0 };
    let mut left = most.min(room.left);
    let mut has_waited = false;
    while left > 0 {
        let (buffer, length) = room.next();
        // SAFETY: a part of a buffer that the program has passed for writing; the kernel checks it.
        let received = unsafe {
            real::recv(
                descriptor.number(),
                buffer,
                length.min(left),
                kind | libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(received) {
            Ok(0) => return Ok(Taken::End),
            Ok(count) => {
                room.advance(count);
                left -= count;
                if peeks {
                    break;
                }
            }
            Err(_) => match real::errno() {
                libc::EINTR => {}
                // It has been sent, but is still in the kernel.
                libc::EAGAIN if !has_waited || descriptor.await_input() => has_waited = true,
                libc::EAGAIN => return Ok(Taken::End),
                errno => return Err(errno),
            },
        }
    }
    Ok(Taken::All)
}

/// Sends `parts`, like `sendmsg`.
pub fn transmit(
    own: &Own,
    descriptor: Descriptor,
    connection: Connection,
    parts: &[iovec],
    flags: c_int,
) -> ssize_t {
    let mut room = Room::new(parts);
    let waits = flags & libc::MSG_DONTWAIT == 0 && !descriptor.is_nonblocking();
    let mut pause_ps = STREAM_LATENCY_PS;
    while room.left > 0 {
        let (buffer, length) = room.next();
        let flags = flags | libc::MSG_DONTWAIT;
        // SAFETY: a part of a buffer that the program has passed for reading; the kernel checks it.
        let sent = unsafe { real::send(descriptor.number(), buffer, length, flags) };
        if let Ok(count) = usize::try_from(sent) {
            own.store(StoreKind::Send, 0, &[connection.outgoing.0, count as u64]);
            room.advance(count);
            pause_ps = STREAM_LATENCY_PS;
            continue;
        }
        match real::errno() {
            libc::EINTR => {}
            libc::EAGAIN if waits => {
                // The receiver has to get its turn.
                let time_ps = own.now_ps().saturating_add(pause_ps);
                pause_ps = (2 * pause_ps).min(MAX_PAUSE_PS);
                match own.wait(&Wait::At { time_ps }, NEVER_PS) {
                    Ended::Interrupted { restarts: false } if room.done == 0 => {
                        return real::failed_size(libc::EINTR);
                    }
                    Ended::Interrupted { restarts: false } => return room.done(),
                    Ended::NoWorld => {
                        descriptor.await_output();
                    }
                    _ => {}
                }
            }
            errno if room.done == 0 => {
                if errno == libc::EAGAIN {
                    own.spend_call();
                    own.catch_up();
                }
                return real::failed_size(errno);
            }
            _ => break,
        }
    }
    room.done()
}

/// The remaining parts of a message.
struct Room<'a> {
    parts: &'a [iovec],
    /// Offset into the first part.
    offset: usize,
    left: usize,
    done: usize,
}

impl<'a> Room<'a> {
    fn new(parts: &'a [iovec]) -> Self {
        let lengths = parts.iter().map(|part| part.iov_len);
        let left = lengths.fold(0_usize, usize::saturating_add);
        Self {
            parts,
            offset: 0,
            left: left.min(isize::MAX as usize),
            done: 0,
        }
    }

    /// Returns the next part: at least a byte while something is left.
    fn next(&mut self) -> (*mut std::ffi::c_void, usize) {
        while let [first, rest @ ..] = self.parts {
            let length = first.iov_len - self.offset;
            if length > 0 {
                let start = first.iov_base.wrapping_byte_add(self.offset);
                return (start, length.min(self.left));
            }
            self.parts = rest;
            self.offset = 0;
        }
        (std::ptr::null_mut(), 0)
    }

    fn advance(&mut self, count: usize) {
        self.offset += count;
        self.left -= count;
        self.done += count;
    }

    fn done(&self) -> ssize_t {
        self.done as ssize_t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_gone_through_in_order() {
        let mut memory = [0_u8; 10];
        let start = memory.as_mut_ptr();
        let part = |offset: usize, length| iovec {
            iov_base: start.wrapping_add(offset).cast(),
            iov_len: length,
        };
        let parts = [part(0, 0), part(1, 3), part(5, 0), part(6, 2)];
        let mut room = Room::new(&parts);
        assert_eq!(room.left, 5);
        assert_eq!(room.next(), (start.wrapping_add(1).cast(), 3));
        room.advance(2);
        assert_eq!(room.next(), (start.wrapping_add(3).cast(), 1));
        room.advance(1);
        assert_eq!(room.next(), (start.wrapping_add(6).cast(), 2));
        room.advance(2);
        assert_eq!((room.left, room.done()), (0, 5));
        assert_eq!(room.next().1, 0);
    }
}
