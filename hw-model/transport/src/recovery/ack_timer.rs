//! How long a requester waits for an acknowledgement, and what it does when none arrives.

use ferroce_units::Duration;

use super::adaptive_timer::{AdaptiveTimer, TimerState};
use super::connectx_timer::{ConnectxSchedule, ConnectxTimer};
use super::expiry::Expiry;
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

/// A queue pair's position in its schedule. `None` is [`AckTimeouts::Iba`], whose position is the
/// requester's retry count.
#[derive(Debug, Clone, Default)]
pub(crate) struct AckTimer(Option<Box<Schedule>>);

#[derive(Debug, Clone)]
enum Schedule {
    Adaptive(TimerState),
    Connectx(ConnectxTimer),
}

impl AckTimer {
    /// Returns the position at the begin of a schedule; `seed` chooses random times.
    pub(crate) fn new(timeouts: AckTimeouts, seed: u64) -> AckTimer {
        let schedule = match timeouts {
            AckTimeouts::Iba => return AckTimer(None),
            AckTimeouts::Adaptive(profile) => Schedule::Adaptive(TimerState::new(profile, seed)),
            AckTimeouts::Connectx(schedule) => Schedule::Connectx(ConnectxTimer::new(schedule)),
        };
        AckTimer(Some(Box::new(schedule)))
    }

    /// Returns the time until the next expiry, with `multiple` local ACK timeouts for
    /// [`AckTimeouts::Iba`]. `None`: the queue pair waits without a limit.
    pub(crate) fn delay(&self, attributes: &Attributes, multiple: u8) -> Option<Duration> {
        let timeout = attributes.timeout.duration()?;
        match self.0.as_deref() {
            None => Some(Duration(timeout.as_ps() * u64::from(multiple))),
            Some(Schedule::Adaptive(state)) => Some(state.delay(timeout)),
            Some(Schedule::Connectx(timer)) => timer.delay(attributes.timeout),
        }
    }

    /// Handles an expiry.
    pub(crate) fn expire(&mut self, attributes: &Attributes, retry: &mut Retry) -> Expiry {
        match (self.0.as_deref_mut(), attributes.timeout.duration()) {
            (Some(Schedule::Adaptive(state)), Some(timeout)) => {
                let limit = u32::from(attributes.retry_count.value());
                Expiry::regular(state.expire(timeout, limit))
            }
            (Some(Schedule::Connectx(timer)), Some(_)) => timer.expire(attributes),
            _ => Expiry::regular(retry.spend()),
        }
    }

    /// Records progress of the peer.
    #[inline]
    pub(crate) fn progress(&mut self) {
        match self.0.as_deref_mut() {
            None => {}
            Some(Schedule::Adaptive(state)) => state.progress(),
            Some(Schedule::Connectx(timer)) => timer.progress(),
        }
    }
}
