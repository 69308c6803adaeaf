//! Doorbells of BAR2: producer indices, and arming of CQs.

mod push;

use ferroce_spec::counter::Counter;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS};
use ferroce_transport::QpState;
use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::completion::Results;
use crate::contexts::Contexts;
use crate::contexts::queue_pair::QueuePair;
use crate::doorbells::push::{is_window_of, keep_pushed};
use crate::ports::host::{Doorbell, Host};
use crate::scheduler::Scheduler;
use crate::time::edge::Edge;
use crate::time::timing::{Stage, Timing, Work};
use crate::time::turn::Turn;

/// Maximum number of doorbells that are drained in one step.
const DOORBELLS_PER_STEP: usize = 256;

/// The decoder of BAR2.
#[derive(Debug)]
pub(crate) struct Doorbells {
    landed: Edge<Doorbell>,
    /// Blocks of the largest push; 0: there are no push windows.
    push_blocks: u8,
}

impl Doorbells {
    /// Returns a decoder of doorbells and of pushes of up to `push_blocks` blocks.
    pub fn new(push_blocks: u8) -> Self {
        Self {
            landed: Edge::new(DOORBELLS_PER_STEP),
            push_blocks,
        }
    }

    /// Returns the number of pending doorbells.
    pub fn len(&self) -> usize {
        self.landed.len()
    }

    /// Drops all doorbells (reset).
    pub fn clear(&mut self) {
        self.landed.clear(drop);
    }

    /// Takes the doorbells that have arrived. Returns true if there were some.
    #[inline]
    pub fn step<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        results: &mut Results<'_>,
    ) -> bool {
        while !self.landed.is_full() {
            let Some(doorbell) = turn.host.next_doorbell() else {
                break;
            };
            if doorbell.slot >= SLOTS {
                self.land_push(turn, doorbell, contexts);
            }
            let ready = turn.reserve(turn.now, Stage::Doorbell, Work::default());
            self.landed.push(ready, doorbell);
        }
        let mut rang = false;
        while let Some((at, doorbell)) = self.landed.pop_ahead() {
            turn.counters.add(Counter::doorbells, 1);
            if self.ring(turn, at, doorbell, contexts, results).is_none() {
                turn.counters.add(Counter::doorbell_errors, 1);
            }
            rang = true;
        }
        rang
    }

    /// Keeps the WQE of a write to a push page. Its `doorbell` is handled later, like any other
    /// doorbell.
    #[cold]
    fn land_push<H: Host, T: Timing>(
        &self,
        turn: &mut Turn<'_, H, T>,
        doorbell: Doorbell,
        contexts: &mut Contexts,
    ) {
        let words = turn.host.pushed();
        if keep_pushed(&mut contexts.qps, self.push_blocks, doorbell, words).is_none() {
            turn.counters.add(Counter::pushes_ignored, 1);
        }
    }

    /// Handles one doorbell that is decoded at `at`; `None`: it does not belong to its queue.
    #[inline]
    fn ring<H: Host, T: Timing>(
        &self,
        turn: &mut Turn<'_, H, T>,
        at: Instant,
        doorbell: Doorbell,
        contexts: &mut Contexts,
        results: &mut Results<'_>,
    ) -> Option<()> {
        let value = DoorbellValue::from_bits(doorbell.value);
        let (slot, index) = (doorbell.slot, value.index());
        match DoorbellKind(value.kind()) {
            DoorbellKind::SEND_QUEUE => {
                let qp = contexts.qps.find(Qpn::new(value.number()))?;
                ring_send_queue(qp, slot, index)?;
                give_turn(results.scheduler, qp, at);
                Some(())
            }
            DoorbellKind::RECEIVE_QUEUE => {
                let qp = contexts.qps.find(Qpn::new(value.number()))?;
                ring_receive_queue(qp, slot, index)?;
                if qp.transport.state() == QpState::Err {
                    results.scheduler.activate(qp);
                }
                Some(())
            }
            DoorbellKind::SHARED_RECEIVE_QUEUE => {
                let mut dma = turn.dma_from(at);
                contexts.srqs.ring(value.number(), slot, index, &mut dma)
            }
            kind @ (DoorbellKind::CQ_ARM | DoorbellKind::CQ_ARM_SOLICITED) => {
                let solicited = kind == DoorbellKind::CQ_ARM_SOLICITED;
                let mut dma = turn.dma_from(at);
                let cqs = &mut contexts.cqs;
                let due = cqs.arm(at, value.number(), slot, index, solicited, &mut dma);
                if let Some(event) = due.ok()? {
                    results.host_interface.raise(turn, at, event);
                }
                Some(())
            }
            _ => self.ring_push(at, slot, value, contexts, results.scheduler),
        }
    }

    /// Handles the doorbell of a push.
    #[cold]
    fn ring_push(
        &self,
        at: Instant,
        slot: u32,
        value: DoorbellValue,
        contexts: &mut Contexts,
        scheduler: &mut Scheduler,
    ) -> Option<()> {
        DoorbellKind(value.kind()).push_blocks()?;
        let qp = contexts.qps.find(Qpn::new(value.number()))?;
        let own = self.push_blocks > 0 && is_window_of(qp, slot);
        let slot = own.then_some(qp.context.send_doorbell_slot)?;
        ring_send_queue(qp, slot, value.index())?;
        give_turn(scheduler, qp, at);
        Some(())
    }
}

/// Activates a queue pair whose doorbell is decoded at `at`.
#[inline]
fn give_turn(scheduler: &mut Scheduler, qp: &mut QueuePair, at: Instant) {
    qp.progress.ready = qp.progress.ready.max(at);
    // A queue pair that only waits for WQEs in flight need not be activated.
    if qp.has_work() || qp.acknowledge_behind {
        scheduler.activate(qp);
    }
}

#[inline]
fn ring_send_queue(qp: &mut QueuePair, slot: u32, producer: u32) -> Option<()> {
    let own = qp.context.send_doorbell_slot == slot && qp.has_send_queue();
    if !own || !qp.send.accepts(producer) || qp.transport.state() == QpState::Reset {
        return None;
    }
    qp.send.producer = producer;
    qp.acknowledge_behind = qp.transport.pending_acknowledge();
    Some(())
}

#[inline]
fn ring_receive_queue(qp: &mut QueuePair, slot: u32, producer: u32) -> Option<()> {
    let own = qp.context.receive_doorbell_slot == slot && qp.has_receive_queue();
    if !own || !qp.receive.accepts(producer) || qp.transport.state() == QpState::Reset {
        return None;
    }
    qp.receive.producer = producer;
    Some(())
}
