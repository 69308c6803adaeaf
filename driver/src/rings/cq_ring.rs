//! The ring of a CQ, and its successors when the CQ is resized.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ferroce_spec::cqe::{Cqe, CqeWord, owner_at};

use crate::capabilities::LOG_ENTRIES_MAX;
use crate::dma::{DmaBuffer, DmaSpace};
use crate::error::Error;

const WORDS_PER_CQE: usize = Cqe::SIZE / 8;
/// A CQN and a QPN have 24 bits.
const NUMBER_MASK: u32 = 0xff_ffff;
/// Bytes of the consumer record, which follows the entries of the first ring: a cache line.
const RECORD_SIZE: usize = 64;

// The four words of a CQE, as `CqRing::read` decodes them.
const _: () = assert!(WORDS_PER_CQE == 4);
const _: () = assert!(offset_of!(Cqe, qpn) == 0 && offset_of!(Cqe, wqe_index) == 4);
const _: () = assert!(offset_of!(Cqe, byte_count) == 8 && offset_of!(Cqe, immediate) == 12);
const _: () = assert!(offset_of!(Cqe, timestamp) == 16);
const _: () = assert!(offset_of!(Cqe, source_qpn) == 24 && offset_of!(Cqe, word) == 28);

/// A ring, which pollers also read without the lock of the CQ.
pub(crate) struct CqRing {
    /// The entries, then room for the consumer record.
    buffer: DmaBuffer,
    log_size: u32,
}

impl CqRing {
    /// Creates an empty ring of `1 << log_size` entries, for the consumer index 0.
    fn new(space: &Arc<DmaSpace>, log_size: u32) -> Result<Self, Error> {
        let buffer = DmaBuffer::new(space, (Cqe::SIZE << log_size) + RECORD_SIZE)?;
        Ok(Self { buffer, log_size })
    }

    #[inline]
    pub(crate) fn size(&self) -> u32 {
        1 << self.log_size
    }

    pub(crate) fn log_size(&self) -> u32 {
        self.log_size
    }

    /// Returns the addresses of the entries in this process.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.buffer.words().as_ptr() as usize;
        start..start + (Cqe::SIZE << self.log_size)
    }

    /// Returns the IOVA of the entries.
    pub(crate) fn iova(&self) -> u64 {
        self.buffer.iova()
    }

    /// Returns the words of the entry at `index` and the loaded value of the last one, if the
    /// device has written the entry.
    #[inline]
    fn written(&self, index: u32) -> Option<(&[AtomicU64], u64)> {
        let place = (index as usize & ((1 << self.log_size) - 1)) * WORDS_PER_CQE;
        let words = self.buffer.words().get(place..place + WORDS_PER_CQE)?;
        // The device writes the word with the owner bit last (release), so it is loaded first.
        let last = words[3].load(Ordering::Acquire);
        let word = CqeWord::from_bits((last >> 32) as u32);
        (word.owner() == owner_at(index, self.log_size)).then_some((words, last))
    }

    /// Returns the entry at `index`, if the device has written it.
    #[inline]
    pub(crate) fn read(&self, index: u32) -> Option<Cqe> {
        let (words, last) = self.written(index)?;
        let first = words[0].load(Ordering::Relaxed);
        let second = words[1].load(Ordering::Relaxed);
        Some(Cqe {
            qpn: first as u32 & NUMBER_MASK,
            wqe_index: (first >> 32) as u32,
            byte_count: second as u32,
            immediate: ((second >> 32) as u32).to_le_bytes(),
            timestamp: words[2].load(Ordering::Relaxed),
            source_qpn: last as u32 & NUMBER_MASK,
            word: CqeWord::from_bits((last >> 32) as u32),
        })
    }

    /// Moves the entry at `from` to `to`, which may lie on another lap.
    pub(crate) fn relocate(&self, from: u32, to: u32) {
        let mask = self.size() as usize - 1;
        let words = self.buffer.words();
        let from = &words[(from as usize & mask) * WORDS_PER_CQE..][..WORDS_PER_CQE];
        let target = &words[(to as usize & mask) * WORDS_PER_CQE..][..WORDS_PER_CQE];
        for (target, from) in target.iter().zip(from).take(WORDS_PER_CQE - 1) {
            target.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let last = from[WORDS_PER_CQE - 1].load(Ordering::Relaxed);
        let mut word = CqeWord::from_bits((last >> 32) as u32);
        word.set_owner(owner_at(to, self.log_size));
        let last = last & 0xffff_ffff | u64::from(word.bits()) << 32;
        target[WORDS_PER_CQE - 1].store(last, Ordering::Release);
    }

    /// Empties the ring for a CQ that continues at `consumer`: the entries get the owner bits of
    /// the previous lap. The device does not use the ring yet, or no longer.
    fn clear(&self, consumer: u32) {
        for step in 0..self.size() {
            let index = consumer.wrapping_add(step);
            let mut word = CqeWord::default();
            word.set_owner(!owner_at(index, self.log_size));
            let place = (index & (self.size() - 1)) as usize * WORDS_PER_CQE;
            let last = &self.buffer.words()[place + WORDS_PER_CQE - 1];
            last.store(u64::from(word.bits()) << 32, Ordering::Relaxed);
        }
    }
}

/// All rings that a CQ has had, at most one of each size, and the current one.
///
/// A ring is kept as long as the CQ, because pollers read it without a lock.
pub(crate) struct CqRings {
    /// The ring that the CQ was created with. It is usually the only one, so it is stored inline.
    /// Its buffer holds the consumer record, which stays in place when the ring is replaced.
    first: CqRing,
    /// Base-2 logarithm of the size of the current ring.
    current: AtomicU32,
    /// Consumer index; changed under the lock of the CQ only.
    consumer: AtomicU32,
    /// The other rings, by the base-2 logarithm of their sizes.
    others: Box<[OnceLock<CqRing>]>,
}

impl CqRings {
    /// Creates the rings of a new CQ with `1 << log_size` entries.
    pub(crate) fn new(space: &Arc<DmaSpace>, log_size: u32) -> Result<Self, Error> {
        Ok(Self {
            first: CqRing::new(space, log_size)?,
            current: AtomicU32::new(log_size),
            consumer: AtomicU32::new(0),
            others: (0..=LOG_ENTRIES_MAX).map(|_| OnceLock::new()).collect(),
        })
    }

    /// Returns an empty ring of another size for a CQ that continues at `consumer`. One caller at a
    /// time.
    pub(crate) fn other(
        &self,
        space: &Arc<DmaSpace>,
        log_size: u32,
        consumer: u32,
    ) -> Result<&CqRing, Error> {
        let ring = match self.of_size(log_size) {
            Some(ring) => ring,
            None => {
                let what = "number of CQ entries";
                let place = self.others.get(log_size as usize);
                let place = place.ok_or(Error::InvalidArgument { what })?;
                let ring = CqRing::new(space, log_size)?;
                place.get_or_init(|| ring)
            }
        };
        ring.clear(consumer);
        Ok(ring)
    }

    fn of_size(&self, log_size: u32) -> Option<&CqRing> {
        if log_size == self.first.log_size {
            return Some(&self.first);
        }
        self.others.get(log_size as usize)?.get()
    }

    /// Returns the current ring.
    #[inline]
    pub(crate) fn current(&self) -> &CqRing {
        let log_size = self.current.load(Ordering::Acquire);
        if log_size == self.first.log_size {
            return &self.first;
        }
        self.of_size(log_size).unwrap_or(&self.first)
    }

    /// Makes the ring of this size the current one.
    pub(crate) fn set_current(&self, log_size: u32) {
        self.current.store(log_size, Ordering::Release);
    }

    /// Returns true if the next entry to take has been written.
    #[inline]
    pub(crate) fn has_entry(&self) -> bool {
        self.current().written(self.consumer()).is_some()
    }

    /// Returns the consumer index. Without the lock the value may be outdated.
    #[inline]
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer.load(Ordering::Relaxed)
    }

    /// Reports to the device, and to pollers without the lock, that all entries before `consumer`
    /// have been copied out.
    #[inline]
    pub(crate) fn publish(&self, consumer: u32) {
        self.consumer.store(consumer, Ordering::Relaxed);
        if let Some(record) = self.first.buffer.words().get(self.record_offset() / 8) {
            record.store(u64::from(consumer), Ordering::Release);
        }
    }

    /// Returns the IOVA of the consumer record.
    pub(crate) fn record_iova(&self) -> u64 {
        self.first.iova() + self.record_offset() as u64
    }

    #[inline]
    fn record_offset(&self) -> usize {
        Cqe::SIZE << self.first.log_size
    }
}
