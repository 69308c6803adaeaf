//! Ends of strides, where a simulator of time may skip the rest of a long message.

use ferroce_transport::PathMtu;
use ferroce_units::Instant;

use crate::contexts::queue_pair::QueuePair;
use crate::processing_unit::Inbound;

/// Packets of a stride, unless the MTU is small.
const STRIDE_PACKETS: u32 = 8;
/// Minimum bytes of a stride.
const STRIDE_BYTES: u32 = 8 << 10;
/// Maximum number of concurrent messages that are marked.
const MAX_STREAMS: usize = 16;

/// The end of a stride.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The queue pair that receives, as an index of the QP context table.
    pub index: u32,
    /// When its last packet was processed.
    pub at: Instant,
}

/// The last mark, and the queue pairs that have reached the end of a stride.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    last: Option<Mark>,
    receivers: Vec<u32>,
}

impl Marks {
    /// Records that a queue pair has processed a packet.
    #[inline]
    pub fn note<F>(&mut self, now: Instant, qp: &QueuePair, packet: &Inbound<F>) {
        let mtu = qp.transport.attributes().path_mtu;
        if packet.payload.len() != mtu.bytes() as usize {
            return;
        }
        let received = qp.transport.packets_received(&packet.headers);
        if received.is_some_and(|packets| packets % stride_packets(mtu) == 0) {
            let (index, at) = (qp.index, now);
            self.add(Mark { index, at });
        }
    }

    #[cold]
    fn add(&mut self, mark: Mark) {
        self.last = Some(mark);
        if !self.receivers.contains(&mark.index) && self.receivers.len() < MAX_STREAMS {
            self.receivers.push(mark.index);
        }
    }

    /// Returns the last mark since the last call, if any.
    #[inline]
    pub fn take_last(&mut self) -> Option<Mark> {
        self.last.take()
    }

    /// Returns the queue pairs that have reached the end of a stride.
    pub fn receivers(&self) -> impl Iterator<Item = u32> + '_ {
        self.receivers.iter().copied()
    }

    /// Removes a queue pair from the receivers.
    pub fn forget_receiver(&mut self, index: u32) {
        self.receivers.retain(|receiver| *receiver != index);
    }

    /// Forgets all marks (reset).
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the packets of a stride: a power of two.
#[inline]
pub const fn stride_packets(mtu: PathMtu) -> u32 {
    let packets = STRIDE_BYTES >> mtu.shift();
    if packets > STRIDE_PACKETS {
        packets
    } else {
        STRIDE_PACKETS
    }
}
