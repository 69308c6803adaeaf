//! Memory of a simulated program.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

/// Zeroed memory; the allocator gets large ones from the system, which provides a page on the first
/// access to it.
#[derive(Debug)]
pub struct Buffer {
    words: Box<[AtomicU64]>,
    /// Offset of the first byte in the words.
    offset: usize,
    length: usize,
}

impl Buffer {
    /// Allocates `length` bytes that begin `offset` bytes after a multiple of `alignment`, a power
    /// of two. The memory ends at a multiple of `alignment`, too.
    pub fn new(length: usize, alignment: usize, offset: usize) -> io::Result<Self> {
        let whole = (offset + length).next_multiple_of(alignment);
        let words = (whole + alignment).div_ceil(size_of::<AtomicU64>());
        let words = <[AtomicU64]>::new_box_zeroed_with_elems(words)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        let base = words.as_ptr().expose_provenance();
        Ok(Self {
            offset: base.next_multiple_of(alignment) - base + offset,
            words,
            length: whole - offset,
        })
    }

    /// Returns the address of the first byte in this process.
    pub fn address(&self) -> usize {
        self.words.as_ptr().addr() + self.offset
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the byte at `place`.
    pub fn load(&self, place: usize) -> u8 {
        let word = &self.words[(self.offset + place) / 8];
        word.load(Ordering::Acquire).to_le_bytes()[(self.offset + place) % 8]
    }

    /// Stores a byte at `place`. No other thread may store to the same aligned eight bytes at the
    /// same time.
    pub fn store(&self, place: usize, value: u8) {
        let word = &self.words[(self.offset + place) / 8];
        let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
        bytes[(self.offset + place) % 8] = value;
        word.store(u64::from_le_bytes(bytes), Ordering::Release);
    }

    /// Returns a copy of the `length` bytes at `place`.
    pub fn copy(&self, place: usize, length: usize) -> Vec<u8> {
        (place..place + length)
            .map(|place| self.load(place))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_keeps_bytes() {
        for (alignment, offset) in [(4096, 0), (4096, 4001), (2 << 20, 64)] {
            let buffer = Buffer::new(5000, alignment, offset).expect("memory");
            assert_eq!(buffer.address() % alignment, offset);
            assert_eq!((buffer.length() + offset) % alignment, 0);
            assert!(buffer.length() >= 5000);
            buffer.store(3, 7);
            buffer.store(4, 9);
            buffer.store(buffer.length() - 1, 1);
            assert_eq!(buffer.copy(2, 4), [0, 7, 9, 0]);
            assert_eq!(buffer.load(buffer.length() - 1), 1);
        }
    }
}
