//! The WQEs of requests in flight: a card keeps as many as it has room for. A request whose WQE had
//! to make room is completed after its WQE has been read once more.

use crate::config::WqeCacheShape;
use crate::time::registers::Registers;

/// WQEs of a set: those of different queue pairs spread over the sets.
const WAYS: usize = 8;
/// A place without a WQE.
const EMPTY: u64 = u64::MAX;

/// Which WQEs are kept: tags only, the model has their contents elsewhere.
#[derive(Debug)]
pub struct WqeCache {
    sets: Vec<[u64; WAYS]>,
    victims: Vec<u8>,
    /// For WQEs that are read again.
    pub registers: Registers,
}

impl WqeCache {
    /// An empty cache.
    pub fn new(shape: WqeCacheShape) -> Self {
        let sets = (shape.entries as usize).div_ceil(WAYS);
        Self {
            sets: vec![[EMPTY; WAYS]; sets],
            victims: vec![0; sets],
            registers: Registers::new(shape.mshrs as usize),
        }
    }

    /// Returns true if the cache has a limit.
    #[inline]
    pub fn is_limited(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Keeps WQE `index` of the queue pair at `qp`, in place of the one that came first in its set.
    pub fn insert(&mut self, qp: u32, index: u32) {
        if !self.is_limited() {
            return;
        }
        let (tag, set) = self.place(qp, index);
        let way = match self.sets[set].iter().position(|held| *held == EMPTY) {
            Some(way) => way,
            None => {
                let victim = &mut self.victims[set];
                *victim = (*victim + 1) % WAYS as u8;
                usize::from(*victim)
            }
        };
        self.sets[set][way] = tag;
    }

    /// Takes WQE `index` of the queue pair at `qp` out. False: it is not there any more.
    pub fn remove(&mut self, qp: u32, index: u32) -> bool {
        if !self.is_limited() {
            return true;
        }
        let (tag, set) = self.place(qp, index);
        match self.sets[set].iter_mut().find(|held| **held == tag) {
            Some(held) => {
                *held = EMPTY;
                true
            }
            None => false,
        }
    }

    fn place(&self, qp: u32, index: u32) -> (u64, usize) {
        let tag = u64::from(qp) << 32 | u64::from(index);
        // Fibonacci hashing: consecutive WQEs of a queue pair fall into different sets.
        let hash = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (tag, hash as usize % self.sets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_the_oldest_when_there_are_too_many() {
        let mut cache = WqeCache::new(WqeCacheShape {
            entries: 64,
            mshrs: 2,
        });
        let kept = |cache: &mut WqeCache, count: u32| {
            (0..count).for_each(|index| cache.insert(5, index));
            (0..count).filter(|index| cache.remove(5, *index)).count()
        };
        assert!(kept(&mut cache, 32) >= 30, "half full");
        let of_many = kept(&mut cache, 256);
        assert!((48..=64).contains(&of_many), "{of_many}");
        assert!(WqeCache::new(WqeCacheShape::UNLIMITED).remove(1, 1));
    }
}
