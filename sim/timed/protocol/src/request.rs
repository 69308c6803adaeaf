//! Requests of a thread when it passes its turn.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cm::CmCall;

/// Bit of an address in memory that processes share: the other bits identify the object in the file
/// that is mapped, so they are the same in each process.
pub const SHARED_ADDRESS: u64 = 1 << 63;

/// Returns the address for which threads of a process wait that take one of its signals.
pub fn takers_of_signals(pid: u32) -> u64 {
    // No file has the number zero.
    SHARED_ADDRESS | u64::from(pid)
}

/// Memory that a polling thread checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Everything that the card writes.
    Everything,
    /// Everything that the card writes, until a time at which the thread runs in any case.
    EverythingUntil {
        /// The time.
        time_ps: u64,
    },
    /// Completions and events.
    Completions,
    /// Completions and events until a time at which the thread checks everything, and runs in any
    /// case.
    CompletionsUntil {
        /// The time.
        time_ps: u64,
    },
    /// This address range of the program.
    Memory(Range<u64>),
}

/// The event for which a thread waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// This time, or its own clock if that is later.
    At {
        /// The time.
        time_ps: u64,
    },
    /// A write of the card. The thread polls from its clock on and runs again with the first
    /// iteration that finds something new.
    OnWrite {
        /// Time of one iteration.
        grid_ps: u64,
        /// The memory that it checks.
        check: Check,
    },
    /// The next interrupt of its host; the thread runs this long after it.
    OnInterrupt {
        /// Time from the interrupt until the thread runs.
        wake_up_ps: u64,
    },
    /// Data on a stream, or its end. The answer is the number of readable bytes, zero at the end.
    OnStream {
        /// The direction of the connection.
        stream: u64,
    },
    /// A connection to this port, in host byte order.
    OnConnection {
        /// The port.
        port: u16,
    },
    /// Something that the world does not model: the world continues without the thread, which comes
    /// back with [`Wait::Return`].
    External,
    /// The world to reach the thread's own clock, unless nothing has changed by then since the turn
    /// began.
    Check,
    /// The world to reach the thread's own clock, if the thread is too far ahead of its card to
    /// store.
    Room,
    /// A turn, after the thread was outside of the world.
    Return,
    /// A call of RDMA CM; for the answer see [`crate::cm::answer`].
    Cm(CmCall),
    /// Another thread of the program to wake this address.
    OnAddress {
        /// An address of the program.
        address: u64,
        /// A wake-up needs one of these bits.
        bits: u32,
    },
    /// The last of `threads` threads of the program to arrive at a barrier. The answer is 1 for the
    /// last one, and 0 for the others.
    AtBarrier {
        /// The address of the barrier.
        address: u64,
        /// Number of threads, with this one.
        threads: u32,
    },
    /// Nothing: the thread has ended.
    End,
}

/// The cells that hold a [`Wait`].
#[derive(Debug, Default)]
#[repr(C)]
pub struct Request {
    kind: AtomicU64,
    arguments: [AtomicU64; 4],
}

impl Request {
    /// Writes what the thread waits for.
    #[inline]
    pub fn set(&self, wait: &Wait) {
        let (kind, arguments) = match wait {
            Wait::At { time_ps } => (0, [*time_ps, 0, 0, 0]),
            Wait::OnWrite { grid_ps, check } => match check {
                Check::Everything => (1, [*grid_ps, 0, 0, 0]),
                Check::Completions => (1, [*grid_ps, 1, 0, 0]),
                Check::Memory(range) => (1, [*grid_ps, 2, range.start, range.end]),
                Check::CompletionsUntil { time_ps } => (1, [*grid_ps, 3, *time_ps, 0]),
                Check::EverythingUntil { time_ps } => (1, [*grid_ps, 4, *time_ps, 0]),
            },
            Wait::OnInterrupt { wake_up_ps } => (2, [*wake_up_ps, 0, 0, 0]),
            Wait::OnStream { stream } => (3, [*stream, 0, 0, 0]),
            Wait::OnConnection { port } => (4, [u64::from(*port), 0, 0, 0]),
            Wait::External => (5, [0; 4]),
            Wait::Return => (6, [0; 4]),
            Wait::End => (7, [0; 4]),
            Wait::Check => (8, [0; 4]),
            Wait::Room => (9, [0; 4]),
            Wait::Cm(call) => (10, call.to_words()),
            Wait::OnAddress { address, bits } => (11, [*address, u64::from(*bits), 0, 0]),
            Wait::AtBarrier { address, threads } => (12, [*address, u64::from(*threads), 0, 0]),
        };
        self.kind.store(kind, Ordering::Relaxed);
        for (cell, value) in self.arguments.iter().zip(arguments) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Returns what the thread waits for. `None`: the cells hold no valid request.
    #[inline]
    pub fn get(&self) -> Option<Wait> {
        let [first, second, third, fourth] =
            [0, 1, 2, 3].map(|place: usize| self.arguments[place].load(Ordering::Relaxed));
        Some(match self.kind.load(Ordering::Relaxed) {
            0 => Wait::At { time_ps: first },
            1 => Wait::OnWrite {
                grid_ps: first,
                check: match second {
                    0 => Check::Everything,
                    1 => Check::Completions,
                    2 => Check::Memory(third..fourth),
                    3 => Check::CompletionsUntil { time_ps: third },
                    4 => Check::EverythingUntil { time_ps: third },
                    _ => return None,
                },
            },
            2 => Wait::OnInterrupt { wake_up_ps: first },
            3 => Wait::OnStream { stream: first },
            4 => Wait::OnConnection {
                port: u16::try_from(first).ok()?,
            },
            5 => Wait::External,
            6 => Wait::Return,
            7 => Wait::End,
            8 => Wait::Check,
            9 => Wait::Room,
            10 => Wait::Cm(CmCall::of_words([first, second, third, fourth])?),
            11 => Wait::OnAddress {
                address: first,
                bits: u32::try_from(second).ok()?,
            },
            12 => Wait::AtBarrier {
                address: first,
                threads: u32::try_from(second).ok()?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_what_one_gets() {
        let request = Request::default();
        let checks = [
            Check::Everything,
            Check::Completions,
            Check::CompletionsUntil { time_ps: 30 },
            Check::Memory(7..15),
        ];
        let polls = checks.map(|check| Wait::OnWrite { grid_ps: 20, check });
        let others = [
            Wait::At { time_ps: 5 },
            Wait::OnInterrupt { wake_up_ps: 9 },
            Wait::OnStream { stream: 3 },
            Wait::OnConnection { port: 18515 },
            Wait::External,
            Wait::Check,
            Wait::Room,
            Wait::Return,
            Wait::End,
            Wait::Cm(CmCall::Open),
            Wait::OnAddress {
                address: 64,
                bits: u32::MAX,
            },
            Wait::AtBarrier {
                address: 128,
                threads: 9,
            },
        ];
        for wait in polls.into_iter().chain(others) {
            request.set(&wait);
            assert_eq!(request.get(), Some(wait));
        }
    }

    #[test]
    fn invalid_bytes_are_no_request() {
        let request = Request::default();
        request.kind.store(13, Ordering::Relaxed);
        assert_eq!(request.get(), None);
        request.set(&Wait::OnConnection { port: 1 });
        request.arguments[0].store(1 << 16, Ordering::Relaxed);
        assert_eq!(request.get(), None);
    }
}
