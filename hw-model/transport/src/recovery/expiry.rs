//! What an expiry of the ACK timer leads to.

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
    /// Returns a local ACK timeout; `is_left`: the requester has a retry left.
    pub(super) const fn regular(is_left: bool) -> Expiry {
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
