//! Converts the device's clock to the wall clock: one function of the time stamp, for all CQs.
//!
//! The two clocks are compared at intervals, not at each time stamp: the comparison is less exact
//! than the stamps, and stamps of one CQ would run backwards. Between comparisons the function is
//! linear. A deviation is corrected where no stamp has been read yet, or else slowly, so that the
//! function never decreases; only a system clock that was set makes it jump.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Time from the first comparison to the second; it doubles with each, because a longer time
/// measures the rate better.
const FIRST_INTERVAL_NS: u64 = 1_000_000;
/// Longest time between two comparisons while stamps are read.
const LAST_INTERVAL_NS: u64 = 1_000_000_000;
/// Readings of both clocks per comparison; the one that took the shortest time counts.
const READINGS: usize = 3;
/// A deviation above this is not drift: the system's clock was set.
const STEP_NS: u64 = 10_000_000;
/// A deviation is corrected over this many times its length.
const SLEW_RATIO: u64 = 16;
/// Maximum error of a clock's rate.
const MAX_RATE_ERROR: i64 = ONE / 1000;
/// Lines that are kept for stamps that are read late.
const MAX_LINES: usize = 128;
/// A slope of one, in the unit of [`Line::excess`].
const ONE: i64 = 1 << 32;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The device's clock.
    pub device_ns: u64,
    /// The system's clock, read before the device's: a result based on it is not in the future.
    pub wall_ns: u64,
    /// The system's clock, read after it.
    pub wall_after_ns: u64,
}

/// A piece of the function, up to where the next one begins.
#[derive(Clone, Copy, Debug)]
struct Line {
    device_ns: u64,
    wall_ns: u64,
    /// Slope less one, times 2^32.
    excess: i64,
}

impl Line {
    fn at(&self, device_ns: u64) -> u64 {
        let span = i128::from(device_ns) - i128::from(self.device_ns);
        let wall = i128::from(self.wall_ns) + span + ((span * i128::from(self.excess)) >> 32);
        u64::try_from(wall).unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct State {
    /// In order of the device's time.
    lines: VecDeque<Line>,
    /// The newest comparison.
    compared: Option<Reading>,
    interval_ns: u64,
    /// The newest stamp that was converted to wall clock time.
    read_until_ns: u64,
}

/// The function, for the clock of one device.
#[derive(Debug, Default)]
pub struct WallClock(Mutex<State>);

impl WallClock {
    /// Returns the nanoseconds since 1970 at which the device's clock showed `stamp_ns`. `read`
    /// reads both clocks.
    pub fn at(&self, stamp_ns: u64, read: impl Fn() -> Reading) -> u64 {
        let mut state = self.0.lock();
        let is_due = state.compared.is_none_or(|compared| {
            stamp_ns.saturating_sub(compared.device_ns) >= state.interval_ns
        });
        if is_due {
            let best = (0..READINGS).map(|_| read());
            let best = best.min_by_key(|one| one.wall_after_ns.saturating_sub(one.wall_ns));
            if let Some(reading) = best {
                state.compare(reading);
            }
        }
        state.read_until_ns = state.read_until_ns.max(stamp_ns);
        state.at(stamp_ns)
    }
}

impl State {
    fn at(&self, device_ns: u64) -> u64 {
        let mut newest_first = self.lines.iter().rev();
        let line = newest_first.find(|line| line.device_ns <= device_ns);
        let line = line.or(self.lines.front());
        line.map_or(0, |line| line.at(device_ns))
    }

    fn compare(&mut self, reading: Reading) {
        let rate = self.rate_until(&reading);
        self.interval_ns = (self.interval_ns * 2).clamp(FIRST_INTERVAL_NS, LAST_INTERVAL_NS);
        self.compared = Some(reading);
        let Reading {
            device_ns, wall_ns, ..
        } = reading;
        // An earlier deviation may not be fully corrected yet; this comparison shows the rest of
        // it.
        while self
            .lines
            .back()
            .is_some_and(|line| line.device_ns >= device_ns)
        {
            self.lines.pop_back();
        }
        let shown_ns = self.at(device_ns);
        let error_ns = wall_ns.abs_diff(shown_ns);
        let unread_ns = device_ns.saturating_sub(self.read_until_ns);
        let slew_ns = error_ns.saturating_mul(SLEW_RATIO);
        if self.lines.is_empty() || error_ns > STEP_NS {
            self.push(device_ns, wall_ns, rate);
        } else if unread_ns > slew_ns {
            self.slew(self.read_until_ns, device_ns, wall_ns, rate);
        } else {
            let end_ns = device_ns.saturating_add(slew_ns.max(1));
            let straight = Line {
                device_ns,
                wall_ns,
                excess: rate,
            };
            self.slew(device_ns, end_ns, straight.at(end_ns), rate);
        }
        while self.lines.len() > MAX_LINES {
            self.lines.pop_front();
        }
    }

    /// Adds a line from the function's value at `from_ns` to `wall_ns` at `to_ns`.
    fn slew(&mut self, from_ns: u64, to_ns: u64, wall_ns: u64, rate: i64) {
        let start_ns = self.at(from_ns);
        let rise = i128::from(wall_ns) - i128::from(start_ns);
        let run = i128::from(to_ns) - i128::from(from_ns);
        let excess = ((rise - run) << 32) / run.max(1);
        let excess = i64::try_from(excess).unwrap_or(0).max(-ONE);
        self.push(from_ns, start_ns, excess);
        // Not `wall_ns`: the rounding of the division must not cause a step back.
        let end_ns = self.at(to_ns);
        self.push(to_ns, end_ns, rate);
    }

    fn push(&mut self, device_ns: u64, wall_ns: u64, excess: i64) {
        self.lines.push_back(Line {
            device_ns,
            wall_ns,
            excess,
        });
    }

    /// Returns how much faster the wall clock was than the device's since the last comparison.
    fn rate_until(&self, reading: &Reading) -> i64 {
        let Some(before) = self.compared else {
            return 0;
        };
        let device = i128::from(reading.device_ns) - i128::from(before.device_ns);
        let wall = i128::from(reading.wall_ns) - i128::from(before.wall_ns);
        let excess = ((wall - device) << 32) / device.max(1);
        match i64::try_from(excess) {
            Ok(excess) if excess.abs() <= MAX_RATE_ERROR => excess,
            // One of them was set.
            _ => self.lines.back().map_or(0, |line| line.excess),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

    /// Two clocks; the device's is slow by a number of parts per million.
    struct Clocks {
        device_ns: Cell<u64>,
        wall_ns: Cell<u64>,
        slow_ppm: u64,
        noise: Cell<u64>,
    }

    impl Clocks {
        fn new(slow_ppm: u64) -> Self {
            Self {
                device_ns: Cell::new(5_000),
                wall_ns: Cell::new(EPOCH_NS),
                slow_ppm,
                noise: Cell::new(1),
            }
        }

        fn pass(&self, ns: u64) {
            self.wall_ns.set(self.wall_ns.get() + ns);
            let lost = u128::from(ns) * u128::from(self.slow_ppm) / 1_000_000;
            self.device_ns.set(self.device_ns.get() + ns - lost as u64);
        }

        /// Returns a pseudo-random number below `limit`.
        fn random(&self, limit: u64) -> u64 {
            let next = self.noise.get().wrapping_mul(6_364_136_223_846_793_005);
            self.noise.set(next.wrapping_add(1_442_695_040_888_963_407));
            (next >> 33) % limit
        }

        /// Reads both clocks, which takes time, and sometimes long.
        fn read(&self) -> Reading {
            let wall_ns = self.wall_ns.get();
            self.pass(20 + self.random(100));
            let device_ns = self.device_ns.get();
            self.pass(20 + self.random(5_000));
            Reading {
                device_ns,
                wall_ns,
                wall_after_ns: self.wall_ns.get(),
            }
        }
    }

    /// Goal: stamps never run backwards and stay near the wall clock. Method: 200,000 stamps,
    /// dense and with pauses, from a clock that is slow by 80 ppm.
    #[test]
    fn never_falls_and_stays_near() {
        let (clocks, wall_clock) = (Clocks::new(80), WallClock::default());
        let mut last_ns = 0;
        for index in 0_u64..200_000 {
            clocks.pass(match index % 1000 {
                0 => 700_000_000,
                500 => 3_000_000,
                _ => 50 + clocks.random(2000),
            });
            let (stamp_ns, true_ns) = (clocks.device_ns.get(), clocks.wall_ns.get());
            clocks.pass(clocks.random(500));
            let shown_ns = wall_clock.at(stamp_ns, || clocks.read());
            assert!(shown_ns >= last_ns, "{index}: {shown_ns} after {last_ns}");
            let error_ns = shown_ns.abs_diff(true_ns);
            // A pause of 0.7 s after the rate was measured over a millisecond.
            assert!(error_ns < 200_000, "{index}: {error_ns} ns off");
            last_ns = shown_ns;
        }
        let (stamp_ns, true_ns) = (clocks.device_ns.get(), clocks.wall_ns.get());
        let error_ns = wall_clock.at(stamp_ns, || clocks.read()).abs_diff(true_ns);
        assert!(error_ns < 5_000, "{error_ns} ns off in the end");
    }

    /// Goal: a stamp has one wall clock time, whenever it is read. Method: read before and after
    /// many comparisons.
    #[test]
    fn a_stamp_that_is_read_again_is_the_same() {
        let (clocks, wall_clock) = (Clocks::new(50), WallClock::default());
        let mut first = Vec::new();
        for _ in 0..40 {
            let stamp_ns = clocks.device_ns.get();
            first.push((stamp_ns, wall_clock.at(stamp_ns, || clocks.read())));
            clocks.pass(20_000_000);
        }
        for (stamp_ns, shown_ns) in first {
            assert_eq!(wall_clock.at(stamp_ns, || clocks.read()), shown_ns);
        }
    }

    /// Goal: the result follows a system clock that was set.
    #[test]
    fn follows_a_clock_that_was_set() {
        let (clocks, wall_clock) = (Clocks::new(0), WallClock::default());
        wall_clock.at(clocks.device_ns.get(), || clocks.read());
        for hour_ns in [3_600_000_000_000_u64, 0] {
            clocks.wall_ns.set(EPOCH_NS + hour_ns);
            clocks.pass(2 * LAST_INTERVAL_NS);
            wall_clock.at(clocks.device_ns.get(), || clocks.read());
            clocks.pass(1_000);
            let (stamp_ns, true_ns) = (clocks.device_ns.get(), clocks.wall_ns.get());
            let shown_ns = wall_clock.at(stamp_ns, || clocks.read());
            assert!(shown_ns.abs_diff(true_ns) < 10_000, "{shown_ns} {true_ns}");
        }
    }
}
