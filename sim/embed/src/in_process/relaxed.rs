//! Writes to regions with relaxed ordering: lines reach memory in a random order.
//!
//! PCIe lets a write with the relaxed ordering attribute pass earlier writes. What a program may
//! rely on is the completion, whose write does not pass others. A program that looks at the last
//! byte of a message instead works by chance, until it meets a host that reorders. Here some lines
//! of each write stay behind for a while; any access that is not relaxed comes after all of them.

use ferroce_host::memory::MemoryMap;
use ferroce_model::DmaError;
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};

/// Bytes of a line: what a root complex orders.
const LINE_BYTES: u64 = 64;
/// Maximum number of lines that wait; then all are written.
const MAX_WAITING: usize = 1024;
/// How long lines wait if no other access of the function pushes them.
const HOLD: Duration = Duration::from_us(200);
/// Stream of the random numbers of a seed.
const STREAM: u64 = 0x7265_6c61_7865_6431;

/// Lines that have not reached memory.
#[derive(Debug)]
pub(super) struct RelaxedWrites {
    random: Random,
    waiting: Vec<Line>,
    /// Since when some of them wait, as of the last run of the function.
    since: Option<Instant>,
}

/// Part of a write.
#[derive(Debug)]
struct Line {
    iova: u64,
    bytes: Box<[u8]>,
}

impl RelaxedWrites {
    /// Returns an order that `seed` reproduces.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed, STREAM),
            waiting: Vec::new(),
            since: None,
        }
    }

    /// Returns true if lines wait.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes some lines of `source` in a random order, and keeps the others.
    ///
    /// # Errors
    /// Of the lines that are written now.
    pub(super) fn write(
        &mut self,
        memory: &mut MemoryMap,
        iova: u64,
        source: &[u8],
    ) -> Result<(), DmaError> {
        let mut lines = lines(iova, source);
        shuffle(&self.random, &mut lines);
        let now = self.random.below(lines.len() as u64 + 1) as usize;
        let later = lines.split_off(now);
        if self.waiting.len() + later.len() > MAX_WAITING {
            self.settle(memory);
        }
        for line in &lines {
            // An older line of the same place would overwrite this one.
            if self.waiting.iter().any(|other| other.overlaps(line)) {
                self.settle(memory);
            }
            memory.write(line.iova, &line.bytes)?;
        }
        for line in later {
            if self.waiting.iter().any(|other| other.overlaps(&line)) {
                self.settle(memory);
            }
            self.waiting.push(line);
        }
        Ok(())
    }

    /// Writes all lines if the oldest has waited for [`HOLD`]; otherwise returns until when it
    /// waits.
    pub(super) fn settle_old(&mut self, memory: &mut MemoryMap, now: Instant) -> Option<Instant> {
        if !self.is_waiting() {
            return None;
        }
        let until = *self.since.get_or_insert(now) + HOLD;
        if until > now {
            return Some(until);
        }
        self.settle(memory);
        None
    }

    /// Writes all lines that wait.
    pub(super) fn settle(&mut self, memory: &mut MemoryMap) {
        self.since = None;
        shuffle(&self.random, &mut self.waiting);
        for line in self.waiting.drain(..) {
            // The region was valid when the write came; the peer has its answer.
            if let Err(error) = memory.write(line.iova, &line.bytes) {
                tracing::debug!("a relaxed write came too late: {error}");
            }
        }
    }
}

impl Line {
    fn overlaps(&self, other: &Self) -> bool {
        let (end, others) = (
            self.iova + self.bytes.len() as u64,
            other.iova + other.bytes.len() as u64,
        );
        self.iova < others && other.iova < end
    }
}

/// Returns the lines of a write, cut at multiples of [`LINE_BYTES`].
fn lines(iova: u64, source: &[u8]) -> Vec<Line> {
    let mut lines = Vec::with_capacity(source.len() / LINE_BYTES as usize + 2);
    let (mut iova, mut rest) = (iova, source);
    while !rest.is_empty() {
        let room = (LINE_BYTES - iova % LINE_BYTES) as usize;
        let (bytes, later) = rest.split_at(room.min(rest.len()));
        lines.push(Line {
            iova,
            bytes: bytes.into(),
        });
        iova += bytes.len() as u64;
        rest = later;
    }
    lines
}

/// Puts lines into a random order (Fisher and Yates).
fn shuffle(random: &Random, lines: &mut [Line]) {
    for index in (1..lines.len()).rev() {
        let other = random.below(index as u64 + 1) as usize;
        lines.swap(index, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_their_multiples_and_lose_nothing() {
        let source: Vec<u8> = (0..200).collect();
        let lines = lines(100, &source);
        let lengths: Vec<_> = lines.iter().map(|line| line.bytes.len()).collect();
        assert_eq!(lengths, [28, 64, 64, 44]);
        let all: Vec<u8> = lines.iter().flat_map(|line| line.bytes.to_vec()).collect();
        assert_eq!(all, source);
        assert!(!lines[0].overlaps(&lines[1]) && lines[1].overlaps(&lines[1]));
    }

    #[test]
    fn a_seed_reproduces_the_order() {
        let order = |seed| {
            let random = Random::new(seed, STREAM);
            let mut lines = lines(0, &[0; 4096]);
            shuffle(&random, &mut lines);
            lines.iter().map(|line| line.iova).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
