//! Programs of a host: what they do in a step, and what they wait for.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferroce_units::{Duration, Instant};
use parking_lot::Mutex;

use super::recorder::{Activity, SharedRecorder, Span};

/// Number of a thread of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(pub(super) usize);

/// A thread of a program on a host.
pub trait Thread {
    /// Goes on at `cpu.now()`, and says what it waits for then.
    ///
    /// Memory is as of the beginning of the step, however much time the step spends. A step that
    /// shall see what happens meanwhile ends with [`Next::At`] its own time, and goes on.
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next;
}

impl<F: FnMut(&mut Cpu<'_>) -> Next> Thread for F {
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        self(cpu)
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// For this time, or its own clock if that is later.
    At(Instant),
    /// It polls: its next turn is at `not_before`, later ones follow every `grid`. It goes on with
    /// the first turn that finds something new of what it watches.
    OnWrite {
        /// Time of the next turn.
        not_before: Instant,
        /// Time of a turn.
        grid: Duration,
        /// What it looks at.
        watch: Watch,
    },
    /// It sleeps until the host's next interrupt, whose handlers run at once, and goes on
    /// `wake_up` after that.
    OnInterrupt {
        /// From the interrupt to a thread that runs.
        wake_up: Duration,
    },
    /// For whoever knows what it waits for: [`super::Waker::wake`].
    Parked,
    /// For nothing: it ends.
    Done,
}

/// What a polling thread looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// Completions and events: descriptors that the NIC writes.
    Completions,
    /// These addresses of this process.
    Memory(Range<usize>),
    /// Everything that the NIC writes.
    Everything,
}

/// When a thread goes on, whatever it waits for; `MAX`: it does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// At the latest.
    pub last: Instant,
    /// [`Cpu::look_round_at`].
    pub look_round: Instant,
}

/// The clock of the thread that runs.
#[derive(Default)]
pub(super) struct Clock {
    now: AtomicU64,
    /// When the thread goes on at the latest, whatever it waits for.
    deadline: AtomicU64,
    /// When a thread that polls looks round, unless just then time is skipped.
    look_round: AtomicU64,
    /// Nothing that the thread does not cause becomes visible to it before.
    quiet_until: AtomicU64,
    /// The thread wants the run to end with its step.
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

    /// A step begins, of a thread to which nothing happens before `quiet_until`.
    #[inline]
    pub(super) fn begin(&self, now: Instant, quiet_until: Instant) {
        self.set(now);
        self.quiet_until
            .store(quiet_until.as_ps(), Ordering::Relaxed);
        self.deadline.store(Instant::MAX.as_ps(), Ordering::Relaxed);
        self.look_round
            .store(Instant::MAX.as_ps(), Ordering::Relaxed);
    }

    /// The deadlines that the thread has set during its step.
    #[inline]
    pub(super) fn deadlines(&self) -> Deadlines {
        Deadlines {
            last: Instant(self.deadline.load(Ordering::Relaxed)),
            look_round: Instant(self.look_round.load(Ordering::Relaxed)),
        }
    }

    /// Whether the thread wants the run to end.
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

/// The processor under a thread, during a step.
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

    /// The thread's own time. Doorbells that the driver rings are stamped with it.
    #[inline]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The thread works for `time`.
    #[inline]
    pub fn spend(&mut self, time: Duration) {
        self.clock.set(self.now() + time);
    }

    /// The thread works until `time`, if that is later than its own.
    #[inline]
    pub fn spend_until(&mut self, time: Instant) {
        self.clock.set(self.now().max(time));
    }

    /// Until when nothing becomes visible to the thread but what it causes itself: no event of the
    /// world, no write of the card. As of the beginning of the step, and rather too early.
    pub fn quiet_until(&self) -> Instant {
        Instant(self.clock.quiet_until.load(Ordering::Relaxed))
    }

    /// Whatever the thread says that it waits for at the end of this step: at `time` it goes on, or
    /// at its own time if that is later.
    pub fn set_deadline(&mut self, time: Instant) {
        self.clock.deadline.store(time.as_ps(), Ordering::Relaxed);
    }

    /// If the thread polls then, it goes on at `time` in any case, to look round; but that does not keep the
    /// world from leaving packets of a long message out. It looks round behind them then, with a turn of
    /// its grid.
    pub fn look_round_at(&mut self, time: Instant) {
        self.clock.look_round.store(time.as_ps(), Ordering::Relaxed);
    }

    /// [`super::World::run`] ends with this step.
    pub fn leave(&mut self) {
        self.clock.is_leaving.store(true, Ordering::Relaxed);
    }

    /// As [`Cpu::spend`]; tells a recorder what for.
    pub fn work(&mut self, activity: Activity, time: Duration, qp: Option<u32>, bytes: u32) {
        let start = self.now();
        self.spend(time);
        self.tell(activity, start, self.now(), (qp, bytes));
    }

    /// Tells a recorder what the thread has done, for which queue pair and how many bytes.
    pub fn tell(
        &self,
        activity: Activity,
        start: Instant,
        end: Instant,
        (qp, bytes): (Option<u32>, u32),
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

    /// The host that it is on.
    pub fn host(&self) -> usize {
        self.host
    }

    /// The thread that runs.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }
}
