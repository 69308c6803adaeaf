//! The only place that knows what work costs.
//!
//! Blocks report the work that they did; [`Timing::cost`] turns it into time, which is charged on
//! the edge that carries the result to the next block. In the *functional* preset every cost is
//! zero; it is not a second code path.

use ferroce_transport::Duration;

/// The edges between blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeName {
    /// BAR2 decode to scheduler.
    Doorbell,
    /// WQE fetch to processing unit.
    SendWqe,
    /// Processing unit to packetizer.
    Outbound,
    /// Packetizer to MAC.
    Egress,
    /// MAC to depacketizer.
    Ingress,
    /// Depacketizer to processing unit.
    Inbound,
    /// Processing unit to CQE writer.
    Completion,
    /// CQE writer and others to event queue.
    Event,
}

/// Work that a block did for one item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that passed through the block.
    pub bytes: u32,
    /// Bytes moved over PCIe.
    pub dma_bytes: u32,
    /// DMA reads that the block had to wait for.
    pub dma_reads: u16,
    /// DMA writes that the block posted.
    pub dma_writes: u16,
    /// Look-ups in a cache.
    pub lookups: u16,
    /// Look-ups that missed.
    pub misses: u16,
}

/// What an item costs on an edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// How long the block is busy before it can take the next item.
    pub occupancy: Duration,
    /// How long the item takes from start of service to delivery.
    pub latency: Duration,
}

/// A preset: all costs of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Nothing costs anything: the model shows what a card does, not when.
    Functional,
}

impl Timing {
    /// What `work` costs on the edge `name`.
    #[inline]
    pub fn cost(&self, _name: EdgeName, _work: &Work) -> Cost {
        match self {
            Timing::Functional => Cost::default(),
        }
    }
}
