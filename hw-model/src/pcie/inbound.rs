//! The direction from the host: completions of the card's reads, and stores of processors.
//!
//! The root port has two sources for these lanes, and serves them request by request: after the
//! completions of one read request, it takes the processor's store if there is one. So a store
//! waits for the rest of the completions of the request that is on the lanes, but not for the
//! completions of later requests.
//!
//! The phase between a loop of posts and the completions is not known, so a store sees the lanes at
//! a random time of the last few reads. Reads of `D` of lane time that come every `T`, in requests
//! of `d`, meet a store with probability `D / T`, which then waits for half a request: for
//! `D * d / 2 T` on average.

use ferroce_units::random::SplitMix64;
use ferroce_units::{Duration, Instant};

use super::link::{Lane, Rate};
use super::tlp::{Limits, Tlps};

/// Number of remembered reads: some messages with their WQEs. In steady traffic the number does not
/// matter.
const READS: usize = 8;
/// Makes these random numbers differ from the ones for read latencies.
const SEED: u64 = 0x1b0d;

/// Completions of one read on the lanes.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    begin: Instant,
    end: Instant,
}

/// The lanes from the host.
#[derive(Debug)]
pub struct Inbound {
    lane: Lane,
    random: SplitMix64,
    /// Lane time of the completions of the longest request.
    request: Duration,
    /// The newest reads, in a ring.
    reads: [Read; READS],
    /// Place of the oldest one, which the next one replaces.
    oldest: usize,
}

impl Inbound {
    /// Returns idle lanes. The same seed gives the same waits.
    pub fn new(rate: Rate, limits: Limits, seed: u64) -> Self {
        Self {
            lane: Lane::new(rate),
            request: rate.span(limits.longest_completions().wire_bytes),
            random: SplitMix64::new(seed ^ SEED),
            reads: [Read::default(); READS],
            oldest: 0,
        }
    }

    /// Returns the time that `bytes` take.
    #[inline]
    pub fn span(&self, bytes: u64) -> Duration {
        self.lane.span(bytes)
    }

    /// Reserves the time for TLPs from `now` on; returns when they begin and end.
    #[inline]
    pub fn reserve(&mut self, now: Instant, tlps: Tlps) -> (Instant, Instant) {
        self.lane.reserve(now, tlps)
    }

    /// As [`Inbound::reserve`], for the completions of a read that cross the root port. A GPU on
    /// the card's switch sends none there.
    #[inline]
    pub fn reserve_read(&mut self, now: Instant, completions: Tlps) -> (Instant, Instant) {
        let (begin, end) = self.lane.reserve(now, completions);
        self.reads[self.oldest] = Read { begin, end };
        self.oldest = (self.oldest + 1) % READS;
        (begin, end)
    }

    /// Returns for how long a processor's store at `now` waits until the root port takes it.
    #[inline]
    pub fn time_until_taken(&mut self, now: Instant) -> Duration {
        let newest = self.reads[(self.oldest + READS - 1) % READS];
        let from = self.reads[self.oldest].begin;
        let period = newest.begin.max(now) - from;
        let seen = from + Duration::from_ps(self.random.below(period.as_ps().max(1)));
        let mut reads = self.reads.iter();
        let met = reads.find(|read| read.begin <= seen && seen < read.end);
        met.map_or(Duration::ZERO, |read| {
            let request = self.request.as_ps().max(1);
            let rest = request - (seen - read.begin).as_ps() % request;
            (read.end - seen).min(Duration::from_ps(rest))
        })
    }

    /// Returns the lanes, for their totals.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }
}
