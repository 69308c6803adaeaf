//! Numbers of objects, compared with a set: chosen by software, chosen by the card, and after
//! resets.

use std::collections::BTreeSet;

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::number_table::NumberTable;
use ferroce_spec::command::CommandStatus;
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 40;
const CALLS: usize = 500;
const ENTRIES: u32 = 16;
const FIRST: u32 = 2;
/// Maximum cycles of a search, including the clearing of the table before it.
const CYCLES_MAX: u32 = ENTRIES + 2 * ENTRIES + 4;

struct Bench {
    rtl: NumberTable,
    random: SplitMix64,
    capacity: u32,
    taken: BTreeSet<u32>,
    /// The last allocated number.
    newest: u32,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut bench = Self {
            rtl: NumberTable::new(),
            random: SplitMix64::new(seed),
            capacity: 0,
            taken: BTreeSet::new(),
            newest: 0,
        };
        bench.reset();
        bench
    }

    fn reset(&mut self) {
        self.capacity = match self.random.below(8) {
            0 => 0,
            1 => FIRST,
            2..=4 => ENTRIES,
            _ => 4 + self.random.below(u64::from(ENTRIES - 4)) as u32,
        };
        self.rtl.set_capacity(self.capacity as u8);
        self.rtl.set_rst(1);
        (0..3).for_each(|_| self.rtl.cycle());
        self.rtl.set_rst(0);
        // Also while the table is being cleared.
        (0..self.random.below(20)).for_each(|_| self.rtl.cycle());
        self.taken.clear();
        self.newest = FIRST - 1;
    }

    /// Returns the number that a search must find.
    fn expected(&self, chosen: Option<u32>) -> Result<u32, CommandStatus> {
        let table = FIRST..self.capacity;
        match chosen {
            Some(number) if !table.contains(&number) => Err(CommandStatus::NO_RESOURCES),
            Some(number) if self.taken.contains(&number) => Err(CommandStatus::BUSY),
            Some(number) => Ok(number),
            None => (1..=ENTRIES)
                .map(|step| (self.newest + step) % ENTRIES)
                .find(|number| table.contains(number) && !self.taken.contains(number))
                .ok_or(CommandStatus::NO_RESOURCES),
        }
    }

    /// Requests a number, and allocates it unless the create fails for another reason.
    fn ask(&mut self) {
        let chosen = match self.random.below(8) {
            0..=2 => None,
            3 => Some(self.random.number() as u32),
            _ => Some(self.random.below(u64::from(ENTRIES) + 3) as u32),
        };
        self.rtl.set_ask(1);
        self.rtl.set_chosen(chosen.is_some().into());
        self.rtl
            .set_wanted(chosen.unwrap_or(self.random.number() as u32));
        self.rtl.cycle();
        self.rtl.set_ask(0);
        let mut cycles = 0;
        while self.rtl.answered() == 0 {
            self.rtl.cycle();
            cycles += 1;
            assert!(
                cycles < CYCLES_MAX,
                "the search for {chosen:?} does not end"
            );
        }
        // The answer stays.
        (0..1 + self.random.below(3)).for_each(|_| self.rtl.cycle());
        let found = match CommandStatus(self.rtl.status()) {
            CommandStatus::SUCCESS => Ok(u32::from(self.rtl.number())),
            status => Err(status),
        };
        assert_eq!(found, self.expected(chosen), "{chosen:?}: {:?}", self.taken);
        if let Ok(number) = found {
            if self.random.below(4) > 0 {
                self.rtl.set_take(1);
                self.rtl.cycle();
                self.rtl.set_take(0);
                self.taken.insert(number);
                self.newest = number;
            }
        }
    }

    fn give(&mut self) {
        let place = self.random.below(self.taken.len().max(1) as u64) as usize;
        let Some(number) = self.taken.iter().copied().nth(place) else {
            return;
        };
        self.rtl.set_give_valid(1);
        self.rtl.set_give_number(number as u8);
        self.rtl.cycle();
        self.rtl.set_give_valid(0);
        self.taken.remove(&number);
    }
}

#[test]
fn searches_find_what_a_set_has() {
    let mut found = [0; 2];
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        for _ in 0..CALLS {
            match bench.random.below(100) {
                0 => bench.reset(),
                1..=35 => bench.give(),
                _ => bench.ask(),
            }
        }
        found[usize::from(bench.taken.is_empty())] += 1;
    });
    assert!(found[0] > 0, "no seed has taken a number");
}
