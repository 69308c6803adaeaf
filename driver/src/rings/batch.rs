//! Parts shared by the three kinds of work queues: the doorbell of a queue, and the batch that
//! rings it once.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use parking_lot::MutexGuard;

use crate::bus::Bus;
use crate::rings::doorbell::Slot;

/// The doorbell of one work queue.
pub(crate) struct QueueDoorbell {
    bus: Arc<dyn Bus>,
    slot: Slot,
    /// The value for index zero.
    value: u64,
}

impl QueueDoorbell {
    /// Creates the doorbell of queue `number` in `slot`.
    pub(crate) fn new(bus: &Arc<dyn Bus>, slot: Slot, kind: DoorbellKind, number: u32) -> Self {
        Self {
            bus: Arc::clone(bus),
            slot,
            value: DoorbellValue::new(kind, number, 0).bits(),
        }
    }

    /// Notifies the device that WQEs up to `producer` are ready.
    #[inline]
    pub(crate) fn ring(&self, producer: u32) {
        let value = self.value | u64::from(producer);
        // The WQEs are in memory before the device can see the doorbell.
        fence(Ordering::Release);
        self.bus.doorbell(self.slot.number(), value);
    }
}

/// State of a work queue, protected by its lock.
pub trait QueueState {
    /// Rings the doorbell for all WQEs posted so far.
    fn ring_doorbell(&mut self);
}

/// Posted work requests whose doorbell has not been rung yet, with the queue locked.
///
/// [`Batch::ring`], or dropping the batch, rings one doorbell for all of them.
pub struct Batch<'a, S: QueueState> {
    pub(crate) state: MutexGuard<'a, S>,
}

impl<S: QueueState> Batch<'_, S> {
    /// Rings the doorbell for all WQEs posted so far.
    #[inline]
    pub fn ring(&mut self) {
        self.state.ring_doorbell();
    }
}

impl<S: QueueState> Drop for Batch<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.state.ring_doorbell();
    }
}
