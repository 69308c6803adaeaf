//! Calls of the driver that a simulated thread makes, each with its costs.

use std::rc::Rc;

use ferroce_driver::{
    CompletionQueue, DataSegment, PostError, QueuePair, SendRequest, WorkCompletion,
};
use ferroce_model::preset::costs::times;
use ferroce_units::Duration;
use ferroce_world::{Activity, Next, Watch};

use crate::lock::SpinLock;
use crate::processor::{Request, SimThread};
use crate::queue::Queue;

/// Locks that a post needs because other threads use the same QP or doorbell.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    /// Lock of the QP.
    pub qp: Option<Rc<SpinLock>>,
    /// Lock of the doorbell.
    pub doorbell: Option<Rc<SpinLock>>,
}

impl SimThread {
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
        let cost = self.costs().post_of(inline);
        self.work(Activity::Post, cost, number, bytes).await;
        // Held while other simulated threads run. None of them takes this mutex: they use other
        // QPs, or wait for this QP's simulated lock.
        let mut batch = queue.lock();
        let posted = batch.post(request);
        let cost = self.costs().doorbell_of(batch.push_blocks() as u64);
        self.acquire(locks.doorbell.as_ref()).await;
        self.work(Activity::Doorbell, cost, number, 0).await;
        self.line_up().await;
        drop(batch);
        self.release(locks.doorbell.as_ref());
        self.release(locks.qp.as_ref());
        posted
    }

    /// Waits for a lock, if there is one.
    pub async fn acquire(&self, lock: Option<&Rc<SpinLock>>) {
        if let Some(lock) = lock {
            lock.acquire(self, self.number()).await;
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
        let cost = self.costs().post_receive;
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
        let count = if cq.is_empty() { 0 } else { cq.poll(max, each) };
        let cost = self.costs().poll_of(count as u64);
        match count {
            0 => self.miss(cost).await,
            _ => self.work(Activity::Poll, cost, None, 0).await,
        }
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
            let cost = self.costs().wake_up;
            self.work(Activity::WakeUp, cost, None, 0).await;
        }
        for queue in events {
            self.work(Activity::Doorbell, self.costs().doorbell, None, 0)
                .await;
            self.line_up().await;
            queue.arm();
        }
    }

    /// Waits until one of `cqs` is not empty. The caller polled them one after the other and found
    /// all of them empty.
    pub async fn wait_for_completion(&self, cqs: &[&CompletionQueue]) {
        // A completion may have arrived at the first CQ while the caller polled the next one.
        if cqs.iter().any(|cq| !cq.is_empty()) {
            return;
        }
        let watch = match cqs {
            [only] => Watch::Memory(only.entry_addresses()),
            _ => Watch::Completions,
        };
        let turn = times(self.costs().poll_miss, cqs.len() as u64);
        self.wait(watch, turn).await;
    }
}
