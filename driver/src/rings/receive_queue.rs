//! Receive queue: writes buffers into receive WQEs and rings the doorbell. Hot path.

use std::sync::Arc;

use ferroce_spec::wqe::L_KEY_END;
use parking_lot::Mutex;

use crate::error::PostError;
use crate::request::DataSegment;
use crate::rings::batch::{Batch, QueueDoorbell, QueueState};
use crate::rings::doorbell_check::{self, Doorbell, DoorbellMark, RungState};
use crate::rings::ring::{Ring, RingWriter};
use crate::rings::shadow::ReceiveShadow;

/// Sizes of a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveShape {
    /// Maximum number of outstanding work requests.
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    /// Base-2 logarithm of the entries of the ring.
    pub(crate) log_entries: u8,
    /// Base-2 logarithm of the bytes of an entry.
    pub(crate) log_stride: u8,
}

impl ReceiveShape {
    /// Returns the smallest ring for `max_wr` work requests of `max_sge` elements after a head of
    /// `head` bytes, with the actual maximums of that ring. `None` when the limits do not allow it.
    pub(crate) fn new(
        max_wr: u32,
        max_sge: u32,
        head: usize,
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
        let stride = head + max_sge.max(1) as usize * DataSegment::SIZE;
        let stride = stride.next_power_of_two();
        let fitting = (stride - head) / DataSegment::SIZE;
        Some(Self {
            max_wr: if max_wr == 0 { 0 } else { entries },
            max_sge: (fitting as u32).min(max_sge_limit),
            log_entries,
            log_stride: stride.trailing_zeros() as u8,
        })
    }

    /// Returns the size of the ring in bytes.
    pub(crate) fn ring_size(&self) -> usize {
        1 << (self.log_entries + self.log_stride)
    }

    /// Returns the index of the first word of entry `index` in the ring.
    #[inline]
    pub(crate) fn first_word(&self, index: u32) -> usize {
        (index as usize) << (self.log_stride - 3)
    }
}

/// Writes the data segments of a receive WQE that has room for `room` of them.
#[inline]
pub(crate) fn write_segments(writer: &mut RingWriter<'_>, segments: &[DataSegment], room: usize) {
    for segment in segments {
        writer.push(segment.address);
        writer.push_halves(segment.length, segment.l_key);
    }
    if segments.len() < room {
        writer.push(0);
        writer.push_halves(0, L_KEY_END);
    }
}

/// A receive queue. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct ReceiveQueue(Arc<Mutex<ReceiveState>>);

/// State protected by the queue's lock.
pub struct ReceiveState {
    doorbell: QueueDoorbell,
    ring: Ring,
    shadow: Arc<ReceiveShadow>,
    shape: ReceiveShape,
    /// True if the QP's state allows posting.
    open: bool,
    /// Next entry to write, free-running.
    producer: u32,
    /// Producer index of the last doorbell.
    rung: u32,
    /// Index after the newest retired entry, at the last check.
    retired: u32,
    doorbell_mark: DoorbellMark,
}

/// Receives posted to a receive queue.
pub type ReceiveBatch<'a> = Batch<'a, ReceiveState>;

impl ReceiveQueue {
    pub(crate) fn new(
        doorbell: QueueDoorbell,
        ring: Ring,
        shape: ReceiveShape,
    ) -> (Self, Arc<ReceiveShadow>) {
        let shadow = Arc::new(ReceiveShadow::new(shape.log_entries));
        let state = ReceiveState {
            doorbell,
            ring,
            shadow: Arc::clone(&shadow),
            shape,
            open: false,
            producer: 0,
            rung: 0,
            retired: 0,
            doorbell_mark: DoorbellMark::default(),
        };
        (Self(Arc::new(Mutex::new(state))), shadow)
    }

    /// Locks the queue for posting.
    #[inline]
    pub fn lock(&self) -> ReceiveBatch<'_> {
        Batch {
            state: self.0.lock(),
        }
    }

    /// Posts one receive and rings the doorbell.
    ///
    /// # Errors
    ///
    /// Any [`PostError`].
    #[inline]
    pub fn post(&self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        self.lock().post(wr_id, segments)
    }

    /// Returns the number of receives posted so far, free-running.
    pub fn posted(&self) -> u32 {
        self.0.lock().producer
    }

    /// Allows or forbids posting.
    pub(crate) fn set_open(&self, open: bool) {
        self.0.lock().open = open;
    }

    /// Discards all work requests. None of them may complete any more.
    pub(crate) fn reset(&self) {
        let mut state = self.0.lock();
        state.open = false;
        state.producer = 0;
        state.rung = 0;
        state.retired = 0;
        state.doorbell_mark = DoorbellMark::default();
    }

    /// Returns the producer index that was rung, if the device must be queried for it.
    pub(crate) fn due_doorbell(&self) -> Option<u32> {
        doorbell_check::due(&self.0)
    }

    /// Compares the index with the device's.
    pub(crate) fn compare_doorbell(&self, due: u32, in_device: u32) -> Doorbell {
        doorbell_check::compare(&self.0, due, in_device)
    }
}

impl RungState for ReceiveState {
    fn rung(&mut self) -> (&QueueDoorbell, u32, &mut DoorbellMark) {
        let Self {
            doorbell,
            rung,
            doorbell_mark,
            ..
        } = self;
        (doorbell, *rung, doorbell_mark)
    }
}

impl ReceiveBatch<'_> {
    /// Writes one receive into the queue.
    ///
    /// # Errors
    ///
    /// Any [`PostError`]. Earlier work requests of the batch stay posted.
    #[inline]
    pub fn post(&mut self, wr_id: u64, segments: &[DataSegment]) -> Result<(), PostError> {
        self.state.post(wr_id, segments)
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
        let mut writer = self.ring.writer(self.shape.first_word(self.producer));
        let room = (1 << self.shape.log_stride) / DataSegment::SIZE;
        write_segments(&mut writer, segments, room);
        self.shadow.remember(self.producer, wr_id);
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }
}

impl QueueState for ReceiveState {
    #[inline]
    fn ring_doorbell(&mut self) {
        if self.producer == self.rung {
            return;
        }
        self.rung = self.producer;
        self.shadow.publish(self.producer);
        self.doorbell.ring(self.producer);
    }
}
