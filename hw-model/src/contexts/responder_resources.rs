//! Responder resources: the state that a responder keeps for READs and atomics until they can no
//! longer be repeated (IBTA vol 1, 9.4.4, 9.7.2).
//!
//! They are in the private area of the queue pair in host memory, with a cache. WRITEs and SENDs do
//! not use them: on a card with room for the resources of few queue pairs, READs slow down long
//! before WRITEs.

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

    /// Places the resources of `1 << log_qps` queue pairs in a private area at `base`, unless the
    /// chip has room for all.
    pub fn reset(&mut self, base: u64, log_qps: u8) {
        self.cache = (log_qps > self.shape.log_entries()).then(|| {
            let (hits, misses) = (Counter::responder_hits, Counter::responder_misses);
            let mut cache = Cache::new(self.shape, hits, misses);
            cache.reset(base);
            cache
        });
    }

    /// Returns the number of miss status holding registers, and the time for which they were in
    /// use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        let cache = self.cache.as_ref();
        cache.map_or((0, Duration::ZERO), Cache::miss_registers)
    }

    /// Looks up the resources of the queue pair at `index` to change them, as each READ and atomic
    /// does.
    #[inline]
    pub fn touch<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        match &mut self.cache {
            Some(cache) => cache.get_mut(index, dma).map(drop),
            None => Ok(()),
        }
    }
}
