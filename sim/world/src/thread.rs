//! Threads of a host's programs: their steps, and the events for which they wait.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferroce_units::{Duration, Instant};
use parking_lot::Mutex;

use super::recorder::{Activity, SharedRecorder, Span};

/// Identifier of a thread of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(pub(super) usize);

/// A thread of a program on a host.
pub trait Thread {
    /// Runs a step from `cpu.now()` on, and returns the event for which the thread then waits.
    ///
    /// Memory has its state at the beginning of the step, however much time the step spends. To see
    /// later changes, a step ends with [`Next::At`] its own time. A command of the device takes no
    /// time in a step, and its results are in memory immediately: a step that has executed one
    /// polls before it waits for a write.
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next;
}

impl<F: FnMut(&mut Cpu<'_>) -> Next> Thread for F {
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        self(cpu)
    }
}

/// The event for which a thread waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This time, or the thread's own clock if that is later.
    At(Instant),
    /// It polls at `not_before`, and then every `grid`. Its next step is the first poll that finds
    /// a change in `watch`.
    OnWrite {
        /// Time of the next poll.
        not_before: Instant,
        /// Period of polls.
        grid: Duration,
        /// The watched memory.
        watch: Watch,
    },
    /// It sleeps until the host's next interrupt, whose handlers run immediately. Its next step is
    /// `wake_up` later.
    OnInterrupt {
        /// Time from the interrupt to the step.
        wake_up: Duration,
    },
    /// Something outside of the world: a call of [`super::Waker::wake`].
    Parked,
    /// Nothing: it ends.
    Done,
}

/// The memory that a polling thread watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// Completions and events: descriptors that the NIC writes.
    Completions,
    /// A range of addresses of this process.
    Memory(Range<usize>),
    /// All writes of the NIC.
    Everything,
}

/// Bounds on a thread's next step, whatever it waits for; `MAX`: none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// The latest time.
    pub last: Instant,
    /// [`Cpu::recheck_at`].
    pub recheck_at: Instant,
}

/// The clock of the running thread.
#[derive(Default)]
pub(super) struct Clock {
    now: AtomicU64,
    /// Latest time of the thread's next step, whatever it waits for.
    deadline: AtomicU64,
    /// Time of a polling thread's recheck, unless that time is skipped.
    recheck_at: AtomicU64,
    /// Nothing becomes visible to the thread before this time, except by its own actions.
    quiet_until: AtomicU64,
    /// True if the run must end after this step.
    is_leaving: AtomicBool,
    is_recorded: AtomicBool,
    recorder: Mutex<Option<SharedRecorder>>,
}

impl Clock {
    #[inline]
    pub(super) fn now(&self) -> Instant {
        Instant(self.now.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set(&self, now: Instant) {
        self.now.store(now.as_ps(), Ordering::Relaxed);
    }

    /// Begins a step of a thread to which nothing becomes visible before `quiet_until`.
    #[inline]
    pub(super) fn begin(&self, now: Instant, quiet_until: Instant) {
        self.set(now);
        self.quiet_until
            .store(quiet_until.as_ps(), Ordering::Relaxed);
        self.deadline.store(Instant::MAX.as_ps(), Ordering::Relaxed);
        self.recheck_at
            .store(Instant::MAX.as_ps(), Ordering::Relaxed);
    }

    /// Returns the deadlines that the thread has set during its step.
    #[inline]
    pub(super) fn deadlines(&self) -> Deadlines {
        Deadlines {
            last: Instant(self.deadline.load(Ordering::Relaxed)),
            recheck_at: Instant(self.recheck_at.load(Ordering::Relaxed)),
        }
    }

    /// Returns true, once, if the thread has requested the end of the run.
    #[inline]
    pub(super) fn take_leave(&self) -> bool {
        let is_leaving = self.is_leaving.load(Ordering::Relaxed);
        if is_leaving {
            self.is_leaving.store(false, Ordering::Relaxed);
        }
        is_leaving
    }

    pub(super) fn record(&self, recorder: Option<SharedRecorder>) {
        self.is_recorded
            .store(recorder.is_some(), Ordering::Relaxed);
        *self.recorder.lock() = recorder;
    }
}

/// The processor of a thread during a step.
pub struct Cpu<'a> {
    clock: &'a Clock,
    host: usize,
    thread: ThreadId,
}

impl<'a> Cpu<'a> {
    pub(super) fn new(clock: &'a Clock, host: usize, thread: ThreadId) -> Self {
        Self {
            clock,
            host,
            thread,
        }
    }

    /// Returns the thread's own time, with which doorbells of the driver are stamped.
    #[inline]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Advances the thread's own time by `time`.
    #[inline]
    pub fn spend(&mut self, time: Duration) {
        self.clock.set(self.now() + time);
    }

    /// Advances the thread's own time to `time`, if that is later.
    #[inline]
    pub fn spend_until(&mut self, time: Instant) {
        self.clock.set(self.now().max(time));
    }

    /// Returns the time until which nothing becomes visible to the thread, except by its own
    /// actions: no event of the world, no write of the card. It is as of the beginning of the step,
    /// and a lower bound.
    pub fn quiet_until(&self) -> Instant {
        Instant(self.clock.quiet_until.load(Ordering::Relaxed))
    }

    /// Sets the latest time of the next step, whatever this step returns: at `time`, or at the
    /// thread's own time if that is later.
    pub fn set_deadline(&mut self, time: Instant) {
        self.clock.deadline.store(time.as_ps(), Ordering::Relaxed);
    }

    /// Sets the time of a recheck: a polling thread is stepped at `time` even if nothing has
    /// changed. A recheck does not prevent the world from skipping packets of a long message; it is
    /// then postponed to a point of the thread's grid after them.
    pub fn recheck_at(&mut self, time: Instant) {
        self.clock.recheck_at.store(time.as_ps(), Ordering::Relaxed);
    }

    /// Ends [`super::World::run`] after this step.
    pub fn leave(&mut self) {
        self.clock.is_leaving.store(true, Ordering::Relaxed);
    }

    /// As [`Cpu::spend`], and reports the activity to a recorder.
    pub fn work(&mut self, activity: Activity, time: Duration, qp: Option<u32>, bytes: u32) {
        let start = self.now();
        self.spend(time);
        self.record(activity, start, self.now(), qp, bytes);
    }

    /// Reports an activity of the thread to a recorder, with its queue pair and number of bytes.
    pub fn record(
        &self,
        activity: Activity,
        start: Instant,
        end: Instant,
        qp: Option<u32>,
        bytes: u32,
    ) {
        if !self.clock.is_recorded.load(Ordering::Relaxed) {
            return;
        }
        if let Some(recorder) = &*self.clock.recorder.lock() {
            recorder.lock().record(&Span {
                host: self.host,
                activity,
                start,
                end,
                qp,
                bytes,
            });
        }
    }

    /// Returns the thread's host.
    pub fn host(&self) -> usize {
        self.host
    }

    /// Returns the thread.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }
}
