//! Threads that wait for one another: by an address of their program, or at a barrier.
//!
//! A thread waits from the moment on at which it passes its turn. No other thread has run since it
//! looked at the address, so no wake-up is lost, although the clocks of threads differ. It runs
//! again at the time of the wake-up, or at its own time if that is later.

use std::collections::{HashMap, VecDeque};

use ferroce_timed_protocol::request::SHARED_ADDRESS;
use ferroce_units::Instant;

/// A program and one of its addresses. Memory that processes share belongs to no program.
pub type Place = (u64, u64);

/// Returns the place of an address as a program gives it.
pub fn place_of(program: u64, address: u64) -> Place {
    const NO_PROGRAM: u64 = 0;
    match address & SHARED_ADDRESS {
        0 => (program, address),
        _ => (NO_PROGRAM, address),
    }
}

/// A waiting thread.
#[derive(Debug, Clone, Copy)]
struct Waiter<T> {
    thread: T,
    /// A wake-up needs one of these bits.
    bits: u32,
    /// Its clock.
    since: Instant,
}

/// Result of an arrival at a barrier.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    /// The thread waits for others.
    Waits,
    /// It was the last one. All continue at this time; the others have to be woken.
    Last {
        /// The latest time at which one of them has arrived.
        at: Instant,
        /// The other threads.
        others: Vec<T>,
    },
}

/// The waiting threads. Each thread waits for one address at most, so their number is bounded by
/// the number of threads of the world.
#[derive(Debug)]
pub struct Addresses<T> {
    queues: HashMap<Place, VecDeque<Waiter<T>>>,
}

impl<T> Default for Addresses<T> {
    fn default() -> Self {
        let queues = HashMap::new();
        Self { queues }
    }
}

impl<T: Copy + PartialEq> Addresses<T> {
    /// Lets a thread wait for `place` from `since` on.
    pub fn wait(&mut self, place: Place, thread: T, bits: u32, since: Instant) {
        let waiter = Waiter {
            thread,
            bits,
            since,
        };
        self.queues.entry(place).or_default().push_back(waiter);
    }

    /// Wakes at most `most` threads that wait for `place` with one of `bits`, in the order in which
    /// they have come. Returns when each of them continues.
    pub fn wake(&mut self, place: Place, most: u32, bits: u32, now: Instant) -> Vec<(T, Instant)> {
        let Some(queue) = self.queues.get_mut(&place) else {
            return Vec::new();
        };
        let mut woken = Vec::new();
        queue.retain(|waiter| {
            let is_woken = (woken.len() as u64) < u64::from(most) && waiter.bits & bits != 0;
            if is_woken {
                woken.push((waiter.thread, now.max(waiter.since)));
            }
            !is_woken
        });
        if queue.is_empty() {
            self.queues.remove(&place);
        }
        woken
    }

    /// Lets a thread arrive at a barrier of `threads` threads at `since`.
    pub fn arrive(&mut self, place: Place, thread: T, threads: u32, since: Instant) -> Arrival<T> {
        let waiting = self.queues.get(&place).map_or(0, VecDeque::len);
        if (waiting as u64) + 1 < u64::from(threads) {
            self.wait(place, thread, u32::MAX, since);
            return Arrival::Waits;
        }
        let others = self.queues.remove(&place).unwrap_or_default();
        let latest = others.iter().map(|waiter| waiter.since).max();
        Arrival::Last {
            at: latest.map_or(since, |latest| latest.max(since)),
            others: others.into_iter().map(|waiter| waiter.thread).collect(),
        }
    }

    /// Removes a thread that waits for `place`. Returns false if it was woken.
    pub fn remove(&mut self, place: Place, thread: T) -> bool {
        let Some(queue) = self.queues.get_mut(&place) else {
            return false;
        };
        let before = queue.len();
        queue.retain(|waiter| waiter.thread != thread);
        let is_removed = queue.len() < before;
        if queue.is_empty() {
            self.queues.remove(&place);
        }
        is_removed
    }

    /// Removes a thread that has ended.
    pub fn forget(&mut self, thread: T) {
        self.queues.retain(|_, queue| {
            queue.retain(|waiter| waiter.thread != thread);
            !queue.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (1, 4096);

    fn waiting(count: usize) -> Addresses<usize> {
        let mut addresses = Addresses::default();
        for thread in 0..count {
            let since = Instant(10 * thread as u64);
            addresses.wait(PLACE, thread, 1 << thread, since);
        }
        addresses
    }

    fn woken(numbers: &[(usize, u64)]) -> Vec<(usize, Instant)> {
        let of = |(thread, at): &(usize, u64)| (*thread, Instant(*at));
        numbers.iter().map(of).collect()
    }

    #[test]
    fn threads_are_woken_in_their_order_and_not_in_their_past() {
        let mut addresses = waiting(4);
        let all = u32::MAX;
        assert_eq!(
            addresses.wake(PLACE, 2, all, Instant(5)),
            woken(&[(0, 5), (1, 10)])
        );
        assert_eq!(
            addresses.wake((2, 4096), 9, all, Instant(5)),
            [],
            "another program"
        );
        assert_eq!(
            addresses.wake(PLACE, 9, all, Instant(50)),
            woken(&[(2, 50), (3, 50)])
        );
        assert_eq!(
            addresses.wake(PLACE, 9, all, Instant(60)),
            [],
            "none is left"
        );
    }

    #[test]
    fn bits_choose_the_threads() {
        let mut addresses = waiting(3);
        assert_eq!(
            addresses.wake(PLACE, 9, 0b101, Instant(99)),
            woken(&[(0, 99), (2, 99)])
        );
        assert!(addresses.remove(PLACE, 1), "it still waits");
        assert!(!addresses.remove(PLACE, 0), "it was woken");
    }

    #[test]
    fn a_barrier_opens_when_the_last_thread_is_there() {
        let mut addresses = Addresses::default();
        let mut arrive = |thread, at| addresses.arrive(PLACE, thread, 3, Instant(at));
        assert_eq!(arrive(0, 70), Arrival::Waits);
        assert_eq!(arrive(1, 20), Arrival::Waits);
        let others = vec![0, 1];
        let at = Instant(70);
        assert_eq!(arrive(2, 30), Arrival::Last { at, others });
        assert_eq!(arrive(2, 80), Arrival::Waits, "the next round");
    }

    #[test]
    fn a_thread_that_has_gone_does_not_wait() {
        let mut addresses = waiting(2);
        addresses.forget(0);
        assert_eq!(
            addresses.wake(PLACE, 9, u32::MAX, Instant(99)),
            woken(&[(1, 99)])
        );
    }

    #[test]
    fn shared_memory_is_the_same_place_in_each_program() {
        assert_ne!(place_of(1, 4096), place_of(2, 4096));
        let shared = SHARED_ADDRESS | 4096;
        assert_eq!(place_of(1, shared), place_of(2, shared));
    }
}
