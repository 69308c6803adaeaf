//! What a thread waits for when it gives its turn up.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a polling thread looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Everything that the card writes.
    Everything,
    /// The same; at this time it goes on in any case.
    EverythingUntil {
        /// The time.
        time_ps: u64,
    },
    /// Completions and events.
    Completions,
    /// Completions and events; at this time it looks at everything, and goes on in any case.
    CompletionsUntil {
        /// The time.
        time_ps: u64,
    },
    /// These addresses of the program.
    Memory(Range<u64>),
}

/// What a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// For this time, or its own clock if that is later.
    At {
        /// The time.
        time_ps: u64,
    },
    /// It polls, from its clock on: it goes on with the first turn that finds something new.
    OnWrite {
        /// From one turn to the next.
        grid_ps: u64,
        /// What it looks at.
        look: Look,
    },
    /// It sleeps until the next interrupt of its host, and goes on this long after it.
    OnInterrupt {
        /// From the interrupt to a thread that runs.
        wake_up_ps: u64,
    },
    /// There is something to read on a stream, or its end. The answer: bytes that may be read; zero
    /// at the end.
    OnStream {
        /// The direction of the connection.
        stream: u64,
    },
    /// Somebody connects to this port, in host byte order.
    OnConnection {
        /// The port.
        port: u16,
    },
    /// It waits for something of which the world knows nothing: the world goes on without it.
    /// Comes back with [`Wait::Return`].
    External,
    /// For its own clock, unless nothing has changed by then since the turn began.
    Look,
    /// For its own clock, if it is too far ahead of its card to store.
    Room,
    /// It is back from outside, and waits for a turn.
    Return,
    /// It has ended.
    End,
}

/// The cells in which a [`Wait`] is passed on.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Request {
    kind: AtomicU64,
    arguments: [AtomicU64; 4],
}

impl Request {
    /// Says what the thread waits for.
    #[inline]
    pub fn set(&self, wait: &Wait) {
        let (kind, arguments) = match wait {
            Wait::At { time_ps } => (0, [*time_ps, 0, 0, 0]),
            Wait::OnWrite { grid_ps, look } => match look {
                Look::Everything => (1, [*grid_ps, 0, 0, 0]),
                Look::Completions => (1, [*grid_ps, 1, 0, 0]),
                Look::Memory(range) => (1, [*grid_ps, 2, range.start, range.end]),
                Look::CompletionsUntil { time_ps } => (1, [*grid_ps, 3, *time_ps, 0]),
                Look::EverythingUntil { time_ps } => (1, [*grid_ps, 4, *time_ps, 0]),
            },
            Wait::OnInterrupt { wake_up_ps } => (2, [*wake_up_ps, 0, 0, 0]),
            Wait::OnStream { stream } => (3, [*stream, 0, 0, 0]),
            Wait::OnConnection { port } => (4, [u64::from(*port), 0, 0, 0]),
            Wait::External => (5, [0; 4]),
            Wait::Return => (6, [0; 4]),
            Wait::End => (7, [0; 4]),
            Wait::Look => (8, [0; 4]),
            Wait::Room => (9, [0; 4]),
        };
        self.kind.store(kind, Ordering::Relaxed);
        for (cell, value) in self.arguments.iter().zip(arguments) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// What the thread waits for. `None`: nothing that there is.
    #[inline]
    pub fn get(&self) -> Option<Wait> {
        let [first, second, third, fourth] =
            [0, 1, 2, 3].map(|place: usize| self.arguments[place].load(Ordering::Relaxed));
        Some(match self.kind.load(Ordering::Relaxed) {
            0 => Wait::At { time_ps: first },
            1 => Wait::OnWrite {
                grid_ps: first,
                look: match second {
                    0 => Look::Everything,
                    1 => Look::Completions,
                    2 => Look::Memory(third..fourth),
                    3 => Look::CompletionsUntil { time_ps: third },
                    4 => Look::EverythingUntil { time_ps: third },
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
            8 => Wait::Look,
            9 => Wait::Room,
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
        let looks = [
            Look::Everything,
            Look::Completions,
            Look::CompletionsUntil { time_ps: 30 },
            Look::Memory(7..15),
        ];
        let polls = looks.map(|look| Wait::OnWrite { grid_ps: 20, look });
        let others = [
            Wait::At { time_ps: 5 },
            Wait::OnInterrupt { wake_up_ps: 9 },
            Wait::OnStream { stream: 3 },
            Wait::OnConnection { port: 18515 },
            Wait::External,
            Wait::Look,
            Wait::Room,
            Wait::Return,
            Wait::End,
        ];
        for wait in polls.into_iter().chain(others) {
            request.set(&wait);
            assert_eq!(request.get(), Some(wait));
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        let request = Request::default();
        request.kind.store(10, Ordering::Relaxed);
        assert_eq!(request.get(), None);
        request.set(&Wait::OnConnection { port: 1 });
        request.arguments[0].store(1 << 16, Ordering::Relaxed);
        assert_eq!(request.get(), None);
    }
}
