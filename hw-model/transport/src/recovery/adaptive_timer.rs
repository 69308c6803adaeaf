//! The adaptive retransmission timer (ADP) of ConnectX, according to its documentation: timeouts in
//! ranges that double, rather than one timeout per queue pair.
//!
//! Each timeout is `base` times a power of two; the exponent is its *granularity*. The first one is
//! random, so that many queue pairs do not expire at once, and is used once. Then each granularity
//! of a range is used a number of times before it grows by one; after the last granularity of a
//! range follows the next range. Progress reduces the granularity, and takes it from the lowest of
//! a range to the last one of the range's `previous` range.

use ferroce_units::Duration;
use ferroce_units::random::mixed;

/// Maximum number of ranges in a profile.
const MAX_RANGES: usize = 4;
/// Largest granularity in use; the longest timeout of the IBTA is 4.096 us times 2^31.
const MAX_GRANULARITY: u8 = 31;

/// How far progress reduces the granularity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeoutDecrement {
    /// To the lowest granularity of the range.
    #[default]
    Reset,
    /// By one: half the timeout.
    Half,
    /// By two: a quarter of the timeout.
    Quarter,
}

/// Consecutive granularities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeoutRange {
    /// The lowest one.
    pub low: u8,
    /// Number of granularities.
    pub size: u8,
    /// Timeouts per granularity.
    pub retries: u16,
    /// Effect of progress.
    pub decrement: TimeoutDecrement,
    /// Index of the range to which progress leads from the lowest granularity: this range, which is
    /// then not left, or an earlier one.
    pub previous: u8,
}

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveTimer {
    /// The factor of the powers of two.
    base: Duration,
    /// The lowest first granularity, and the number of first granularities.
    first: (u8, u8),
    ranges: [TimeoutRange; MAX_RANGES],
    range_count: u8,
    start_range: u8,
    /// Granularity of the time without progress after which the queue pair fails; `None`: its retry
    /// count times its local ACK timeout, or without the cap only its retry count.
    total: Option<u8>,
    /// True if no timeout exceeds the local ACK timeout.
    is_capped: bool,
}

impl AdaptiveTimer {
    /// Maximum number of ranges in a profile.
    pub const MAX_RANGES: usize = MAX_RANGES;
    /// Minimum base.
    pub const MIN_BASE: Duration = Duration::from_us(4);
    /// The default profile of a card: 2, 4, 8 and 16 ms, whatever the local ACK timeout.
    pub const DEFAULT: AdaptiveTimer = AdaptiveTimer {
        base: Duration::from_us(4),
        first: (9, 1),
        ranges: [TimeoutRange {
            low: 9,
            size: 4,
            retries: 1,
            decrement: TimeoutDecrement::Reset,
            previous: 0,
        }; MAX_RANGES],
        range_count: 1,
        start_range: 0,
        total: None,
        is_capped: false,
    };

    /// Returns a profile, or `None` if it is invalid. `base` must be a power of two of microseconds
    /// and at least [`AdaptiveTimer::MIN_BASE`]; `first` is the lowest first granularity and their
    /// number; `ranges` must be 1 to [`AdaptiveTimer::MAX_RANGES`] non-empty ranges in ascending
    /// order, none of which leads to a later one, and must include `start_range`.
    #[must_use]
    pub fn new(
        base: Duration,
        first: (u8, u8),
        ranges: &[TimeoutRange],
        start_range: u8,
        total: Option<u8>,
    ) -> Option<AdaptiveTimer> {
        let base_us = base.as_ps() / Duration::from_us(1).as_ps();
        let is_base = base_us.is_power_of_two() && base == Duration::from_us(base_us);
        let fits = |low: u8, size: u8| size > 0 && low.saturating_add(size - 1) <= MAX_GRANULARITY;
        let are_ranges = ranges.iter().all(|range| fits(range.low, range.size))
            && ranges.windows(2).all(|pair| pair[0].low < pair[1].low)
            && (0..)
                .zip(ranges)
                .all(|(index, range)| range.previous <= index)
            && usize::from(start_range) < ranges.len()
            && ranges.len() <= MAX_RANGES;
        let is_valid = is_base
            && base >= Self::MIN_BASE
            && are_ranges
            && fits(first.0, first.1)
            && total.is_none_or(|total| total <= MAX_GRANULARITY);
        let mut all = [TimeoutRange::default(); MAX_RANGES];
        if is_valid {
            all[..ranges.len()].copy_from_slice(ranges);
        }
        is_valid.then_some(AdaptiveTimer {
            base,
            first,
            ranges: all,
            range_count: ranges.len() as u8,
            start_range,
            total,
            is_capped: true,
        })
    }

    fn ranges(&self) -> &[TimeoutRange] {
        &self.ranges[..usize::from(self.range_count)]
    }

    fn delay(&self, granularity: u8) -> Duration {
        Duration(self.base.as_ps() << granularity.min(MAX_GRANULARITY))
    }
}

/// Position of a queue pair in its profile.
#[derive(Debug, Clone)]
pub(crate) struct TimerState {
    profile: AdaptiveTimer,
    granularity: u8,
    /// `None`: the first timeout, which belongs to no range.
    range: Option<usize>,
    /// Number of timeouts at this granularity.
    used: u16,
    /// Number and total duration of timeouts without progress.
    expiries: u32,
    waited: Duration,
}

impl TimerState {
    pub(crate) fn new(profile: AdaptiveTimer, seed: u64) -> TimerState {
        let (low, count) = profile.first;
        let granularity = low + (mixed(seed) % u64::from(count.max(1))) as u8;
        TimerState {
            profile,
            granularity,
            range: None,
            used: 0,
            expiries: 0,
            waited: Duration::ZERO,
        }
    }

    /// Returns the time to wait for an acknowledgement of a queue pair with `local_ack_timeout`.
    pub(crate) fn delay(&self, local_ack_timeout: Duration) -> Duration {
        let delay = self.profile.delay(self.granularity);
        if self.profile.is_capped {
            delay.min(local_ack_timeout)
        } else {
            delay
        }
    }

    /// Handles an expiry. Returns true if a retry is left; `limit` is the retry count of the queue
    /// pair.
    pub(crate) fn expire(&mut self, local_ack_timeout: Duration, limit: u32) -> bool {
        let delay = self.delay(local_ack_timeout);
        self.expiries += 1;
        self.waited = Duration(self.waited.as_ps().saturating_add(delay.as_ps()));
        self.grow();
        match self.profile.total {
            Some(total) => self.waited < self.profile.delay(total),
            None if self.profile.is_capped => {
                let total = local_ack_timeout.as_ps().saturating_mul(u64::from(limit));
                self.waited.as_ps() < total
            }
            None => self.expiries <= limit,
        }
    }

    fn grow(&mut self) {
        let ranges = self.profile.ranges();
        let Some(index) = self.range else {
            let holds = |range: &TimeoutRange| {
                (range.low..range.low + range.size).contains(&self.granularity)
            };
            match ranges.iter().position(holds) {
                // The first timeout is used once.
                Some(index) => {
                    self.range = Some(index);
                    self.step(index);
                }
                None => self.enter(usize::from(self.profile.start_range)),
            }
            return;
        };
        self.used += 1;
        if self.used >= ranges[index].retries {
            self.step(index);
        }
    }

    /// Advances to the next granularity; the last one of all is kept.
    fn step(&mut self, index: usize) {
        let range = self.profile.ranges()[index];
        self.used = 0;
        if self.granularity + 1 < range.low + range.size {
            self.granularity += 1;
        } else if index + 1 < self.profile.ranges().len() {
            self.enter(index + 1);
        }
    }

    fn enter(&mut self, index: usize) {
        self.range = Some(index);
        self.granularity = self.profile.ranges()[index].low;
        self.used = 0;
    }

    /// Records progress of the peer.
    pub(crate) fn progress(&mut self) {
        self.expiries = 0;
        self.waited = Duration::ZERO;
        self.used = 0;
        let Some(index) = self.range else { return };
        let range = self.profile.ranges()[index];
        let previous = usize::from(range.previous);
        if self.granularity == range.low && previous < index {
            let before = self.profile.ranges()[previous];
            self.range = Some(previous);
            self.granularity = before.low + (before.size - 1);
            return;
        }
        self.granularity = match range.decrement {
            TimeoutDecrement::Reset => range.low,
            TimeoutDecrement::Half => self.granularity.saturating_sub(1).max(range.low),
            TimeoutDecrement::Quarter => self.granularity.saturating_sub(2).max(range.low),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: Duration = Duration::from_ps(u64::MAX);

    /// Returns a range that progress does not leave.
    fn range(low: u8, size: u8, retries: u16) -> TimeoutRange {
        TimeoutRange {
            low,
            size,
            retries,
            decrement: TimeoutDecrement::Half,
            previous: 0,
        }
    }

    /// Returns a range that progress leaves for the one at `previous`.
    fn behind(low: u8, size: u8, retries: u16, previous: u8) -> TimeoutRange {
        TimeoutRange {
            previous,
            ..range(low, size, retries)
        }
    }

    fn delays_us(state: &mut TimerState, count: usize) -> Vec<u64> {
        let one = |state: &mut TimerState| {
            let delay = state.delay(FOREVER);
            state.expire(FOREVER, u32::MAX);
            delay.as_ps() / 1_000_000
        };
        (0..count).map(|_| one(state)).collect()
    }

    #[test]
    fn the_default_takes_two_to_sixteen_milliseconds() {
        let mut state = TimerState::new(AdaptiveTimer::DEFAULT, 7);
        let expected = [2048, 4096, 8192, 16384, 16384];
        assert_eq!(delays_us(&mut state, 5), expected);
        state.progress();
        assert_eq!(delays_us(&mut state, 1), [2048]);
    }

    #[test]
    fn each_timeout_is_used_as_often_as_its_range_says() {
        let ranges = [range(2, 2, 2), behind(6, 1, 3, 1)];
        let profile = AdaptiveTimer::new(Duration::from_us(8), (0, 1), &ranges, 0, None);
        let mut state = TimerState::new(profile.expect("valid"), 1);
        // The first timeout is in no range.
        assert_eq!(delays_us(&mut state, 8), [8, 32, 32, 64, 64, 512, 512, 512]);
        state.progress();
        assert_eq!(delays_us(&mut state, 1), [512], "the lowest of its range");
        // The first timeout is in a range and used once.
        let profile = AdaptiveTimer::new(Duration::from_us(4), (2, 1), &ranges, 1, None);
        let mut state = TimerState::new(profile.expect("valid"), 1);
        assert_eq!(delays_us(&mut state, 4), [16, 32, 32, 256]);
    }

    #[test]
    fn progress_leads_back_to_the_range_before() {
        let ranges = [range(2, 3, 1), behind(6, 2, 1, 0)];
        let profile = AdaptiveTimer::new(Duration::from_us(4), (2, 1), &ranges, 0, None);
        let mut state = TimerState::new(profile.expect("valid"), 1);
        assert_eq!(delays_us(&mut state, 5), [16, 32, 64, 256, 512]);
        let mut back = Vec::new();
        for _ in 0..5 {
            state.progress();
            back.push(state.delay(FOREVER).as_ps() / 1_000_000);
        }
        assert_eq!(back, [256, 64, 32, 16, 16]);
    }

    #[test]
    fn the_first_timeout_is_random_and_capped() {
        let ranges = [range(0, 20, 1)];
        let profile = AdaptiveTimer::new(Duration::from_us(4), (3, 5), &ranges, 0, Some(6));
        let profile = profile.expect("valid");
        let mut seen = [0u32; 9];
        for seed in 0..200 {
            seen[usize::from(TimerState::new(profile, seed).granularity)] += 1;
        }
        assert_eq!(seen[..3], [0; 3]);
        assert!(seen[3..8].iter().all(|count| *count > 10), "{seen:?}");
        assert_eq!(seen[8], 0);
        let mut state = TimerState::new(profile, 1);
        let cap = Duration::from_us(20);
        assert_eq!(state.delay(cap), cap);
        // 256 us in total.
        let left = (0..50).take_while(|_| state.expire(cap, 0)).count();
        assert_eq!(left, 12);
    }

    #[test]
    fn a_profile_is_checked() {
        let us = Duration::from_us;
        let new = |base, ranges: &[TimeoutRange], start| {
            AdaptiveTimer::new(base, (0, 1), ranges, start, None)
        };
        let sorted = [range(1, 1, 1), range(2, 1, 1)];
        assert!(new(us(4), &sorted, 1).is_some());
        assert!(new(us(4), &sorted, 2).is_none());
        assert!(new(us(2), &sorted, 0).is_none(), "too short");
        assert!(new(us(12), &sorted, 0).is_none(), "no power of two");
        assert!(new(us(4), &[], 0).is_none());
        assert!(new(us(4), &[sorted[1], sorted[0]], 0).is_none());
        assert!(new(us(4), &[range(1, 0, 1)], 0).is_none());
        assert!(new(us(4), &[range(31, 2, 1)], 0).is_none());
        assert!(new(us(4), &[sorted[0]; 5], 0).is_none());
        assert!(new(us(4), &[behind(1, 1, 1, 1), sorted[1]], 0).is_none());
    }
}
