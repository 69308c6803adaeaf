//! A simulated thread that runs one loop.
//!
//! The loops are `async` functions, so that they read like perftest's: a loop awaits each call of
//! the driver while the cost of the call passes. The only executor is [`Program::step`]: it runs
//! the loop until the loop needs events of the world.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ferroce_model::preset::costs::Costs;
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Activity, Cpu, Next, Thread, Watch};

/// Longest time by which a thread's stores run ahead of its card. During this time, other traffic
/// on the PCIe link waits for stores that are issued later: a few nanoseconds each.
const MOST_AHEAD: Duration = Duration::from_ns(500);

/// A request of a loop to the world.
#[derive(Debug)]
pub(super) enum Request {
    /// Time passes.
    Work {
        activity: Activity,
        time: Duration,
        qp: Option<u32>,
        bytes: u32,
    },
    /// Other parts of the world advance first.
    Wait(Next),
}

/// The simulated thread of a loop: its clock and its costs.
#[derive(Debug)]
pub struct SimThread {
    /// Number of the thread on its host.
    thread: u32,
    /// True if it is the only one: no other thread's stores reach the card between its own.
    is_alone: bool,
    costs: Costs,
    random: Random,
    now: Cell<Instant>,
    /// Start of the step.
    begun: Cell<Instant>,
    /// Total time of work.
    worked: Cell<Duration>,
    /// Total time of spinning on locks.
    spun: Cell<Duration>,
    /// True if the world has advanced host memory up to `now`.
    is_fresh: Cell<bool>,
    request: RefCell<Option<Request>>,
}

impl SimThread {
    /// Returns a thread of a host with these costs, which `random` spreads. `is_alone`: it is the
    /// only thread of the host.
    pub fn new((thread, is_alone): (u32, bool), costs: Costs, random: Random) -> Rc<Self> {
        Rc::new(Self {
            thread,
            is_alone,
            costs,
            random,
            now: Cell::new(Instant::ZERO),
            begun: Cell::new(Instant::ZERO),
            worked: Cell::new(Duration::ZERO),
            spun: Cell::new(Duration::ZERO),
            is_fresh: Cell::new(false),
            request: RefCell::default(),
        })
    }

    /// Returns the number of the thread on its host.
    pub fn number(&self) -> u32 {
        self.thread
    }

    /// Returns the loop's own time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// Returns the time for which the thread has worked: all calls except empty polls.
    pub fn worked(&self) -> Duration {
        self.worked.get()
    }

    /// Returns the time for which the thread has waited for locks.
    pub fn spun(&self) -> Duration {
        self.spun.get()
    }

    /// Adds time that the thread has waited for a lock.
    pub fn count_spin(&self, time: Duration) {
        self.spun.set(self.spun.get() + time);
    }

    /// Returns the random numbers of this thread.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// Returns the costs of calls.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Ends the step with a request to the world.
    pub(super) async fn ask(&self, request: Request) {
        *self.request.borrow_mut() = Some(request);
        let mut is_asked = false;
        poll_fn(|_| {
            if std::mem::replace(&mut is_asked, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Lets a time with this mean, spread, pass, in which the thread does `activity`.
    pub(super) async fn work(
        &self,
        activity: Activity,
        mean: Duration,
        qp: Option<u32>,
        bytes: u32,
    ) {
        let time = self.costs.spread(mean, &self.random);
        if time.is_zero() {
            return;
        }
        self.worked.set(self.worked.get() + time);
        self.ask(Request::Work {
            activity,
            time,
            qp,
            bytes,
        })
        .await;
    }

    /// Lets a time with this mean, spread, pass, in which the thread polls an empty CQ.
    pub(super) async fn miss(&self, mean: Duration) {
        let before = self.worked.get();
        self.work(Activity::Poll, mean, None, 0).await;
        self.worked.set(before);
    }

    /// Computes for a time with this mean, spread.
    pub async fn compute(&self, mean: Duration) {
        self.work(Activity::Compute, mean, None, 0).await;
    }

    /// Lets the world catch up with the loop's own time.
    pub async fn catch_up(&self) {
        if !self.is_fresh.get() {
            self.ask(Request::Wait(Next::At(self.now()))).await;
        }
    }

    /// Sleeps until `time`.
    pub async fn sleep_until(&self, time: Instant) {
        self.ask(Request::Wait(Next::At(time.max(self.now()))))
            .await;
    }

    /// Waits for a write to `addresses`, polling every `grid`.
    pub async fn wait_for_write(&self, addresses: Range<usize>, grid: Duration) {
        self.wait(Watch::Memory(addresses), grid).await;
    }

    /// Waits until `watch` matches, polling every `grid`.
    pub(super) async fn wait(&self, watch: Watch, grid: Duration) {
        let not_before = self.now();
        self.ask(Request::Wait(Next::OnWrite {
            not_before,
            grid,
            watch,
        }))
        .await;
    }

    /// Notes the time for which the thread has waited for its stores to leave the processor.
    #[inline]
    fn note_waits(&self, now: Instant) {
        let waited = now - self.now();
        if !waited.is_zero() {
            self.is_fresh.set(false);
            self.worked.set(self.worked.get() + waited);
        }
    }

    /// Lets earlier stores of other threads and earlier work of the card happen first: stores of a
    /// host reach its card in the order of issue. A thread that is alone may be ahead of the card
    /// by [`MOST_AHEAD`].
    pub(super) async fn line_up(&self) {
        if !self.is_alone || self.now() > self.begun.get() + MOST_AHEAD {
            self.catch_up().await;
        }
    }
}

/// A loop on its simulated thread, as a thread of a world.
pub struct Program {
    thread: Rc<SimThread>,
    body: Pin<Box<dyn Future<Output = ()>>>,
}

impl Program {
    /// Returns a program; its `body` may await only calls of `thread`.
    pub fn new(thread: &Rc<SimThread>, body: impl Future<Output = ()> + 'static) -> Box<Self> {
        Box::new(Self {
            thread: Rc::clone(thread),
            body: Box::pin(body),
        })
    }
}

impl Thread for Program {
    fn step(&mut self, cpu: &mut Cpu<'_>) -> Next {
        let mut context = Context::from_waker(Waker::noop());
        self.thread.is_fresh.set(true);
        self.thread.begun.set(cpu.now());
        loop {
            self.thread.now.set(cpu.now());
            if self.body.as_mut().poll(&mut context).is_ready() {
                return Next::Done;
            }
            self.thread.note_waits(cpu.now());
            match self.thread.request.take() {
                Some(Request::Work {
                    activity,
                    time,
                    qp,
                    bytes,
                }) => {
                    self.thread.is_fresh.set(false);
                    cpu.work(activity, time, qp, bytes);
                }
                Some(Request::Wait(next)) => return next,
                // The body awaits something that will never finish.
                None => return Next::Done,
            }
        }
    }
}
