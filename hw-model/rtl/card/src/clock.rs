//! The clock of the card's protocol timers.
//!
//! A Verilated card is slower than the hardware by three orders of magnitude, and its peer may be
//! as slow: a timer that ran with the clock of the machine would find packets lost that are still
//! on their way.
//! So it counts the card's cycles while the card runs, and the machine's time while it rests and
//! every peer has taken what was sent to it.

use ferroce_units::Instant;

/// Nanoseconds of a clock cycle: 250 MHz.
pub const CYCLE_NS: u64 = 4;
/// Until the next look at timers while a peer is behind.
const BEHIND_NS: u64 = 1_000_000;

/// The clock.
#[derive(Debug, Default)]
pub struct TimerClock {
    now_ns: u64,
    /// Since when the card rests.
    rests_since: Option<Instant>,
    /// True if a peer was behind when the card ran last.
    is_behind: bool,
}

impl TimerClock {
    /// Returns its time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The card runs again at `now`.
    pub fn resume(&mut self, now: Instant, is_behind: bool) {
        let rested = self.rests_since.take();
        if let Some(since) = rested.filter(|_| !is_behind && !self.is_behind) {
            self.now_ns += now.as_ns().saturating_sub(since.as_ns());
        }
        self.is_behind = is_behind;
    }

    /// The card was clocked.
    pub fn count_cycle(&mut self) {
        self.now_ns += CYCLE_NS;
    }

    /// The card rests from `now` on.
    pub fn rest(&mut self, now: Instant) {
        self.rests_since = Some(now);
    }

    /// Returns the machine's time that a timer takes whose rest is `left_ns`, if the card rests.
    pub fn wall_ns(&self, left_ns: u64) -> u64 {
        if self.is_behind {
            left_ns.max(BEHIND_NS)
        } else {
            left_ns
        }
    }
}
