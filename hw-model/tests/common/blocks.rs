//! The blocks of the tests' NICs: the model's, or other implementations behind the same ports.

use ferroce_model::Blocks;
use ferroce_model::config::CacheShape;
use ferroce_model::dma::Dma;
use ferroce_model::ports::host::Host;
use ferroce_model::translation::mtt::{Mtt, Run, TranslationTable};
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_spec::context::{MemoryEntry, TranslationEntry};
use zerocopy::IntoBytes;

/// The tests of `exchanged_blocks.rs` are those of other files, as modules: they run with the other
/// implementations.
fn are_exchanged() -> bool {
    module_path!().starts_with("exchanged_blocks::")
}

/// The blocks of the tests' NICs.
#[derive(Debug)]
pub struct TestBlocks;

impl Blocks for TestBlocks {
    type Mtt = TestMtt;
}

/// A memory translation table.
#[derive(Debug)]
pub enum TestMtt {
    /// That of the model.
    Model(Mtt),
    /// One that reads each entry from host memory when it is needed, a 64-bit word at a time.
    Uncached(UncachedMtt),
}

macro_rules! on_either {
    ($self:expr, $table:ident => $body:expr) => {
        match $self {
            TestMtt::Model($table) => $body,
            TestMtt::Uncached($table) => $body,
        }
    };
}

impl TranslationTable for TestMtt {
    fn new(shape: CacheShape) -> Self {
        if are_exchanged() {
            Self::Uncached(UncachedMtt::new(shape))
        } else {
            Self::Model(Mtt::new(shape))
        }
    }

    fn reset(&mut self, base: u64, log_entries: u8) {
        on_either!(self, table => table.reset(base, log_entries));
    }

    fn contains(&self, first: u64, count: u64) -> bool {
        on_either!(self, table => table.contains(first, count))
    }

    fn invalidate(&mut self, first: u64, count: u64) {
        on_either!(self, table => table.invalidate(first, count));
    }

    fn translate<H: Host>(
        &mut self,
        entry: &MemoryEntry,
        address: u64,
        dma: &mut Dma<'_, H>,
    ) -> Result<Run, ProtectionFault> {
        on_either!(self, table => table.translate(entry, address, dma))
    }
}

/// A table without a cache: an engine as small as can be.
#[derive(Debug)]
pub struct UncachedMtt {
    base: u64,
    entries: u64,
}

impl TranslationTable for UncachedMtt {
    fn new(_shape: CacheShape) -> Self {
        Self {
            base: 0,
            entries: 0,
        }
    }

    fn reset(&mut self, base: u64, log_entries: u8) {
        self.base = base;
        self.entries = if base == 0 { 0 } else { 1 << log_entries };
    }

    fn contains(&self, first: u64, count: u64) -> bool {
        u128::from(first) + u128::from(count) <= u128::from(self.entries)
    }

    fn invalidate(&mut self, _first: u64, _count: u64) {}

    fn translate<H: Host>(
        &mut self,
        entry: &MemoryEntry,
        address: u64,
        dma: &mut Dma<'_, H>,
    ) -> Result<Run, ProtectionFault> {
        let offset = address - entry.start;
        if entry.word.direct() {
            return Ok(Run {
                iova: entry.translation.wrapping_add(offset),
                length: entry.length - offset,
            });
        }
        let page_size = 1_u64 << (entry.word.log_page_size() % 64);
        let position = entry.first_page_offset.wrapping_add(offset);
        let index = entry.translation.wrapping_add(position / page_size);
        let missing = ProtectionFault::Page { address };
        if index >= self.entries {
            return Err(missing);
        }
        let mut page = TranslationEntry::default();
        dma.read(self.base + index * 8, page.as_mut_bytes())?;
        if !page.present() {
            return Err(missing);
        }
        Ok(Run {
            iova: page.iova().wrapping_add(position % page_size),
            length: page_size - position % page_size,
        })
    }
}
