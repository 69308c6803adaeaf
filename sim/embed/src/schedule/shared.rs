//! The words that processes share to wake each other, and the one protocol of their fences.
//!
//! A thread that is about to sleep stores 1 in its word, and then looks for work once more. A
//! thread that has published work looks at the word afterwards. Between store and look both have a
//! fence, so that at least one of them sees what the other one has stored: work never waits for a
//! thread that sleeps. `loom_tests` has both sides in every order.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use ferroce_platform::os;

use crate::clock::Ticks;

/// A word on which threads sleep, in the registry: 1 while one does, or is about to.
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

/// Announces that this thread is about to sleep. What it looks at after that decides whether it
/// may.
fn announce_sleep<B: Bell>(bell: &B) {
    bell.set(1);
    B::fence();
}

/// Makes what this thread has published visible to threads that announce a sleep later; those that
/// did so before are seen by [`ring`].
fn publish<B: Bell>() {
    B::fence();
}

/// Takes the announcement of a sleeping thread. Returns true if it has to be woken. Cheap if none
/// sleeps.
fn ring<B: Bell>(bell: &B) -> bool {
    bell.get() == 1 && bell.swap(0) == 1
}

/// Ends the announcement of this thread. Returns true if another one has taken it.
fn end_sleep<B: Bell>(bell: &B) -> bool {
    bell.swap(0) == 0
}

/// A thread of the function at a place that sleeps.
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

    /// Ends the announcement. Returns true if it was woken.
    pub fn end(self) -> bool {
        end_sleep(self.0)
    }

    /// Returns true if it has announced that it sleeps.
    pub fn is_announced(self) -> bool {
        self.0.get() == 1
    }

    /// Wakes it if it sleeps, or is about to. Returns true if so.
    #[inline]
    pub fn wake(self) -> bool {
        let sleeps = ring(self.0);
        if sleeps {
            os::futex_wake_all(self.0);
        }
        sleeps
    }

    /// Wakes it whether or not it has announced that it sleeps.
    pub fn wake_always(self) {
        self.0.set(0);
        os::futex_wake_all(self.0);
    }
}

/// The words of the function at a place.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// Until when the program polls, in ticks of the machine's counter, unless it says so again;
    /// 0 if it is about to sleep.
    polls_until: &'a AtomicU64,
    /// The background thread.
    pub background: Sleeper<'a>,
    /// When the background thread was last woken, in ticks.
    pub woken_at: &'a AtomicU64,
    /// The threads of the program that doze.
    pub dozing: Sleeper<'a>,
}

impl<'a> Words<'a> {
    /// Returns them, in the memory that processes share.
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

    /// Returns until when the program polls.
    #[inline]
    pub fn polls_until(&self) -> Ticks {
        Ticks(self.polls_until.load(Ordering::Relaxed))
    }

    /// Sets until when the program polls.
    #[inline]
    pub fn set_polls_until(&self, until: Ticks) {
        self.polls_until.store(until.0, Ordering::Relaxed);
    }

    /// Wakes the program's dozing threads, or if there is none the background thread if it sleeps.
    /// Returns true if a thread was woken.
    pub fn wake(&self, now: Ticks) -> bool {
        self.dozing.wake() || self.wake_background(now)
    }

    /// Wakes the background thread if it sleeps. Returns true if it did.
    pub fn wake_background(&self, now: Ticks) -> bool {
        // A time that is not needed in the end does no harm.
        self.woken_at.store(now.0, Ordering::Relaxed);
        self.background.wake()
    }
}

/// Called after work was published for threads that may be about to sleep, and before
/// [`Words::wake`].
#[inline]
pub fn publish_work() {
    publish::<AtomicU32>();
}

/// Every order of the accesses of both sides: tests/scripts/loom.
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

    /// A word, and work that is published without any order, as frames are.
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
