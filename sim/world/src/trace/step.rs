//! One thing that somebody does for a while.

use ferroce_model::time::timing::Stage;
use ferroce_units::{Duration, Instant};

use crate::{Activity, Span};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By a processor, or on the way between host and card, or on the cable.
    Host(Activity),
    /// By a block of a card.
    Card(Stage),
}

impl Kind {
    /// Whether a processor does it.
    pub fn is_processor(self) -> bool {
        use Activity::{Compute, Doorbell, Poll, Post, PostReceive, WakeUp};
        matches!(
            self,
            Self::Host(Post | PostReceive | Doorbell | Poll | Compute | WakeUp)
        )
    }
}

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// On which host or its card; of a frame, the one that has sent it.
    pub host: usize,
    /// What.
    pub kind: Kind,
    /// When that which is worked on was there.
    pub start: Instant,
    /// When the result was there.
    pub end: Instant,
    /// How long it would have taken had nobody else wanted the same.
    pub alone: Duration,
    /// How long the next one of its kind has to wait because of it.
    pub occupied: Duration,
    /// Bytes that were moved.
    pub bytes: u32,
}

impl Step {
    /// A step that a world tells of.
    pub fn of_span(span: &Span) -> Self {
        let time = span.end - span.start;
        let kind = Kind::Host(span.activity);
        let occupied = match kind.is_processor() {
            true => time,
            false => Duration::ZERO,
        };
        Self {
            host: span.host,
            kind,
            start: span.start,
            end: span.end,
            alone: time,
            occupied,
            bytes: span.bytes,
        }
    }

    /// When somebody began with it: behind the wait for others, if there was any.
    pub fn begun(&self) -> Instant {
        self.start.max(self.end - self.alone)
    }
}
