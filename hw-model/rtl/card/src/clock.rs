//! The clock of the card's protocol timers.
//!
//! A Verilated card is three orders of magnitude slower than the hardware, and its peer may be as
//! slow: a timer that counted the machine's time would expire while packets are still in flight. So
//! this clock counts the card's cycles while the card runs. While the card is idle, it counts the
//! machine's time, but only if every peer has received all frames sent to it.

use ferroce_units::Instant;

/// Nanoseconds of a clock cycle: 250 MHz.
pub const CYCLE_NS: u64 = 4;
/// Time until the next check of timers while a peer has frames to receive.
const BEHIND_NS: u64 = 1_000_000;

/// The clock of protocol timers.
#[derive(Debug, Default)]
pub struct TimerClock {
    now_ns: u64,
    /// Time since which the card is idle.
    rests_since: Option<Instant>,
    /// True if a peer had frames to receive when the card last ran.
    is_behind: bool,
}

impl TimerClock {
    /// Returns its time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Records that the card runs again at `now`.
    pub fn resume(&mut self, now: Instant, is_behind: bool) {
        let rested = self.rests_since.take();
        if let Some(since) = rested.filter(|_| !is_behind && !self.is_behind) {
            self.now_ns += now.as_ns().saturating_sub(since.as_ns());
        }
        self.is_behind = is_behind;
    }

    /// Counts a clock cycle of the card.
    pub fn count_cycle(&mut self) {
        self.now_ns += CYCLE_NS;
    }

    /// Records that the card is idle from `now` on.
    pub fn rest(&mut self, now: Instant) {
        self.rests_since = Some(now);
    }

    /// Returns the machine's time until a timer expires that has `left_ns` left, if the card is
    /// idle.
    pub fn wall_ns(&self, left_ns: u64) -> u64 {
        if self.is_behind {
            left_ns.max(BEHIND_NS)
        } else {
            left_ns
        }
    }
}
