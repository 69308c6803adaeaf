//! Buffers for frames of an uplink, and the queue of received frames.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::fabric::ring::MAX_FRAME;

/// Bytes of a buffer: longer than any valid frame, so that frames that are too long are detected.
pub const CAPACITY: usize = MAX_FRAME + 2;
/// Maximum number of unused buffers that are kept.
const MAX_POOLED: usize = 256;
/// Maximum number of frames that are pending for the model.
pub const MAX_WAITING: usize = 1024;

/// An owned frame of an uplink.
pub struct Buffer {
    length: usize,
    bytes: [u8; CAPACITY],
}

impl Buffer {
    /// Sets the length, at most [`CAPACITY`].
    pub fn set_length(&mut self, length: usize) {
        self.length = length.min(CAPACITY);
    }

    /// Returns the frame.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the frame for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// Returns all bytes, to receive a frame.
    pub fn whole(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer of {} bytes", self.length)
    }
}

/// Unused buffers.
#[derive(Debug, Default)]
pub struct Pool(Mutex<Vec<Box<Buffer>>>);

impl Pool {
    /// Returns a buffer of `length` bytes with any content.
    pub fn take(&self, length: usize) -> Box<Buffer> {
        let used = self.0.lock().pop();
        let mut buffer = used.unwrap_or_else(|| {
            Box::new(Buffer {
                length: 0,
                bytes: [0; CAPACITY],
            })
        });
        buffer.set_length(length);
        buffer
    }

    /// Returns a buffer to the pool.
    pub fn give_back(&self, buffer: Box<Buffer>) {
        let mut free = self.0.lock();
        if free.len() < MAX_POOLED {
            free.push(buffer);
        }
    }
}

/// Received frames that are pending for the model.
#[derive(Debug, Default)]
pub struct Incoming {
    frames: Mutex<VecDeque<Box<Buffer>>>,
    waiting: AtomicUsize,
    has_room: Condvar,
}

impl Incoming {
    /// Appends a frame; returns the frame as the error if there is no room.
    pub fn push(&self, frame: Box<Buffer>) -> Result<(), Box<Buffer>> {
        let mut frames = self.frames.lock();
        if frames.len() >= MAX_WAITING {
            return Err(frame);
        }
        frames.push_back(frame);
        // Pairs with the fence of the waker: a model that is about to sleep sees this store, or is
        // woken.
        self.waiting.store(frames.len(), Ordering::SeqCst);
        Ok(())
    }

    /// Waits until the queue is at most half full, at most for `time`. Frames stay in the wire
    /// meanwhile.
    pub fn wait_for_room(&self, time: Duration) {
        let mut frames = self.frames.lock();
        if frames.len() > MAX_WAITING / 2 {
            self.has_room.wait_for(&mut frames, time);
        }
    }

    /// Takes the oldest frame.
    #[inline]
    pub fn pop(&self) -> Option<Box<Buffer>> {
        if self.is_empty() {
            return None;
        }
        let mut frames = self.frames.lock();
        let frame = frames.pop_front();
        self.waiting.store(frames.len(), Ordering::SeqCst);
        if frames.len() == MAX_WAITING / 2 {
            self.has_room.notify_one();
        }
        frame
    }

    /// Returns true if no frame waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Returns true if there is no room for another frame.
    pub fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= MAX_WAITING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_wait_in_order_and_up_to_a_limit() {
        let (pool, incoming) = (Pool::default(), Incoming::default());
        for number in 0..MAX_WAITING {
            let mut frame = pool.take(8);
            frame
                .bytes_mut()
                .copy_from_slice(&(number as u64).to_le_bytes());
            assert!(incoming.push(frame).is_ok());
        }
        let refused = incoming.push(pool.take(8));
        pool.give_back(refused.expect_err("no room"));
        for number in 0..MAX_WAITING {
            let frame = incoming.pop().expect("it waits");
            assert_eq!(frame.bytes(), (number as u64).to_le_bytes());
            pool.give_back(frame);
        }
        assert!(incoming.is_empty() && incoming.pop().is_none());
        assert_eq!(pool.0.lock().len(), MAX_POOLED);
    }
}
