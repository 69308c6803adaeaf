//! The way from a frame to the processing unit of its queue pair.
//!
//! - `ingress`: the path of a frame. [`depacketizer`]: its headers. [`multicast`]: groups.
//!   [`reorder_buffer`]: packets that wait for a missing one. `stride_marks`: progress of long
//!   messages.

pub mod depacketizer;
pub(crate) mod ingress;
pub mod multicast;
pub mod reorder_buffer;
pub(crate) mod stride_marks;

use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::completion::Results;
use crate::config::NicConfig;
use crate::congestion::Congestion;
use crate::contexts::Contexts;
use crate::contexts::work_queue::ReceiveFetch;
use crate::mac::Mac;
use crate::ports::port::Port;
use crate::processing_unit::Inbound;
use crate::receive::multicast::MulticastTable;
use crate::receive::reorder_buffer::ReorderBuffer;
use crate::receive::stride_marks::Marks;
use crate::time::edge::Edge;
use crate::translation::memory_unit::MemoryUnit;

/// The receive path: depacketizer, steering, and the responders of the processing units.
#[derive(Debug)]
pub(crate) struct Receive<F> {
    /// Packets from the depacketizer to the processing units.
    inbound: Edge<Inbound<F>>,
    multicast: MulticastTable,
    /// Packets that wait for a missing one.
    reorder: ReorderBuffer,
    /// How receive WQEs are fetched.
    receive_fetch: ReceiveFetch,
    /// Until this time packets stay in the receive buffer, because the host takes their data
    /// slowly.
    resumes_at: Instant,
    /// The last QPN for which a missing queue pair was logged.
    missing_said: Option<Qpn>,
}

/// The blocks that the receive path uses.
pub(crate) struct ReceivePorts<'a, P: Port, M> {
    /// Queue pairs, shared receive queues and addresses.
    pub contexts: &'a mut Contexts,
    /// Keys and addresses of payload.
    pub translation: &'a mut MemoryUnit<M>,
    /// Takes the results of queue pairs.
    pub results: Results<'a>,
    /// Frames.
    pub mac: &'a mut Mac<P::Frame>,
    /// Stride ends of long messages.
    pub marks: &'a mut Marks,
    /// Congestion control, if the card has any.
    pub congestion: Option<&'a mut Congestion>,
    /// The cable: frames go back to it.
    pub port: &'a mut P,
}

impl<F> Receive<F> {
    /// Returns an idle receive path.
    pub fn new(config: &NicConfig) -> Self {
        Self {
            inbound: Edge::new(config.edge_capacity),
            multicast: MulticastTable::default(),
            reorder: ReorderBuffer::new(config.recovery.reorder_buffer_bytes as usize),
            receive_fetch: ReceiveFetch {
                batch: config.fetch_receives,
                ahead: config.receives_ahead,
            },
            resumes_at: Instant::ZERO,
            missing_said: None,
        }
    }

    /// Returns the multicast groups, for commands on them.
    pub fn multicast(&mut self) -> &mut MulticastTable {
        &mut self.multicast
    }

    /// Drops the packets that are held for a queue pair that is reset or destroyed.
    pub fn forget(&mut self, index: u32) {
        self.reorder.forget(index);
    }

    /// Returns the number of pending packets.
    pub fn len(&self) -> usize {
        self.inbound.len()
    }

    /// Returns true if no received packet is pending.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.inbound.is_empty()
    }

    /// Returns true if another packet can pass the depacketizer.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.inbound.is_full()
    }

    /// Returns the time at which [`Receive::step`] has something to do.
    pub fn next_step(&self) -> Option<Instant> {
        let ready = self.inbound.next_delivery()?;
        Some(ready.max(self.resumes_at))
    }

    /// Forgets all packets and groups (reset).
    pub fn reset<P: Port<Frame = F>>(&mut self, port: &mut P) {
        self.multicast.clear().for_each(|group| port.leave(group));
        self.inbound.clear(|packet| port.release(packet.frame));
        self.reorder.clear();
    }
}
