//! The words with which processes wake each other, and the one protocol of their fences.
//!
//! A thread that is about to sleep stores 1 in its word and then checks for work again. A thread
//! that has published work reads the word afterwards. Both have a fence between the store and the
//! load, so that at least one of them sees the other's store: work never waits for a sleeping
//! thread. `loom_tests` checks every interleaving of the two sides.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use ferroce_platform::os;

use crate::clock::Ticks;

/// A word in the registry on which threads sleep: 1 while a thread sleeps or is about to.
trait Bell {
    fn set(&self, value: u32);
    fn get(&self) -> u32;
    fn swap(&self, value: u32) -> u32;
    fn fence();
}

impl Bell for AtomicU32 {
    #[inline]
    fn set(&self, value: u32) {
        self.store(value, Ordering::SeqCst);
    }

    #[inline]
    fn get(&self) -> u32 {
        self.load(Ordering::SeqCst)
    }

    #[inline]
    fn swap(&self, value: u32) -> u32 {
        self.swap(value, Ordering::SeqCst)
    }

    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Announces that this thread is about to sleep. The thread must then check for work again before
/// it sleeps.
fn announce_sleep<B: Bell>(bell: &B) {
    bell.set(1);
    B::fence();
}

/// Makes work that this thread has published visible to threads that announce a sleep later;
/// [`ring`] finds the threads that have already announced one.
fn publish<B: Bell>() {
    B::fence();
}

/// Takes the announcement of a sleeping thread. Returns true if the thread must be woken. It is
/// cheap if no thread sleeps.
fn ring<B: Bell>(bell: &B) -> bool {
    bell.get() == 1 && bell.swap(0) == 1
}

/// Ends the announcement of this thread. Returns true if another thread has taken it.
fn end_sleep<B: Bell>(bell: &B) -> bool {
    bell.swap(0) == 0
}

/// A sleeping thread of the function at a place.
#[derive(Debug, Clone, Copy)]
pub struct Sleeper<'a>(&'a AtomicU32);

impl Sleeper<'_> {
    /// Announces that this thread is about to sleep.
    pub fn announce(self) {
        announce_sleep(self.0);
    }

    /// Sleeps until it is woken, at most `time_ns`; may return at any time.
    pub fn sleep(self, time_ns: u64) {
        os::futex_wait(self.0, 1, time_ns);
    }

    /// Ends the announcement. Returns true if another thread has woken it.
    pub fn end(self) -> bool {
        end_sleep(self.0)
    }

    /// Returns true if it has announced that it sleeps.
    pub fn is_announced(self) -> bool {
        self.0.get() == 1
    }

    /// Wakes the thread if it sleeps or is about to. Returns true in that case.
    #[inline]
    pub fn wake(self) -> bool {
        let sleeps = ring(self.0);
        if sleeps {
            os::futex_wake_all(self.0);
        }
        sleeps
    }

    /// Wakes the thread even if it has not announced that it sleeps.
    pub fn wake_always(self) {
        self.0.set(0);
        os::futex_wake_all(self.0);
    }
}

/// The words of the function at a place.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// The time until which the program counts as polling, in ticks of the machine's counter; the
    /// program extends it. 0: it is about to sleep.
    polls_until: &'a AtomicU64,
    /// The background thread.
    pub background: Sleeper<'a>,
    /// When the background thread was last woken, in ticks.
    pub woken_at: &'a AtomicU64,
    /// The threads of the program that doze.
    pub dozing: Sleeper<'a>,
}

impl<'a> Words<'a> {
    /// Returns the words, in memory that the processes share.
    pub fn new(
        polls_until: &'a AtomicU64,
        background: &'a AtomicU32,
        woken_at: &'a AtomicU64,
        dozing: &'a AtomicU32,
    ) -> Self {
        Self {
            polls_until,
            background: Sleeper(background),
            woken_at,
            dozing: Sleeper(dozing),
        }
    }

    /// Returns true if the program polls.
    #[inline]
    pub fn polls(&self, now: Ticks) -> bool {
        now < self.polls_until()
    }

    /// Returns the time until which the program counts as polling.
    #[inline]
    pub fn polls_until(&self) -> Ticks {
        Ticks(self.polls_until.load(Ordering::Relaxed))
    }

    /// Sets the time until which the program counts as polling.
    #[inline]
    pub fn set_polls_until(&self, until: Ticks) {
        self.polls_until.store(until.0, Ordering::Relaxed);
    }

    /// Wakes the program's dozing threads, or the background thread if it sleeps and no thread
    /// dozes. Returns true if it woke a thread.
    pub fn wake(&self, now: Ticks) -> bool {
        self.dozing.wake() || self.wake_background(now)
    }

    /// Wakes the background thread if it sleeps. Returns true in that case.
    pub fn wake_background(&self, now: Ticks) -> bool {
        // A time that turns out not to be needed does no harm.
        self.woken_at.store(now.0, Ordering::Relaxed);
        self.background.wake()
    }
}

/// Orders published work before the check of [`Words::wake`] for threads that may be about to
/// sleep.
#[inline]
pub fn publish_work() {
    publish::<AtomicU32>();
}

/// Every interleaving of the accesses of both sides: tests/scripts/loom.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
    use loom::thread;

    use super::{Bell, announce_sleep, end_sleep, publish, ring};

    impl Bell for AtomicU32 {
        fn set(&self, value: u32) {
            self.store(value, Ordering::SeqCst);
        }

        fn get(&self) -> u32 {
            self.load(Ordering::SeqCst)
        }

        fn swap(&self, value: u32) -> u32 {
            self.swap(value, Ordering::SeqCst)
        }

        fn fence() {
            fence(Ordering::SeqCst);
        }
    }

    /// A word, and work that is published without any ordering, as frames are.
    #[derive(Default)]
    struct Shared {
        bell: AtomicU32,
        work: AtomicBool,
    }

    #[test]
    fn work_never_waits_for_a_thread_that_sleeps() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let waker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.work.store(true, Ordering::Relaxed);
                    publish::<AtomicU32>();
                    ring(&shared.bell)
                })
            };
            announce_sleep(&shared.bell);
            let falls_asleep = !shared.work.load(Ordering::Relaxed);
            let wakes = waker.join().expect("the waker ends");
            assert!(!falls_asleep || wakes, "asleep with work");
        });
    }

    #[test]
    fn one_of_two_wakers_wakes() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            announce_sleep(&shared.bell);
            let wakers = [(); 2].map(|()| {
                let shared = shared.clone();
                thread::spawn(move || u32::from(ring(&shared.bell)))
            });
            let woken = wakers.map(|waker| waker.join().expect("the waker ends"));
            assert_eq!(woken.iter().sum::<u32>(), 1);
            assert!(end_sleep(&shared.bell));
        });
    }
}
