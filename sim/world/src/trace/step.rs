//! A step: one activity of a processor, a block, PCIe or a cable.

use ferroce_model::time::timing::Stage;
use ferroce_units::{Duration, Instant};

use crate::{Activity, Span};

/// Kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By a processor, in flight between host and card, or on the cable.
    Host(Activity),
    /// By a block of a card.
    Card(Stage),
}

impl Kind {
    /// Returns true if a processor does it.
    pub fn is_processor(self) -> bool {
        use Activity::{Compute, Doorbell, Poll, Post, PostReceive, WakeUp};
        matches!(
            self,
            Self::Host(Post | PostReceive | Doorbell | Poll | Compute | WakeUp)
        )
    }
}

/// One activity and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The host or its card; for a frame, its sender.
    pub host: usize,
    /// Its kind.
    pub kind: Kind,
    /// When its input was available.
    pub start: Instant,
    /// When its result was available.
    pub end: Instant,
    /// Its duration without contention.
    pub alone: Duration,
    /// Time for which it delays the next one of its kind.
    pub occupied: Duration,
    /// Number of moved bytes.
    pub bytes: u32,
}

impl Step {
    /// Returns the step of a span that a world reports.
    pub fn of_span(span: &Span) -> Self {
        let time = span.end - span.start;
        let kind = Kind::Host(span.activity);
        let occupied = if kind.is_processor() {
            time
        } else {
            Duration::ZERO
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

    /// Returns when the work on it began, after any wait for other work.
    pub fn begun(&self) -> Instant {
        self.start.max(self.end - self.alone)
    }
}
