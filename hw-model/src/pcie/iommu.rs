//! The IOMMU: an IOTLB and a few page table walkers.

use ferroce_units::{Duration, Instant};

use super::parameters::{IommuParameters, ns};

#[derive(Debug, Clone, Copy)]
struct Entry {
    page: u64,
    /// When the walk that fills it ends.
    ready: Instant,
}

const EMPTY: Entry = Entry {
    page: u64::MAX,
    ready: Instant::ZERO,
};

/// Set-associative translation cache with LRU replacement, and its walkers.
#[derive(Debug)]
pub struct Iommu {
    page_shift: u32,
    ways: usize,
    sets: u32,
    /// The sets one after the other, each with its newest entry first.
    entries: Vec<Entry>,
    walkers: Vec<Instant>,
    next_walker: usize,
    walk: Duration,
    hits: u64,
    misses: u64,
    waited: Duration,
}

impl Iommu {
    /// Returns an IOMMU with an empty IOTLB; `None` if it is disabled.
    pub fn new(parameters: &IommuParameters) -> Option<Self> {
        if !parameters.enabled {
            return None;
        }
        let ways = parameters
            .iotlb_ways
            .clamp(1, parameters.iotlb_entries.max(1));
        let sets = (parameters.iotlb_entries / ways).max(1);
        Some(Self {
            page_shift: parameters.page_bytes.max(4096).ilog2(),
            ways: ways as usize,
            sets,
            entries: vec![EMPTY; sets as usize * ways as usize],
            walkers: vec![Instant::ZERO; parameters.walkers.max(1) as usize],
            next_walker: 0,
            walk: ns(parameters.walk_ns),
            hits: 0,
            misses: 0,
            waited: Duration::ZERO,
        })
    }

    /// Translates `iova` for a request that arrives at `arrival`; returns when it can continue.
    ///
    /// A miss occupies a walker from `now` on. A request that hits an entry whose walk has not
    /// ended waits for the end of the walk.
    #[inline]
    pub fn translate(&mut self, now: Instant, arrival: Instant, iova: u64) -> Instant {
        let page = iova >> self.page_shift;
        let start = ((page as u32) % self.sets) as usize * self.ways;
        let set = &mut self.entries[start..start + self.ways];
        if let Some(way) = set.iter().position(|entry| entry.page == page) {
            self.hits += 1;
            set[..=way].rotate_right(1);
            return arrival.max(set[0].ready);
        }
        self.misses += 1;
        set.rotate_right(1);
        let walker = &mut self.walkers[self.next_walker];
        let begin = (*walker).max(now);
        *walker = begin + self.walk;
        set[0] = Entry {
            page,
            ready: *walker,
        };
        self.next_walker += 1;
        if self.next_walker == self.walkers.len() {
            self.next_walker = 0;
        }
        self.waited = self.waited + (begin - arrival);
        arrival.max(begin) + self.walk
    }

    /// Forgets all translations, as after an unmap that invalidates everything.
    pub fn invalidate(&mut self) {
        self.entries.fill(EMPTY);
    }

    /// Returns the number of translations that hit the IOTLB.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Returns the number of translations that needed a walk.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns the number of walkers, and the total time for which they were busy.
    pub fn walkers(&self) -> (usize, Duration) {
        let walked = self.walk.as_ps().saturating_mul(self.misses);
        (self.walkers.len(), Duration::from_ps(walked))
    }

    /// Returns the total time that requests have waited for a walker.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iommu(entries: u32, ways: u32, walkers: u32) -> Iommu {
        Iommu::new(&IommuParameters {
            enabled: true,
            page_bytes: 4096,
            iotlb_entries: entries,
            iotlb_ways: ways,
            walk_ns: 200.0,
            walkers,
        })
        .expect("it is enabled")
    }

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn the_least_recently_used_entry_leaves() {
        let mut iommu = iommu(2, 2, 8);
        for page in [1, 2, 1, 3, 1, 2] {
            iommu.translate(at(0), at(0), page << 12);
        }
        assert_eq!((iommu.hits(), iommu.misses()), (2, 4));
    }

    #[test]
    fn walks_share_the_walkers() {
        let mut iommu = iommu(64, 8, 2);
        let walked: Vec<u64> = (0..5)
            .map(|page| iommu.translate(at(0), at(10), page << 12).as_ns())
            .collect();
        assert_eq!(walked, [210, 210, 400, 400, 600]);
    }

    #[test]
    fn a_hit_waits_for_the_walk_that_is_under_way() {
        let mut iommu = iommu(64, 8, 1);
        iommu.translate(at(0), at(0), 0x1000);
        assert_eq!(iommu.translate(at(50), at(60), 0x1008), at(200));
        assert_eq!(iommu.translate(at(500), at(501), 0x1010), at(501));
        iommu.invalidate();
        assert_eq!(iommu.translate(at(500), at(501), 0x1010), at(701));
    }
}
