//! The timers of the program.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use ferroce_timed_protocol::page::NEVER_PS;

/// Maximum number of timers of a program; the first is `alarm`'s.
const MAX_TIMERS: usize = 64;
/// Place of the timer that `alarm` and `setitimer` set.
pub const ALARM: usize = 0;

/// A timer.
#[derive(Debug)]
pub struct Timer {
    is_used: AtomicBool,
    /// Time at which it is due. Never: it is not set.
    due_ps: AtomicU64,
    /// Period. Zero: none.
    period_ps: AtomicU64,
    /// Signal. Zero: none.
    signal: AtomicI32,
    /// Value sent with the signal.
    value: AtomicU64,
    /// Descriptor that becomes readable. Negative: none.
    fd: AtomicI32,
    /// The clock of absolute times.
    clock: AtomicI32,
    /// Overruns of the last signal.
    overruns: AtomicI32,
}

/// Action of a timer when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// A signal; zero: none.
    pub signal: c_int,
    /// Value sent with the signal.
    pub value: u64,
    /// A descriptor; negative: none.
    pub fd: c_int,
}

/// A timer that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its signal; zero: none.
    pub signal: c_int,
    /// Its place. `None`: it is `alarm`'s.
    pub timer: Option<usize>,
    /// Value sent with the signal.
    pub value: u64,
    /// Number of expirations.
    pub times: u64,
}

/// All timers.
#[derive(Debug)]
pub struct Timers([Timer; MAX_TIMERS]);

/// The timers of this program.
pub static TIMERS: Timers = Timers::new();

impl Timers {
    const fn new() -> Self {
        Self([const { Timer::new() }; MAX_TIMERS])
    }

    /// Removes all timers.
    pub fn clear(&self) {
        self.0.iter().for_each(Timer::free);
        let alarm = Action {
            signal: libc::SIGALRM,
            value: 0,
            fd: -1,
        };
        self.0[ALARM].take(libc::CLOCK_MONOTONIC, alarm);
    }

    /// Returns when the next timer is due.
    pub fn next_due_ps(&self) -> u64 {
        let due = self
            .0
            .iter()
            .map(|timer| timer.due_ps.load(Ordering::Relaxed));
        due.min().unwrap_or(NEVER_PS)
    }

    /// Adds a timer that is not set. Returns it and its place. `None`: there are too many.
    pub fn add(&self, clock: c_int, action: Action) -> Option<usize> {
        let mut free = self.0.iter().skip(ALARM + 1);
        let place = free.position(|timer| timer.take(clock, action))?;
        Some(place + ALARM + 1)
    }

    /// Returns the timer of `alarm`.
    pub fn first(&self) -> &Timer {
        &self.0[ALARM]
    }

    /// Returns the timer at a place.
    pub fn get(&self, place: usize) -> Option<&Timer> {
        let timer = self.0.get(place)?;
        timer.is_used.load(Ordering::Relaxed).then_some(timer)
    }

    /// Returns the timer that makes a descriptor readable.
    pub fn of_descriptor(&self, fd: c_int) -> Option<&Timer> {
        let mut used = self.0.iter().filter(|t| t.is_used.load(Ordering::Relaxed));
        used.find(|timer| timer.fd.load(Ordering::Relaxed) == fd)
    }

    /// Takes the next timer that is due at `now_ps`, which is set again or ends. Notifies its
    /// descriptor.
    pub fn take_due(&self, now_ps: u64) -> Option<Due> {
        let due_ps = self.next_due_ps();
        if due_ps > now_ps {
            return None;
        }
        let is_it = |timer: &&Timer| timer.due_ps.load(Ordering::Relaxed) == due_ps;
        let place = self.0.iter().position(|timer| is_it(&timer))?;
        let timer = &self.0[place];
        let times = timer.pass(now_ps);
        timer.notify_descriptor(times);
        Some(Due {
            signal: timer.signal.load(Ordering::Relaxed),
            timer: (place != ALARM).then_some(place),
            value: timer.value.load(Ordering::Relaxed),
            times,
        })
    }
}

impl Timer {
    const fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            due_ps: AtomicU64::new(NEVER_PS),
            period_ps: AtomicU64::new(0),
            signal: AtomicI32::new(0),
            value: AtomicU64::new(0),
            fd: AtomicI32::new(-1),
            clock: AtomicI32::new(0),
            overruns: AtomicI32::new(0),
        }
    }

    /// Frees the timer.
    pub fn free(&self) {
        self.set(NEVER_PS, 0);
        self.fd.store(-1, Ordering::Relaxed);
        self.is_used.store(false, Ordering::Release);
    }

    fn take(&self, clock: c_int, action: Action) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if self
            .is_used
            .compare_exchange(false, true, success, failure)
            .is_err()
        {
            return false;
        }
        self.signal.store(action.signal, Ordering::Relaxed);
        self.value.store(action.value, Ordering::Relaxed);
        self.fd.store(action.fd, Ordering::Relaxed);
        self.clock.store(clock, Ordering::Relaxed);
        self.overruns.store(0, Ordering::Relaxed);
        true
    }

    /// Sets the value sent with its signal.
    pub fn set_value(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// Returns the clock of absolute times.
    pub fn clock(&self) -> c_int {
        self.clock.load(Ordering::Relaxed)
    }

    /// Returns the overruns of the last signal.
    pub fn overruns(&self) -> c_int {
        self.overruns.load(Ordering::Relaxed)
    }

    /// Returns when it is due next ([`NEVER_PS`]: never), and its period.
    pub fn state(&self) -> (u64, u64) {
        let due_ps = self.due_ps.load(Ordering::Relaxed);
        (due_ps, self.period_ps.load(Ordering::Relaxed))
    }

    /// Returns the time until it is due. Zero: it is not set.
    pub fn left_ps(&self, now_ps: u64) -> u64 {
        match self.state().0 {
            NEVER_PS => 0,
            // It is due at once.
            due_ps => due_ps.saturating_sub(now_ps).max(1),
        }
    }

    /// Sets it.
    pub fn set(&self, due_ps: u64, period_ps: u64) {
        self.due_ps.store(due_ps, Ordering::Relaxed);
        self.period_ps.store(period_ps, Ordering::Relaxed);
    }

    /// Counts the expirations until `now_ps`, and sets the next one.
    fn pass(&self, now_ps: u64) -> u64 {
        let (due_ps, period_ps) = self.state();
        let Some(more) = now_ps.saturating_sub(due_ps).checked_div(period_ps) else {
            self.set(NEVER_PS, 0);
            return 1;
        };
        let times = more + 1;
        let next_ps = due_ps.saturating_add(times.saturating_mul(period_ps));
        self.set(next_ps, period_ps);
        let overruns = i32::try_from(more).unwrap_or(i32::MAX);
        self.overruns.store(overruns, Ordering::Relaxed);
        times
    }

    fn notify_descriptor(&self, times: u64) {
        let fd = self.fd.load(Ordering::Relaxed);
        if let Some(descriptor) = crate::descriptor::Descriptor::new(fd) {
            descriptor.add_to_counter(times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Action = Action {
        signal: 10,
        value: 3,
        fd: -1,
    };

    #[test]
    fn timers_are_due_in_the_order_of_their_times() {
        let timers = Timers::new();
        timers.clear();
        let first = timers.add(1, NOTHING).expect("room");
        let second = timers.add(1, NOTHING).expect("room");
        assert_eq!(timers.next_due_ps(), NEVER_PS);
        timers.get(second).expect("used").set(50, 0);
        timers.get(first).expect("used").set(100, 30);
        assert_eq!(timers.take_due(49), None);
        let due = timers.take_due(175).expect("due");
        assert_eq!((due.timer, due.times), (Some(second), 1));
        let due = timers.take_due(175).expect("due");
        assert_eq!((due.timer, due.times, due.value), (Some(first), 3, 3));
        assert_eq!(timers.take_due(175), None);
        assert_eq!(timers.next_due_ps(), 190);
        timers.get(first).expect("used").free();
        assert_eq!(timers.next_due_ps(), NEVER_PS);
        assert!(timers.get(first).is_none());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let timers = Timers::new();
        timers.clear();
        let added = (0..).take_while(|_| timers.add(1, NOTHING).is_some());
        assert_eq!(added.count(), MAX_TIMERS - 1);
    }
}
