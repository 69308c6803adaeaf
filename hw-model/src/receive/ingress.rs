//! The receive path of the NIC: steers frames to their queue pairs.

use ferroce_spec::context::AddressEntry;
use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use ferroce_spec::wqe::AddressPath;
use ferroce_units::{Duration, Instant};
use ferroce_wire::{
    Bth, Extension, Frame, Gid, IcrcMode, Opcode, Psn, Qpn, TransportHeaders, finish,
};

use crate::congestion::{is_answered, is_marked};
use crate::contexts::Contexts;
use crate::contexts::fault_log::TARGET;
use crate::contexts::path::Path;
use crate::contexts::queue_pair::QueuePair;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::counters::Counters;
use crate::host_interface::event_queue::{ASYNC_EQN, Event};
use crate::limits::MAX_GIDS;
use crate::ports::host::Host;
use crate::ports::port::{Port, Reservation};
use crate::processing_unit::responder_memory::MemoryBlocks;
use crate::processing_unit::{Inbound, process_packet};
use crate::receive::depacketizer::{self, Parsed};
use crate::receive::multicast::MAX_QPS_PER_GROUP;
use crate::receive::reorder_buffer::ReorderBuffer;
use crate::receive::{Receive, ReceivePorts};
use crate::scheduler::Scheduler;
use crate::time::timing::{PLANNING_HORIZON, Stage, Timing, Work};
use crate::time::turn::Turn;
use crate::translation::mtt::TranslationTable;

/// If the link to the host has more than this of posted writes to do, packets stay in the receive
/// buffer.
const MAX_POSTED_BACKLOG: Duration = Duration::from_us(1);

impl<F: AsRef<[u8]> + AsMut<[u8]>> Receive<F> {
    /// Passes frames through the depacketizer, then to the processing units of their queue pairs.
    /// Returns true if there were some.
    #[inline]
    pub fn step<H: Host, T: Timing, P: Port<Frame = F>, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ports: &mut ReceivePorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        while !ports.results.completions.is_nearly_full() {
            if self.inbound.is_full() {
                break;
            }
            let Some((at, frame)) = ports.mac.take_received() else {
                break;
            };
            worked = true;
            let check_icrc = ports.port.carries_icrc(&frame);
            let parsed = depacketizer::parse(frame.as_ref(), check_icrc, turn.counters);
            let steered = parsed
                .as_ref()
                .and_then(|parsed| self.steer(parsed, ports.contexts, turn.counters));
            let (Some(qp), Some(parsed)) = (steered, parsed) else {
                ports.port.release(frame);
                continue;
            };
            let inbound = Inbound {
                qp,
                headers: parsed.headers,
                ip: parsed.ip,
                payload: parsed.payload,
                frame,
            };
            let opcode = inbound.headers.bth.opcode;
            let work = Work {
                bytes: inbound.payload.len() as u32,
                messages: u32::from(opcode.begins_request()),
                continues_read: opcode.is_part_of_read_response(),
            };
            let unit = unit_of(&inbound, ports.results.scheduler);
            let ready = turn.reserve(at, Stage::Receive(unit), work);
            if self.inbound.is_empty() && turn.passes(ready) {
                self.process_one(turn, inbound, ports);
            } else {
                self.inbound.push(ready, inbound);
            }
        }
        worked | self.process(turn, ports)
    }

    /// Returns the destination of a packet, if it has one: the index of a queue pair, or `None` for
    /// a multicast group.
    #[inline]
    fn steer(
        &mut self,
        parsed: &Parsed,
        contexts: &mut Contexts,
        counters: &mut Counters,
    ) -> Option<Option<u32>> {
        let dest_qp = parsed.headers.bth.dest_qp;
        if dest_qp == Qpn::MULTICAST {
            return self.steer_multicast(parsed, counters);
        }
        let Some(qp) = contexts.qps.find(dest_qp) else {
            self.note_missing(parsed, counters);
            return None;
        };
        let recipient = Some(qp.index);
        let is_expected = match &qp.path {
            _ if qp.is_datagram() => is_own_address(&contexts.gids, parsed.destination),
            Some(path) => path.peer == parsed.source && path.local == parsed.destination,
            // Its address is gone.
            None if qp.transport.state().accepts_requests() => false,
            None => {
                self.note_missing(parsed, counters);
                return None;
            }
        };
        if !is_expected {
            counters.add(Counter::rx_wrong_path, 1);
            return None;
        }
        Some(recipient)
    }

    /// Counts a packet for a queue pair that does not exist or is not connected; logs it once in a
    /// row.
    #[cold]
    fn note_missing(&mut self, parsed: &Parsed, counters: &mut Counters) {
        counters.add(Counter::rx_no_qp, 1);
        let dest_qp = parsed.headers.bth.dest_qp;
        if self.missing_said.replace(dest_qp) != Some(dest_qp) {
            tracing::info!(target: TARGET, qpn = dest_qp.value(),
                "packets came for a QP that does not exist here, or is not in RTR or RTS");
        }
    }

    #[cold]
    fn steer_multicast(&self, parsed: &Parsed, counters: &mut Counters) -> Option<Option<u32>> {
        if self.multicast.members(parsed.destination).is_empty() {
            counters.add(Counter::rx_no_qp, 1);
            return None;
        }
        counters.add(Counter::rx_multicast, 1);
        Some(None)
    }

    /// Lets the processing units work on the packets that have reached them.
    #[inline]
    fn process<H: Host, T: Timing, P: Port<Frame = F>, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ports: &mut ReceivePorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        while !ports.results.completions.is_nearly_full() {
            let qps = &ports.contexts.qps;
            if self.is_paused(turn) || self.is_blocked(turn, qps) {
                break;
            }
            let Some(inbound) = self.inbound.pop(turn.now) else {
                break;
            };
            self.process_one(turn, inbound, ports);
            worked = true;
        }
        worked
    }

    /// Lets a processing unit work on a packet.
    #[inline]
    fn process_one<H: Host, T: Timing, P: Port<Frame = F>, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        inbound: Inbound<F>,
        ports: &mut ReceivePorts<'_, P, M>,
    ) {
        match inbound.qp {
            Some(index) => self.deliver(turn, index, &inbound, ports),
            None => self.fan_out(turn, &inbound, ports),
        }
        ports.port.release(inbound.frame);
    }

    /// Returns true if packets stay in the receive buffer because the host is slow.
    fn is_paused<H: Host, T: Timing>(&mut self, turn: &Turn<'_, H, T>) -> bool {
        self.resumes_at = turn.host.posted_until() - MAX_POSTED_BACKLOG;
        self.resumes_at > turn.now
    }

    /// Returns true if the next packet, and all after it, waits for the context of its queue pair.
    fn is_blocked<H: Host, T: Timing>(&mut self, turn: &Turn<'_, H, T>, qps: &QueuePairs) -> bool {
        let next = self.inbound.front().and_then(|packet| packet.qp);
        let until = turn.now + PLANNING_HORIZON;
        let blocked = next.and_then(|index| qps.blocked_until(index, until));
        if let Some(free_at) = blocked {
            self.resumes_at = self.resumes_at.max(free_at - PLANNING_HORIZON);
        }
        blocked.is_some()
    }

    /// Delivers a datagram to all queue pairs of a group, including the sender unless it was
    /// created to be left out.
    #[cold]
    fn fan_out<H: Host, T: Timing, P: Port<Frame = F>, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        inbound: &Inbound<F>,
        ports: &mut ReceivePorts<'_, P, M>,
    ) {
        let sender = match inbound.headers.extension {
            Extension::Deth(deth) | Extension::DethImmediate(deth, _) => deth.source_qp,
            _ => return,
        };
        // Parsed again, rather than carry the frame with every packet.
        let Ok(frame) = Frame::parse(inbound.frame.as_ref()) else {
            return;
        };
        let group = frame.ip.destination_gid();
        let is_ours = is_own_address(&ports.contexts.gids, frame.ip.source_gid());
        let qps = &mut ports.contexts.qps;
        let left_out = qps.index_of(sender).filter(|index| {
            let qp = qps.get_mut(*index);
            is_ours && qp.is_some_and(|qp| qp.context.shape.blocks_own_multicast())
        });
        for position in 0..MAX_QPS_PER_GROUP {
            let Some(index) = self.multicast.members(group).get(position).copied() else {
                break;
            };
            if Some(index) != left_out {
                self.deliver(turn, index, inbound, ports);
            }
        }
    }

    /// Lets a queue pair process a packet.
    #[inline]
    fn deliver<H: Host, T: Timing, P: Port<Frame = F>, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        inbound: &Inbound<F>,
        ports: &mut ReceivePorts<'_, P, M>,
    ) {
        let now = turn.now;
        if ports.congestion.is_some() && self.answer_congestion(turn, index, inbound, ports) {
            return;
        }
        let mut dma = turn.dma();
        let contexts = &mut *ports.contexts;
        let mut there = contexts.qps.touch(index, &mut dma);
        if inbound.headers.bth.opcode.takes_responder_resource() {
            there = there.and_then(|()| contexts.responder.touch(index, &mut dma));
        }
        if there.is_err() {
            let syndrome = FatalSyndrome::CONTEXT_TABLE_DMA;
            let events = &mut *ports.results.host_interface;
            events.fail(now, turn.timing, syndrome);
            return;
        }
        let Some(qp) = contexts.qps.get_mut(index) else {
            return;
        };
        dma.at = dma.at.max(qp.progress.ready);
        dma.visible = qp.progress.visible;
        let mut blocks = MemoryBlocks {
            memory: ports.translation,
            srqs: &mut contexts.srqs,
            dma: &mut dma,
            receive_fetch: self.receive_fetch,
            withholds_receives: contexts.withholds_receives,
            wqe_records: &mut contexts.wqe_records,
            srq_event: None,
        };
        let is_held = process_packet(now, qp, inbound, &mut blocks);
        if qp.transport.is_selective() {
            settle_window(&mut self.reorder, now, is_held, qp, inbound, &mut blocks);
        }
        let srq_event = blocks.srq_event;
        qp.progress.ready = dma.at;
        qp.progress.visible = dma.visible;
        ports.marks.note(now, qp, inbound);
        if let Some((kind, number)) = srq_event {
            let (eqn, events) = (ASYNC_EQN, &mut *ports.results.host_interface);
            events.raise(turn, now, Event::new(eqn, kind, number));
        }
        ports.results.settle(turn, contexts, index);
    }
}

/// Congestion.
impl<F: AsRef<[u8]> + AsMut<[u8]>> Receive<F> {
    /// Answers a marked packet with a notification, and reacts to a notification. Returns true if
    /// the packet was a notification: the transport does not process it.
    fn answer_congestion<H: Host, T: Timing, P: Port<Frame = F>, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        inbound: &Inbound<F>,
        ports: &mut ReceivePorts<'_, P, M>,
    ) -> bool {
        let Some(congestion) = &mut ports.congestion else {
            return false;
        };
        let opcode = inbound.headers.bth.opcode;
        if opcode == Opcode::CNP {
            turn.counters.add(Counter::rp_cnp_handled, 1);
            congestion.reaction.congested(turn.now, index);
            return true;
        }
        if !is_marked(inbound.frame.as_ref(), inbound.ip) || !is_answered(opcode) {
            return false;
        }
        turn.counters.add(Counter::np_ecn_marked_roce_packets, 1);
        if congestion.notification.take_turn(turn.now, index) {
            let traffic_class = congestion.notification.traffic_class();
            send_notification(turn, index, traffic_class, ports);
        }
        false
    }
}

/// Sends a CNP to the peer of a queue pair.
#[cold]
fn send_notification<H: Host, T: Timing, P: Port, M>(
    turn: &mut Turn<'_, H, T>,
    index: u32,
    traffic_class: u8,
    ports: &mut ReceivePorts<'_, P, M>,
) {
    let contexts = &mut *ports.contexts;
    let Some(qp) = contexts.qps.get_mut(index) else {
        return;
    };
    let address = AddressPath {
        traffic_class,
        ..qp.context.path
    };
    let source = contexts.gids.get(usize::from(address.source_gid_index));
    let path = source.and_then(|source| Path::new(source, &address));
    // A datagram has no return path, and the card has no place where a CNP could wait for the wire.
    let (Some(route), Some(path)) = (qp.peer(), path) else {
        return;
    };
    let bth = Bth::new(Opcode::CNP, route.qpn, Psn::new(0));
    let headers = TransportHeaders::congestion_notification(bth);
    let length = path.template.frame_length(&headers, 0);
    let Reservation::Ready(mut frame) = ports.port.reserve(&route, length) else {
        return;
    };
    let layout = path.template.emit(&headers, 0, 0, frame.as_mut());
    let mode = if ports.port.computes_icrc() {
        IcrcMode::Computed
    } else {
        IcrcMode::Zero
    };
    finish(frame.as_mut(), &layout, mode);
    turn.counters.add(Counter::np_cnp_sent, 1);
    turn.counters.add(Counter::tx_frames, 1);
    turn.counters.add(Counter::tx_bytes, length as u64);
    let ready = turn.reserve(turn.now, Stage::Packetize, Work::bytes(length as u32));
    ports.mac.send_notification(ready, frame);
}

/// Holds an out-of-order packet, or processes the packets that waited for this one.
#[cold]
fn settle_window<F: AsRef<[u8]>, H: Host, M: TranslationTable>(
    reorder: &mut ReorderBuffer,
    now: Instant,
    is_held: bool,
    qp: &mut QueuePair,
    packet: &Inbound<F>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) {
    let index = qp.index;
    if is_held {
        let payload = &packet.frame.as_ref()[packet.payload.clone()];
        let has_room = reorder.hold(index, &packet.headers, payload);
        let counter = if has_room {
            Counter::rx_held
        } else {
            Counter::rx_hold_drops
        };
        blocks.dma.counters.add(counter, 1);
        if !has_room {
            qp.transport.drop_held(packet.headers.bth.psn);
        }
        return;
    }
    while let Some(psn) = qp.transport.take_held() {
        let Some(held) = reorder.take(index, psn) else {
            continue; // it will come again
        };
        let payload = 0..held.payload.len();
        let inbound = Inbound {
            qp: packet.qp,
            headers: held.headers,
            ip: 0,
            payload,
            frame: held.payload,
        };
        process_packet(now, qp, &inbound, blocks);
    }
    if qp.transport.state().accepts_requests() {
        reorder.drop_before(index, qp.transport.next_receive_psn());
    } else {
        reorder.forget(index);
    }
}

/// Returns the processing unit that works on a packet. One unit makes all copies of a multicast
/// datagram.
#[inline]
fn unit_of<F>(packet: &Inbound<F>, scheduler: &Scheduler) -> u8 {
    packet.qp.map_or(0, |index| scheduler.unit_of(index) as u8)
}

/// Returns true if `gid` is an address of this NIC.
#[inline]
fn is_own_address(gids: &[AddressEntry; MAX_GIDS], gid: Gid) -> bool {
    gids.iter().any(|entry| entry.gid == gid.0)
}
