//! State that all blocks of a NIC share in one turn: time, the host, the costs and the counters.

use ferroce_units::Instant;

use crate::counters::Counters;
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::time::timing::{Stage, Timing, Work};

/// One turn of the NIC: each block steps once, at the same time.
pub(crate) struct Turn<'a, H: Host, T: Timing> {
    /// Time of the event that is being handled.
    pub now: Instant,
    /// The other side of the PCIe link.
    pub host: &'a mut H,
    /// The cost of work, and the clocks of all stages.
    pub timing: &'a mut T,
    /// The function's counters.
    pub counters: &'a mut Counters,
}

impl<H: Host, T: Timing> Turn<'_, H, T> {
    /// Returns the DMA engine for a flow of accesses that begins now.
    #[inline]
    pub fn dma(&mut self) -> Dma<'_, H> {
        Dma::new(self.host, self.counters, self.now)
    }

    /// Returns the DMA engine for a flow of accesses that begins at `at`, the time of an event that
    /// the blocks handle ahead of time.
    #[inline]
    pub fn dma_from(&mut self, at: Instant) -> Dma<'_, H> {
        Dma::new(self.host, self.counters, at)
    }

    /// Returns the DMA engine for a flow of accesses that begins at `at` and is planned now.
    #[inline]
    pub fn dma_planned(&mut self, at: Instant) -> Dma<'_, H> {
        Dma::planned(self.host, self.counters, self.now, at)
    }

    /// Returns true if an item that is ready at `ready` need not wait on an empty edge because
    /// nothing delays it. Using the edge for received packets costs `ib_write_bw -s 64` some 12 %
    /// of its message rate (two loaded cores, nine pairs of runs).
    #[inline]
    pub fn passes(&self, ready: Instant) -> bool {
        !self.timing.has_delays() && ready <= self.now
    }

    /// Puts `work`, whose input is available at `at`, through `stage`; returns when the result
    /// leaves it.
    #[inline]
    pub fn reserve(&mut self, at: Instant, stage: Stage, work: Work) -> Instant {
        self.timing.reserve(self.now, at, stage, work)
    }
}
