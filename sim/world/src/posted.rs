//! Posted writes in flight to host memory.
//!
//! A write is copied here when the NIC makes it. It reaches memory when it becomes visible: before
//! a thread of the host reads it, or when the NIC itself reads it back (a PCIe read does not
//! overtake writes). No memory is allocated per write.

use std::collections::VecDeque;
use std::ops::Range;

use ferroce_host::memory::MemoryMap;
use ferroce_units::Instant;
use zerocopy::IntoBytes;

use super::persistence::Persistence;

/// Bytes of a small write: a CQE, or a small payload.
const SMALL: usize = 64;
/// Bytes of a large one: a payload of the largest MTU, plus a cache line so that slots use
/// different sets of the processor's cache.
const LARGE: usize = 4096 + 64;
/// Size of the pages in the summary, as a shift.
const PAGE_SHIFT: u32 = 12;

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Data,
    /// Words; the last one publishes the others.
    Descriptor,
}

/// A write that is not visible yet.
#[derive(Debug, Clone, Copy)]
struct Write {
    visible: Instant,
    iova: u64,
    address: usize,
    length: u32,
    slot: u32,
    kind: Kind,
}

impl Write {
    fn overlaps(&self, address: usize, length: usize) -> bool {
        self.address < address + length && address < self.address + self.length as usize
    }
}

/// Slots for writes of one size.
#[derive(Debug)]
struct Slots {
    words: usize,
    memory: Vec<u64>,
    free: Vec<u32>,
}

impl Slots {
    fn new(bytes: usize) -> Self {
        Self {
            words: bytes / size_of::<u64>(),
            memory: Vec::new(),
            free: Vec::new(),
        }
    }

    #[inline]
    fn take(&mut self) -> u32 {
        match self.free.pop() {
            Some(slot) => slot,
            None => self.grow(),
        }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let slot = self.memory.len() / self.words;
        self.memory.resize(self.memory.len() + self.words, 0);
        slot as u32
    }

    #[inline]
    fn words(&self, slot: u32) -> &[u64] {
        &self.memory[slot as usize * self.words..][..self.words]
    }

    #[inline]
    fn words_mut(&mut self, slot: u32) -> &mut [u64] {
        &mut self.memory[slot as usize * self.words..][..self.words]
    }
}

/// Posted writes of one NIC, in the order in which they become visible.
#[derive(Debug)]
pub struct PostedWrites {
    writes: VecDeque<Write>,
    small: Slots,
    large: Slots,
    /// Summary bitmap: one bit for each page, modulo 64, that a write may touch.
    pages: u64,
    /// Persistent memory, to which some of them may go.
    pub persistence: Option<Box<Persistence>>,
}

impl Default for PostedWrites {
    fn default() -> Self {
        Self {
            writes: VecDeque::new(),
            small: Slots::new(SMALL),
            large: Slots::new(LARGE),
            pages: 0,
            persistence: None,
        }
    }
}

impl PostedWrites {
    /// Begins an event.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        if let Some(persistence) = &mut self.persistence {
            persistence.begin(now);
        }
    }

    /// Drops all of them: their card has lost its power.
    pub fn drop_all(&mut self) {
        while let Some(write) = self.writes.pop_front() {
            self.slots_of(&write).free.push(write.slot);
        }
        self.pages = 0;
    }

    fn slots_of(&mut self, write: &Write) -> &mut Slots {
        match write.length as usize {
            ..=SMALL => &mut self.small,
            _ => &mut self.large,
        }
    }

    /// Returns the number of posted writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns when the next one becomes visible.
    #[inline]
    pub fn next_visible(&self) -> Option<Instant> {
        self.writes.front().map(|write| write.visible)
    }

    /// Returns times, kinds and addresses of those that become visible after `now`.
    pub fn after(&self, now: Instant) -> impl Iterator<Item = (Instant, Kind, Range<usize>)> {
        let later = self.writes.iter().filter(move |write| write.visible > now);
        later.map(|write| {
            let range = write.address..write.address + write.length as usize;
            (write.visible, write.kind, range)
        })
    }

    /// Adds a write of `bytes` to `iova`, which is memory at `address`.
    #[inline]
    pub fn push(&mut self, visible: Instant, kind: Kind, iova: u64, address: usize, bytes: &[u8]) {
        let mut offset = 0;
        while offset < bytes.len() {
            let piece = &bytes[offset..bytes.len().min(offset + LARGE)];
            let slots = match piece.len() {
                ..=SMALL => &mut self.small,
                _ => &mut self.large,
            };
            let slot = slots.take();
            slots.words_mut(slot).as_mut_bytes()[..piece.len()].copy_from_slice(piece);
            self.insert(Write {
                visible,
                iova: iova + offset as u64,
                address: address + offset,
                length: piece.len() as u32,
                slot,
                kind,
            });
            offset += piece.len();
        }
    }

    #[inline]
    fn insert(&mut self, write: Write) {
        self.pages |= pages(write.address, write.length as usize);
        match self.writes.back() {
            Some(last) if last.visible > write.visible => {
                let place = self
                    .writes
                    .partition_point(|other| other.visible <= write.visible);
                self.writes.insert(place, write);
            }
            _ => self.writes.push_back(write),
        }
    }

    /// Applies the writes that are visible at `now` to memory.
    #[inline]
    pub fn apply_until(&mut self, now: Instant, memory: &mut MemoryMap) {
        while let Some(write) = self.writes.front() {
            if write.visible > now {
                return;
            }
            if let Some(write) = self.writes.pop_front() {
                self.apply(&write, memory);
            }
        }
        self.pages = 0;
    }

    /// Applies the writes to memory that the NIC is about to read.
    #[inline]
    pub fn apply_overlapping(&mut self, address: usize, length: usize, memory: &mut MemoryMap) {
        if self.pages & pages(address, length) != 0 {
            self.find_overlapping(address, length, memory);
        }
    }

    fn find_overlapping(&mut self, address: usize, length: usize, memory: &mut MemoryMap) {
        let reached = self.reach_of(address, length);
        let mut place = 0;
        while let Some(write) = self.writes.get(place).copied() {
            if write.overlaps(reached.start, reached.len()) {
                self.writes.remove(place);
                self.apply(&write, memory);
            } else {
                place += 1;
            }
        }
        if self.writes.is_empty() {
            self.pages = 0;
        }
    }

    /// Returns a range that covers the given memory and all writes that overlap it, directly or
    /// through other writes: overlapping writes must not overtake each other.
    fn reach_of(&self, address: usize, length: usize) -> Range<usize> {
        let mut reached = address..address + length;
        loop {
            let before = reached.clone();
            for write in &self.writes {
                if write.overlaps(reached.start, reached.len()) {
                    let end = write.address + write.length as usize;
                    reached = reached.start.min(write.address)..reached.end.max(end);
                }
            }
            if reached == before {
                return reached;
            }
        }
    }

    #[inline]
    fn apply(&mut self, write: &Write, memory: &mut MemoryMap) {
        let length = write.length as usize;
        if let Some(persistence) = &mut self.persistence {
            persistence.keep(write.iova, length, write.visible);
        }
        let slots = self.slots_of(write);
        let words = slots.words(write.slot);
        let result = match write.kind {
            Kind::Data => memory.write(write.iova, &words.as_bytes()[..length]),
            Kind::Descriptor => memory.write_descriptor(write.iova, &words[..length / 8]),
        };
        // Posted writes are applied before a mapping is removed, but the process that owns the
        // memory may have exited.
        if let Err(error) = result {
            tracing::debug!(%error, "a posted write lost its memory");
        }
        slots.free.push(write.slot);
    }
}

/// Returns the bits of the pages of a range.
#[inline]
fn pages(address: usize, length: usize) -> u64 {
    let bit = |address: usize| 1u64 << ((address >> PAGE_SHIFT) % 64);
    let first = bit(address);
    let last = address + length.max(1) - 1;
    match (last >> PAGE_SHIFT) - (address >> PAGE_SHIFT) {
        0 => first,
        1 => first | bit(last),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use ferroce_host::memory::Rights;

    use super::*;

    const IOVA: u64 = 0x10_0000;

    struct Bench {
        memory: Vec<AtomicU64>,
        map: MemoryMap,
        posted: PostedWrites,
    }

    impl Bench {
        fn new() -> Self {
            let memory: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(0)).collect();
            let mut map = MemoryMap::default();
            let address = memory.as_ptr().expose_provenance();
            map.map(IOVA, address, 8 * 4096, Rights::ReadWrite)
                .expect("free");
            let posted = PostedWrites::default();
            Self {
                memory,
                map,
                posted,
            }
        }

        fn push(&mut self, visible: u64, word: usize, bytes: &[u8]) {
            let address = self.memory.as_ptr().addr() + 8 * word;
            let (visible, iova) = (Instant(visible), IOVA + 8 * word as u64);
            self.posted.push(visible, Kind::Data, iova, address, bytes);
        }

        fn word(&self, word: usize) -> u64 {
            self.memory[word].load(Ordering::Relaxed)
        }

        fn apply(&mut self, now: u64) {
            self.posted.apply_until(Instant(now), &mut self.map);
        }
    }

    #[test]
    fn writes_reach_memory_at_their_time_and_in_their_order() {
        let mut bench = Bench::new();
        bench.push(10, 0, &[1; 8]);
        bench.push(30, 0, &[3; 8]);
        bench.push(20, 0, &[2; 8]);
        bench.push(20, 1, &[7; 5000]);
        bench.apply(9);
        assert_eq!(bench.word(0), 0);
        bench.apply(10);
        assert_eq!(bench.word(0), u64::from_ne_bytes([1; 8]));
        bench.apply(29);
        assert_eq!(bench.word(0), u64::from_ne_bytes([2; 8]));
        assert_eq!(bench.word(625), u64::from_ne_bytes([7; 8]));
        assert_eq!(bench.word(626), 0);
        bench.apply(30);
        assert_eq!(bench.word(0), u64::from_ne_bytes([3; 8]));
        assert_eq!(bench.posted.len(), 0);
        assert_eq!(bench.posted.small.free.len(), 3);
    }

    #[test]
    fn a_read_of_a_part_leaves_the_order_of_writes() {
        let mut bench = Bench::new();
        bench.push(10, 1, &[1; 16]);
        bench.push(11, 0, &[2; 16]);
        let start = bench.memory.as_ptr().addr();
        bench.posted.apply_overlapping(start, 8, &mut bench.map);
        bench.apply(20);
        let words = [0, 1, 2].map(|word| bench.word(word));
        let expected = [2, 2, 1].map(|byte| u64::from_ne_bytes([byte; 8]));
        assert_eq!(words, expected);
    }

    #[test]
    fn a_read_finds_what_was_written_before_it() {
        let mut bench = Bench::new();
        bench.push(10, 0, &[1; 8]);
        bench.push(11, 600, &[2; 8]);
        bench.push(12, 0, &[3; 8]);
        let start = bench.memory.as_ptr().addr();
        bench.posted.apply_overlapping(start + 7, 1, &mut bench.map);
        assert_eq!(bench.word(0), u64::from_ne_bytes([3; 8]));
        assert_eq!(bench.word(600), 0);
        assert_eq!(bench.posted.len(), 1);
        bench.posted.apply_overlapping(start + 8, 1, &mut bench.map);
        assert_eq!(bench.posted.len(), 1);
        bench
            .posted
            .apply_overlapping(start, 8 * 4096, &mut bench.map);
        assert_eq!(bench.word(600), u64::from_ne_bytes([2; 8]));
        assert_eq!(bench.posted.len(), 0);
    }
}
