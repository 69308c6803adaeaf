//! pcie-bench on the model: random accesses within a window of host memory.
//!
//! The method of Neugebauer et al. (SIGCOMM 2018): the window is warm, and accesses start at random
//! multiples of 64 bytes in it (of the transfer size where that is a power of two and larger).
//! Latency is measured with one access at a time, bandwidth with many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

use super::{Parameters, Pcie};

/// Start of the window.
const WINDOW_START: u64 = 1 << 32;
/// Accesses that the device keeps in flight if nothing limits it.
const OUTSTANDING: u32 = 512;
const CACHE_LINE_BYTES: u64 = 64;
const SEED: u64 = 1;

/// The accesses of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It alternates reads and writes.
    ReadWrite,
}

/// Latencies of reads, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// The minimum.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The mean.
    pub avg: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

/// Returns the bandwidth, in Gb/s of data, of `count` accesses of `bytes` each within a window of
/// `window` bytes. For [`Direction::ReadWrite`] it is the bandwidth of each direction.
pub fn bandwidth(
    parameters: &Parameters,
    direction: Direction,
    bytes: u64,
    window: u64,
    count: u32,
) -> f64 {
    let mut run = Run::new(parameters, bytes, window);
    run.warm();
    let mut under_way: BinaryHeap<Reverse<Instant>> = BinaryHeap::new();
    under_way.extend((0..OUTSTANDING.min(count / 4)).map(|_| Reverse(run.start)));
    // The first quarter fills the pipeline.
    let settled = count / 4;
    let (mut from, mut to) = (run.start, run.start);
    for index in 0..count {
        let Some(Reverse(now)) = under_way.pop() else {
            return 0.0;
        };
        if index == settled {
            from = now;
        }
        to = now;
        under_way.push(Reverse(run.access(now, direction)));
    }
    let bits = 8 * bytes * u64::from(count - 1 - settled);
    bits as f64 * 1000.0 / (to - from).as_ps().max(1) as f64
}

/// Returns the latencies of `count` reads of `bytes` each, one after the other, within a window of
/// `window` bytes.
pub fn latency(parameters: &Parameters, bytes: u64, window: u64, count: u32) -> Latency {
    let mut run = Run::new(parameters, bytes, window);
    run.warm();
    let mut now = run.start;
    let mut latencies: Vec<u64> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let done = run.access(now, Direction::Read);
        latencies.push((done - now).as_ps());
        now = done;
    }
    latencies.sort_unstable();
    let rank = |share: f64| {
        let index = (share * latencies.len() as f64) as usize;
        let ps = latencies.get(index.min(latencies.len().saturating_sub(1)));
        ps.map_or(0.0, |ps| *ps as f64 / 1000.0)
    };
    let sum: u64 = latencies.iter().sum();
    Latency {
        min: rank(0.0),
        median: rank(0.5),
        avg: sum as f64 / 1000.0 / f64::from(count.max(1)),
        p95: rank(0.95),
        p999: rank(0.999),
    }
}

/// A link, and the position of the next access.
struct Run {
    pcie: Pcie,
    random: SplitMix64,
    bytes: u64,
    window: u64,
    stride: u64,
    start: Instant,
}

impl Run {
    fn new(parameters: &Parameters, bytes: u64, window: u64) -> Self {
        Self {
            pcie: Pcie::new(parameters, SEED),
            random: SplitMix64::new(SEED),
            bytes,
            window: window.max(bytes),
            stride: bytes.next_power_of_two().clamp(CACHE_LINE_BYTES, 4096),
            start: Instant::ZERO,
        }
    }

    /// Reads the window once and leaves the link idle.
    fn warm(&mut self) {
        for offset in (0..self.window).step_by(4096) {
            self.pcie.begin(self.start);
            let iova = WINDOW_START + offset;
            self.start = self.pcie.read(self.start, iova, CACHE_LINE_BYTES);
        }
    }

    fn access(&mut self, now: Instant, direction: Direction) -> Instant {
        self.pcie.begin(now);
        let read = match direction {
            Direction::Write => now,
            Direction::Read | Direction::ReadWrite => {
                let iova = self.address();
                self.pcie.read(now, iova, self.bytes)
            }
        };
        let written = match direction {
            Direction::Read => now,
            Direction::Write | Direction::ReadWrite => {
                let iova = self.address();
                self.pcie.write(now, iova, self.bytes)
            }
        };
        read.max(written)
    }

    fn address(&mut self) -> u64 {
        let places = (self.window - self.bytes) / self.stride + 1;
        // The bias is below places / 2^32.
        let high = self.random.number() >> 32;
        let place = (high * places.min(u64::from(u32::MAX))) >> 32;
        WINDOW_START + place * self.stride
    }
}
