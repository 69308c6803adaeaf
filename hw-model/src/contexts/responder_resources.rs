//! Responder resources: what a responder keeps of READs and atomics until they cannot be repeated
//! any more (IBTA vol 1, 9.4.4, 9.7.2).
//!
//! They lie in the private area of the queue pair in host memory, behind a cache. WRITEs and SENDs
//! do not use them: a card that keeps the resources of few queue pairs slows READs down long before
//! WRITEs.

use ferroce_spec::counter::Counter;
use ferroce_units::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::cache::{Cache, OnChip};
use crate::config::CacheShape;
use crate::dma::Dma;
use crate::ports::host::{DmaError, Host};

/// Base-2 logarithm of the bytes of private area that a queue pair needs.
pub const LOG_LINE_BYTES: u8 = 6;

/// The resources of one queue pair. The model keeps their contents on the chip.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Line([u8; 1 << LOG_LINE_BYTES]);

impl Default for Line {
    fn default() -> Self {
        Self([0; 1 << LOG_LINE_BYTES])
    }
}

/// The responder resources of all queue pairs.
#[derive(Debug)]
pub struct ResponderResources {
    shape: CacheShape,
    /// `None`: all are on the chip.
    cache: Option<Cache<OnChip<Line>>>,
}

impl ResponderResources {
    /// Returns resources that are all on the chip.
    pub fn new(shape: CacheShape) -> Self {
        Self { shape, cache: None }
    }

    /// Places those of `1 << log_qps` queue pairs in a private area at `base`, unless there is room
    /// for all on the chip.
    pub fn reset(&mut self, base: u64, log_qps: u8) {
        self.cache = (log_qps > self.shape.log_entries()).then(|| {
            let (hits, misses) = (Counter::responder_hits, Counter::responder_misses);
            let mut cache = Cache::new(self.shape, hits, misses);
            cache.reset(base);
            cache
        });
    }

    /// Returns its miss status holding registers, and the times for which each was in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        let cache = self.cache.as_ref();
        cache.map_or((0, Duration::ZERO), Cache::miss_registers)
    }

    /// Looks up those of the queue pair at `index` for a change, as each READ and atomic does.
    #[inline]
    pub fn touch<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        match &mut self.cache {
            Some(cache) => cache.get_mut(index, dma).map(drop),
            None => Ok(()),
        }
    }
}
