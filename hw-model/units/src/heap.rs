//! An indexed binary heap: finds the first of many keys, each of which can be changed.

/// Position of an index without an entry.
const NOWHERE: u32 = u32::MAX;

/// At most one key for each of a number of indices; the least key is first, and among equal keys
/// the one with the smaller index.
#[derive(Debug, Clone)]
pub struct IndexedHeap<K> {
    heap: Vec<(K, u32)>,
    /// Position of the entry of each index.
    positions: Vec<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self {
            heap: Vec::new(),
            positions: Vec::new(),
        }
    }
}

impl<K: Copy + Ord> IndexedHeap<K> {
    /// Returns a heap without keys for the indices below `count`.
    pub fn new(count: usize) -> Self {
        Self {
            heap: Vec::new(),
            positions: vec![NOWHERE; count],
        }
    }

    /// Adds one index.
    pub fn add_index(&mut self) {
        self.positions.push(NOWHERE);
    }

    /// Returns the least key, and its index.
    #[inline]
    pub fn first(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// Returns the key of an index.
    #[inline]
    pub fn get(&self, index: u32) -> Option<K> {
        let at = self.positions[index as usize];
        self.heap.get(at as usize).map(|(key, _)| *key)
    }

    /// Sets or changes the key of an index.
    #[inline]
    pub fn set(&mut self, index: u32, key: K) {
        match self.positions[index as usize] {
            NOWHERE => {
                self.heap.push((key, index));
                self.rise(self.heap.len() - 1);
            }
            at => {
                let at = at as usize;
                let old = std::mem::replace(&mut self.heap[at].0, key);
                if key < old {
                    self.rise(at);
                } else {
                    self.sink(at);
                }
            }
        }
    }

    /// Removes the key of an index, if it has one.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        let at = self.positions[index as usize];
        if at == NOWHERE {
            return;
        }
        let at = at as usize;
        self.heap.swap_remove(at);
        self.positions[index as usize] = NOWHERE;
        if at < self.heap.len() {
            self.rise(at);
            self.sink(at);
        }
    }

    /// Moves the entry at `at` up to its position.
    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if !is_before(entry, self.heap[parent]) {
                break;
            }
            self.place(at, self.heap[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    /// Moves the entry at `at` down to its position.
    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        let length = self.heap.len();
        loop {
            let mut child = 2 * at + 1;
            if child >= length {
                break;
            }
            // The order of the two is unpredictable: a branch would be mispredicted.
            if child + 1 < length {
                child += usize::from(is_before(self.heap[child + 1], self.heap[child]));
            }
            if !is_before(self.heap[child], entry) {
                break;
            }
            self.place(at, self.heap[child]);
            at = child;
        }
        self.place(at, entry);
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (K, u32)) {
        self.heap[at] = entry;
        self.positions[entry.1 as usize] = at as u32;
    }
}

/// Returns true if an entry comes before another one; without branches.
#[inline]
fn is_before<K: Ord>(one: (K, u32), other: (K, u32)) -> bool {
    (one.0 < other.0) | ((one.0 == other.0) & (one.1 < other.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn the_least_key_is_first_after_any_changes() {
        const COUNT: u32 = 40;
        // Miri needs minutes for more.
        const CHANGES: u32 = if cfg!(miri) { 500 } else { 20_000 };
        let mut heap = IndexedHeap::new(COUNT as usize - 1);
        heap.add_index();
        let mut expected: Vec<Option<u64>> = vec![None; COUNT as usize];
        let mut random = SplitMix64::new(1);
        for _ in 0..CHANGES {
            let index = random.below(COUNT.into()) as u32;
            if random.below(4) == 0 {
                heap.remove(index);
                expected[index as usize] = None;
            } else {
                let key = random.below(64);
                heap.set(index, key);
                expected[index as usize] = Some(key);
            }
            let keys = (0..).zip(&expected);
            let first = keys.filter_map(|(index, key)| key.map(|key| (key, index)));
            assert_eq!(heap.first(), first.min());
            assert_eq!(heap.get(index), expected[index as usize]);
        }
    }
}
