//! Fast-forward over long messages, for simulators of time: a long message that flows steadily is a
//! sequence of equal strides.
//!
//! The NIC marks the end of each stride that it receives, [`Nic::take_mark`]. A world in which
//! strides follow each other in equal times may skip the next ones: it copies their bytes from
//! [`Nic::read_gap`] to [`Nic::write_gap`], notifies the sender ([`Nic::skip`]) and the receiver
//! ([`Nic::skip_receive`]), and advances its time by what they would have taken.
//! [`Nic::count_left_out`] then adds what was skipped to the counters.

use ferroce_spec::counter::Counter;
use ferroce_transport::{
    Gap, GapSource, GapTarget, MemoryAnswer, MemoryOp, PathMtu, Payload, QpActivity, Stream,
    StreamKind,
};
use ferroce_units::Instant;
use ferroce_wire::{Gid, Psn, Qpn};

use crate::blocks::Blocks;
use crate::contexts::queue_pair::QueuePair;
use crate::contexts::work_queue::ReceiveFetch;
use crate::counters::Counters;
use crate::host_interface::dma::Dma;
use crate::nic::Nic;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::processing_unit::Inbound;
use crate::time::timing::Timing;
use crate::translation::responder_memory::{MemoryBlocks, PacketBytes, execute, protection_domain};
use crate::transmit::egress::shared_queue_of;
use crate::transmit::packetizer::gather;

/// Packets of a stride, unless their MTU is small.
const STRIDE_PACKETS: u32 = 64;
/// Least bytes of a stride: what a line of the MTT cache translates, and more.
const STRIDE_BYTES: u32 = 64 << 10;
/// Entries of the QP context table that are looked through for queue pairs that are busy.
const MAX_QPS: u32 = 256;
/// Streams that a NIC may receive at a time, as far as it marks them.
const MAX_STREAMS: usize = 16;

/// The end of a stride.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The queue pair that receives, as an index of the QP context table.
    pub index: u32,
    /// When its last packet was processed.
    pub at: Instant,
}

/// The last mark, and who has come to the end of a stride.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    last: Option<Mark>,
    receivers: Vec<u32>,
}

impl Marks {
    /// A queue pair has processed a packet.
    #[inline]
    pub(crate) fn note<F>(&mut self, now: Instant, qp: &QueuePair, packet: &Inbound<F>) {
        let mtu = qp.transport.attributes().path_mtu;
        if packet.payload.len() != mtu.bytes() as usize {
            return;
        }
        let opcode = packet.headers.bth.opcode.parse();
        let kind = match opcode.is_some_and(|opcode| opcode.is_response()) {
            true => StreamKind::ReadResponse,
            false => StreamKind::Request,
        };
        let received = qp.transport.packets_received(kind);
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

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Packets of a stride: a power of two.
#[inline]
pub const fn stride_packets(mtu: PathMtu) -> u32 {
    let packets = STRIDE_BYTES >> mtu.shift();
    match packets > STRIDE_PACKETS {
        true => packets,
        false => STRIDE_PACKETS,
    }
}

/// A queue pair that receives.
#[derive(Debug, Clone, Copy)]
pub struct Receiver {
    /// Index in the QP context table.
    pub index: u32,
    number: Qpn,
    peer_number: Qpn,
    local: Gid,
    peer: Gid,
    next_request: Psn,
    next_response: Psn,
}

impl Receiver {
    /// PSN of the next packet of a stream to it.
    pub fn next_of(&self, stream: &Stream) -> Psn {
        match stream.kind {
            StreamKind::Request => self.next_request,
            StreamKind::ReadResponse => self.next_response,
        }
    }
}

/// A stream, as its sender knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The queue pair that sends, as an index of the QP context table.
    pub index: u32,
    /// What it sends.
    pub stream: Stream,
    /// Bytes of a packet.
    pub mtu: PathMtu,
    /// Where the bytes of the next packets come from.
    pub source: GapSource,
}

/// Strides that a NIC was seen to send or to receive.
#[derive(Debug, Clone, Default)]
pub struct SeenStrides {
    /// How many.
    pub strides: u64,
    /// What it has counted.
    pub counts: Counters,
}

/// Counters that go with the packets that are sent, in bursts and ahead as far as there is room, so
/// that they are not those of as many strides; all others go with what is received.
const OF_SENDER: [Counter; 4] = [
    Counter::tx_frames,
    Counter::tx_bytes,
    Counter::dma_reads,
    Counter::dma_read_bytes,
];

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// The last end of a stride, if there was one since the last call.
    #[inline]
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.marks.last.take()
    }

    /// Those that have come to the end of a stride.
    pub fn receivers(&mut self) -> impl Iterator<Item = Receiver> {
        self.marks.receivers.iter().filter_map(|&index| {
            let qp = self.qps.get_mut(index)?;
            let path = qp.path.as_ref()?;
            Some(Receiver {
                index,
                number: qp.qpn,
                peer_number: qp.transport.attributes().dest_qp,
                local: path.local,
                peer: path.peer,
                next_request: qp.transport.next_receive_psn(),
                next_response: qp.transport.next_response_psn()?,
            })
        })
    }

    /// There is no stream to this queue pair any more.
    pub fn forget_receiver(&mut self, index: u32) {
        self.marks.receivers.retain(|receiver| *receiver != index);
    }

    /// The stream to `receiver`, if it is one of ours.
    pub fn flow_to(&mut self, receiver: &Receiver) -> Option<Flow> {
        let qp = self.qps.find(receiver.peer_number)?;
        let (path, attributes) = (qp.path.as_ref()?, qp.transport.attributes());
        let is_peer = path.local == receiver.peer
            && path.peer == receiver.local
            && attributes.dest_qp == receiver.number;
        let stream = qp.transport.stream().filter(|_| is_peer)?;
        Some(Flow {
            index: qp.index,
            stream,
            mtu: attributes.path_mtu,
            source: qp.transport.gap_source(stream.kind)?,
        })
    }

    /// Returns true if `is_known` accepts the activity of every queue pair; it is called with the
    /// index of each. Returns false, too, if there are too many queue pairs.
    pub fn only_streams_active(&self, is_known: impl Fn(u32, QpActivity) -> bool) -> bool {
        let (mut all, used) = self.qps.all();
        used <= MAX_QPS && all.all(|qp| is_known(qp.index, qp.transport.activity()))
    }

    /// Returns the place to which a queue pair would write the bytes of a gap. `None`: it cannot.
    pub fn gap_target(&mut self, index: u32, gap: &Gap) -> Option<GapTarget> {
        self.qps.get_mut(index)?.transport.gap_target(gap)
    }

    /// Reads bytes of a gap. False: they cannot be read.
    pub fn read_gap<H: Host>(
        &mut self,
        index: u32,
        payload: &Payload,
        destination: &mut [u8],
        host: &mut H,
    ) -> bool {
        let Some(qp) = self.qps.get_mut(index) else {
            return false;
        };
        let mut uncounted = Counters::new();
        let mut dma = Dma::new(host, &mut uncounted, self.now);
        let srqn = shared_queue_of(payload);
        protection_domain(qp, srqn, &mut self.srqs, &mut dma).is_some_and(|pd| {
            let (owner, send) = ((pd, qp.qpn), &mut qp.send);
            gather(
                owner,
                send,
                payload,
                destination,
                &mut self.memory,
                &mut dma,
            )
            .is_ok()
        })
    }

    /// Writes bytes of a gap. False: they cannot be written.
    pub fn write_gap<H: Host>(
        &mut self,
        index: u32,
        operation: MemoryOp,
        bytes: &[u8],
        host: &mut H,
    ) -> bool {
        let Some(qp) = self.qps.get_mut(index) else {
            return false;
        };
        let mut uncounted = Counters::new();
        let mut dma = Dma::new(host, &mut uncounted, self.now);
        let packet = PacketBytes {
            frame: bytes,
            ip: 0,
            payload: 0..bytes.len(),
        };
        let mut blocks = MemoryBlocks {
            memory: &mut self.memory,
            srqs: &mut self.srqs,
            dma: &mut dma,
            receive_fetch: ReceiveFetch { batch: 1, ahead: 0 },
            srq_event: None,
        };
        execute(operation, qp, &packet, &mut blocks) == MemoryAnswer::Done
    }

    /// The sender goes on behind a gap. False: it cannot, and nothing has changed.
    pub fn skip(&mut self, index: u32, gap: &Gap) -> bool {
        let qp = self.qps.get_mut(index);
        qp.is_some_and(|qp| qp.transport.skip(gap))
    }

    /// The receiver takes the packets of a gap as come.
    pub fn skip_receive(&mut self, index: u32, gap: &Gap) {
        if let Some(qp) = self.qps.get_mut(index) {
            qp.transport.skip_receive(gap);
        }
    }

    /// Counts what is left out as strides that were seen were counted: so many strides, of which
    /// the
    /// NIC sends so many packets.
    pub fn count_left_out(&mut self, seen: &SeenStrides, strides: u64, packets: u64) {
        let [frames, acks] = [Counter::tx_frames, Counter::acks_sent].map(|c| seen.counts.value(c));
        let sent = frames.saturating_sub(acks);
        let is_of_sender = |number| OF_SENDER.iter().any(|counter| *counter as usize == number);
        self.counters.add_part(&seen.counts, |number| {
            match packets > 0 && is_of_sender(number) {
                true => (packets, sent),
                false => (strides, seen.strides),
            }
        });
    }
}

/// Returns true if nothing but middle packets of long messages, and their acknowledgements, has
/// been counted between two sets of counters.
pub fn is_plain_flow(before: &Counters, after: &Counters) -> bool {
    const PLAIN: &[Counter] = &[
        Counter::tx_frames,
        Counter::tx_bytes,
        Counter::rx_frames,
        Counter::rx_bytes,
        Counter::dma_reads,
        Counter::dma_read_bytes,
        Counter::dma_writes,
        Counter::dma_write_bytes,
        Counter::qpc_hits,
        Counter::qpc_misses,
        Counter::cqc_hits,
        Counter::cqc_misses,
        Counter::mpt_hits,
        Counter::mpt_misses,
        Counter::mtt_hits,
        Counter::mtt_misses,
        Counter::srqc_hits,
        Counter::srqc_misses,
        Counter::acks_sent,
        Counter::tx_stalls,
        Counter::tx_descheduled,
        Counter::tx_work_done,
    ];
    let is_plain = |number: usize| PLAIN.iter().any(|plain| *plain as usize == number);
    let counts = before.values().iter().zip(after.values()).enumerate();
    let mut changed = counts.filter(|(_, (before, after))| before != after);
    changed.all(|(number, _)| is_plain(number))
}
