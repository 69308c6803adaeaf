//! Writes CQEs in the order in which the processing units are done with them.

use ferroce_spec::counter::Counter;
use ferroce_spec::wqe::BLOCK_SIZE;
use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::contexts::Contexts;
use crate::contexts::completion_queue::CompletionEntry;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::dma::Dma;
use crate::host_interface::HostInterface;
use crate::ports::host::Host;
use crate::time::edge::Edge;
use crate::time::timing::{PLANNING_HORIZON, Timing};
use crate::time::turn::Turn;
use crate::wqe::cache::WqeCache;

/// CQEs that wait to be written. A turn handles at most as many packets as the edges hold and a
/// flush of two full rings, in pieces of [`crate::limits::FLUSH_PER_TURN`].
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

    /// Returns true if no more completions can be passed to it.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.edge.is_full()
    }

    /// Returns true if blocks in front of it do not begin what may end in completions.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.edge.is_nearly_full()
    }

    /// Completions that wait.
    pub fn len(&self) -> usize {
        self.edge.len()
    }

    /// Takes a completion, which is there at `ready`.
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
    #[inline(always)]
    pub fn step<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        wqes: &mut WqeCache,
        host_interface: &mut HostInterface,
    ) -> bool {
        let mut worked = false;
        let until = turn.now + PLANNING_HORIZON;
        while let Some((at, mut entry)) = self.edge.pop_until(until) {
            let now = turn.now;
            let mut dma = turn.dma_planned(at);
            if !entry.in_order {
                entry.in_order = true;
                let ready = ready_in_order(at, &entry, &mut contexts.qps, wqes, &mut dma);
                if ready > at {
                    self.edge.push(ready, entry);
                    continue;
                }
            }
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

/// Returns the time at which a CQE that is ready at `at` can be written: when its WQE is there, and
/// behind the earlier CQEs of its queue pair.
#[inline]
fn ready_in_order<H: Host>(
    at: Instant,
    entry: &CompletionEntry,
    qps: &mut QueuePairs,
    wqes: &mut WqeCache,
    dma: &mut Dma<'_, H>,
) -> Instant {
    let Some(qp) = qps.find(Qpn::new(entry.cqe.qpn)) else {
        return at;
    };
    let mut ready = at;
    if let Some(iova) = entry.wqe.filter(|_| wqes.is_limited())
        && !wqes.remove(qp.index, entry.cqe.wqe_index)
    {
        ready = read_again(wqes, iova, dma);
    }
    ready = ready.max(qp.progress.completed);
    qp.progress.completed = ready;
    ready
}

/// Reads the WQE at `iova` again and returns the time at which it is there. Its content is known,
/// so that a failed read changes nothing.
#[cold]
fn read_again<H: Host>(wqes: &mut WqeCache, iova: u64, dma: &mut Dma<'_, H>) -> Instant {
    dma.counters.add(Counter::wqe_refetches, 1);
    let lease = wqes.registers.take(dma.begun, dma.at);
    dma.at = lease.at;
    let mut block = [0; BLOCK_SIZE];
    let _ = dma.read(iova, &mut block);
    wqes.registers.give_back(lease, dma.at);
    dma.at
}
