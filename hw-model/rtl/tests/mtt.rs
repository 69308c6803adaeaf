//! The memory translation table against the model's, call by call: translations, faults, DMA, hits
//! and misses.

mod common;

use common::host::{BASE, Table};
use ferroce_model::Counters;
use ferroce_model::dma::Dma;
use ferroce_model::translation::mtt::{Mtt as Model, TranslationTable};
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_rtl::mtt::{Mtt, SHAPE};
use ferroce_rtl::seeds::for_each_seed;
use ferroce_spec::context::{LOG_PAGE_SIZES, MemoryEntry, TranslationEntry};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const CALLS_PER_SEED: usize = 2000;

/// Both tables, each with its host and counters.
struct Pair {
    random: SplitMix64,
    log_entries: u8,
    model: (Model, Table, Counters),
    rtl: (Mtt, Table, Counters),
    faults: [u64; 2],
}

fn random_entry(random: &mut SplitMix64) -> [u8; 8] {
    let mut bits = TranslationEntry::new(random.number()).bits();
    if random.below(16) == 0 {
        bits &= !1; // not present
    }
    bits.to_le_bytes()
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let log_entries = 9 + random.below(3) as u8;
        let lines = (0..1 << (log_entries - 3)).map(|_| {
            let entries = (0..8).flat_map(|_| random_entry(&mut random));
            let entries: Vec<u8> = entries.collect();
            entries.try_into().expect("eight entries are a line")
        });
        let mut table = Table::new(lines.collect());
        for line in &mut table.unreadable {
            *line = random.below(32) == 0;
        }
        let mut pair = Self {
            random,
            log_entries,
            model: (Model::new(SHAPE), table.clone(), Counters::new()),
            rtl: (Mtt::new(SHAPE), table, Counters::new()),
            faults: [0; 2],
        };
        pair.reset();
        pair
    }

    fn entries(&self) -> u64 {
        1 << self.log_entries
    }

    fn reset(&mut self) {
        // Sometimes there is no table.
        let base = if self.random.below(8) == 0 { 0 } else { BASE };
        self.model.0.reset(base, self.log_entries);
        self.rtl.0.reset(base, self.log_entries);
    }

    /// Changes entries in host memory, and drops them from the caches.
    fn invalidate(&mut self) {
        let first = self.random.below(self.entries() + 8);
        let count = match self.random.below(8) {
            0 => self.random.number(),
            1 => self.random.below(self.entries()),
            _ => self.random.below(20),
        };
        let behind = first.saturating_add(count).min(self.entries());
        for index in first..behind {
            let entry = random_entry(&mut self.random);
            let (line, at) = (index as usize / 8, index as usize % 8 * 8);
            self.model.1.lines[line][at..at + 8].copy_from_slice(&entry);
            self.rtl.1.lines[line][at..at + 8].copy_from_slice(&entry);
        }
        self.model.0.invalidate(first, count);
        self.rtl.0.invalidate(first, count);
    }

    /// Returns a region, and an address in it.
    fn region(&mut self) -> (MemoryEntry, u64) {
        let entries = self.entries();
        let random = &mut self.random;
        let log_page = LOG_PAGE_SIZES[random.below(3) as usize];
        let pages = 1 + random.below(12);
        let mut entry = MemoryEntry {
            start: random.number() >> 8 >> random.below(40),
            length: (pages << log_page) - random.below(4096),
            first_page_offset: random.below(4096),
            ..MemoryEntry::default()
        };
        entry.word.set_log_page_size(match random.below(50) {
            0 => random.number() as u8,
            _ => log_page,
        });
        entry.word.set_direct(random.below(10) == 0);
        entry.translation = match random.below(50) {
            0 => random.number(),
            _ => random.below(entries + 4),
        };
        let address = entry.start + random.below(entry.length);
        (entry, address)
    }

    fn translate(&mut self) {
        let (entry, address) = self.region();
        let (model, table, counters) = &mut self.model;
        let expected = model.translate(
            &entry,
            address,
            &mut Dma::new(table, counters, Instant::ZERO),
        );
        let (rtl, table, counters) = &mut self.rtl;
        let answer = rtl.translate(
            &entry,
            address,
            &mut Dma::new(table, counters, Instant::ZERO),
        );
        assert_eq!(answer, expected, "{entry:?} at {address:#x}");
        match answer {
            Err(ProtectionFault::Page { .. }) => self.faults[0] += 1,
            Err(_) => self.faults[1] += 1,
            Ok(_) => {}
        }
    }

    fn compare(&self) {
        assert_eq!(self.rtl.2.values(), self.model.2.values(), "counters");
        assert_eq!(self.rtl.1.accesses, self.model.1.accesses, "DMA");
    }
}

#[test]
fn random_calls_get_the_answers_of_the_model() {
    let (mut cycles, mut faults, mut reads) = (0, [0; 2], 0);
    for_each_seed(SEEDS, |seed| {
        let mut pair = Pair::new(seed);
        for _ in 0..CALLS_PER_SEED {
            match pair.random.below(100) {
                0 => pair.reset(),
                1..=4 => pair.invalidate(),
                _ => pair.translate(),
            }
            pair.compare();
        }
        cycles += pair.rtl.0.rtl().cycles();
        reads += pair.rtl.1.accesses.len();
        faults = [faults[0] + pair.faults[0], faults[1] + pair.faults[1]];
    });
    println!("{cycles} cycles, {reads} lines read, {faults:?} page and DMA faults");
    assert!(faults[0] > 0 && faults[1] > 0);
}
