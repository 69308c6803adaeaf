//! Writes CQEs in the order in which the processing units produce them.

use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::contexts::Contexts;
use crate::contexts::completion_queue::CompletionEntry;
use crate::host_interface::HostInterface;
use crate::ports::host::Host;
use crate::time::edge::Edge;
use crate::time::timing::{PLANNING_HORIZON, Timing};
use crate::time::turn::Turn;

/// Maximum number of pending CQEs. One turn handles at most as many packets as the edges hold, and
/// flushes two full rings in pieces of [`crate::limits::FLUSH_PER_TURN`].
const CAPACITY: usize = 4096;

/// The CQE writer and the edge in front of it.
#[derive(Debug)]
pub(crate) struct CompletionWriter {
    edge: Edge<CompletionEntry>,
}

impl CompletionWriter {
    /// Returns an idle writer.
    pub fn new() -> Self {
        Self {
            edge: Edge::new(CAPACITY),
        }
    }

    /// Returns true if it cannot take another completion.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.edge.is_full()
    }

    /// Returns true if earlier blocks must not begin work that may end in completions.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.edge.is_nearly_full()
    }

    /// Returns the number of pending completions.
    pub fn len(&self) -> usize {
        self.edge.len()
    }

    /// Takes a completion that is available at `ready`.
    #[inline]
    pub fn push(&mut self, ready: Instant, entry: CompletionEntry) {
        self.edge.push(ready, entry);
    }

    /// Drops the completions of a queue pair that is reset or destroyed.
    pub fn forget(&mut self, qpn: Qpn) {
        self.edge.retain(|entry| entry.cqe.qpn != qpn.value());
    }

    /// Drops all completions (reset).
    pub fn clear(&mut self) {
        self.edge.clear(drop);
    }

    /// Returns the time at which [`CompletionWriter::step`] has something to write.
    pub fn next_step(&self) -> Option<Instant> {
        let ready = self.edge.next_delivery()?;
        Some(ready - PLANNING_HORIZON)
    }

    /// Writes the CQEs that are ready. Returns true if there were some.
    #[inline]
    pub fn step<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        host_interface: &mut HostInterface,
    ) -> bool {
        let mut worked = false;
        let until = turn.now + PLANNING_HORIZON;
        while let Some((at, entry)) = self.edge.pop_until(until) {
            let now = turn.now;
            let mut dma = turn.dma_planned(at);
            dma.visible = entry.after;
            if let Some(event) = contexts.cqs.write(&entry, now, &mut dma) {
                let at = dma.at;
                host_interface.raise(turn, at, event);
            }
            worked = true;
        }
        worked
    }
}
