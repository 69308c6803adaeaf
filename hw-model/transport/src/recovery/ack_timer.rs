//! How long a requester waits for an acknowledgement, and what it does when none arrives.

use ferroce_units::Duration;

use super::adaptive_timer::{AdaptiveTimer, TimerState};
use super::connectx_timer::{ConnectxSchedule, ConnectxTimer};
use crate::attributes::Attributes;
use crate::retry::Retry;

/// The schedule of retransmissions without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckTimeouts {
    /// One to four local ACK timeouts for each retry (IBTA vol 1, 9.7.6.1.3).
    #[default]
    Iba,
    /// An adaptive profile replaces the local ACK timeout.
    Adaptive(AdaptiveTimer),
    /// The schedule of ConnectX-5 and ConnectX-6, as measured.
    Connectx(ConnectxSchedule),
}

/// What follows an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The timer starts again; nothing is sent.
    Wait,
    /// Unacknowledged packets are sent again.
    Retransmit,
    /// No retry is left.
    GiveUp,
}

/// An expiry of the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// True if it belongs to the adaptive phase, and is no local ACK timeout.
    pub(crate) is_adaptive: bool,
    pub(crate) outcome: Outcome,
}

impl Expiry {
    const fn regular(is_left: bool) -> Expiry {
        let outcome = if is_left {
            Outcome::Retransmit
        } else {
            Outcome::GiveUp
        };
        Expiry {
            is_adaptive: false,
            outcome,
        }
    }
}

/// A queue pair's position in its schedule.
#[derive(Debug, Clone, Default)]
pub(crate) enum AckTimer {
    /// The retry count of the requester is the position.
    #[default]
    Iba,
    Adaptive(Box<TimerState>),
    Connectx(ConnectxTimer),
}

impl AckTimer {
    /// Returns the position at the begin of a schedule; `seed` chooses random times.
    pub(crate) fn new(timeouts: AckTimeouts, seed: u64) -> AckTimer {
        match timeouts {
            AckTimeouts::Iba => AckTimer::Iba,
            AckTimeouts::Adaptive(profile) => {
                AckTimer::Adaptive(Box::new(TimerState::new(profile, seed)))
            }
            AckTimeouts::Connectx(schedule) => AckTimer::Connectx(ConnectxTimer::new(schedule)),
        }
    }

    /// Returns the time until the next expiry, with `multiple` local ACK timeouts for
    /// [`AckTimeouts::Iba`]. `None`: the queue pair waits without a limit.
    pub(crate) fn delay(&self, attributes: &Attributes, multiple: u8) -> Option<Duration> {
        let timeout = attributes.timeout.duration()?;
        match self {
            AckTimer::Iba => Some(Duration(timeout.as_ps() * u64::from(multiple))),
            AckTimer::Adaptive(state) => Some(state.delay(timeout)),
            AckTimer::Connectx(timer) => timer.delay(attributes.timeout),
        }
    }

    /// Handles an expiry.
    pub(crate) fn expire(&mut self, attributes: &Attributes, retry: &mut Retry) -> Expiry {
        match (self, attributes.timeout.duration()) {
            (AckTimer::Adaptive(state), Some(timeout)) => {
                let limit = u32::from(attributes.retry_count.value());
                Expiry::regular(state.expire(timeout, limit))
            }
            (AckTimer::Connectx(timer), Some(_)) => timer.expire(attributes),
            _ => Expiry::regular(retry.spend()),
        }
    }

    /// Records progress of the peer.
    #[inline]
    pub(crate) fn progress(&mut self) {
        match self {
            AckTimer::Iba => {}
            AckTimer::Adaptive(state) => state.progress(),
            AckTimer::Connectx(timer) => timer.progress(),
        }
    }
}
