//! Waiting for descriptors in simulated time.
//!
//! A waiting thread first checks which descriptors are ready, and passes the turn only if none is.
//! What it waits for depends on the descriptors ([`Sources`]): events of the program itself come
//! with interrupts; streams and connections come at times that the world knows; everything else
//! comes from outside of the world.

use std::ffi::c_int;

use ferroce_timed_protocol::STREAM_LATENCY_PS;
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use rustix::event::PollFlags;

use crate::descriptor::{Descriptor, Kind};
use crate::own::{Ended, Own};
use crate::streams::name::Stream;
use crate::streams::transfer::{Readable, check, wait_readable};
use crate::streams::{known, set_up};
use crate::{os, real};

pub mod epoll;
pub mod poll;
mod select;

/// Period of checks of a thread that waits for things inside and outside of the world.
const MIXED_STEP_PS: u64 = 1_000_000_000;
/// Picoseconds of a millisecond.
pub const PS_PER_MS: u64 = 1_000_000_000;

/// Source of a descriptor's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A handler that runs in this program.
    Event,
    /// Another program of the world, over a stream.
    Stream(Stream),
    /// Another program of the world that connects.
    Port(u16),
    /// Outside of the world.
    Other,
}

impl Source {
    /// Returns the source of a descriptor.
    pub fn of(own: &Own, descriptor: Descriptor) -> Self {
        if let Some(source) = Self::within_world(own, descriptor) {
            return source;
        }
        match descriptor.kind() {
            Kind::Event => Self::Event,
            Kind::Other => Self::Other,
        }
    }

    /// Returns the source of a descriptor if it is another program of the world.
    pub fn within_world(own: &Own, descriptor: Descriptor) -> Option<Self> {
        known::connection(descriptor)
            .map(|connection| Self::Stream(connection.incoming))
            .or_else(|| set_up::known_port(own, descriptor).map(Self::Port))
    }

    /// Returns true if there is input now according to the world. Waits for data that is still in
    /// the kernel.
    pub fn is_ready(self, own: &Own, descriptor: Descriptor) -> bool {
        let is_there = match self {
            Self::Stream(stream) => !matches!(
                check(own, stream),
                Readable::Nothing | Readable::Interrupted
            ),
            Self::Port(port) => {
                let ended = set_up::wait_connection(own, port, own.now_ps());
                matches!(ended, Ended::Answered(_) | Ended::NoWorld)
            }
            Self::Event | Self::Other => return true,
        };
        is_there && descriptor.await_input()
    }
}

/// The sources of all descriptors of a call.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sources {
    has_events: bool,
    has_others: bool,
    /// Number of sources that are other programs of the world, and the last of these.
    within: u32,
    last: Option<Source>,
}

impl Sources {
    /// Adds a source.
    pub fn add(&mut self, source: Source) {
        match source {
            Source::Event => self.has_events = true,
            Source::Other => self.has_others = true,
            Source::Stream(_) | Source::Port(_) => {
                self.within += 1;
                self.last = Some(source);
            }
        }
    }

    /// Waits until one of the sources may have input, until `deadline_ps` at most. `outside` waits
    /// in the kernel, for a number of milliseconds or without limit (-1).
    fn wait(self, own: &Own, deadline_ps: u64, outside: &mut dyn FnMut(c_int) -> c_int) -> Ended {
        match (self.has_events, self.has_others, self.within, self.last) {
            (false, false, 0, _) if deadline_ps != NEVER_PS => {
                let time_ps = deadline_ps;
                own.wait(&Wait::At { time_ps }, NEVER_PS)
            }
            (_, false, 0, _) => own.wait(&Wait::OnInterrupt { wake_up_ps: 0 }, deadline_ps),
            (false, false, 1, Some(Source::Stream(stream))) => {
                match wait_readable(own, stream, deadline_ps) {
                    Readable::Interrupted => Ended::Interrupted { restarts: false },
                    Readable::NoWorld => Ended::NoWorld,
                    Readable::Nothing => Ended::TimedOut,
                    Readable::Bytes(_) | Readable::End => Ended::Answered(1),
                }
            }
            (false, false, 1, Some(Source::Port(port))) => {
                set_up::wait_connection(own, port, deadline_ps)
            }
            (false, true, 0, _) => Self::wait_outside(own, deadline_ps, outside),
            (has_events, _, within, _) => {
                // There are several sources to wait for.
                let step_ps = if within > 0 {
                    STREAM_LATENCY_PS
                } else {
                    MIXED_STEP_PS
                };
                let time_ps = own.now_ps().saturating_add(step_ps).min(deadline_ps);
                if has_events {
                    own.wait(&Wait::OnInterrupt { wake_up_ps: 0 }, time_ps)
                } else {
                    own.wait(&Wait::At { time_ps }, NEVER_PS)
                }
            }
        }
    }

    fn wait_outside(own: &Own, deadline_ps: u64, outside: &mut dyn FnMut(c_int) -> c_int) -> Ended {
        let limit_ms = match deadline_ps {
            NEVER_PS => -1,
            _ => {
                let left_ps = deadline_ps.saturating_sub(own.now_ps());
                c_int::try_from(left_ps.div_ceil(PS_PER_MS)).unwrap_or(c_int::MAX)
            }
        };
        let found = own.outside(|| outside(limit_ms));
        if found < 0 && real::errno() == libc::EINTR {
            return Ended::Interrupted { restarts: false };
        }
        if found == 0 && deadline_ps != NEVER_PS {
            // The time that has passed outside.
            let time_ps = deadline_ps;
            return own.wait(&Wait::At { time_ps }, NEVER_PS);
        }
        Ended::Answered(0)
    }
}

/// Calls `check` until it finds something or fails, until `deadline_ps` at most. Returns the result
/// of `check`; -1 with `EINTR` after a signal; 0 at the deadline.
///
/// `sources` returns what to wait for, and `outside` waits in the kernel, for a number of
/// milliseconds or without limit (-1).
pub fn wait_until(
    own: &Own,
    deadline_ps: u64,
    mut check: impl FnMut() -> c_int,
    sources: impl Fn() -> Sources,
    mut outside: impl FnMut(c_int) -> c_int,
) -> c_int {
    own.catch_up();
    let begun_ps = own.now_ps();
    let mut known = None;
    let mut has_slept = false;
    loop {
        let found = check();
        if found != 0 {
            if has_slept {
                own.spend(own.wake_up_ps());
            } else if own.now_ps() == begun_ps {
                // Charged, because otherwise a thread that checks a descriptor that stays ready
                // would stop the clock.
                os::keeping_errno(|| own.spend_call());
            }
            return found;
        }
        if own.now_ps() >= deadline_ps {
            if deadline_ps <= begun_ps {
                own.spend_call();
            }
            return 0;
        }
        let sources = *known.get_or_insert_with(&sources);
        match sources.wait(own, deadline_ps, &mut outside) {
            Ended::Interrupted { .. } => return real::failed(libc::EINTR),
            Ended::NoWorld => return outside(-1),
            Ended::Answered(_) | Ended::TimedOut => {
                has_slept = sources.has_events;
            }
        }
    }
}

/// Waits until an event can be read from a descriptor, as `read` does.
pub fn wait_for_event(own: &Own, descriptor: Descriptor) -> Ended {
    let mut has_slept = false;
    loop {
        if !descriptor.ready(PollFlags::IN).is_empty() {
            if has_slept {
                own.spend(own.wake_up_ps());
            }
            return Ended::Answered(1);
        }
        match own.wait(&Wait::OnInterrupt { wake_up_ps: 0 }, NEVER_PS) {
            ended @ (Ended::Interrupted { restarts: false } | Ended::NoWorld) => return ended,
            _ => has_slept = true,
        }
    }
}
