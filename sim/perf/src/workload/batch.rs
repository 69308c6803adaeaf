//! SMART's loop (ASPLOS 2024, `test_rdma`): posts a batch of signaled work requests, each with its
//! doorbell, waits for all of them, posts the next batch. Threads may share a QP and its CQ: a
//! thread that polls completions of another one credits them to it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::error::Error;
use crate::lock::SpinLock;
use crate::side::Message;
use crate::workload::{Job, POLL_BATCH, note_failure};

/// The common goal of all threads.
#[derive(Debug)]
pub struct Goal {
    /// Number of messages after which the measurement starts, and after which the run ends.
    warm: u64,
    end: u64,
    completed: Cell<u64>,
    /// Time at which `warm` messages had completed, and their exact number then.
    started: Cell<Option<(u64, u64)>>,
    ended: Cell<Option<(u64, u64)>>,
    /// Completions found, by thread.
    credits: RefCell<Vec<u64>>,
}

/// A quarter of the messages is warm-up.
const WARM_PART: u64 = 4;

impl Goal {
    /// Returns the goal of `messages` for `threads` threads.
    pub fn new(messages: u64, threads: usize) -> Rc<Self> {
        Rc::new(Self {
            warm: messages / WARM_PART,
            end: messages,
            completed: Cell::new(0),
            started: Cell::new(None),
            ended: Cell::new(None),
            credits: RefCell::new(vec![0; threads]),
        })
    }

    /// Counts `count` more completions.
    pub fn add(&self, count: u64, now_ps: u64) {
        let completed = self.completed.get() + count;
        self.completed.set(completed);
        if completed >= self.warm && self.started.get().is_none() {
            self.started.set(Some((completed, now_ps)));
        }
        if completed >= self.end && self.ended.get().is_none() {
            self.ended.set(Some((completed, now_ps)));
        }
    }

    /// Returns true if no more is to be posted.
    pub fn is_reached(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns the messages and picoseconds after the warm-up.
    pub fn figures(&self) -> Option<(u64, u64)> {
        let (start, end) = self.started.get().zip(self.ended.get())?;
        Some((end.0 - start.0, end.1 - start.1))
    }
}

/// Runs until the goal is reached; `number` is the thread's index among all that share the goal.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn run(
    job: &Job,
    goal: &Goal,
    number: usize,
    cq_lock: Option<&Rc<SpinLock>>,
) -> Result<(), Error> {
    let depth = u64::from(job.plan.depth);
    let mut posted = 0;
    while !goal.is_reached() {
        for slot in 0..depth {
            let message = aim(job, slot);
            let index = slot as usize % job.side.endpoints.len();
            job.post_marked(index, &message, true, number as u64)
                .await?;
        }
        posted += depth;
        while goal.credits.borrow()[number] < posted {
            take(job, goal, cq_lock).await?;
        }
    }
    Ok(())
}

/// Polls once for completions of any thread.
async fn take(job: &Job, goal: &Goal, lock: Option<&Rc<SpinLock>>) -> Result<(), Error> {
    let cq = &job.side.send_cq;
    let mut failed = None;
    job.thread.acquire(lock).await;
    let count = job
        .thread
        .poll(cq, POLL_BATCH, |completion| {
            note_failure(&mut failed, &completion);
            goal.credits.borrow_mut()[completion.wr_id as usize] += 1;
        })
        .await;
    job.thread.release(lock);
    job.check(failed)?;
    goal.add(count as u64, job.now_ps());
    if count == 0 && lock.is_none() {
        job.thread.wait_for_completion(&[cq]).await;
    }
    Ok(())
}

/// Returns a random place in the thread's part of the region: a multiple of the message's size, so
/// that atomics are aligned for any number of threads.
fn aim(job: &Job, slot: u64) -> Message {
    let size = u64::from(job.plan.size);
    let endpoint = &job.side.endpoints[0];
    let remote = &endpoint.remote[0];
    let place = if job.plan.one_address {
        0
    } else {
        let places = remote.length / u64::from(job.plan.threads) / size;
        let first = places * u64::from(job.side.thread);
        (first + job.thread.random().below(places.max(1))) * size
    };
    Message {
        segment: job.side.regions[0]
            .segment(endpoint.local_base + slot * size.max(64), size as u32),
        remote: remote.at(place.min(remote.length - size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_between_warm_and_done() {
        let goal = Goal::new(100, 1);
        goal.add(20, 1000);
        assert_eq!(goal.figures(), None);
        goal.add(8, 2000);
        goal.add(70, 3000);
        assert!(!goal.is_reached());
        goal.add(5, 4000);
        assert!(goal.is_reached());
        goal.add(5, 9000);
        assert_eq!(goal.figures(), Some((75, 2000)));
    }
}
