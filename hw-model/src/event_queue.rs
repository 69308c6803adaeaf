//! Event queues: EQEs in host memory, and the interrupts that announce them.

use crate::dma::Dma;
use crate::host::{DmaError, Host};
use crate::msix::MsixTable;
use ferroce_spec::context::EqContext;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::owner_at;
use ferroce_spec::eqe::{Eqe, EqeWord, EventType};
use ferroce_spec::register::{EventQueueDoorbell, VECTOR_COUNT};

/// Bits of the index that an event queue doorbell carries.
const DOORBELL_INDEX_BITS: u32 = 24;

/// An event on its way to an event queue.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Event queue.
    pub eqn: u32,
    /// What has happened.
    pub kind: EventType,
    /// CQN, QPN or SRQN.
    pub number: u32,
}

/// Event queue 0 takes everything that is not a completion.
pub const ASYNC_EQN: u32 = 0;

/// All event queues of the function: one for each vector at most.
#[derive(Debug, Default)]
pub struct EventQueues {
    queues: [Option<EqContext>; VECTOR_COUNT as usize],
}

impl EventQueues {
    /// The context of event queue `eqn`.
    pub fn get(&self, eqn: u32) -> Option<&EqContext> {
        self.queues.get(eqn as usize)?.as_ref()
    }

    /// Creates event queue `eqn`. The caller has checked that the number is free and in range.
    pub fn create(&mut self, eqn: u32, context: EqContext) {
        let fresh = EqContext {
            armed: 0,
            producer: 0,
            consumer: 0,
            ..context
        };
        self.queues[eqn as usize] = Some(fresh);
    }

    /// Changes the moderation of event queue `eqn`.
    pub fn moderate(&mut self, eqn: u32, moderation_us: u32) -> bool {
        match self.queues.get_mut(eqn as usize) {
            Some(Some(queue)) => {
                queue.moderation_us = moderation_us;
                true
            }
            _ => false,
        }
    }

    /// Destroys event queue `eqn`; false when there is none.
    pub fn destroy(&mut self, eqn: u32) -> bool {
        self.queues
            .get_mut(eqn as usize)
            .is_some_and(|queue| queue.take().is_some())
    }

    /// Whether an event for `eqn` can be written now. An event for a queue that does not exist
    /// can: it is dropped.
    pub fn has_room(&self, eqn: u32) -> bool {
        self.get(eqn)
            .is_none_or(|q| q.producer.wrapping_sub(q.consumer) < 1 << q.log_size)
    }

    /// Writes an EQE and interrupts if the queue is armed.
    pub fn write<H: Host>(
        &mut self,
        event: &Event,
        msix: &mut MsixTable,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), DmaError> {
        let Some(Some(queue)) = self.queues.get_mut(event.eqn as usize) else {
            return Ok(());
        };
        let mut word = EqeWord::default();
        word.set_event(event.kind.0);
        word.set_owner(owner_at(queue.producer, u32::from(queue.log_size)));
        let eqe = Eqe {
            number: event.number,
            sequence: queue.producer,
            reserved: 0,
            word,
        };
        let slot = queue.producer & ((1 << queue.log_size) - 1);
        let iova = queue.base.wrapping_add(u64::from(slot) * Eqe::SIZE as u64);
        dma.write_descriptor(iova, &eqe)?;
        queue.producer = queue.producer.wrapping_add(1);
        dma.counters.add(Counter::eqes, 1);
        interrupt_if_armed(queue, msix, dma);
        Ok(())
    }

    /// Takes a doorbell: the new consumer index, and whether the queue may interrupt.
    pub fn ring<H: Host>(
        &mut self,
        eqn: u32,
        value: EventQueueDoorbell,
        msix: &mut MsixTable,
        dma: &mut Dma<'_, H>,
    ) {
        let Some(Some(queue)) = self.queues.get_mut(eqn as usize) else {
            return;
        };
        // The doorbell carries the low bits; the consumer is never ahead of the producer.
        let mask = (1 << DOORBELL_INDEX_BITS) - 1;
        let behind = queue.producer.wrapping_sub(value.consumer_index()) & mask;
        if behind <= queue.producer.wrapping_sub(queue.consumer) {
            queue.consumer = queue.producer.wrapping_sub(behind);
        }
        queue.armed = u8::from(value.arm());
        if queue.producer != queue.consumer {
            interrupt_if_armed(queue, msix, dma);
        }
    }
}

fn interrupt_if_armed<H: Host>(queue: &mut EqContext, msix: &mut MsixTable, dma: &mut Dma<'_, H>) {
    if queue.armed == 0 {
        return;
    }
    queue.armed = 0;
    if msix.raise(queue.vector) {
        dma.counters.add(Counter::interrupts, 1);
        dma.host.interrupt(dma.order(), queue.vector);
    }
}
