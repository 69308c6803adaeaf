//! The memory translation table in RTL, with the trait of the model's.

use ferroce_model::config::CacheShape;
use ferroce_model::dma::Dma;
use ferroce_model::ports::host::{DmaError, Host};
use ferroce_model::translation::mtt::{Run, TranslationTable};
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_spec::context::MemoryEntry;
use ferroce_spec::counter::Counter;

use crate::line_port::{line_reader, serve_read};
use crate::verilated::mtt::Mtt as Verilated;

/// Size and shape of the built cache; `build.rs` has the same numbers.
pub const SHAPE: CacheShape = CacheShape {
    log_sets: 3,
    ways: 3,
    mshrs: 1,
};

/// Maximum cycles of a request: an invalidation checks all lines of the cache.
const CYCLES_MAX: u64 = 100_000;

line_reader!(Verilated);

/// The memory translation table.
#[derive(Debug)]
pub struct Mtt {
    rtl: Verilated,
    entries: u64,
}

impl Mtt {
    /// Returns the module, for its clock cycles and waveforms.
    pub fn rtl(&mut self) -> &mut Verilated {
        &mut self.rtl
    }

    /// Runs the clock until `ready` shows that a request is taken. `valid` sets its valid input.
    fn offer(&mut self, ready: fn(&Verilated) -> u8, valid: fn(&mut Verilated, u8)) {
        valid(&mut self.rtl, 1);
        self.rtl.settle();
        self.run_until(|rtl| ready(rtl) != 0);
        self.rtl.cycle();
        valid(&mut self.rtl, 0);
        self.rtl.settle();
    }

    /// # Panics
    /// If the module does not finish.
    fn run_until(&mut self, is_done: impl Fn(&Verilated) -> bool) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while !is_done(&self.rtl) {
            self.rtl.cycle();
            assert!(self.rtl.cycles() < limit, "the module does not end");
        }
    }

    /// Runs the clock until there is an answer; returns the error of the DMA read, if any.
    fn answer<H: Host>(&mut self, dma: &mut Dma<'_, H>) -> Option<DmaError> {
        let mut error = None;
        loop {
            self.run_until(|rtl| {
                rtl.m_valid() != 0 || rtl.read_valid() != 0 || rtl.hit() != 0 || rtl.miss() != 0
            });
            dma.counters
                .add(Counter::mtt_hits, u64::from(self.rtl.hit()));
            dma.counters
                .add(Counter::mtt_misses, u64::from(self.rtl.miss()));
            if self.rtl.m_valid() != 0 {
                return error;
            }
            match self.rtl.read_valid() {
                0 => self.rtl.cycle(),
                _ => error = serve_read(&mut self.rtl, dma).err(),
            }
        }
    }
}

impl TranslationTable for Mtt {
    /// Returns a table with the built cache, [`SHAPE`], regardless of the configuration.
    fn new(_shape: CacheShape) -> Self {
        let mut rtl = Verilated::new();
        rtl.set_rst(1);
        rtl.cycle();
        rtl.set_rst(0);
        rtl.set_read_ready(1);
        rtl.settle();
        Self { rtl, entries: 0 }
    }

    fn reset(&mut self, base: u64, log_entries: u8) {
        self.entries = if base == 0 { 0 } else { 1 << log_entries };
        self.rtl.set_table_base(base);
        self.rtl.set_table_log_entries(log_entries);
        self.rtl.set_table_present(u8::from(base != 0));
        self.offer(Verilated::table_ready, Verilated::set_table_valid);
    }

    fn contains(&self, first: u64, count: u64) -> bool {
        first
            .checked_add(count)
            .is_some_and(|end| end <= self.entries)
    }

    fn invalidate(&mut self, first: u64, count: u64) {
        // The ports hold the number of entries of the largest table; the table itself is shorter.
        let (first, count) = (first.min(self.entries), count.min(self.entries));
        self.rtl.set_drop_first(first as u32);
        self.rtl.set_drop_count(count as u32);
        self.offer(Verilated::drop_ready, Verilated::set_drop_valid);
    }

    fn translate<H: Host>(
        &mut self,
        entry: &MemoryEntry,
        address: u64,
        dma: &mut Dma<'_, H>,
    ) -> Result<Run, ProtectionFault> {
        self.rtl.set_s_address(address);
        self.rtl.set_s_start(entry.start);
        self.rtl.set_s_length(entry.length);
        self.rtl.set_s_translation(entry.translation);
        self.rtl.set_s_first_page_offset(entry.first_page_offset);
        self.rtl.set_s_log_page_size(entry.word.log_page_size());
        self.rtl.set_s_direct(u8::from(entry.word.direct()));
        self.offer(Verilated::s_ready, Verilated::set_s_valid);
        let error = self.answer(dma);
        let run = Run {
            iova: self.rtl.m_iova(),
            length: self.rtl.m_length(),
        };
        let (page_fault, dma_fault) = (self.rtl.m_page_fault(), self.rtl.m_dma_fault());
        self.rtl.set_m_ready(1);
        self.rtl.cycle();
        self.rtl.set_m_ready(0);
        self.rtl.settle();
        match (error, page_fault) {
            (Some(error), _) => {
                assert_eq!(dma_fault, 1, "the module has seen the error");
                Err(ProtectionFault::Dma(error))
            }
            (None, 1) => Err(ProtectionFault::Page { address }),
            (None, _) => Ok(run),
        }
    }
}
