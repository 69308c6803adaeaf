//! Commands on memory regions: no translation of a region stays in the cache after the region was
//! created, changed or deregistered. The commands' results are tested on the whole card.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::command_memory::CommandMemory;
use ferroce_rtl::words;
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::{AccessRights, LOG_PAGE_SIZES, MemoryEntry, MemoryEntryWord};
use ferroce_units::random::SplitMix64;
use zerocopy::IntoBytes;

const SEEDS: u64 = 20;
const REGIONS_PER_SEED: u64 = 30;
const CYCLES_MAX: u64 = 100_000;
const LOG_REGIONS: u8 = 8;
const LOG_PAGES: u8 = 20;

/// `entry_op` of the module.
mod op {
    pub const ENTRY: u8 = 1;
    pub const STORE: u8 = 3;
    pub const REMOVE: u8 = 4;
    pub const PAGES_DROP: u8 = 7;
}

/// An operation of memory_unit: key, or number of pages; first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Entry(u32),
    Store(u32),
    Remove(u32),
    Drop { first: u64, pages: u32 },
}

struct Bench {
    rtl: CommandMemory,
    random: SplitMix64,
    /// The operations of a command.
    operations: Vec<Operation>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut rtl = CommandMemory::new();
        rtl.set_rst(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        rtl.set_has_tables(1);
        rtl.set_log_mrs(LOG_REGIONS);
        rtl.set_log_mtts(LOG_PAGES);
        Self {
            rtl,
            random: SplitMix64::new(seed),
            operations: Vec::new(),
        }
    }

    fn region(&mut self) -> MemoryEntry {
        let mut word = MemoryEntryWord::default();
        let log_page_size = LOG_PAGE_SIZES[self.random.below(3) as usize];
        word.set_log_page_size(log_page_size);
        word.set_direct(self.random.below(5) == 0);
        let page = 1u64 << log_page_size;
        let length = match self.random.below(4) {
            0 => 1,
            1 => page * (1 + self.random.below(20)),
            2 => page * (1 + self.random.below(20)) + 1,
            _ => 1 + self.random.below(20 * page),
        };
        MemoryEntry {
            word,
            access: AccessRights::from_bits(1),
            start: self.random.number() >> 8,
            length,
            translation: self.random.below((1 << LOG_PAGES) - 64),
            first_page_offset: match self.random.below(3) {
                0 => 0,
                1 => page - 1,
                _ => self.random.below(page),
            },
            ..MemoryEntry::default()
        }
    }

    fn read_operation(&self) -> Operation {
        let (key, base) = (self.rtl.entry_key(), self.rtl.entry_base());
        match self.rtl.entry_op() {
            op::ENTRY => Operation::Entry(key),
            op::STORE => Operation::Store(key),
            op::REMOVE => Operation::Remove(key),
            op::PAGES_DROP => Operation::Drop {
                first: base,
                pages: key,
            },
            other => panic!("operation {other}"),
        }
    }

    /// Acts as memory_unit for a cycle: `stored` is the entry in its table.
    fn step(&mut self, stored: &MemoryEntry) {
        let is_ready = self.random.below(3) == 0;
        self.rtl.set_entry_ready(is_ready.into());
        self.rtl.settle();
        let is_taken = is_ready && self.rtl.entry_valid() != 0;
        if is_taken {
            let operation = self.read_operation();
            self.operations.push(operation);
        }
        self.rtl.cycle();
        if !is_taken {
            return;
        }
        self.rtl.set_entry_ready(0);
        (0..self.random.below(6)).for_each(|_| self.rtl.cycle());
        self.rtl.set_entry_answer(words(stored.as_bytes(), 0));
        self.rtl.set_entry_done(1);
        self.rtl.cycle();
        self.rtl.set_entry_done(0);
        self.rtl.settle();
    }

    /// Executes a command; returns its result.
    fn execute(
        &mut self,
        opcode: CommandOpcode,
        argument: u64,
        asked: &MemoryEntry,
        stored: &MemoryEntry,
    ) -> u64 {
        self.operations.clear();
        self.rtl.set_opcode(opcode.0);
        self.rtl.set_argument(argument);
        self.rtl.set_mail(words(asked.as_bytes(), 0));
        self.rtl.set_start(1);
        self.rtl.cycle();
        self.rtl.set_start(0);
        self.rtl.settle();
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while self.rtl.done() == 0 {
            self.step(stored);
            assert!(self.rtl.cycles() < limit, "{opcode:?} does not end");
        }
        assert_eq!(self.rtl.outcome_status(), 0, "{opcode:?}");
        let result = self.rtl.outcome_result();
        self.rtl.cycle();
        result
    }
}

/// Returns the operation that drops the translations of a region, if it has any.
fn drop_of(region: &MemoryEntry) -> Option<Operation> {
    let page = 1u64 << region.word.log_page_size();
    let pages = (region.first_page_offset + region.length).div_ceil(page);
    (!region.word.direct()).then_some(Operation::Drop {
        first: region.translation,
        pages: pages as u32,
    })
}

/// Goal: all pages of a region leave the cache, after its entry was changed. Method: regions with
/// pages of all sizes that begin and end anywhere in a page.
#[test]
fn translations_of_a_region_are_dropped() {
    let mut drops = 0;
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        let none = MemoryEntry::default();
        for _ in 0..REGIONS_PER_SEED {
            let (mut first, second) = (bench.region(), bench.region());
            let key = bench.execute(CommandOpcode::CREATE_MR, 0, &first, &none) as u32;
            let mut expected = vec![Operation::Store(key)];
            expected.extend(drop_of(&first));
            assert_eq!(bench.operations, expected, "CREATE_MR of {first:x?}");

            first.key = key;
            let asked = MemoryEntry { key, ..second };
            bench.execute(CommandOpcode::MODIFY_MR, key.into(), &asked, &first);
            let mut expected = vec![Operation::Entry(key), Operation::Store(key)];
            expected.extend([&first, &second].into_iter().filter_map(drop_of));
            assert_eq!(bench.operations, expected, "MODIFY_MR to {second:x?}");

            bench.execute(CommandOpcode::DESTROY_MR, key.into(), &none, &asked);
            let mut expected = vec![Operation::Entry(key), Operation::Remove(key)];
            expected.extend(drop_of(&second));
            assert_eq!(bench.operations, expected, "DESTROY_MR of {second:x?}");
            drops += expected.len() - 2;
        }
    });
    assert!(drops > 0);
}
