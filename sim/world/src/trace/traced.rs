//! The timing of a card that records a trace.

use ferroce_model::time::timing::{Stage, Timing, Work};
use ferroce_units::{Duration, Instant};

use super::SharedTrace;
use super::step::{Kind, Step};

/// A card's timing that reports the work of each block to a trace.
///
/// A copy of the timing that is always idle shows how long a block would have taken without
/// contention, and how long it was occupied.
#[derive(Debug)]
pub struct Traced<T> {
    clocks: T,
    idle: T,
    host: usize,
    trace: SharedTrace,
}

impl<T: Timing + Clone> Traced<T> {
    /// Returns the timing of the card of `host`; `clocks` must be unused.
    pub fn new(clocks: T, host: usize, trace: SharedTrace) -> Self {
        Self {
            idle: clocks.clone(),
            clocks,
            host,
            trace,
        }
    }
}

impl<T: Timing + Clone> Timing for Traced<T> {
    fn reserve(&mut self, now: Instant, at: Instant, stage: Stage, work: Work) -> Instant {
        let end = self.clocks.reserve(now, at, stage, work);
        let mut trace = self.trace.lock();
        if trace.is_running {
            let mut idle = self.idle.clone();
            let alone = idle.reserve(at, at, stage, work);
            let next = idle.reserve(at, at, stage, work);
            trace.add_step(&Step {
                host: self.host,
                kind: Kind::Card(stage),
                start: at,
                end,
                alone: (alone - at).min(end - at),
                occupied: next - alone,
                bytes: work.bytes,
            });
        }
        end
    }

    fn free_at(&self, stage: Stage) -> Instant {
        self.clocks.free_at(stage)
    }

    fn visit_busy(&self, each: &mut dyn FnMut(Stage, Duration)) {
        self.clocks.visit_busy(each);
    }
}
