//! Locks that simulated threads share, for a QP, a CQ or a doorbell.
//!
//! All waiting threads poll the lock's cache line. The next holder fetches the line from the last
//! one while the others try to read it, so that the hand-over takes longer the more threads wait:
//! `lock_handoff_ns` times the base-2 logarithm of the number of contending threads, including the
//! last and the new holder. The guarded data is in the last holder's cache, too: for a QP or a CQ
//! this takes another hand-over; a doorbell has no data in memory. A lock that the same thread held
//! last costs `lock_ns`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use ferroce_model::preset::costs::times;
use ferroce_units::{Duration, Instant};

use crate::processor::SimThread;

/// Fractional bits of [`log2`].
const FRACTION: u32 = 10;
/// Minimum time before a thread tries the lock again.
const LEAST_WAIT: Duration = Duration::from_ns(10);

/// A spin lock that serves threads in the order of their requests.
#[derive(Debug, Default)]
pub struct SpinLock {
    /// True if it guards data in memory.
    guards_memory: bool,
    is_held: Cell<bool>,
    /// Time at which its last holder released it, which may be later than world time.
    free_at: Cell<Instant>,
    last_holder: Cell<Option<u32>>,
    /// Time at which its holder got it, and the total time for which it was held, including
    /// hand-overs.
    taken_at: Cell<Instant>,
    held: Cell<Duration>,
    /// Threads that wait for it, in the order of their arrival.
    waiting: RefCell<VecDeque<u32>>,
}

impl SpinLock {
    /// Returns the lock of a queue, which lies in memory.
    pub fn of_queue() -> Self {
        Self {
            guards_memory: true,
            ..Self::default()
        }
    }

    /// Returns the lock of a register of the card.
    pub fn of_register() -> Self {
        Self::default()
    }

    /// Waits for the lock, and for the hand-over.
    pub async fn acquire(&self, thread: &SimThread, number: u32) {
        let asked = thread.now();
        thread.catch_up().await;
        self.waiting.borrow_mut().push_back(number);
        loop {
            let ahead = self
                .waiting
                .borrow()
                .iter()
                .position(|&other| other == number);
            let ahead = ahead.unwrap_or_default() as u64;
            let free_at = self.free_at.get();
            if ahead == 0 && !self.is_held.get() && free_at <= thread.now() {
                break;
            }
            // Each thread ahead holds it for at least the time of a hand-over.
            let each = LEAST_WAIT.max(thread.costs().handoff);
            let wait = match (ahead, self.is_held.get()) {
                (0, true) => LEAST_WAIT,
                (ahead, _) => times(each, ahead),
            };
            thread.sleep_until(free_at.max(thread.now()) + wait).await;
        }
        self.waiting.borrow_mut().pop_front();
        self.is_held.set(true);
        thread.count_spin(thread.now().saturating_since(asked));
        self.taken_at.set(thread.now());
        let cost = thread.costs().lock + self.hand_over(thread.costs().handoff, number);
        self.last_holder.set(Some(number));
        thread.compute(cost).await;
    }

    /// Returns the time to get the cache line and the guarded data.
    fn hand_over(&self, handoff: Duration, thread: u32) -> Duration {
        let waiting = self.waiting.borrow();
        let last = self.last_holder.get();
        let is_elsewhere = last.is_some_and(|last| last != thread && !waiting.contains(&last));
        let wanting = 1 + waiting.len() as u64 + u64::from(is_elsewhere);
        let line = Duration::from_ps(handoff.as_ps().saturating_mul(log2(wanting)) >> FRACTION);
        if self.guards_memory && last.is_some_and(|last| last != thread) {
            line + handoff
        } else {
            line
        }
    }

    /// Releases the lock at the loop's own time.
    pub fn release(&self, thread: &SimThread) {
        self.is_held.set(false);
        self.free_at.set(thread.now());
        let held = thread.now().saturating_since(self.taken_at.get());
        self.held.set(self.held.get() + held);
    }

    /// Returns the total time for which it was held.
    pub fn held(&self) -> Duration {
        self.held.get()
    }
}

/// Returns the base-2 logarithm of `number` with [`FRACTION`] fractional bits. It uses integers, so
/// that the result is the same on every machine.
fn log2(number: u64) -> u64 {
    let Some(whole) = number.checked_ilog2() else {
        return 0;
    };
    // The mantissa, 1 to 2, with 32 fractional bits.
    let mut mantissa = (u128::from(number) << 32) >> whole;
    let mut log = u64::from(whole);
    for _ in 0..FRACTION {
        mantissa = (mantissa * mantissa) >> 32;
        let bit = mantissa >> 33;
        mantissa >>= bit;
        log = log << 1 | bit as u64;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        assert_eq!(log2(0), 0);
        for power in 0..40 {
            assert_eq!(log2(1 << power), power << FRACTION);
        }
        for number in 1..5000u64 {
            let exact = (number as f64).log2() * f64::from(1 << FRACTION);
            assert!((log2(number) as f64 - exact).abs() <= 1.0, "{number}");
        }
    }

    #[test]
    fn a_hand_over_takes_the_longer_the_more_want_the_lock() {
        let lock = SpinLock::of_register();
        let handoff = Duration::from_ns(100);
        assert_eq!(
            lock.hand_over(handoff, 1),
            Duration::ZERO,
            "never held before"
        );
        lock.last_holder.set(Some(1));
        assert_eq!(
            lock.hand_over(handoff, 1),
            Duration::ZERO,
            "the same thread again"
        );
        assert_eq!(lock.hand_over(handoff, 2), handoff, "from one to another");
        lock.waiting.borrow_mut().extend([1, 3, 4]);
        assert_eq!(
            lock.hand_over(handoff, 2),
            Duration::from_ns(200),
            "four want it"
        );
    }
}
