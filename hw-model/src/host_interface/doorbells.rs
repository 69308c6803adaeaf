//! Doorbells of BAR2: producer indices, and arming of CQs.

use ferroce_spec::counter::Counter;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS};
use ferroce_transport::QpState;
use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::blocks::Blocks;
use crate::contexts::queue_pair::QueuePair;
use crate::host_interface::dma::Dma;
use crate::host_interface::push::is_window_of;
use crate::nic::Nic;
use crate::ports::host::{Doorbell, Host};
use crate::ports::port::Port;
use crate::time::timing::{Stage, Timing, Work};
use crate::transmit::scheduler::Scheduler;

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Takes the doorbells that have landed.
    #[inline(always)]
    pub(crate) fn drain_doorbells<H: Host>(&mut self, now: Instant, host: &mut H) -> bool {
        while !self.doorbells.is_full() {
            let Some(doorbell) = host.next_doorbell() else {
                break;
            };
            if doorbell.slot >= SLOTS {
                self.land_push(doorbell, host);
            }
            let ready = self
                .timing
                .reserve(now, now, Stage::Doorbell, Work::default());
            self.doorbells.push(ready, doorbell);
        }
        let mut landed = false;
        while let Some((at, doorbell)) = self.doorbells.pop_ahead() {
            self.counters.add(Counter::doorbells, 1);
            if self.ring(at, doorbell, host).is_none() {
                self.counters.add(Counter::doorbell_errors, 1);
            }
            landed = true;
        }
        landed
    }

    /// Handles one doorbell, which is decoded at `at`; `None`: it does not belong to its queue.
    #[inline(always)]
    fn ring<H: Host>(&mut self, at: Instant, doorbell: Doorbell, host: &mut H) -> Option<()> {
        let value = DoorbellValue::from_bits(doorbell.value);
        let (slot, index) = (doorbell.slot, value.index());
        match DoorbellKind(value.kind()) {
            DoorbellKind::SEND_QUEUE => {
                let qp = self.qps.find(Qpn::new(value.number()))?;
                ring_send_queue(qp, slot, index)?;
                give_turn::<T>(&mut self.scheduler, qp, at);
                Some(())
            }
            DoorbellKind::RECEIVE_QUEUE => {
                let qp = self.qps.find(Qpn::new(value.number()))?;
                ring_receive_queue(qp, slot, index)?;
                if qp.transport.state() == QpState::Err {
                    self.scheduler.activate(qp);
                }
                Some(())
            }
            DoorbellKind::SHARED_RECEIVE_QUEUE => {
                let mut dma = Dma::new(host, &mut self.counters, at);
                self.srqs.ring(value.number(), slot, index, &mut dma)
            }
            kind @ (DoorbellKind::CQ_ARM | DoorbellKind::CQ_ARM_SOLICITED) => {
                let solicited = kind == DoorbellKind::CQ_ARM_SOLICITED;
                let mut dma = Dma::new(host, &mut self.counters, at);
                let due = self
                    .cqs
                    .arm(at, value.number(), slot, index, solicited, &mut dma)
                    .ok()?;
                due.into_iter().for_each(|event| self.raise(at, event));
                Some(())
            }
            _ => self.ring_push(at, slot, value),
        }
    }

    /// Handles the doorbell in front of a push.
    #[cold]
    fn ring_push(&mut self, at: Instant, slot: u32, value: DoorbellValue) -> Option<()> {
        DoorbellKind(value.kind()).push_blocks()?;
        let qp = self.qps.find(Qpn::new(value.number()))?;
        let own = self.config.push_blocks > 0 && is_window_of(qp, slot);
        let slot = own.then_some(qp.context.send_doorbell_slot)?;
        ring_send_queue(qp, slot, value.index())?;
        give_turn::<T>(&mut self.scheduler, qp, at);
        Some(())
    }
}

/// Gives a turn to a queue pair whose doorbell is decoded at `at`.
#[inline]
fn give_turn<T: Timing>(scheduler: &mut Scheduler, qp: &mut QueuePair, at: Instant) {
    qp.progress.ready = qp.progress.ready.max(at);
    // With nothing to do but to wait for WQEs that are being fetched, it needs none.
    if !T::IS_TIMED || qp.has_work() || qp.acknowledge_behind {
        scheduler.activate(qp);
    }
}

#[inline]
fn ring_send_queue(qp: &mut QueuePair, slot: u32, producer: u32) -> Option<()> {
    let own = qp.context.send_doorbell_slot == slot && qp.has_send_queue();
    if !own || !qp.send.accepts(producer) {
        return None;
    }
    qp.send.producer = producer;
    qp.acknowledge_behind = qp.transport.pending_acknowledge();
    Some(())
}

#[inline]
fn ring_receive_queue(qp: &mut QueuePair, slot: u32, producer: u32) -> Option<()> {
    let own = qp.context.receive_doorbell_slot == slot && qp.has_receive_queue();
    if !own || !qp.receive.accepts(producer) {
        return None;
    }
    qp.receive.producer = producer;
    Some(())
}
