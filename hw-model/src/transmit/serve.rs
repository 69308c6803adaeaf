//! Serves the active queue pairs of the processing units one after the other.

use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use ferroce_transport::QpState;
use ferroce_units::{Duration, Instant};

use crate::contexts::queue_pair::QueuePair;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::dma::Dma;
use crate::limits::FLUSH_PER_TURN;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::processing_unit::ProcessingUnit;
use crate::time::timing::{PLANNING_HORIZON, Timing};
use crate::time::turn::Turn;
use crate::translation::mtt::TranslationTable;
use crate::transmit::{Transmit, TransmitPorts, local_operation};

/// If the link from the host has more than this of reads to deliver, processing units request no
/// more payload, because a small read, such as a translation, would wait for it.
const MAX_READ_BACKLOG: Duration = Duration::from_us(1);
/// After this many packets of different queue pairs found no room on the wire, a processing unit
/// ends its step; the next step continues with the following queue pairs. If each step tried all
/// waiting queue pairs, the time would be quadratic in their number. The first such packet does not
/// end the step, because other packets may have a route with room.
const MAX_REFUSED: u32 = 16;

impl Transmit {
    /// Returns true if [`Transmit::complete_fetches`] has nothing to do, now or later.
    #[inline]
    pub fn fetches_nothing(&self) -> bool {
        self.fetch.is_idle()
    }

    /// Completes WQE fetches whose data has arrived. Returns true if there were some.
    #[inline]
    pub fn complete_fetches<H: Host, T: Timing, P: Port, M>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        while let Some(index) = self.fetch.land(
            turn.now,
            &mut ports.contexts.qps,
            &ports.contexts.gids,
            &mut ports.contexts.wqe_records,
            turn.counters,
        ) {
            self.fetch_ahead(turn, index, ports);
            let (contexts, mut results) = ports.results(&mut self.scheduler);
            results.settle_active(turn, contexts, index);
            worked = true;
        }
        for _ in 0..self.fetch.free() {
            let Some(index) = self.fetch.next_waiting() else {
                break;
            };
            if let Some(qp) = ports.contexts.qps.get_mut(index) {
                qp.fetching = false;
            }
            let (contexts, mut results) = ports.results(&mut self.scheduler);
            results.settle_active(turn, contexts, index);
            worked = true;
        }
        worked
    }

    /// Fetches the next WQEs of a queue pair, if any: the fetch engine does not wait until the
    /// processing unit serves the queue pair.
    fn fetch_ahead<H: Host, T: Timing, P: Port, M>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        ports: &mut TransmitPorts<'_, P, M>,
    ) {
        let contexts = &mut *ports.contexts;
        let waits = contexts.qps.get_mut(index);
        if let Some(qp) = waits.filter(|qp| qp.send.waiting() > 0) {
            let mut dma = Dma::new(turn.host, turn.counters, turn.now);
            let records = &mut contexts.wqe_records;
            let gids = &contexts.gids;
            self.fetch
                .fetch(turn.now, qp, gids, records, &mut dma, turn.timing);
        }
    }

    /// Serves active queue pairs: WQE fetch, transport, packetizer, MAC. Returns true if something
    /// moved.
    #[inline]
    pub fn step<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        self.refused = 0;
        self.release_executed(turn.now);
        let has_work = !self.scheduler.is_idle() || self.outbound_waits;
        if has_work && !self.is_egress_blocked(ports) {
            let outbound_waits = std::mem::take(&mut self.outbound_waits);
            let units = self.units.len();
            let mut has_room = self.has_shared_room(turn);
            let mut unit = self.first_unit;
            for _ in 0..units {
                let next = if unit + 1 == units { 0 } else { unit + 1 };
                if outbound_waits || self.scheduler.has_work(unit) {
                    worked |= self.serve_unit(turn, unit, ports);
                    if has_room && !self.has_shared_room(turn) {
                        // Otherwise the unit with the smallest number would take all the room that
                        // becomes free: the responses of one READ would delay all others.
                        has_room = false;
                        self.first_unit = next;
                    }
                }
                unit = next;
            }
        }
        ports.mac.transmit(turn.now, turn.timing, ports.port);
        if self.egress_blocked {
            // Otherwise nothing may wake the units when the last frame has left.
            self.is_egress_blocked(ports);
        }
        worked | self.report_departures(turn, ports)
    }

    /// Returns true if all processing units may still request payload and make frames in this
    /// step.
    #[inline]
    fn has_shared_room<H: Host, T: Timing>(&self, turn: &Turn<'_, H, T>) -> bool {
        !self.egress_blocked && self.refused == 0 && payload_waits_until(turn) <= turn.now
    }

    /// Passes responses of atomics that are executed on to their processing units.
    #[inline]
    fn release_executed(&mut self, now: Instant) {
        let units = &mut self.units;
        while let Some((ready, unit, outbound)) = self
            .executing
            .pop(now, |unit| !units[usize::from(unit)].outbound.is_full())
        {
            units[usize::from(unit)].outbound.push(ready, outbound);
            self.outbound_waits = true;
        }
    }

    /// Serves each active queue pair of one processing unit once.
    #[inline]
    fn serve_unit<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        unit: usize,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let mut worked = false;
        if !self.units[unit].outbound.is_empty() {
            worked |= self.packetize(turn, unit, ports);
        }
        let refused = self.refused;
        for _ in 0..self.scheduler.len(unit) {
            if ports.completions.is_nearly_full() || self.is_paused(turn, unit, ports) {
                break;
            }
            if self.refused - refused >= MAX_REFUSED {
                break;
            }
            if self.is_held_up(turn, unit, &ports.contexts.qps) {
                break;
            }
            let Some(index) = self.scheduler.take_next(unit) else {
                break;
            };
            if self.waits_for_buffer(index, &mut ports.contexts.qps)
                || waits_for_rate(turn.now, index, ports)
            {
                continue;
            }
            worked |= self.serve(turn, index, ports);
        }
        worked
    }

    /// Returns true if a processing unit waits for its clock, a register or the MAC.
    #[inline]
    fn is_paused<H: Host, T: Timing, P: Port, M>(
        &mut self,
        turn: &Turn<'_, H, T>,
        unit: usize,
        ports: &TransmitPorts<'_, P, M>,
    ) -> bool {
        let is_busy =
            |unit: &ProcessingUnit| unit.is_busy(turn.now, turn.timing) || unit.stands(turn.now);
        self.is_egress_blocked(ports) || is_busy(&self.units[unit])
    }

    /// Returns true if a processing unit waits for the context of its next queue pair, or for the
    /// payload that it has requested.
    #[inline]
    fn is_held_up<H: Host, T: Timing>(
        &mut self,
        turn: &Turn<'_, H, T>,
        unit: usize,
        qps: &QueuePairs,
    ) -> bool {
        let next = self.scheduler.next(unit);
        let until = turn.now + PLANNING_HORIZON;
        let context = next.and_then(|index| qps.blocked_until(index, until));
        let context = context.map_or(Instant::ZERO, |free_at| free_at - PLANNING_HORIZON);
        let resumes_at = context.max(payload_waits_until(turn));
        self.units[unit].resumes_at = resumes_at;
        resumes_at > turn.now
    }

    /// Returns true if a queue pair can only wait for a buffer for its WQEs.
    #[inline]
    fn waits_for_buffer(&mut self, index: u32, qps: &mut QueuePairs) -> bool {
        let Some(qp) = qps.get_mut(index) else {
            return false;
        };
        let waits = self.fetch.free() == 0 && qp.has_only_sends_to_fetch();
        if waits {
            qp.scheduled = false;
            self.fetch.await_buffer(qp);
        }
        waits
    }

    /// Serves one queue pair. Returns true if something moved.
    #[inline]
    pub fn serve<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let now = turn.now;
        let mut dma = Dma::new(turn.host, turn.counters, now);
        let contexts = &mut *ports.contexts;
        if contexts.qps.touch(index, &mut dma).is_err() {
            let syndrome = FatalSyndrome::CONTEXT_TABLE_DMA;
            ports.host_interface.fail(now, turn.timing, syndrome);
            return false;
        }
        let Some(qp) = contexts.qps.get_mut(index) else {
            return false;
        };
        qp.scheduled = false;
        if qp.waits_for_page() {
            return false;
        }
        dma.at = dma.at.max(qp.progress.ready);
        let mut worked = self.fetch.fetch(
            now,
            qp,
            &contexts.gids,
            &mut contexts.wqe_records,
            &mut dma,
            turn.timing,
        );
        worked |= flush_receives(qp);
        worked |= local_operation::execute(now, qp, ports.translation, &mut dma);
        let at = dma.at;
        qp.progress.ready = at;
        let unit = self.scheduler.unit_of(index);
        let congestion = ports.congestion.as_ref();
        let quantum = if congestion.is_some_and(|c| c.reaction.is_limited(index)) {
            1
        } else {
            self.quantum_packets
        };
        let waits_for_wire = !qp.stalled.is_empty();
        if !waits_for_wire {
            let executing = &mut self.executing;
            self.units[unit].transmit(now, at, qp, quantum, executing, turn.timing);
        }
        let has_more = waits_for_wire || qp.transport.has_transmit();
        let counter = if has_more {
            Counter::tx_descheduled
        } else {
            Counter::tx_work_done
        };
        turn.counters.add(counter, 1);
        if waits_for_wire {
            worked |= self.packetize_stalled(turn, unit, index, ports);
        }
        worked |= self.packetize(turn, unit, ports);
        worked |= self.acknowledge_behind(turn, index, ports);
        let (contexts, mut results) = ports.results(&mut self.scheduler);
        results.settle(turn, contexts, index);
        worked
    }

    /// Sends a delayed ACK directly after the last packet of the requests that were rung, so that
    /// one poll of the peer finds both.
    #[inline]
    fn acknowledge_behind<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        ports: &mut TransmitPorts<'_, P, M>,
    ) -> bool {
        let qp = ports.contexts.qps.get_mut(index);
        let Some(qp) = qp.filter(|qp| qp.acknowledge_behind && !qp.has_work()) else {
            return false;
        };
        qp.acknowledge_behind = false;
        qp.transport.flush_acknowledge();
        let at = qp.progress.ready.max(turn.now);
        let unit = self.scheduler.unit_of(index);
        let executing = &mut self.executing;
        self.units[unit].transmit(turn.now, at, qp, 1, executing, turn.timing);
        self.packetize(turn, unit, ports)
    }

    /// Sends the pending ACK of a queue pair before it is reset or destroyed: a delayed ACK must
    /// not be lost.
    pub fn flush_pending_ack<H: Host, T: Timing, P: Port, M: TranslationTable>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        ports: &mut TransmitPorts<'_, P, M>,
    ) {
        if let Some(qp) = ports.contexts.qps.get_mut(index) {
            qp.transport.flush_acknowledge();
            if qp.transport.has_transmit() {
                self.serve(turn, index, ports);
                ports.mac.transmit(turn.now, turn.timing, ports.port);
            }
        }
    }
}

/// Returns the time from which processing units may request more payload.
#[inline]
fn payload_waits_until<H: Host, T: Timing>(turn: &Turn<'_, H, T>) -> Instant {
    turn.host.requested_until() - MAX_READ_BACKLOG
}

/// Returns true if the rate of a queue pair does not let it send yet. It stays out of the
/// scheduler's lists until it does.
#[inline]
fn waits_for_rate<P: Port, M>(
    now: Instant,
    index: u32,
    ports: &mut TransmitPorts<'_, P, M>,
) -> bool {
    match &mut ports.congestion {
        None => false,
        Some(congestion) => congestion.reaction.waits(now, index),
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
