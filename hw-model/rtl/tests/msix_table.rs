//! The MSI-X table: random writes, masks, interrupts and resets. A masked vector sends no message
//! and stays pending; each interrupt of an unmasked vector sends one.

use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::msix_table::MsixTable;
use ferroce_spec::register::{MSIX_ENTRY_SIZE, MSIX_PENDING_OFFSET, MSIX_TABLE_OFFSET};
use ferroce_units::random::SplitMix64;

const SEEDS: u64 = 20;
const CYCLES_PER_SEED: u64 = 20_000;
const VECTORS: usize = 16;
/// Words of an entry: address, data, control.
const CONTROL: usize = 3;
const MASKED: u32 = 1;
/// Cycles in which a pending message of an unmasked vector has to come, if the port is free.
const MESSAGE_CYCLES_MAX: u64 = 2;

struct Bench {
    rtl: MsixTable,
    random: SplitMix64,
    table: [[u32; 4]; VECTORS],
    pending: u16,
    /// The vector whose message is offered.
    message: Option<usize>,
    /// Cycles in which a message should have come.
    late: u64,
    seen: [u64; 3],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut rtl = MsixTable::new();
        rtl.set_rst(1);
        rtl.set_reset(1);
        (0..2).for_each(|_| rtl.cycle());
        rtl.set_rst(0);
        rtl.set_reset(0);
        Self {
            rtl,
            random: SplitMix64::new(seed),
            table: [[0, 0, 0, MASKED]; VECTORS],
            pending: 0,
            message: None,
            late: 0,
            seen: [0; 3],
        }
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    /// Sets a write of one or two words, and returns its effect: vector, word and value. A control
    /// is mostly one bit.
    fn write(&mut self) -> Vec<(usize, usize, u32)> {
        let is_write = self.one_in(3);
        self.rtl.set_write_valid(is_write.into());
        if !is_write {
            return Vec::new();
        }
        let (vector, is_wide) = (self.random.below(VECTORS as u64) as usize, self.one_in(2));
        let word = self.random.below(4) as usize & if is_wide { 2 } else { 3 };
        let mut words = [self.random.number() as u32, self.random.number() as u32];
        let control = self.random.below(2) as u32;
        let of_control = CONTROL - word;
        if of_control < if is_wide { 2 } else { 1 } {
            words[of_control] = control;
        }
        // The pages beside the table belong to other registers.
        let is_table = !self.one_in(8);
        let begin = MSIX_TABLE_OFFSET + if is_table { 0 } else { 0x100 };
        let at = begin + vector as u32 * MSIX_ENTRY_SIZE + word as u32 * 4;
        self.rtl.set_write_wide(is_wide.into());
        self.rtl.set_write_at(at as u16);
        self.rtl
            .set_write_data(u64::from(words[0]) | u64::from(words[1]) << 32);
        let count = if is_wide { 2 } else { 1 } * usize::from(is_table);
        (0..count).map(|n| (vector, word + n, words[n])).collect()
    }

    fn is_masked(&self, vector: usize) -> bool {
        self.table[vector][CONTROL] & MASKED != 0
    }

    /// Compares a random pair of words, and the pending bits.
    fn compare(&mut self) {
        let pair = self.random.below(2 * VECTORS as u64) as usize;
        let table = MSIX_TABLE_OFFSET >> 3 & 0x3ff;
        self.rtl.set_pair_at(table as u16 + pair as u16);
        self.rtl.settle();
        let words = &self.table[pair / 2][pair % 2 * 2..];
        let expected = u64::from(words[0]) | u64::from(words[1]) << 32;
        assert_eq!(self.rtl.pair(), expected, "pair {pair}");
        self.rtl
            .set_pair_at((MSIX_PENDING_OFFSET >> 3 & 0x3ff) as u16);
        self.rtl.settle();
        assert_eq!(self.rtl.pair(), u64::from(self.pending), "pending bits");
    }

    fn check_message(&mut self) {
        let Some(vector) = self.message else {
            return;
        };
        let [low, high, data, _] = self.table[vector];
        assert_eq!(usize::from(self.rtl.message_vector()), vector);
        let address = u64::from(low) | u64::from(high) << 32;
        assert_eq!(self.rtl.message_address(), address);
        assert_eq!(self.rtl.message_data(), data);
    }

    /// Takes the message that has come after an edge: that of an interrupt, or a pending one, which
    /// waits for interrupts.
    fn take_message(&mut self, expected: Option<usize>, masked: u16, asks: bool) {
        self.rtl.settle();
        let came = self.rtl.message_valid() != 0;
        let vector = usize::from(self.rtl.message_vector());
        if let Some(expected) = expected {
            assert!(came && vector == expected, "no message of {expected}");
            self.seen[0] += 1;
        } else if came {
            let bit = 1 << vector;
            assert!(self.pending & bit != 0, "vector {vector} is not pending");
            assert!(masked & bit == 0, "vector {vector} is masked");
            self.pending &= !bit;
            self.seen[1] += 1;
        }
        self.message = came.then_some(vector);
        let is_late = !came && !asks && self.pending & !masked != 0;
        self.late = if is_late { self.late + 1 } else { 0 };
        assert!(self.late <= MESSAGE_CYCLES_MAX, "{:#x}", self.pending);
    }

    fn step(&mut self) {
        self.compare();
        let writes = self.write();
        let vector = self.random.below(VECTORS as u64) as usize;
        let (asks, takes) = (self.one_in(4), self.one_in(3));
        let resets = self.one_in(500);
        self.rtl.set_interrupt_valid(asks.into());
        self.rtl.set_interrupt_vector(vector as u8);
        self.rtl.set_message_ready(takes.into());
        self.rtl.set_reset(resets.into());
        self.rtl.settle();
        self.check_message();
        assert_eq!(
            self.rtl.interrupt_ready() != 0,
            self.message.is_none(),
            "one message at a time"
        );
        let masked = (0..VECTORS)
            .map(|n| u16::from(self.is_masked(n)) << n)
            .sum();
        let mut expected = None;
        let was_free = self.message.is_none();
        if was_free && asks {
            if self.is_masked(vector) {
                self.pending |= 1 << vector;
                self.seen[2] += 1;
            } else {
                expected = Some(vector);
            }
        }
        self.rtl.cycle();
        for (vector, word, value) in writes {
            self.table[vector][word] = value;
        }
        if resets {
            // The message of this cycle is lost with the reset; whether a pending one was, shows.
            self.rtl.settle();
            assert_eq!(self.rtl.message_valid(), 0, "a message leaves in a reset");
            self.message = None;
            self.resynchronize();
        } else if was_free {
            self.take_message(expected, masked, asks);
        } else if takes {
            self.message = None;
            self.rtl.settle();
            assert_eq!(self.rtl.message_valid(), 0);
        }
    }

    /// After a reset, at most the message that was about to leave is no longer pending.
    fn resynchronize(&mut self) {
        self.rtl
            .set_pair_at((MSIX_PENDING_OFFSET >> 3 & 0x3ff) as u16);
        self.rtl.settle();
        let left = self.rtl.pair() as u16;
        assert_eq!(left & !self.pending, 0, "a reset raises nothing");
        assert!((self.pending & !left).count_ones() <= 1);
        self.pending = left;
        self.late = 0;
    }
}

#[test]
fn masked_vectors_stay_pending_and_others_send_one_message() {
    let mut seen = [0; 3];
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        (0..CYCLES_PER_SEED).for_each(|_| bench.step());
        seen.iter_mut()
            .zip(bench.seen)
            .for_each(|(sum, n)| *sum += n);
    });
    println!("{seen:?} messages at once, messages after a mask, masked interrupts");
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}
