//! A simulated thread that runs one loop.
//!
//! The loops are `async` functions, so that they read as perftest's do: each call of the driver
//! is awaited while its cost passes. The only executor is [`Program::step`]: the loop runs until it
//! needs events of the world.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ferroce_driver::{
    CompletionQueue, DataSegment, PostError, QueuePair, SendRequest, WorkCompletion,
};
use ferroce_model::preset::costs::Costs;
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};
use ferroce_world::{Activity, Cpu, Next, Thread, Watch};

use crate::perf::lock::SpinLock;
use crate::perf::queue::Queue;

/// Longest time by which a thread's stores run ahead of its card. Meanwhile other traffic on the
/// PCIe link waits behind stores that come later: a few nanoseconds each.
const MOST_AHEAD: Duration = Duration::from_ns(500);

/// A request of a loop to the world.
#[derive(Debug)]
enum Request {
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

/// Locks that a post needs because other threads use the same QP or doorbell.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    /// Lock of the QP.
    pub qp: Option<Rc<SpinLock>>,
    /// Lock of the doorbell.
    pub doorbell: Option<Rc<SpinLock>>,
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
    /// When the step began.
    begun: Cell<Instant>,
    /// True if host memory is as of `now`.
    is_fresh: Cell<bool>,
    request: RefCell<Option<Request>>,
}

impl SimThread {
    /// Returns a thread of a host, which may be its only one, with these costs, which `random`
    /// spreads.
    pub fn new((thread, is_alone): (u32, bool), costs: Costs, random: Random) -> Rc<Self> {
        Rc::new(Self {
            thread,
            is_alone,
            costs,
            random,
            now: Cell::new(Instant::ZERO),
            begun: Cell::new(Instant::ZERO),
            is_fresh: Cell::new(false),
            request: RefCell::default(),
        })
    }

    /// Returns the loop's own time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// Returns the random numbers of this thread.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// Returns the costs of calls.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    async fn ask(&self, request: Request) {
        *self.request.borrow_mut() = Some(request);
        let mut is_asked = false;
        poll_fn(|_| match std::mem::replace(&mut is_asked, true) {
            false => Poll::Pending,
            true => Poll::Ready(()),
        })
        .await;
    }

    async fn work(&self, activity: Activity, mean: Duration, qp: Option<u32>, bytes: u32) {
        let time = self.costs.spread(mean, &self.random);
        if time.is_zero() {
            return;
        }
        self.ask(Request::Work {
            activity,
            time,
            qp,
            bytes,
        })
        .await;
    }

    /// Computes for `mean`, spread.
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

    async fn wait(&self, watch: Watch, grid: Duration) {
        let not_before = self.now();
        self.ask(Request::Wait(Next::OnWrite {
            not_before,
            grid,
            watch,
        }))
        .await;
    }

    /// Posts a send work request and rings the doorbell.
    ///
    /// # Errors
    /// [`PostError`].
    pub async fn post_send(
        &self,
        (qp, locks): (&QueuePair, &Locks),
        request: &SendRequest<'_>,
        inline: u64,
        bytes: u32,
    ) -> Result<(), PostError> {
        let queue = qp.send_queue().ok_or(PostError::InvalidState)?;
        let number = Some(qp.number().0);
        self.acquire(locks.qp.as_ref()).await;
        let cost = self.costs.post_of(inline);
        self.work(Activity::Post, cost, number, bytes).await;
        // Held while other simulated threads run. None of them locks it: either they do not use
        // the QP, or they wait for its simulated lock.
        let mut batch = queue.lock();
        let posted = batch.post(request);
        let cost = self.costs.doorbell_of(batch.push_blocks() as u64);
        self.acquire(locks.doorbell.as_ref()).await;
        self.work(Activity::Doorbell, cost, number, 0).await;
        self.line_up().await;
        drop(batch);
        self.release(locks.doorbell.as_ref());
        self.release(locks.qp.as_ref());
        posted
    }

    /// Lets earlier stores of other threads, and earlier work of the card, go first: stores of a
    /// host reach its card in the order in which they are made. A thread that is alone may be ahead
    /// of the card by [`MOST_AHEAD`].
    async fn line_up(&self) {
        if !self.is_alone || self.now() > self.begun.get() + MOST_AHEAD {
            self.catch_up().await;
        }
    }

    /// Waits for a lock, if there is one.
    pub async fn acquire(&self, lock: Option<&Rc<SpinLock>>) {
        if let Some(lock) = lock {
            lock.acquire(self, self.thread).await;
        }
    }

    /// Releases a lock, if there is one.
    pub fn release(&self, lock: Option<&Rc<SpinLock>>) {
        if let Some(lock) = lock {
            lock.release(self);
        }
    }

    /// Posts a receive and rings the doorbell.
    ///
    /// # Errors
    /// [`PostError`].
    pub async fn post_receive(
        &self,
        qp: &QueuePair,
        wr_id: u64,
        segment: DataSegment,
    ) -> Result<(), PostError> {
        let queue = qp.receive_queue().ok_or(PostError::InvalidState)?;
        let cost = self.costs.post_receive;
        self.work(Activity::PostReceive, cost, Some(qp.number().0), 0)
            .await;
        queue.post(wr_id, &[segment])
    }

    /// Polls once for up to `max` completions.
    pub async fn poll(
        &self,
        cq: &CompletionQueue,
        max: usize,
        each: impl FnMut(WorkCompletion),
    ) -> usize {
        self.catch_up().await;
        let count = match cq.is_empty() {
            true => 0,
            false => cq.poll(max, each),
        };
        let cost = self.costs.poll_of(count as u64);
        self.work(Activity::Poll, cost, None, 0).await;
        count
    }

    /// As [`SimThread::poll`], but waits for an event first if the loop sleeps on the queue.
    pub async fn take(&self, queue: &Queue, max: usize, each: impl FnMut(WorkCompletion)) -> usize {
        if queue.sleeps() && !queue.has_more() {
            self.sleep_on(&[queue]).await;
        }
        let count = self.poll(queue, max, each).await;
        queue.note_poll(count, max);
        count
    }

    /// Polls for up to `max` completions until there is one.
    pub async fn poll_until_hit(
        &self,
        queue: &Queue,
        max: usize,
        mut each: impl FnMut(WorkCompletion),
    ) -> usize {
        loop {
            let count = self.take(queue, max, &mut each).await;
            if count > 0 {
                return count;
            }
            if !queue.sleeps() {
                self.wait_for_completion(&[queue]).await;
            }
        }
    }

    /// Sleeps until there is an event of one of `queues`, and arms those that have had one:
    /// `ibv_get_cq_event`, `ibv_ack_cq_events` and `ibv_req_notify_cq`.
    pub async fn sleep_on(&self, queues: &[&Queue]) {
        self.catch_up().await;
        let mut has_slept = false;
        let events = loop {
            let events: Vec<_> = queues.iter().filter(|queue| queue.take_events()).collect();
            if !events.is_empty() {
                break events;
            }
            // An interrupt of another queue costs no wake-up: the loop checks its own queues at
            // once and sleeps again.
            let wake_up = Duration::ZERO;
            self.ask(Request::Wait(Next::OnInterrupt { wake_up })).await;
            has_slept = true;
        };
        if has_slept {
            let cost = self.costs.wake_up;
            self.work(Activity::WakeUp, cost, None, 0).await;
        }
        for queue in events {
            self.work(Activity::Doorbell, self.costs.doorbell, None, 0)
                .await;
            self.line_up().await;
            queue.arm(false);
        }
    }

    /// Waits until one of `cqs`, which were polled one after the other and found empty, is not.
    pub async fn wait_for_completion(&self, cqs: &[&CompletionQueue]) {
        // The first may have got a completion while the next one was polled.
        if cqs.iter().any(|cq| !cq.is_empty()) {
            return;
        }
        let watch = match cqs {
            [only] => Watch::Memory(only.entry_addresses()),
            _ => Watch::Completions,
        };
        let turn = ferroce_model::preset::costs::times(self.costs.poll_miss, cqs.len() as u64);
        self.wait(watch, turn).await;
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
