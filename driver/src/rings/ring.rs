//! Rings of work queues: a part of DMA memory, and the writer of entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dma::DmaBuffer;

/// A ring in DMA memory: a power of two of 64-bit words.
pub(crate) struct Ring {
    buffer: Arc<DmaBuffer>,
    first_word: usize,
    words: usize,
}

impl Ring {
    /// Creates the ring of `length` bytes, a power of two and at least 8, at byte `offset` of
    /// `buffer`.
    ///
    /// # Panics
    ///
    /// When it does not lie inside `buffer`: a bug in the driver.
    pub(crate) fn new(buffer: &Arc<DmaBuffer>, offset: usize, length: usize) -> Self {
        let ring = Self {
            buffer: Arc::clone(buffer),
            first_word: offset / 8,
            words: length / 8,
        };
        assert!(ring.words.is_power_of_two() && offset % 8 == 0);
        assert!(buffer.words().len() >= ring.first_word + ring.words);
        ring
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.buffer.words()[self.first_word..][..self.words]
    }

    /// Zeroes the ring.
    pub(crate) fn clear(&self) {
        for word in self.words() {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Reads `count` words from word `at` on, modulo the size of the ring.
    pub(crate) fn read(
        &self,
        at: usize,
        count: usize,
    ) -> impl ExactSizeIterator<Item = u64> + Clone {
        let words = self.words();
        let mask = words.len().wrapping_sub(1);
        (0..count).map(move |word| words[at.wrapping_add(word) & mask].load(Ordering::Relaxed))
    }

    /// Returns a writer that starts at word `at`, modulo the size of the ring.
    #[inline]
    pub(crate) fn writer(&self, at: usize) -> RingWriter<'_> {
        let words = self.words();
        RingWriter {
            mask: words.len().wrapping_sub(1),
            words,
            at,
        }
    }
}

/// Writes consecutive words, and wraps around at the end of the ring.
pub(crate) struct RingWriter<'a> {
    words: &'a [AtomicU64],
    mask: usize,
    at: usize,
}

impl RingWriter<'_> {
    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        if let Some(place) = self.words.get(self.at & self.mask) {
            place.store(word, Ordering::Relaxed);
        }
        self.at = self.at.wrapping_add(1);
    }

    /// Writes two halves, the first one at the lower address.
    #[inline]
    pub(crate) fn push_halves(&mut self, low: u32, high: u32) {
        self.push(u64::from(low) | u64::from(high) << 32);
    }

    /// Writes `head`, then the bytes of all pieces without a gap; the last word is padded with
    /// zeros.
    pub(crate) fn push_bytes(&mut self, head: u32, pieces: &[&[u8]]) {
        let mut pending = u64::from(head);
        let mut pending_bits = 32;
        for piece in pieces {
            let mut chunks = piece.chunks_exact(8);
            for chunk in &mut chunks {
                let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
                self.push(pending | word << pending_bits);
                // Two shifts, because a shift by 64 is not valid.
                pending = word >> 1 >> (63 - pending_bits);
            }
            for &byte in chunks.remainder() {
                pending |= u64::from(byte) << pending_bits;
                pending_bits += 8;
                if pending_bits == 64 {
                    self.push(pending);
                    (pending, pending_bits) = (0, 0);
                }
            }
        }
        if pending_bits > 0 {
            self.push(pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_follow_without_a_gap(
            head: u32, start in 0usize..16,
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5),
        ) {
            let words: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
            let mut writer = RingWriter { words: &words, mask: 31, at: start + 24 };
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            writer.push_bytes(head, &slices);
            let mut expected = head.to_le_bytes().to_vec();
            expected.extend(pieces.concat());
            let written = writer.at - (start + 24);
            prop_assert_eq!(written, expected.len().div_ceil(8));
            let bytes: Vec<u8> = (0..written)
                .flat_map(|i| words[(start + 24 + i) % 32].load(Ordering::Relaxed).to_le_bytes())
                .collect();
            prop_assert_eq!(&bytes[..expected.len()], &expected[..]);
            prop_assert!(bytes[expected.len()..].iter().all(|&byte| byte == 0));
        }
    }
}
