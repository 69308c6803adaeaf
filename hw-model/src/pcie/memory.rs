//! Host memory as the device's accesses find it: in the last-level cache or not.
//!
//! A working-set model: tags of 4 KiB pages, least recently used first out. The accesses of
//! processors are not reported, so two assumptions stand in for them: a page is in the LLC until
//! others have evicted it (the user of a buffer has just written it), and a page that the device
//! reads is one that processors use. A working set that fits therefore never misses; of a larger
//! one, the part that does not fit misses.

use super::parameters::MemoryParameters;

/// Granularity of the tags.
const PAGE_SHIFT: u32 = 12;
/// Ways of the LLC, as Intel's server processors have them.
const WAYS: usize = 20;
/// Of these, ways into which a device's write may bring a line that was not there (DDIO).
const WRITE_WAYS: usize = 2;
/// Tag of a way that nothing has taken yet.
const EMPTY: u32 = u32::MAX;
/// Tag of a way whose page has gone to DRAM.
const PUSHED_OUT: u32 = u32::MAX - 1;

/// The tags of the last-level cache.
#[derive(Debug)]
pub struct Memory {
    sets: u32,
    ddio: bool,
    /// Sets one behind the other, each with its newest page first.
    tags: Vec<u32>,
    newest: u32,
    hits: u64,
    misses: u64,
}

impl Memory {
    /// Returns an LLC in which no page is used.
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

    /// Reads within the page at `iova`; returns whether the LLC has it.
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

    /// Writes within the page at `iova`; returns whether that needs no access to DRAM.
    ///
    /// With DDIO a page that is not in the LLC comes into one of the ways that are kept for
    /// writes, and pushes out what is there. Without, it goes to DRAM and leaves the LLC.
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

    /// Accesses that the LLC could serve.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Accesses that went to DRAM.
    pub fn misses(&self) -> u64 {
        self.misses
    }
}

/// Number of the page, folded to 32 bits; IOVAs below 16 TiB are told apart.
#[inline]
fn page(iova: u64) -> u32 {
    let page = iova >> PAGE_SHIFT;
    ((page ^ (page >> 32)) as u32).min(PUSHED_OUT - 1)
}
