//! Memory of a simulated program.

use std::sync::atomic::Ordering;

use ferroce_platform::shared_memory::Mapping;

/// Zeroed memory; the kernel provides a page on the first access to it.
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
    /// Its offset in the mapping.
    offset: usize,
    length: usize,
}

impl Buffer {
    /// Maps `length` bytes that begin `offset` bytes after a multiple of `alignment`, a power of
    /// two. The mapping ends at a multiple of `alignment`, too.
    pub fn new(length: usize, alignment: usize, offset: usize) -> std::io::Result<Self> {
        let whole = (offset + length).next_multiple_of(alignment);
        let mapping = Mapping::anonymous(whole + alignment)?;
        let base = std::ptr::from_ref(mapping.word(0)) as usize;
        Ok(Self {
            offset: base.next_multiple_of(alignment) - base + offset,
            mapping,
            length: whole - offset,
        })
    }

    /// Returns the address of the first byte in this process.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self.mapping.word(0)) as usize + self.offset
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the byte at `place`.
    pub fn load(&self, place: usize) -> u8 {
        let word = self.mapping.word((self.offset + place) & !7);
        word.load(Ordering::Acquire).to_le_bytes()[(self.offset + place) % 8]
    }

    /// Stores a byte at `place`. No other thread may store to the same aligned eight bytes at the
    /// same time.
    pub fn store(&self, place: usize, value: u8) {
        let word = self.mapping.word((self.offset + place) & !7);
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
