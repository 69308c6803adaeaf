//! Receive queue: buffers into receive WQEs, and the doorbell. Hot path.

use crate::bus::Bus;
use crate::doorbell::Slot;
use crate::error::PostError;
use crate::identifier::Qpn;
use crate::request::DataSegment;
use crate::ring::Ring;
use crate::shadow::ReceiveShadow;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::L_KEY_END;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Sizes of a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveShape {
    /// Work requests that may be outstanding.
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    /// Base-2 logarithm of the entries of the ring.
    pub(crate) log_entries: u8,
    /// Base-2 logarithm of the bytes of an entry, 4 to 8.
    pub(crate) log_stride: u8,
}

impl ReceiveShape {
    /// The smallest ring that holds `max_wr` work requests of `max_sge` elements; then whatever
    /// fits it. `None` when the limits do not allow it.
    pub(crate) fn new(
        max_wr: u32,
        max_sge: u32,
        max_sge_limit: u32,
        log_entries_limit: u8,
    ) -> Option<Self> {
        if max_sge > max_sge_limit {
            return None;
        }
        let entries = max_wr.max(1).checked_next_power_of_two()?;
        let log_entries = entries.trailing_zeros() as u8;
        if log_entries > log_entries_limit {
            return None;
        }
        let stride = max_sge.max(1).next_power_of_two() * DataSegment::SIZE as u32;
        Some(Self {
            max_wr: if max_wr == 0 { 0 } else { entries },
            max_sge: (stride / DataSegment::SIZE as u32).min(max_sge_limit),
            log_entries,
            log_stride: stride.trailing_zeros() as u8,
        })
    }

    /// Bytes of the ring.
    pub(crate) fn ring_size(&self) -> usize {
        1 << (self.log_entries + self.log_stride)
    }
}

/// A receive queue. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct ReceiveQueue(Arc<Mutex<ReceiveState>>);

struct ReceiveState {
    qpn: Qpn,
    bus: Arc<dyn Bus>,
    slot: Slot,
    ring: Ring,
    shadow: Arc<ReceiveShadow>,
    shape: ReceiveShape,
    /// The QP's state allows posting.
    open: bool,
    /// Next entry to write, free-running.
    producer: u32,
    /// The same, as the device was last told.
    rung: u32,
    /// Index behind the newest retired entry, as last looked up.
    retired: u32,
}

/// Posted receives that the device has not been told yet, with the queue locked. Dropping it tells
/// the device all of them with one doorbell.
pub struct ReceiveBatch<'a> {
    state: MutexGuard<'a, ReceiveState>,
}

impl ReceiveQueue {
    pub(crate) fn new(
        qpn: Qpn,
        bus: &Arc<dyn Bus>,
        slot: Slot,
        ring: Ring,
        shape: ReceiveShape,
    ) -> (Self, Arc<ReceiveShadow>) {
        let shadow = Arc::new(ReceiveShadow::new(shape.log_entries));
        let state = ReceiveState {
            qpn,
            bus: Arc::clone(bus),
            slot,
            ring,
            shadow: Arc::clone(&shadow),
            shape,
            open: false,
            producer: 0,
            rung: 0,
            retired: 0,
        };
        (Self(Arc::new(Mutex::new(state))), shadow)
    }

    /// Locks the queue for posting.
    #[inline]
    pub fn lock(&self) -> ReceiveBatch<'_> {
        ReceiveBatch {
            state: self.0.lock(),
        }
    }

    /// Posts one receive and tells the device.
    ///
    /// # Errors
    ///
    /// Any [`PostError`].
    #[inline]
    pub fn post(&self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        self.lock().post(wr_id, segments)
    }

    /// Allows or forbids posting.
    pub(crate) fn set_open(&self, open: bool) {
        self.0.lock().open = open;
    }

    /// Forgets all work requests. No completion of them may come any more.
    pub(crate) fn reset(&self) {
        let mut state = self.0.lock();
        state.open = false;
        state.producer = 0;
        state.rung = 0;
        state.retired = 0;
    }
}

impl ReceiveBatch<'_> {
    /// Writes one receive into the queue.
    ///
    /// # Errors
    ///
    /// Any [`PostError`]. The earlier ones of the batch stay posted.
    #[inline]
    pub fn post(&mut self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        self.state.post(wr_id, segments)
    }

    /// Tells the device everything posted so far.
    #[inline]
    pub fn ring(&mut self) {
        self.state.ring_doorbell();
    }
}

impl Drop for ReceiveBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.state.ring_doorbell();
    }
}

impl ReceiveState {
    #[inline]
    fn post(&mut self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        if !self.open {
            return Err(PostError::InvalidState);
        }
        if segments.len() > self.shape.max_sge as usize {
            return Err(PostError::TooManySegments);
        }
        if self.producer.wrapping_sub(self.retired) >= self.shape.max_wr {
            self.retired = self.shadow.retired_index();
            if self.producer.wrapping_sub(self.retired) >= self.shape.max_wr {
                return Err(PostError::QueueFull);
            }
        }
        let log_words = self.shape.log_stride - 3;
        let mut writer = self.ring.writer((self.producer as usize) << log_words);
        for segment in segments {
            writer.push(segment.address);
            writer.push_halves(segment.length, segment.l_key);
        }
        if segments.len() * DataSegment::SIZE < 1 << self.shape.log_stride {
            writer.push(0);
            writer.push_halves(0, L_KEY_END);
        }
        self.shadow.remember(self.producer, wr_id);
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn ring_doorbell(&mut self) {
        if self.producer == self.rung {
            return;
        }
        self.rung = self.producer;
        self.shadow.publish(self.producer);
        let value = DoorbellValue::new(DoorbellKind::RECEIVE_QUEUE, self.qpn.0, self.producer);
        // The receive WQEs are in memory before the device can hear of them.
        fence(Ordering::Release);
        self.bus.doorbell(self.slot.number(), value.bits());
    }
}
