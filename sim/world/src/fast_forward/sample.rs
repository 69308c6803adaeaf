//! The world at the end of a stride.

use ferroce_faults::{FlowKey, Run};
use ferroce_model::Counters;
use ferroce_model::fast_forward::{Mark, Receiver, is_plain_flow, stride_packets};
use ferroce_model::time::timing::Timing;
use ferroce_spec::counter::Counter;
use ferroce_transport::Train;
use ferroce_units::Duration;
use ferroce_wire::{Opcode, Operation, Position, Psn, Transport};

use crate::devices::Devices;

/// Maximum bytes of a frame without payload, such as an ACK or READ request.
const FRAME_BYTES_WITHOUT_PAYLOAD: u64 = 128;
/// Number of packets by which a sender may fall back between two marks: two bursts.
const BURST_PACKETS: u32 = 32;
/// Strides of a message that are never measured, because its beginning is slower or faster than the
/// rest.
const BEGINNING_STRIDES: u32 = 8;
/// Number of strides after which a message is certainly steady.
const MAX_BEGINNING_STRIDES: u32 = 32;

/// A queue pair: its host, and its index there.
pub type End = (usize, u32);

/// A long message from one host to another.
#[derive(Debug, Clone, Copy)]
pub struct Leg {
    pub from: End,
    pub to: End,
    /// The packets that have not left, except the last one.
    pub rest: Train,
    /// Packets in flight.
    pub under_way: u32,
    /// Their addresses and numbers.
    receiver: Receiver,
}

impl Leg {
    /// Returns true if both belong to the same message and `self` is at least as far.
    fn continues(&self, before: &Leg) -> bool {
        (self.message(), self.to.0, self.rest.is_response())
            == (before.message(), before.to.0, before.rest.is_response())
            && self.rest.packets <= before.rest.packets
    }

    /// Returns what identifies the message: its sender, and its first PSN.
    pub fn message(&self) -> (End, Psn) {
        (self.from, self.rest.message)
    }

    /// Returns its packets in the form of the fault engine.
    pub fn data(&self) -> Run {
        let is_response = self.rest.is_response();
        let key = FlowKey {
            source: self.receiver.peer,
            destination: self.receiver.local,
            source_qp: None,
            destination_qp: self.receiver.number,
            is_response,
        };
        Run {
            key,
            first: self.rest.first,
            // Responses may be interleaved with ACKs of other messages; requests are in order.
            opcode: Opcode::new(
                Transport::ReliableConnected,
                Operation::RdmaReadResponse,
                Position::Middle,
            )
            .filter(|_| is_response),
        }
    }

    /// Returns the ACKs of its packets in the form of the fault engine; a READ response has none.
    pub fn acks(&self) -> Option<Run> {
        let key = FlowKey {
            source: self.receiver.local,
            destination: self.receiver.peer,
            source_qp: None,
            destination_qp: self.receiver.peer_number,
            is_response: true,
        };
        (!self.rest.is_response()).then_some(Run {
            key,
            first: self.rest.first,
            opcode: Opcode::new(
                Transport::ReliableConnected,
                Operation::Acknowledge,
                Position::Only,
            ),
        })
    }

    /// Returns the number of packets before the last one that the receiver has not received.
    fn missing(&self) -> u32 {
        self.rest.packets + self.under_way
    }

    /// Returns true if the finished stride comes after the first `strides` of the message.
    fn is_behind(&self, strides: u32) -> bool {
        let received = self.rest.packets_before() - self.under_way;
        received > strides * stride_packets(self.rest.mtu)
    }

    /// Returns the number of whole strides that have not left, without the last one, which is
    /// simulated.
    pub fn strides(&self) -> u64 {
        let packets = self.rest.packets + 1;
        u64::from(packets / stride_packets(self.rest.mtu)).saturating_sub(1)
    }
}

/// The world at the end of a stride.
#[derive(Debug)]
pub struct Sample {
    /// The host of the NIC that marked the end.
    host: usize,
    mark: Mark,
    pub legs: Vec<Leg>,
    pub counters: Vec<Counters>,
}

impl Sample {
    /// Takes a sample at the end of a stride of a host. Receivers without a long message are
    /// removed.
    pub fn take<T: Timing>(devices: &mut Devices<T>, host: usize, mark: Mark) -> Self {
        let mut legs = Vec::new();
        for to in 0..devices.nodes.len() {
            for receiver in devices.nodes[to].nic.fast_forward().receivers() {
                match leg(devices, to, &receiver) {
                    Some(leg) => legs.push(leg),
                    None => {
                        let nic = &mut devices.nodes[to].nic;
                        nic.fast_forward().forget_receiver(receiver.index);
                    }
                }
            }
        }
        let counters = devices.nodes.iter().map(|node| node.nic.counters().clone());
        Self {
            host,
            mark,
            legs,
            counters: counters.collect(),
        }
    }

    /// Returns the queue pair that marks the strides.
    pub fn lead(&self) -> End {
        (self.host, self.mark.index)
    }

    /// Returns the senders of all messages.
    pub fn senders(&self) -> impl Iterator<Item = End> {
        self.legs.iter().map(|leg| leg.from)
    }

    /// Returns the message that a queue pair sends.
    pub fn sent_by(&self, end: End) -> Option<&Train> {
        let leg = self.legs.iter().find(|leg| leg.from == end);
        leg.map(|leg| &leg.rest)
    }

    /// Returns the message that a queue pair receives.
    pub fn received_by(&self, end: End) -> Option<&Train> {
        let leg = self.legs.iter().find(|leg| leg.to == end);
        leg.map(|leg| &leg.rest)
    }

    /// Returns the number of strides of the marked message in this many bytes.
    pub fn strides_in(&self, bytes: u64) -> u64 {
        let marked = self.received_by(self.lead());
        let stride = marked.map_or(1, |train| stride_packets(train.mtu) << train.mtu.shift());
        bytes / u64::from(stride)
    }

    /// Returns true if the last stride certainly belongs to the beginning of a message.
    pub fn is_beginning(&self) -> bool {
        !self.legs.iter().all(|leg| leg.is_behind(BEGINNING_STRIDES))
    }

    /// Returns true if the last stride may belong to the beginning of a message.
    pub fn may_be_beginning(&self) -> bool {
        let is_behind = |leg: &Leg| leg.is_behind(MAX_BEGINNING_STRIDES);
        !self.legs.iter().all(is_behind)
    }

    /// Returns the duration of the stride since `before`, if it was plain, all messages advanced by
    /// a stride, and no sender fell back.
    pub fn stride_since(&self, before: &Sample) -> Option<Duration> {
        let mut counters = self.counters.iter().zip(&before.counters);
        let mut hosts = 0..self.counters.len();
        let is_plain = self.lead() == before.lead()
            && self.legs.len() == before.legs.len()
            && counters.all(|(after, before)| is_plain_flow(before, after))
            // Packets of a sender's last message may still be leaving.
            && hosts.all(|host| self.is_sender_or_quiet(host, before));
        let mut legs = self.legs.iter().zip(&before.legs);
        let goes_on = |(after, before): (&Leg, &Leg)| {
            after.continues(before)
                && before.missing() - after.missing() == stride_packets(after.rest.mtu)
                && after.under_way + BURST_PACKETS >= before.under_way
        };
        let is_steady = is_plain && legs.all(goes_on);
        is_steady.then(|| self.mark.at - before.mark.at)
    }

    /// Returns true if a host sends one of the messages, or has sent no payload since `before`.
    fn is_sender_or_quiet(&self, host: usize, before: &Sample) -> bool {
        let counted = |counter| {
            let value = |sample: &Sample| sample.counters[host].value(counter);
            value(self).saturating_sub(value(before))
        };
        self.senders().any(|(sender, _)| sender == host)
            || counted(Counter::tx_bytes)
                <= counted(Counter::tx_frames) * FRAME_BYTES_WITHOUT_PAYLOAD
    }
}

/// Returns the message to a receiver.
fn leg<T: Timing>(devices: &mut Devices<T>, to: usize, receiver: &Receiver) -> Option<Leg> {
    let mut nodes = devices.nodes.iter_mut().enumerate();
    let (from, (index, rest)) =
        nodes.find_map(|(from, node)| Some((from, node.nic.fast_forward().train_to(receiver)?)))?;
    let mut nic = devices.nodes[to].nic.fast_forward();
    Some(Leg {
        from: (from, index),
        to: (to, receiver.index),
        rest,
        under_way: nic.packets_before(receiver.index, &rest)?,
        receiver: *receiver,
    })
}
