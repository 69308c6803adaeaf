//! Host memory and whether the device's accesses hit the last-level cache.
//!
//! A working-set model: tags of 4 KiB pages with LRU replacement. The accesses of processors are
//! not reported, so two assumptions replace them: a page is in the LLC until others evict it (the
//! user of a buffer has just written it), and processors use every page that the device reads. So a
//! working set that fits never misses; of a larger one, the part that does not fit misses.

use super::parameters::MemoryParameters;

/// Granularity of the tags.
const PAGE_SHIFT: u32 = 12;
/// Ways of the LLC, as in Intel's server processors.
const WAYS: usize = 20;
/// Number of ways into which a device's write may allocate a missing line (DDIO).
const WRITE_WAYS: usize = 2;
/// Tag of a way that was never used.
const EMPTY: u32 = u32::MAX;
/// Tag of a way whose page was evicted to DRAM.
const PUSHED_OUT: u32 = u32::MAX - 1;

/// The tags of the last-level cache.
#[derive(Debug)]
pub struct Memory {
    sets: u32,
    ddio: bool,
    /// The sets one after the other, each with its newest page first.
    tags: Vec<u32>,
    newest: u32,
    hits: u64,
    misses: u64,
}

impl Memory {
    /// Returns an unused LLC.
    pub fn new(parameters: &MemoryParameters) -> Self {
        let pages = parameters.llc_bytes >> PAGE_SHIFT;
        let sets = (pages / WAYS as u32).max(1);
        Self {
            sets,
            ddio: parameters.ddio,
            tags: vec![EMPTY; sets as usize * WAYS],
            newest: EMPTY,
            hits: 0,
            misses: 0,
        }
    }

    /// Reads within the page at `iova`; returns true if it hits the LLC.
    #[inline]
    pub fn read(&mut self, iova: u64) -> bool {
        let page = page(iova);
        if page == self.newest {
            self.hits += 1;
            return true;
        }
        self.newest = page;
        let set = self.set(page);
        let found = set.iter().position(|tag| *tag == page || *tag == EMPTY);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = page;
        self.count(found.is_some())
    }

    /// Writes within the page at `iova`; returns true if it needs no access to DRAM.
    ///
    /// With DDIO, a page that is not in the LLC is allocated in one of the ways for writes and
    /// evicts their oldest page. Without DDIO, the write goes to DRAM and the page leaves the LLC.
    #[inline]
    pub fn write(&mut self, iova: u64) -> bool {
        let page = page(iova);
        if page == self.newest && self.ddio {
            self.hits += 1;
            return true;
        }
        let ddio = self.ddio;
        self.newest = if ddio { page } else { EMPTY };
        let set = self.set(page);
        let found = set.iter().position(|tag| *tag == page || *tag == EMPTY);
        match (ddio, found) {
            (true, Some(way)) => {
                set[..=way].rotate_right(1);
                set[0] = page;
            }
            (true, None) => {
                set[WAYS - WRITE_WAYS..].rotate_right(1);
                set[WAYS - WRITE_WAYS] = page;
            }
            (false, Some(way)) if set[way] == page => set[way] = PUSHED_OUT,
            (false, _) => {}
        }
        self.count(ddio && found.is_some())
    }

    fn set(&mut self, page: u32) -> &mut [u32] {
        let start = (page % self.sets) as usize * WAYS;
        &mut self.tags[start..start + WAYS]
    }

    fn count(&mut self, hit: bool) -> bool {
        self.hits += u64::from(hit);
        self.misses += u64::from(!hit);
        hit
    }

    /// Returns the number of accesses that hit the LLC.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Returns the number of accesses that went to DRAM.
    pub fn misses(&self) -> u64 {
        self.misses
    }
}

/// Returns the number of the page, folded to 32 bits; unique for IOVAs below 16 TiB.
#[inline]
fn page(iova: u64) -> u32 {
    let page = iova >> PAGE_SHIFT;
    ((page ^ (page >> 32)) as u32).min(PUSHED_OUT - 1)
}
