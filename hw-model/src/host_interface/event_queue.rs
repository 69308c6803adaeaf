//! Event queues: EQEs in host memory, and the interrupts that announce them.

use ferroce_spec::context::EqContext;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::owner_at;
use ferroce_spec::eqe::{Eqe, EqeWord, EventType};
use ferroce_spec::register::{EventQueueDoorbell, VECTOR_COUNT};
use ferroce_units::Instant;

use crate::config::InterruptModeration;
use crate::dma::Dma;
use crate::host_interface::msix::MsixTable;
use crate::ports::host::{DmaError, Host};

/// Bits of the index that an event queue doorbell carries.
const DOORBELL_INDEX_BITS: u32 = 24;

/// An event for an event queue.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Event queue.
    pub eqn: u32,
    /// The type of the event.
    pub kind: EventType,
    /// CQN, QPN, SRQN, key or index.
    pub number: u32,
    /// Page fault: index of the page in its region. Otherwise zero.
    pub page: u32,
}

impl Event {
    /// Returns an event of an object.
    #[inline]
    pub const fn new(eqn: u32, kind: EventType, number: u32) -> Self {
        Self {
            eqn,
            kind,
            number,
            page: 0,
        }
    }

    /// Returns the event of a page fault in the region with this key.
    pub const fn page_fault(key: u32, page: u32) -> Self {
        Self {
            eqn: ASYNC_EQN,
            kind: EventType::PAGE_FAULT,
            number: key,
            page,
        }
    }
}

/// Event queue 0 gets all events except completion events.
pub const ASYNC_EQN: u32 = 0;

/// One event queue.
#[derive(Debug)]
struct EventQueue {
    context: EqContext,
    /// Latest time of the interrupt for the coalesced events.
    due: Option<Instant>,
    /// When the host sees the newest EQE: the interrupt must not overtake it.
    visible: Instant,
}

impl EventQueue {
    /// Returns the number of events that software has not taken.
    fn waiting(&self) -> u32 {
        self.context.producer.wrapping_sub(self.context.consumer)
    }
}

/// All event queues of the function: at most one for each vector.
#[derive(Debug)]
pub struct EventQueues {
    queues: [Option<EventQueue>; VECTOR_COUNT as usize],
    moderation: InterruptModeration,
}

impl EventQueues {
    /// Returns an empty table with the given default moderation.
    pub fn new(moderation: InterruptModeration) -> Self {
        Self {
            queues: [const { None }; VECTOR_COUNT as usize],
            moderation,
        }
    }

    /// Drops all queues.
    pub fn clear(&mut self) {
        *self = Self::new(self.moderation);
    }

    /// Returns the context of event queue `eqn`.
    pub fn get(&self, eqn: u32) -> Option<&EqContext> {
        Some(&self.queues.get(eqn as usize)?.as_ref()?.context)
    }

    /// Creates event queue `eqn`. The caller has checked that the number is free and in range.
    pub fn create(&mut self, eqn: u32, context: EqContext) {
        let fresh = EqContext {
            armed: 0,
            producer: 0,
            consumer: 0,
            ..context
        };
        self.queues[eqn as usize] = Some(EventQueue {
            context: fresh,
            due: None,
            visible: Instant::ZERO,
        });
    }

    /// Changes the moderation of event queue `eqn`.
    pub fn moderate(&mut self, eqn: u32, moderation_us: u32) -> bool {
        match self.queues.get_mut(eqn as usize) {
            Some(Some(queue)) => {
                queue.context.moderation_us = moderation_us;
                true
            }
            _ => false,
        }
    }

    /// Destroys event queue `eqn`; returns false if there is none.
    pub fn destroy(&mut self, eqn: u32) -> bool {
        self.queues
            .get_mut(eqn as usize)
            .is_some_and(|queue| queue.take().is_some())
    }

    /// Returns true if an event for `eqn` can be written now. An event for a missing queue can: it
    /// is dropped.
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
        let moderation = self.moderation;
        let Some(Some(entry)) = self.queues.get_mut(event.eqn as usize) else {
            return Ok(());
        };
        let queue = &mut entry.context;
        let mut word = EqeWord::default();
        word.set_event(event.kind.0);
        word.set_owner(owner_at(queue.producer, u32::from(queue.log_size)));
        let eqe = Eqe {
            number: event.number,
            sequence: queue.producer,
            page: event.page,
            word,
        };
        let slot = queue.producer & ((1 << queue.log_size) - 1);
        let iova = queue.base.wrapping_add(u64::from(slot) * Eqe::SIZE as u64);
        dma.write_descriptor(iova, &eqe)?;
        queue.producer = queue.producer.wrapping_add(1);
        dma.counters.add(Counter::eqes, 1);
        entry.visible = dma.visible;
        moderate(entry, moderation, msix, dma);
        Ok(())
    }

    /// Handles a doorbell: sets the consumer index and whether the queue may interrupt.
    pub fn ring<H: Host>(
        &mut self,
        eqn: u32,
        value: EventQueueDoorbell,
        msix: &mut MsixTable,
        dma: &mut Dma<'_, H>,
    ) {
        let moderation = self.moderation;
        let Some(Some(entry)) = self.queues.get_mut(eqn as usize) else {
            return;
        };
        let queue = &mut entry.context;
        // The doorbell carries the low bits; the consumer is never ahead of the producer.
        let mask = (1 << DOORBELL_INDEX_BITS) - 1;
        let behind = queue.producer.wrapping_sub(value.consumer_index()) & mask;
        if behind <= queue.producer.wrapping_sub(queue.consumer) {
            queue.consumer = queue.producer.wrapping_sub(behind);
        }
        queue.armed = u8::from(value.arm());
        entry.due = None;
        if queue.producer != queue.consumer {
            moderate(entry, moderation, msix, dma);
        }
    }

    /// Returns the time at which an interrupt for coalesced events is due.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        if !self.moderation.is_on() {
            return None;
        }
        let queues = self.queues.iter().flatten();
        queues.filter_map(|queue| queue.due).min()
    }

    /// Raises the interrupts for coalesced events that are due at `now`. Returns true if there were
    /// some.
    pub fn expire<H: Host>(
        &mut self,
        now: Instant,
        msix: &mut MsixTable,
        dma: &mut Dma<'_, H>,
    ) -> bool {
        if !self.moderation.is_on() {
            return false;
        }
        let mut worked = false;
        for queue in self.queues.iter_mut().flatten() {
            if queue.due.is_some_and(|due| due <= now) {
                interrupt(queue, msix, dma);
                worked = true;
            }
        }
        worked
    }
}

/// Interrupts immediately if the queue is armed and has enough untaken events; otherwise sets a
/// time limit for the first of them.
fn moderate<H: Host>(
    queue: &mut EventQueue,
    moderation: InterruptModeration,
    msix: &mut MsixTable,
    dma: &mut Dma<'_, H>,
) {
    if queue.context.armed == 0 {
        return;
    }
    if !moderation.is_on() || queue.waiting() >= moderation.count {
        return interrupt(queue, msix, dma);
    }
    queue.due.get_or_insert(dma.at + moderation.time);
}

fn interrupt<H: Host>(entry: &mut EventQueue, msix: &mut MsixTable, dma: &mut Dma<'_, H>) {
    let queue = &mut entry.context;
    queue.armed = 0;
    entry.due = None;
    if msix.raise(queue.vector) {
        dma.counters.add(Counter::interrupts, 1);
        let mut order = dma.order();
        order.after = order.after.max(entry.visible);
        dma.host.interrupt(order, queue.vector);
    }
}
