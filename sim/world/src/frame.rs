//! A pool of buffers for frames.

use zerocopy::{FromZeros, IntoBytes};

/// Longest frame: Ethernet with VLAN, IPv6, UDP, all headers of InfiniBand, the largest MTU, ICRC.
const CAPACITY: usize = 4352 - 16;

/// A buffer with a frame and its destination.
#[derive(FromZeros, IntoBytes)]
#[repr(C)]
struct Buffer {
    length: u32,
    destination: u32,
    qpn: u32,
    /// 1: receivers check its ICRC even if cards compute none.
    is_checked: u32,
    bytes: [u8; CAPACITY],
}

/// A frame in flight.
pub struct Frame(Box<Buffer>);

impl Frame {
    /// Returns its destination: see `fabric`.
    #[inline]
    pub fn destination(&self) -> u32 {
        self.0.destination
    }

    /// Returns the number of the destination queue pair.
    #[inline]
    pub fn qpn(&self) -> u32 {
        self.0.qpn
    }

    /// Returns true if its ICRC is checked even if cards compute none.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.0.is_checked != 0
    }

    /// Makes its ICRC be checked even if cards compute none.
    pub fn set_checked(&mut self) {
        self.0.is_checked = 1;
    }

    /// Returns its length in bytes, without the frame check sequence.
    #[inline]
    pub fn length(&self) -> u32 {
        self.0.length
    }
}

impl AsRef<[u8]> for Frame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes[..self.0.length as usize]
    }
}

impl AsMut<[u8]> for Frame {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes[..self.0.length as usize]
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame")
            .field("length", &self.0.length)
            .field("destination", &self.0.destination)
            .field("qpn", &self.0.qpn)
            .finish_non_exhaustive()
    }
}

/// Free buffers, as a stack: the last used one is still in the processor's cache.
#[derive(Debug, Default)]
pub struct FramePool {
    free: Vec<Frame>,
}

impl FramePool {
    /// Returns a frame of `length` bytes with undefined content; `None` if `length` exceeds the
    /// longest frame.
    #[inline]
    pub fn take(&mut self, length: usize, destination: u32, qpn: u32) -> Option<Frame> {
        if length > CAPACITY {
            return None;
        }
        let mut frame = match self.free.pop() {
            Some(frame) => frame,
            None => new_frame()?,
        };
        frame.0.length = length as u32;
        frame.0.destination = destination;
        frame.0.qpn = qpn;
        frame.0.is_checked = 0;
        Some(frame)
    }

    /// Returns a frame like another one.
    pub fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let bytes = frame.as_ref();
        let mut copy = self.take(bytes.len(), frame.destination(), frame.qpn())?;
        copy.as_mut().copy_from_slice(bytes);
        copy.0.is_checked = frame.0.is_checked;
        Some(copy)
    }

    /// Returns a frame to the pool.
    #[inline]
    pub fn give_back(&mut self, frame: Frame) {
        self.free.push(frame);
    }
}

#[cold]
fn new_frame() -> Option<Frame> {
    Buffer::new_box_zeroed().ok().map(Frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again() {
        let mut pool = FramePool::default();
        let mut frame = pool.take(4300, 3, 7).expect("fits");
        frame.as_mut().fill(5);
        let place = frame.as_ref().as_ptr();
        let copy = pool.copy(&frame).expect("fits");
        assert_eq!(copy.as_ref(), frame.as_ref());
        assert_eq!((copy.destination(), copy.qpn()), (3, 7));
        pool.give_back(frame);
        assert_eq!(pool.take(60, 1, 2).expect("fits").as_ref().as_ptr(), place);
        assert!(pool.take(CAPACITY + 1, 1, 2).is_none());
    }
}
