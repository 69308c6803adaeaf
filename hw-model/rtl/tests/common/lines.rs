//! The host's side of a DMA read port with many outstanding reads: lines come in any order.

use ferroce_rtl::LINE;
use ferroce_units::random::{SplitMix64, mixed};

/// Outstanding reads, of a memory whose bytes are computed from their address.
#[derive(Debug)]
pub struct Lines {
    random: SplitMix64,
    /// Number of cycles, of 16, that take a read, and that return a line.
    rates: [u64; 2],
    /// Minimum cycles from a read to its line.
    latency: u64,
    /// One of this many lines cannot be read; 0: all can.
    refused_of: u64,
    in_order: bool,
    now: u64,
    count: u64,
    under_way: Vec<(u64, u8, u64)>,
}

impl Lines {
    /// With every fourth seed, the host never waits.
    pub fn new(seed: u64, random: &mut SplitMix64) -> Self {
        let is_fast = seed % 4 == 0;
        Self {
            rates: if is_fast {
                [16; 2]
            } else {
                core::array::from_fn(|_| 1 + random.below(16))
            },
            latency: random.below(100),
            refused_of: if is_fast { 0 } else { 200 },
            in_order: is_fast,
            random: SplitMix64::new(random.number()),
            now: 0,
            count: 0,
            under_way: Vec::new(),
        }
    }

    pub fn set_latency(&mut self, cycles: u64) {
        self.latency = cycles;
    }

    /// Returns the number of lines that were read.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn byte(&self, iova: u64) -> u8 {
        mixed(iova / 8).to_le_bytes()[iova as usize % 8]
    }

    pub fn is_unreadable(&self, iova: u64) -> bool {
        self.refused_of != 0 && mixed(!(iova / LINE as u64)) % self.refused_of == 0
    }

    /// Returns true if a read is taken in this cycle.
    pub fn is_ready(&mut self) -> bool {
        self.random.below(16) < self.rates[0]
    }

    pub fn read(&mut self, iova: u64, index: u8) {
        assert_eq!(iova % LINE as u64, 0);
        let in_use = self.under_way.iter().any(|&(_, other, _)| other == index);
        assert!(!in_use, "slot {index} is in use");
        self.count += 1;
        self.under_way.push((iova, index, self.now + self.latency));
    }

    /// Returns the line of this cycle: index, error, bytes. Call it once a cycle.
    pub fn line(&mut self) -> Option<(u8, bool, [u8; LINE])> {
        self.now += 1;
        if self.under_way.is_empty() || self.random.below(16) >= self.rates[1] {
            return None;
        }
        let place = if self.in_order {
            0
        } else {
            self.random.below(self.under_way.len() as u64) as usize
        };
        if self.under_way[place].2 > self.now {
            return None;
        }
        let (iova, index, _) = self.under_way.remove(place);
        let is_refused = self.is_unreadable(iova);
        // A line with an error does not have the content of memory.
        let noise = if is_refused { 0xff } else { 0 };
        let line = core::array::from_fn(|i| self.byte(iova + i as u64) ^ noise);
        Some((index, is_refused, line))
    }
}

/// Sets the read port's inputs of a cycle.
macro_rules! offer {
    ($rtl:expr, $lines:expr) => {
        let line = $lines.line();
        $rtl.set_line_valid(line.is_some().into());
        if let Some((index, error, line)) = line {
            $rtl.set_line_index(index);
            $rtl.set_line_error(error.into());
            $rtl.set_line_data(ferroce_rtl::words(&line, 0));
        }
        $rtl.set_read_ready($lines.is_ready().into());
    };
}

/// Takes the read of a cycle, after its outputs have settled.
macro_rules! take {
    ($rtl:expr, $lines:expr) => {
        if $rtl.read_valid() & $rtl.read_ready() != 0 {
            $lines.read($rtl.read_iova(), $rtl.read_index());
        }
    };
}

pub(crate) use {offer, take};
