//! Transmit path of the NIC: from queue pairs that have work to frames on the wire.

use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use ferroce_transport::{Payload, QpState, Transmit};
use ferroce_units::{Duration, Instant};

use crate::blocks::Blocks;
use crate::contexts::cqe_builder;
use crate::contexts::queue_pair::QueuePair;
use crate::host_interface::dma::Dma;
use crate::limits::FLUSH_PER_TURN;
use crate::mac::{Departing, Mac, Sent};
use crate::nic::Nic;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::processing_unit::Outbound;
use crate::receive::datagram;
use crate::time::edge::Edge;
use crate::time::timing::{PLANNING_HORIZON, Stage, Timing, Work};
use crate::translation::responder_memory::protection_domain;
use crate::transmit::local_operation;
use crate::transmit::packetizer::{Packetized, packetize};

/// Backlog of reads on the link from the host above which processing units request no more payload:
/// a small read, such as a translation, waits behind it.
const MAX_READ_BACKLOG: Duration = Duration::from_us(1);

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Serves queue pairs that have work: WQE fetch, transport, packetizer, MAC.
    #[inline(always)]
    pub(crate) fn transmit<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        let mut worked = false;
        self.stalled = false;
        let has_work = !self.scheduler.is_idle() || self.outbound_waits;
        if has_work && !(T::IS_TIMED && self.is_egress_blocked()) {
            self.outbound_waits = false;
            for unit in 0..self.units.len() {
                worked |= self.serve_unit(now, unit, host, port);
            }
        }
        self.mac.transmit(now, &mut self.timing, port);
        worked | self.report_departures(now)
    }

    /// Reports to queue pairs of the unreliable services which of their packets have left the card.
    /// A request completes with its last packet: not before its payload was read, nor faster than
    /// the wire takes it.
    #[inline]
    fn report_departures(&mut self, now: Instant) -> bool {
        let mut reported = false;
        while let Some((at, sent)) = self.mac.left.pop_front() {
            if let Some(qp) = self.qps.get_mut(sent.qp) {
                qp.progress.left = at.max(qp.progress.left);
                qp.transport.packet_left(now, sent.request);
            }
            let next = self.mac.left.front().map(|(at, sent)| (*at, sent.qp));
            // Packets that leave at the same time complete at the same time.
            if next != Some((at, sent.qp)) {
                self.settle(now, sent.qp);
            }
            reported = true;
        }
        reported
    }

    /// Serves each queue pair of one processing unit that has work once.
    #[inline(always)]
    fn serve_unit<H: Host>(
        &mut self,
        now: Instant,
        unit: usize,
        host: &mut H,
        port: &mut P,
    ) -> bool {
        let mut worked = false;
        if T::IS_TIMED && !self.units[unit].outbound.is_empty() {
            worked |= self.packetize(now, unit, host, port);
        }
        for _ in 0..self.scheduler.len(unit) {
            if self.completion_edge.is_nearly_full() || self.is_paused(now, unit) {
                break;
            }
            if T::IS_TIMED && self.is_held_up(now, unit, host) {
                break;
            }
            let Some(index) = self.scheduler.take_next(unit) else {
                break;
            };
            if T::IS_TIMED && self.waits_for_buffer(index) {
                continue;
            }
            worked |= self.serve(now, index, host, port);
        }
        worked
    }

    /// Returns true if a processing unit waits for its clock, or for the MAC.
    #[inline]
    fn is_paused(&mut self, now: Instant, unit: usize) -> bool {
        T::IS_TIMED && (self.is_egress_blocked() || self.units[unit].is_busy(now, &self.timing))
    }

    /// Returns true if a processing unit waits for the context of its next queue pair, or for
    /// enough of the payload that it has requested.
    #[inline]
    fn is_held_up<H: Host>(&mut self, now: Instant, unit: usize, host: &H) -> bool {
        let next = self.scheduler.next(unit);
        let until = now + PLANNING_HORIZON;
        let context = next.and_then(|index| self.qps.blocked_until(index, until));
        let context = context.map_or(Instant::ZERO, |free_at| free_at - PLANNING_HORIZON);
        let payload = host.requested_until() - MAX_READ_BACKLOG;
        let resumes_at = context.max(payload);
        self.units[unit].resumes_at = resumes_at;
        resumes_at > now
    }

    /// Returns true if a queue pair can do nothing but wait for a buffer for its WQEs.
    #[inline]
    fn waits_for_buffer(&mut self, index: u32) -> bool {
        let Some(qp) = self.qps.get_mut(index) else {
            return false;
        };
        let waits = self.fetch.free() == 0 && qp.has_only_sends_to_fetch();
        if waits {
            qp.scheduled = false;
            self.fetch.await_buffer(qp);
        }
        waits
    }

    /// Returns true if the MAC has enough to send. Once it has, this stays true until half of it
    /// has left.
    #[inline]
    fn is_egress_blocked(&mut self) -> bool {
        if self.egress_blocked {
            self.egress_blocked = self.mac.egress.is_nearly_full();
        } else {
            self.egress_blocked = self.mac.egress.is_full();
        }
        self.egress_blocked
    }

    /// Completes WQE fetches whose data has arrived.
    #[inline]
    pub(crate) fn complete_fetches(&mut self, now: Instant) -> bool {
        if !T::IS_TIMED {
            return false;
        }
        let mut worked = false;
        while let Some(index) = self.fetch.land(
            now,
            &mut self.qps,
            &self.gids,
            &mut self.wqes,
            &mut self.counters,
        ) {
            self.after_command(now, index);
            worked = true;
        }
        for _ in 0..self.fetch.free() {
            let Some(index) = self.fetch.next_waiting() else {
                break;
            };
            if let Some(qp) = self.qps.get_mut(index) {
                qp.fetching = false;
            }
            self.after_command(now, index);
            worked = true;
        }
        worked
    }

    /// Serves one queue pair. Returns true if something moved.
    #[inline(always)]
    fn serve<H: Host>(&mut self, now: Instant, index: u32, host: &mut H, port: &mut P) -> bool {
        let mut dma = Dma::new(host, &mut self.counters, now);
        if self.qps.touch(index, T::IS_TIMED, &mut dma).is_err() {
            self.bar.stop(FatalSyndrome::CONTEXT_TABLE_DMA);
            return false;
        }
        let Some(qp) = self.qps.get_mut(index) else {
            return false;
        };
        qp.scheduled = false;
        if T::IS_TIMED {
            dma.at = dma.at.max(qp.progress.ready);
        }
        let mut worked = self.fetch.fetch(
            now,
            qp,
            &self.gids,
            &mut self.wqes,
            &mut dma,
            &mut self.timing,
        );
        worked |= flush_receives(qp);
        worked |= local_operation::execute(now, qp, &mut self.memory, &mut dma);
        if T::IS_TIMED {
            qp.progress.ready = dma.at;
        }
        let (at, quantum) = (dma.at, self.config.quantum_packets);
        let unit = self.scheduler.unit_of(index);
        self.units[unit].transmit(now, at, qp, quantum, &mut self.timing);
        if T::IS_TIMED {
            let has_more = !qp.stalled.is_empty() || qp.transport.has_transmit();
            let counter = match has_more {
                true => Counter::tx_descheduled,
                false => Counter::tx_work_done,
            };
            self.counters.add(counter, 1);
        }
        worked |= self.packetize(now, unit, host, port);
        worked |= self.acknowledge_behind(now, index, host, port);
        self.settle(now, index);
        worked
    }

    /// Sends a delayed ACK right behind the last packet of the requests that were rung, so that one
    /// poll of the peer finds both.
    #[inline(always)]
    fn acknowledge_behind<H: Host>(
        &mut self,
        now: Instant,
        index: u32,
        host: &mut H,
        port: &mut P,
    ) -> bool {
        let Some(qp) = self.qps.get_mut(index).filter(|qp| qp.acknowledge_behind) else {
            return false;
        };
        if qp.has_work() {
            return false;
        }
        qp.acknowledge_behind = false;
        qp.transport.flush_acknowledge();
        let at = qp.progress.ready.max(now);
        let unit = self.scheduler.unit_of(index);
        self.units[unit].transmit(now, at, qp, 1, &mut self.timing);
        self.packetize(now, unit, host, port)
    }

    /// Makes frames of the packets that a processing unit has sent.
    #[inline(always)]
    fn packetize<H: Host>(
        &mut self,
        now: Instant,
        unit: usize,
        host: &mut H,
        port: &mut P,
    ) -> bool {
        let mut worked = false;
        loop {
            if self.mac.egress.is_full() {
                self.mac.transmit(now, &mut self.timing, port);
            }
            if self.mac.egress.is_full() {
                self.outbound_waits |= !self.units[unit].outbound.is_empty();
                self.egress_blocked = true;
                break;
            }
            let Some((ready, outbound)) = self.units[unit].outbound.pop_ahead() else {
                break;
            };
            let Outbound {
                qp: index,
                transmit,
            } = outbound;
            let Some(qp) = self.qps.get_mut(index) else {
                continue;
            };
            // A packet behind one that waits for the wire waits too.
            if !qp.stalled.is_empty() {
                qp.stalled.push_back(transmit);
                continue;
            }
            let mut dma = Dma::planned(host, &mut self.counters, now, ready);
            let leaves = self.bar.link_up
                && (!qp.is_datagram() || datagram::aim(qp, transmit.request, &self.gids));
            let srqn = shared_queue_of(&transmit.payload);
            let packetized = match protection_domain(qp, srqn, &mut self.srqs, &mut dma) {
                _ if !leaves => Packetized::Lost,
                Some(pd) => packetize(qp, &transmit, pd, &mut self.memory, port, &mut dma),
                None => Packetized::Fault,
            };
            match packetized {
                Packetized::Frame(frame) => {
                    let work = Work::bytes(frame.as_ref().len() as u32);
                    let departure = self.timing.reserve(now, dma.at, Stage::Packetize, work);
                    depart::<T, _>(&mut self.mac, qp, departure, Some(frame), &transmit);
                    worked = true;
                }
                Packetized::Full => {
                    self.counters.add(Counter::tx_stalls, 1);
                    self.stalled = true;
                    qp.stalled.push_back(transmit);
                }
                Packetized::Lost => {
                    self.counters.add(Counter::tx_no_route, 1);
                    depart::<T, _>(&mut self.mac, qp, ready, None, &transmit);
                    worked = true;
                }
                Packetized::Fault => {
                    cqe_builder::fail_payload(now, qp, &transmit);
                    drop_behind(qp, &transmit, &mut self.units[unit].outbound);
                    worked = true;
                }
            }
        }
        worked
    }

    /// Sends the pending ACK of a queue pair before it is reset or destroyed: a delayed ACK must
    /// not be lost.
    pub(crate) fn flush_pending_acks<H: Host>(
        &mut self,
        now: Instant,
        index: u32,
        host: &mut H,
        port: &mut P,
    ) {
        if let Some(qp) = self.qps.get_mut(index) {
            qp.transport.flush_acknowledge();
            if qp.transport.has_transmit() {
                self.serve(now, index, host, port);
                self.mac.transmit(now, &mut self.timing, port);
            }
        }
    }

    /// Drops what a queue pair that is reset or destroyed still has on the edges: nothing more is
    /// sent, written or reported for it.
    pub(crate) fn forget(&mut self, index: u32) {
        let Some(qpn) = self.qps.get_mut(index).map(|qp| qp.qpn.value()) else {
            return;
        };
        for unit in &mut self.units {
            unit.outbound.retain(|packet| packet.qp != index);
        }
        self.mac.forget(index);
        self.completion_edge.retain(|entry| entry.cqe.qpn != qpn);
        self.event_edge
            .retain(|event| event.number != qpn || !cqe_builder::is_of_queue_pair(event.kind));
    }

    /// Returns true if there is a delayed ACK.
    pub fn holds_acknowledges(&self) -> bool {
        !self.delayed_acks.is_empty()
    }

    /// Sends delayed ACKs with the next [`Nic::advance`]. Called on an empty poll: the application
    /// will not post the requests that the ACKs were delayed for.
    pub fn flush_acknowledges(&mut self) {
        while let Some(index) = self.delayed_acks.pop() {
            if let Some(qp) = self.qps.get_mut(index) {
                qp.holds_acknowledge = false;
                qp.transport.flush_acknowledge();
                self.scheduler.activate(qp);
            }
        }
    }
}

/// Passes a packet of `qp` that is ready at `ready` to the MAC. A packet without a frame is lost;
/// its sender is notified in its order.
#[inline]
fn depart<T: Timing, F>(
    mac: &mut Mac<F>,
    qp: &mut QueuePair,
    ready: Instant,
    frame: Option<F>,
    transmit: &Transmit,
) {
    let request = transmit.request.filter(|_| qp.is_unreliable());
    let sent = request.map(|request| Sent {
        qp: qp.index,
        request,
    });
    if frame.is_none() && sent.is_none() {
        return;
    }
    let mut departure = ready;
    if T::IS_TIMED {
        // Packets of one queue pair leave in order.
        qp.progress.departure = departure.max(qp.progress.departure);
        departure = qp.progress.departure;
    }
    mac.egress.push(departure, Departing { frame, sent });
}

/// Drops the packets behind one whose payload could not be gathered: requests behind a request,
/// which are sent again later or flushed, and everything behind a READ response, because the queue
/// pair is in error.
#[cold]
fn drop_behind(qp: &mut QueuePair, failed: &Transmit, outbound: &mut Edge<Outbound>) {
    let ends_requests_only = failed.request.is_some();
    let stays = |packet: &Transmit| ends_requests_only && packet.request.is_none();
    qp.stalled.retain(stays);
    outbound.retain(|packet| packet.qp != qp.index || stays(&packet.transmit));
}

/// Returns the shared receive queue whose protection domain applies to a payload (XRC).
#[inline]
pub(crate) fn shared_queue_of(payload: &Payload) -> Option<u32> {
    match payload {
        Payload::ReadResponse { srqn, .. } => *srqn,
        _ => None,
    }
}

/// Completes receive WQEs of a queue pair in the error state.
fn flush_receives(qp: &mut QueuePair) -> bool {
    if qp.transport.state() != QpState::Err {
        return false;
    }
    let mut flushed = false;
    for _ in 0..FLUSH_PER_TURN {
        let Some(index) = qp.receive.take_for_flush() else {
            break;
        };
        qp.transport.flush_receive(index);
        flushed = true;
    }
    flushed
}
