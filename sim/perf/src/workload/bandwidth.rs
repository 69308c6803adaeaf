//! perftest's `run_iter_bw`: fills all send queues, polls a batch of completions, fills again.

use crate::error::Error;
use crate::workload::{Job, POLL_BATCH, note_failure};

/// Number of windows over which the rate has to be the same; the permitted difference is one part
/// in this many.
const STEADY_WINDOWS: usize = 4;
const STEADY_PART: u64 = 1000;
/// Minimum number of completions in a window.
const WINDOW_COMPLETIONS: usize = 8;

/// Progress: posted and completed messages.
struct Progress {
    posted: Vec<u64>,
    completed: Vec<u64>,
    /// Messages of each QP.
    count: u64,
}

impl Progress {
    fn new(qps: usize, count: u64) -> Self {
        Self {
            posted: vec![0; qps],
            completed: vec![0; qps],
            count,
        }
    }

    fn total(&self) -> u64 {
        self.count * self.posted.len() as u64
    }

    fn has_room(&self, index: usize, depth: u64) -> bool {
        self.posted[index] < self.count && self.posted[index] < self.completed[index] + depth
    }

    fn all_completed(&self) -> u64 {
        let each = self
            .completed
            .iter()
            .map(|completed| completed.min(&self.count));
        each.sum()
    }
}

/// Sends all messages.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn run(job: &Job) -> Result<(), Error> {
    let plan = &*job.plan;
    let qps = job.side.endpoints.len();
    let mut progress = Progress::new(qps, plan.iterations);
    let mut steady = Steady::default();
    let every = u64::from(plan.signal_every);
    while progress.all_completed() < progress.total() {
        for index in 0..qps {
            while progress.has_room(index, plan.depth.into()) {
                let count = progress.posted[index];
                job.record.timeline.borrow_mut().posted.push(job.now_ps());
                let signaled = plan.is_signaled(count, progress.count);
                job.post(index, count, signaled).await?;
                progress.posted[index] += 1;
            }
        }
        let mut failed = None;
        let mut found = Vec::new();
        let count = job
            .thread
            .take(&job.side.send_cq, POLL_BATCH, |completion| {
                note_failure(&mut failed, &completion);
                found.push(completion.wr_id as usize);
            })
            .await;
        job.check(failed)?;
        if count == 0 {
            if !plan.events {
                job.thread.wait_for_completion(&[&job.side.send_cq]).await;
            }
            continue;
        }
        for index in found {
            progress.completed[index] += every;
            let completed = progress.all_completed();
            let now = job.now_ps();
            job.record
                .timeline
                .borrow_mut()
                .completed
                .push((completed, now));
            steady.add(completed, now);
        }
        if plan.until_steady && steady.is_steady() && !job.record.ended_early.get() {
            stop(job, &mut progress);
        }
    }
    Ok(())
}

/// Posts at most up to the next signaled work request of each QP, and one more, so that a receiving
/// peer gets it in time.
fn stop(job: &Job, progress: &mut Progress) {
    let most = progress.posted.iter().max().copied().unwrap_or_default();
    let last = (most + 1).next_multiple_of(job.plan.signal_every.into());
    if last < progress.count {
        progress.count = last;
        job.count.set(last);
        job.record.ended_early.set(true);
    }
}

/// Detects a steady rate.
#[derive(Debug, Default)]
pub struct Steady {
    /// Number of completed messages and time, at the ends of windows.
    marks: Vec<(u64, u64)>,
    /// Completions since the last mark.
    completions: usize,
}

impl Steady {
    /// Records that this many messages have completed by now.
    pub fn add(&mut self, completed: u64, now_ps: u64) {
        self.completions += 1;
        if self.marks.is_empty() || self.completions >= WINDOW_COMPLETIONS {
            self.completions = 0;
            self.marks.push((completed, now_ps));
        }
    }

    /// Returns true if the last windows have the same rate.
    pub fn is_steady(&self) -> bool {
        let Some(first) = self.marks.len().checked_sub(STEADY_WINDOWS + 1) else {
            return false;
        };
        let times = self.marks[first..].windows(2).map(|pair| {
            let messages = pair[1].0 - pair[0].0;
            (pair[1].1 - pair[0].1).saturating_mul(1000) / messages.max(1)
        });
        let (least, most) = times.fold((u64::MAX, 0), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        most - least <= most / STEADY_PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_steady_when_windows_agree() {
        let mut steady = Steady::default();
        for completion in 1..=33u64 {
            assert!(!steady.is_steady(), "{completion}");
            steady.add(completion * 100, completion * 1_000_000);
        }
        assert!(steady.is_steady());
        let mut slowing = Steady::default();
        for completion in 1..=100u64 {
            slowing.add(completion * 100, completion * completion * 100_000);
            assert!(!slowing.is_steady());
        }
    }

    #[test]
    fn room_is_counted_from_what_has_completed() {
        let mut progress = Progress::new(2, 150);
        progress.posted = vec![128, 150];
        progress.completed = vec![0, 200];
        assert!(!progress.has_room(0, 128));
        assert!(!progress.has_room(1, 128));
        progress.completed[0] = 100;
        assert!(progress.has_room(0, 128));
        assert_eq!((progress.total(), progress.all_completed()), (300, 250));
    }
}
