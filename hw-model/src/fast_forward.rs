//! Lets a simulator of time skip the middle of long messages: a long message that flows steadily is
//! a sequence of equal strides.
//!
//! The NIC marks the end of each stride that it receives, [`FastForward::take_mark`]. A world in
//! which strides follow each other at equal intervals may skip the next ones: it copies their bytes
//! from [`FastForward::read`] to [`FastForward::write`], lets both sides count their packets
//! ([`FastForward::send`], [`FastForward::receive`]), and advances its time by the duration of
//! these strides. [`FastForward::count`] then adds the skipped traffic to the counters.
//!
//! [`Nic::fast_forward`] is the entry. The only other part outside of this file is
//! `crate::receive::stride_marks`, where the receive path records the strides.

use ferroce_spec::counter::{COUNTERS, Counter, CounterClass};
use ferroce_transport::{MemoryAnswer, MemoryOp, Payload, Train};
use ferroce_wire::{Gid, Qpn};

use crate::blocks::{Blocks, Model};
use crate::contexts::queue_pair::QueuePair;
use crate::contexts::work_queue::ReceiveFetch;
use crate::counters::Counters;
use crate::datapath::Datapath;
use crate::dma::Dma;
use crate::nic::Nic;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::processing_unit::responder_memory::{
    MemoryBlocks, PacketBytes, execute, protection_domain,
};
pub use crate::receive::stride_marks::{Mark, stride_packets};
use crate::time::timing::Timing;
use crate::transmit::egress::shared_queue_of;
use crate::transmit::packetizer::gather;

/// Entries of the QP context table that are searched for busy queue pairs.
const MAX_QPS: u32 = 256;
/// A queue pair that receives.
#[derive(Debug, Clone, Copy)]
pub struct Receiver {
    /// Index in the QP context table.
    pub index: u32,
    /// Its number.
    pub number: Qpn,
    /// Number of the sending queue pair.
    pub peer_number: Qpn,
    /// Address of this host.
    pub local: Gid,
    /// Address of the sending host.
    pub peer: Gid,
}

/// Counts of a NIC while it sent or received strides.
#[derive(Debug, Clone, Default)]
pub struct SeenStrides {
    /// Number of strides.
    pub strides: u64,
    /// The counts.
    pub counts: Counters,
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Returns the interface for a simulator that skips packets.
    #[inline]
    pub fn fast_forward(&mut self) -> FastForward<'_, P, T, B> {
        FastForward(self)
    }
}

/// A NIC that can skip packets of its long messages. Queue pairs are named by their index in the QP
/// context table.
pub struct FastForward<'a, P: Port, T: Timing, B: Blocks = Model>(&'a mut Nic<P, T, B>);

impl<P: Port, T: Timing, B: Blocks> std::fmt::Debug for FastForward<'_, P, T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FastForward")
            .field(&self.0.blocks.marks)
            .finish()
    }
}

impl<P: Port, T: Timing, B: Blocks> FastForward<'_, P, T, B> {
    /// Returns the last end of a stride since the last call, if any.
    #[inline]
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.0.blocks.marks.take_last()
    }

    /// Returns the queue pairs that have reached the end of a stride.
    pub fn receivers(&mut self) -> Vec<Receiver> {
        let Datapath {
            marks, contexts, ..
        } = &mut self.0.blocks;
        let receivers = marks.receivers().filter_map(|index| {
            let qp = contexts.qps.get_mut(index)?;
            let path = qp.path.as_ref()?;
            Some(Receiver {
                index,
                number: qp.qpn,
                peer_number: qp.transport.attributes().dest_qp,
                local: path.local,
                peer: path.peer,
            })
        });
        receivers.collect()
    }

    /// Removes a queue pair from the receivers because it receives no long message any more.
    pub fn forget_receiver(&mut self, index: u32) {
        self.0.blocks.marks.forget_receiver(index);
    }

    /// Returns what this NIC sends next to `receiver` and the sending queue pair, if it is in the
    /// middle of a message to it.
    pub fn train_to(&mut self, receiver: &Receiver) -> Option<(u32, Train)> {
        let qp = self.0.blocks.contexts.qps.find(receiver.peer_number)?;
        let path = qp.path.as_ref()?;
        let is_peer = path.local == receiver.peer
            && path.peer == receiver.local
            && qp.transport.attributes().dest_qp == receiver.number;
        let train = qp.transport.next_train().filter(|_| is_peer)?;
        Some((qp.index, train))
    }

    /// Returns the number of packets before a train that its receiver has not received:
    /// [`ferroce_transport::Qp::packets_before`].
    pub fn packets_before(&mut self, index: u32, train: &Train) -> Option<u32> {
        self.0
            .blocks
            .contexts
            .qps
            .get_mut(index)?
            .transport
            .packets_before(train)
    }

    /// Returns true if the queue pairs have nothing to do except to send and receive the trains
    /// that `trains_of` returns for each. Returns false as well if there are too many queue pairs,
    /// or if a page may be missing.
    pub fn is_idle_but_for<'t>(
        &self,
        trains_of: impl Fn(u32) -> (Option<&'t Train>, Option<&'t Train>),
    ) -> bool {
        let (mut all, used) = self.0.blocks.contexts.qps.all();
        let is_idle = |qp: &QueuePair| {
            let (sent, received) = trains_of(qp.index);
            qp.transport.is_idle_but_for(sent, received)
        };
        let has_pages = !self.0.blocks.translation.has_on_demand();
        has_pages && used <= MAX_QPS && all.all(is_idle)
    }

    /// Returns where a queue pair writes the payload of a train:
    /// [`ferroce_transport::Qp::train_target`].
    pub fn target(&mut self, index: u32, train: &Train) -> Option<MemoryOp> {
        self.0
            .blocks
            .contexts
            .qps
            .get_mut(index)?
            .transport
            .train_target(train)
    }

    /// Reads payload of a queue pair's train. Returns false if it cannot be read.
    pub fn read<H: Host>(
        &mut self,
        index: u32,
        payload: &Payload,
        destination: &mut [u8],
        host: &mut H,
    ) -> bool {
        let nic = &mut *self.0;
        let Some(qp) = nic.blocks.contexts.qps.get_mut(index) else {
            return false;
        };
        let mut uncounted = Counters::new();
        let mut dma = Dma::new(host, &mut uncounted, nic.now);
        let srqn = shared_queue_of(payload);
        protection_domain(qp, srqn, &mut nic.blocks.contexts.srqs, &mut dma).is_some_and(|pd| {
            let (qpn, send) = (qp.qpn, &mut qp.send);
            let memory = &mut nic.blocks.translation;
            gather(pd, qpn, send, payload, destination, memory, &mut dma).is_ok()
        })
    }

    /// Writes payload of a queue pair's train. Returns false if it cannot be written.
    pub fn write<H: Host>(
        &mut self,
        index: u32,
        operation: MemoryOp,
        bytes: &[u8],
        host: &mut H,
    ) -> bool {
        let nic = &mut *self.0;
        let Some(qp) = nic.blocks.contexts.qps.get_mut(index) else {
            return false;
        };
        let mut uncounted = Counters::new();
        let mut dma = Dma::new(host, &mut uncounted, nic.now);
        let packet = PacketBytes {
            frame: bytes,
            ip: 0,
            payload: 0..bytes.len(),
        };
        let mut blocks = MemoryBlocks {
            memory: &mut nic.blocks.translation,
            srqs: &mut nic.blocks.contexts.srqs,
            dma: &mut dma,
            receive_fetch: ReceiveFetch { batch: 1, ahead: 0 },
            withholds_receives: false,
            wqe_records: &mut nic.blocks.contexts.wqe_records,
            srq_event: None,
        };
        execute(operation, qp, &packet, &mut blocks) == MemoryAnswer::Done
    }

    /// Counts a train as sent. Returns false and changes nothing if the queue pair does not send it
    /// next.
    pub fn send(&mut self, index: u32, train: &Train) -> bool {
        let qp = self.0.blocks.contexts.qps.get_mut(index);
        qp.is_some_and(|qp| qp.transport.send_train(train))
    }

    /// Counts a train as received.
    pub fn receive(&mut self, index: u32, train: &Train) {
        if let Some(qp) = self.0.blocks.contexts.qps.get_mut(index) {
            qp.transport.receive_train(train);
        }
    }

    /// Counts `strides` skipped strides in proportion to the strides `seen`. This NIC sends `sent`
    /// and receives `received` packets in them.
    ///
    /// The NIC sends packets in bursts and ahead while there is room, and they wait in the receive
    /// buffer. So the packets that it has sent and received in a time need not belong to the same
    /// number of strides.
    pub fn count(&mut self, seen: &SeenStrides, strides: u64, sent: u64, received: u64) {
        let value = |counter| seen.counts.value(counter);
        let seen_sent = value(Counter::tx_frames).saturating_sub(value(Counter::acks_sent));
        let seen_received = value(Counter::rx_frames);
        self.0
            .counters
            .add_part(&seen.counts, |number| match COUNTERS[number].class {
                CounterClass::Sent if sent > 0 => (sent, seen_sent),
                // Its own packets are acknowledged in frames that do not belong to the run.
                CounterClass::Received if sent == 0 && received > 0 => (received, seen_received),
                _ => (strides, seen.strides),
            });
    }
}

/// Returns true if only packets and their ACKs were counted between two sets of counters.
pub fn is_plain_flow(before: &Counters, after: &Counters) -> bool {
    let counts = before.values().iter().zip(after.values()).zip(COUNTERS);
    let mut events = counts.filter(|(_, row)| row.class == CounterClass::Event);
    events.all(|((before, after), _)| before == after)
}
