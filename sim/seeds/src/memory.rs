//! The memory of a host: its card's writes, and the reference contents.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_units::random::Random;

/// Bytes of a page.
const PAGE: usize = 4096;
/// From this bit on, virtual addresses contain the number of the host.
const HOST_SHIFT: u32 = 32;
/// The first stream of random numbers for the contents of memory.
const STREAM: u64 = 3 << 32;

/// Memory that a card accesses. It begins with a page boundary, so that times do not depend on
/// where the program has it.
pub(crate) struct Memory {
    host: usize,
    words: Box<[AtomicU64]>,
    skipped: usize,
    bytes: usize,
}

impl Memory {
    /// Returns memory with the initial contents of a host.
    pub fn new(seed: u64, host: usize, bytes: usize) -> Self {
        let random = Random::new(seed, STREAM + host as u64);
        let words: Box<[AtomicU64]> = (0..(bytes + PAGE).div_ceil(8))
            .map(|_| AtomicU64::new(0))
            .collect();
        let skipped = words.as_ptr().addr().wrapping_neg() % PAGE / 8;
        for word in &words[skipped..][..bytes / 8] {
            word.store(random.next(), Ordering::Relaxed);
        }
        Self {
            host,
            words,
            skipped,
            bytes,
        }
    }

    /// Returns the address of a byte for the device.
    pub fn address(&self, offset: usize) -> usize {
        self.words[self.skipped..].as_ptr().expose_provenance() + offset
    }

    /// Returns the address of a byte in work requests, which is the same in each run.
    pub fn virtual_address(&self, offset: usize) -> u64 {
        ((self.host as u64 + 1) << HOST_SHIFT) + offset as u64
    }

    /// Returns the word at an offset, a multiple of 8.
    pub fn word(&self, offset: usize) -> u64 {
        self.words[self.skipped + offset / 8].load(Ordering::Acquire)
    }

    /// Returns a copy of some bytes.
    pub fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let (first, end) = (range.start / 8, range.end.div_ceil(8));
        let words = self.words[self.skipped..][first..end].iter();
        let mut bytes: Vec<u8> = words
            .flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes())
            .collect();
        bytes.drain(..range.start - 8 * first);
        bytes.truncate(range.len());
        bytes
    }

    /// Returns a copy of everything.
    pub fn copy(&self) -> Vec<u8> {
        self.bytes(0..self.bytes)
    }
}

/// Returns the first byte in which two pieces of memory differ.
pub(crate) fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    one.iter().zip(other).position(|(a, b)| a != b)
}

/// Returns true if `seen` equals `before` with the first bytes of `after` written over it, in whole
/// packets.
pub(crate) fn is_prefix(seen: &[u8], before: &[u8], after: &[u8], mtu: usize) -> bool {
    let ends = (0..=after.len())
        .step_by(mtu)
        .chain(std::iter::once(after.len()));
    let is_at = |end: usize| seen[..end] == after[..end] && seen[end..] == before[end..];
    ends.into_iter().any(is_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_whole_packets() {
        let is = |seen: &[u8]| is_prefix(seen, b"aaaaa", b"bbbbb", 2);
        assert!(is(b"aaaaa") && is(b"bbaaa") && is(b"bbbba") && is(b"bbbbb"));
        assert!(!is(b"baaaa") && !is(b"bbbaa") && !is(b"aabba") && !is(b"aaaab"));
        assert!(is_prefix(b"", b"", b"", 2));
    }

    #[test]
    fn bytes_are_those_of_the_words() {
        let memory = Memory::new(7, 0, 100);
        let all = memory.copy();
        assert_eq!(all.len(), 100);
        assert_eq!(memory.word(8).to_ne_bytes(), all[8..16]);
        assert_eq!(memory.bytes(3..21), all[3..21]);
        assert_eq!(memory.address(0) % PAGE, 0);
    }
}
