//! Makes frames of packets, and reports frames that have left the card.

use ferroce_spec::counter::Counter;
use ferroce_transport::{Payload, QpState, Transmit as Packet};
use ferroce_units::Instant;

use crate::completion::cqe_builder;
use crate::congestion::Congestion;
use crate::contexts::queue_pair::QueuePair;
use crate::mac::{Departing, Sent};
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::processing_unit::Outbound;
use crate::processing_unit::responder_memory::{note_list, protection_domain};
use crate::time::timing::{Stage, Timing, Work};
use crate::time::turn::Turn;
use crate::translation::memory_unit::MemoryUnit;
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;
use crate::transmit::datagram;
use crate::transmit::packetizer::{Packetized, packetize, response_access};
use crate::transmit::{Transmit, TransmitPorts};
use crate::wqe::SendPayload;

/// The place from which a packet is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The queue of its processing unit.
    Queue,
    /// The packets of its queue pair that wait for the wire: it is the first one.
    Stalled,
}

impl Transmit {
    /// Reports to queue pairs of the unreliable services which of their packets have left the card.
    /// A request completes with its last packet: not before its payload was read, and not faster
    /// than the wire takes it.
    #[inline]
    pub(super) fn report_departures<H: Host, T: Timing, P: Port, M>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let mut reported = false;
        while let Some((at, sent)) = ports.mac.take_left() {
            if let Some(qp) = ports.contexts.qps.get_mut(sent.qp) {
                qp.progress.left = at.max(qp.progress.left);
                qp.transport.packet_left(turn.now, sent.request);
            }
            let next = ports.mac.next_left().map(|(at, sent)| (at, sent.qp));
            // Packets that leave at the same time complete at the same time.
            if next != Some((at, sent.qp)) {
                let (contexts, mut results) = ports.results(&mut self.scheduler);
                results.settle(turn, contexts, sent.qp);
            }
            reported = true;
        }
        reported
    }

    /// Returns true if the MAC has enough frames. It stays true until half of them have left.
    #[inline]
    pub(super) fn is_egress_blocked<P: Port, M>(
        &mut self,
        ports: &TransmitPorts<'_, P, M>,
    ) -> bool {
        self.egress_blocked = if self.egress_blocked {
            ports.mac.is_nearly_full()
        } else {
            ports.mac.is_full()
        };
        self.egress_blocked
    }

    /// Makes frames of the packets of a processing unit.
    #[inline]
    pub(super) fn packetize<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        unit: usize,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        loop {
            if ports.mac.is_full() {
                ports.mac.transmit(turn.now, turn.timing, ports.port);
            }
            if ports.mac.is_full() {
                self.outbound_waits |= !self.units[unit].outbound.is_empty();
                self.egress_blocked = true;
                break;
            }
            if self.units[unit].stands(turn.now) {
                self.outbound_waits |= !self.units[unit].outbound.is_empty();
                break;
            }
            let Some((ready, outbound)) = self.units[unit].outbound.pop_ahead() else {
                break;
            };
            worked |= self.packetize_one(turn, unit, ready, outbound, Origin::Queue, ports);
        }
        worked
    }

    /// Makes frames, in order, of a queue pair's packets that waited for room on the wire. Returns
    /// true if one has left.
    #[cold]
    pub(super) fn packetize_stalled<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        unit: usize,
        index: u32,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        while !ports.mac.is_full() && !self.units[unit].stands(turn.now) {
            let qp = ports.contexts.qps.get_mut(index);
            let Some(packet) = qp.and_then(|qp| qp.stalled.pop_front()) else {
                break;
            };
            let (now, packet) = (turn.now, Outbound { qp: index, packet });
            if !self.packetize_one(turn, unit, now, packet, Origin::Stalled, ports) {
                break;
            }
            worked = true;
        }
        worked
    }

    /// Makes a frame of a packet that is available at `ready`. Returns true if the packet has left
    /// the processing unit.
    #[inline]
    fn packetize_one<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        unit: usize,
        ready: Instant,
        Outbound { qp: index, packet }: Outbound,
        origin: Origin,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let Some(qp) = ports.contexts.qps.get_mut(index) else {
            return false;
        };
        // A packet after one that waits for the wire waits as well.
        if origin == Origin::Queue && !qp.stalled.is_empty() {
            qp.stalled.push_back(packet);
            return false;
        }
        let mut dma = turn.dma_planned(ready);
        if matches!(packet.payload, Payload::ReadResponse { .. }) {
            // A failure here repeats with the next request, and is reported then.
            let _ = ports.contexts.responder.touch(index, &mut dma);
        }
        let leaves = ports.host_interface.link_is_up()
            && (!qp.is_datagram() || datagram::aim(qp, packet.request, &ports.contexts.gids));
        let srqn = shared_queue_of(&packet.payload);
        let domain = protection_domain(qp, srqn, &mut ports.contexts.srqs, &mut dma);
        // While a queue pair waits for its state, others are served; translation is one pipeline.
        dma.stands_until = Instant::ZERO;
        let packetized = match domain {
            _ if !leaves => Packetized::Lost,
            Some(pd) => packetize(qp, &packet, pd, ports.translation, ports.port, &mut dma),
            None => Packetized::Fault(None),
        };
        let (payload_read, stands_until) = (dma.at, dma.stands_until);
        self.units[unit].stands_until = self.units[unit].stands_until.max(stands_until);
        match packetized {
            Packetized::Frame(frame) => {
                let work = Work::bytes(frame.as_ref().len() as u32);
                charge(ports.congestion.as_deref_mut(), turn.now, index, work.bytes);
                let ready = turn.reserve(payload_read, Stage::Packetize, work);
                let (frame, sent) = (Some(frame), report_of(qp, &packet));
                let departure = in_order(qp, ready);
                let departing = Departing { frame, sent };
                ports.mac.send(turn, departure, departing, ports.port);
            }
            Packetized::Full => {
                turn.counters.add(Counter::tx_stalls, 1);
                self.refused += 1;
                qp.stalled.push_front(packet);
                return false;
            }
            Packetized::Lost => {
                turn.counters.add(Counter::tx_no_route, 1);
                if leaves {
                    note_lost(qp, &packet);
                }
                if let sent @ Some(_) = report_of(qp, &packet) {
                    let departing = Departing { frame: None, sent };
                    let departure = in_order(qp, ready);
                    ports.mac.send(turn, departure, departing, ports.port);
                }
            }
            Packetized::Fault(fault) => {
                note_fault(qp, &packet, fault, ports.translation);
                return self.settle_fault(turn.now, unit, qp, packet, fault);
            }
        }
        true
    }

    /// Lets a queue pair wait for the page of its packet, and with it all later packets. Returns
    /// true if it is in ERR and drops the packet instead.
    #[cold]
    fn await_page(&mut self, qp: &mut QueuePair, packet: Packet) -> bool {
        if qp.transport.state() == QpState::Err {
            return true;
        }
        qp.stalled.push_front(packet);
        if !qp.awaits_page {
            qp.awaits_page = true;
            self.page_waiters.push(qp.index);
        }
        false
    }

    /// Fails the request or response of a packet whose payload could not be gathered, unless its
    /// page is only not present yet. Returns true if the packet is gone.
    #[cold]
    fn settle_fault(
        &mut self,
        now: Instant,
        unit: usize,
        qp: &mut QueuePair,
        packet: Packet,
        fault: Option<ProtectionFault>,
    ) -> bool {
        if let Some(ProtectionFault::NotPresent(_)) = fault {
            return self.await_page(qp, packet);
        }
        cqe_builder::fail_payload(now, qp, &packet);
        self.drop_behind(unit, qp, &packet);
        true
    }

    /// Drops the packets after one whose payload could not be gathered. After a request, these are
    /// the later requests, which are sent again or flushed; after a READ response, everything,
    /// because the queue pair is in error.
    #[cold]
    fn drop_behind(&mut self, unit: usize, qp: &mut QueuePair, failed: &Packet) {
        let ends_requests_only = failed.request.is_some();
        let stays = |packet: &Packet| ends_requests_only && packet.request.is_none();
        qp.stalled.retain(stays);
        let index = qp.index;
        let keeps = |behind: &Outbound| behind.qp != index || stays(&behind.packet);
        self.units[unit].outbound.retain(keeps);
        self.executing.retain(keeps);
    }
}

/// Notifies congestion control, if any, that a queue pair has sent a frame of `bytes`.
#[inline]
fn charge(congestion: Option<&mut Congestion>, now: Instant, index: u32, bytes: u32) {
    if let Some(congestion) = congestion {
        congestion.reaction.sent(now, index, bytes);
    }
}

/// Returns the departure time of a packet that is ready at `ready`: packets of one QP leave in
/// order.
#[inline]
fn in_order(qp: &mut QueuePair, ready: Instant) -> Instant {
    qp.progress.departure = ready.max(qp.progress.departure);
    qp.progress.departure
}

/// Returns the request to notify when the packet has left the card. A packet that is lost before
/// the wire is reported in order as well.
#[inline]
fn report_of(qp: &QueuePair, packet: &Packet) -> Option<Sent> {
    let request = packet.request.filter(|_| qp.is_unreliable())?;
    Some(Sent {
        qp: qp.index,
        request,
    })
}

/// Records that a packet has no destination.
#[cold]
fn note_lost(qp: &mut QueuePair, packet: &Packet) {
    if let Some(path) = &qp.path {
        let dest_qp = packet.headers.bth.dest_qp.value();
        qp.faults.note_lost(qp.qpn.value(), dest_qp, path.peer.0);
    }
}

/// Records that the payload of a packet could not be gathered; `None`: the shared receive queue of
/// a READ no longer exists, which no completion reports.
#[cold]
fn note_fault<M: TranslationTable>(
    qp: &mut QueuePair,
    packet: &Packet,
    fault: Option<ProtectionFault>,
    memory: &MemoryUnit<M>,
) {
    let Some(fault) = &fault else {
        return;
    };
    let (pd, qpn) = (qp.pd(), qp.qpn);
    match packet.payload {
        Payload::ReadResponse {
            r_key,
            virtual_address,
            length,
            srqn: _,
        } => {
            let access = response_access(pd, qpn, r_key.0, virtual_address, length);
            let region = memory.known_bounds(access.key);
            qp.faults.note_request(&access, fault, region);
        }
        Payload::Request { request, .. } => {
            if let Some(SendPayload::Memory(list)) = qp.send.payload(request) {
                note_list(&mut qp.faults, qpn, list, fault, memory);
            }
        }
        Payload::None | Payload::Arrivals { .. } => {}
    }
}

/// Returns the shared receive queue whose protection domain applies to a payload (XRC).
#[inline]
pub(crate) fn shared_queue_of(payload: &Payload) -> Option<u32> {
    match payload {
        Payload::ReadResponse { srqn, .. } => *srqn,
        _ => None,
    }
}
