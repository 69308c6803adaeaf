//! The memory protection table against the model's, call by call: answers, faults, DMA, memory,
//! hits and misses.

mod common;

use common::host::{BASE, Table};
use ferroce_model::Counters;
use ferroce_model::dma::Dma;
use ferroce_model::numbering::CreateError;
use ferroce_model::translation::mpt::{Access, Mpt as Model, index_of, with_variant};
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_rtl::LINE;
use ferroce_rtl::mpt::Mpt;
use ferroce_rtl::mtt::SHAPE;
use ferroce_rtl::seeds::for_each_seed;
use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const CALLS_PER_SEED: usize = 2000;
/// Entries of the table: several times the cache's entries.
const LOG_ENTRIES: u8 = 7;

/// Calls a method of both tables, each with its own host and counters.
macro_rules! both {
    ($pair:ident, |$table:ident, $dma:ident| $model_call:expr, $rtl_call:expr) => {{
        let ($table, host, counters) = &mut $pair.model;
        let $dma = &mut Dma::new(host, counters, Instant::ZERO);
        let expected = $model_call;
        let ($table, host, counters) = &mut $pair.rtl;
        let $dma = &mut Dma::new(host, counters, Instant::ZERO);
        (expected, $rtl_call)
    }};
}

/// Both tables, each with its host and counters.
struct Pair {
    random: SplitMix64,
    model: (Model, Table, Counters),
    rtl: (Mpt, Table, Counters),
    has_table: bool,
    /// Keys of created entries.
    keys: Vec<u32>,
    /// Number of checks without a fault, and with each fault.
    answers: [u64; 7],
}

fn number_of(answer: &Result<MemoryEntry, ProtectionFault>) -> usize {
    match answer {
        Ok(_) => 0,
        Err(ProtectionFault::InvalidKey { .. }) => 1,
        Err(ProtectionFault::ProtectionDomain { .. }) => 2,
        Err(ProtectionFault::QueuePair { .. }) => 3,
        Err(ProtectionFault::Rights { .. }) => 4,
        Err(ProtectionFault::Bounds { .. }) => 5,
        Err(ProtectionFault::Dma(_)) => 6,
        Err(other) => panic!("a table of regions has no {other}"),
    }
}

impl Pair {
    fn new(seed: u64) -> Self {
        let table = Table::new(vec![[0; LINE]; 1 << LOG_ENTRIES]);
        let mut pair = Self {
            random: SplitMix64::new(seed),
            model: (Model::new(SHAPE), table.clone(), Counters::new()),
            rtl: (Mpt::new(), table, Counters::new()),
            has_table: false,
            keys: Vec::new(),
            answers: [0; 7],
        };
        pair.reset();
        pair
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn reset(&mut self) {
        // Sometimes there is no table.
        self.has_table = !self.one_in(8);
        let base = if self.has_table { BASE } else { 0 };
        self.model.0.reset(base, LOG_ENTRIES);
        let (rtl, table, counters) = &mut self.rtl;
        rtl.reset(
            base,
            LOG_ENTRIES,
            &mut Dma::new(table, counters, Instant::ZERO),
        );
    }

    /// Changes the lines that the host refuses.
    fn refuse(&mut self) {
        for line in 0..1 << LOG_ENTRIES {
            let unreadable = self.one_in(40);
            let unwritable = self.one_in(40);
            for table in [&mut self.model.1, &mut self.rtl.1] {
                table.unreadable[line] = unreadable;
                table.unwritable[line] = unwritable;
            }
        }
    }

    fn random_rights(&mut self) -> AccessRights {
        let bits = self.random.number() & self.random.number();
        AccessRights::from_bits(bits as u32 & 0x1f)
    }

    fn region(&mut self) -> MemoryEntry {
        // Some regions end at the last address, some extend beyond it.
        let start = match self.random.below(8) {
            0 => u64::MAX - self.random.below(0x1000),
            _ => self.random.number() >> self.random.below(50),
        };
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(12);
        word.set_window(self.one_in(3));
        word.set_window_type_2(self.one_in(2));
        word.set_bound(!self.one_in(4));
        MemoryEntry {
            word,
            key: self.random.below(256) as u32,
            pd: self.random.below(3) as u32,
            access: self.random_rights(),
            start,
            length: self.random.below(0x2000),
            qpn: self.random.below(3) as u32,
            ..MemoryEntry::default()
        }
    }

    /// Returns a key: an entry's, the same with another variant, or any.
    fn key(&mut self) -> u32 {
        if self.keys.is_empty() || self.one_in(50) {
            return self.random.number() as u32 >> self.random.below(24);
        }
        let key = self.keys[self.random.below(self.keys.len() as u64) as usize];
        let variant = self.random.number() as u32;
        if self.one_in(20) {
            with_variant(index_of(key), variant)
        } else {
            key
        }
    }

    fn create(&mut self) {
        let entry = self.region();
        // The model chooses the number; in RTL it is passed to the table, as by a card's command
        // processor.
        let (model, table, counters) = &mut self.model;
        let created = model.create(entry, None, &mut Dma::new(table, counters, Instant::ZERO));
        let (index, expected) = match created {
            Ok(key) => {
                self.keys.push(key);
                (index_of(key), Ok(()))
            }
            // If creation failed, the write of the entry was the first access.
            Err(CreateError::Dma(error)) => {
                let (iova, _) = self.model.1.accesses.first().expect("it was written");
                let index = ((iova - BASE) / LINE as u64) as u32;
                (index, Err(ProtectionFault::from(error)))
            }
            Err(CreateError::NoNumber | CreateError::Taken) => return,
        };
        let key = with_variant(index, entry.key);
        let (rtl, table, counters) = &mut self.rtl;
        let stored = rtl.store(
            MemoryEntry { key, ..entry },
            &mut Dma::new(table, counters, Instant::ZERO),
        );
        assert_eq!(stored, expected, "create {key:#x}");
    }

    fn remove(&mut self) {
        // The command processor removes only what exists.
        if self.keys.is_empty() || !self.has_table {
            return;
        }
        let place = self.random.below(self.keys.len() as u64) as usize;
        let key = self.keys[place];
        let is_valid = self.model.1.lines[index_of(key) as usize] != [0; LINE];
        if !is_valid {
            return;
        }
        let (expected, answer) = both!(
            self,
            |table, dma| table.remove(index_of(key), dma),
            table.remove(key, dma)
        );
        assert_eq!(
            answer,
            expected.map_err(ProtectionFault::from),
            "remove {key:#x}"
        );
        if answer.is_ok() {
            self.keys.swap_remove(place);
        }
    }

    /// Changes an entry in the cache, like the bind of a window.
    fn change(&mut self) {
        let (key, windows) = (self.key(), self.random.number() as u32);
        let (expected, answer) = both!(
            self,
            |table, dma| table.entry(key, dma).copied(),
            table.entry(key, dma)
        );
        assert_eq!(answer, expected, "entry {key:#x}");
        let Ok(entry) = answer else { return };
        let entry = MemoryEntry { windows, ..entry };
        let (rtl, table, counters) = &mut self.rtl;
        rtl.update(key, &entry, &mut Dma::new(table, counters, Instant::ZERO));
        // In the model, the change is made through the reference that `entry` returns; requesting
        // it again would count another hit.
        let (model, table, _) = &mut self.model;
        let mut uncounted = Counters::new();
        let dma = &mut Dma::new(table, &mut uncounted, Instant::ZERO);
        *model.entry(key, dma).expect("it is cached") = entry;
    }

    /// Returns an access to the region of a key, usually an allowed one.
    fn access(&mut self, key: u32) -> Access {
        let line = self.model.1.lines.get(index_of(key) as usize);
        let entry: MemoryEntry =
            line.map_or_else(MemoryEntry::default, |line| zerocopy::transmute!(*line));
        let wrong = self.random.below(12);
        let offset = self.random.below(entry.length.max(1));
        let rights = AccessRights::from_bits(match wrong {
            0 => self.random_rights().bits(),
            _ => entry.access.bits() & self.random_rights().bits(),
        });
        let room = entry.length.saturating_sub(offset);
        Access {
            pd: entry.pd + u32::from(wrong == 1),
            key,
            address: match wrong {
                2 => self.random.number(),
                3 => entry.start.wrapping_sub(1),
                _ => entry.start.wrapping_add(offset),
            },
            length: match wrong {
                4 => room + 1,
                5 => self.random.number(),
                6 => room,
                _ => self.random.below(room.max(1)),
            },
            rights,
            qpn: entry.qpn + u32::from(wrong == 7),
        }
    }

    fn check(&mut self) {
        let key = self.key();
        let access = self.access(key);
        let (expected, answer) = both!(
            self,
            |table, dma| table.check(&access, dma).copied(),
            table.check(&access, dma)
        );
        assert_eq!(answer, expected, "{access:x?}");
        self.answers[number_of(&answer)] += 1;
    }

    fn compare(&self) {
        assert_eq!(self.rtl.2.values(), self.model.2.values(), "counters");
        assert!(self.rtl.1 == self.model.1, "DMA or memory");
    }
}

#[test]
fn random_calls_get_the_answers_of_the_model() {
    let (mut cycles, mut answers) = (0, [0; 7]);
    for_each_seed(SEEDS, |seed| {
        let mut pair = Pair::new(seed);
        for _ in 0..CALLS_PER_SEED {
            match pair.random.below(100) {
                0 if pair.one_in(4) => pair.reset(),
                1 => pair.refuse(),
                2..=11 => pair.create(),
                12..=16 => pair.remove(),
                17..=30 => pair.change(),
                _ => pair.check(),
            }
            pair.compare();
            // Results that were compared are not compared again.
            pair.model.1.accesses.clear();
            pair.rtl.1.accesses.clear();
        }
        cycles += pair.rtl.0.rtl().cycles();
        answers
            .iter_mut()
            .zip(pair.answers)
            .for_each(|(sum, n)| *sum += n);
    });
    println!("{cycles} cycles, {answers:?} answers: none, then each fault");
    assert!(answers.iter().all(|count| *count > 0), "{answers:?}");
}
