//! FaSST's loop (OSDI 2016, `rc-swarm`): a thread keeps a window of work requests outstanding over
//! all its QPs. It waits for the oldest one on its QP's CQ, and posts another to a random QP of
//! another host and a random cache line of a thread's region there.

use crate::error::Error;
use crate::region::LINE;
use crate::side::Message;
use crate::workload::batch::Goal;
use crate::workload::{Job, note_failure};

/// Runs until the goal is reached.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn run(job: &Job, goal: &Goal) -> Result<(), Error> {
    let window = job.plan.depth as usize;
    let choices: Vec<usize> = (0..job.side.endpoints.len())
        .filter(|&index| !job.side.endpoints[index].is_alone)
        .collect();
    let mut used: Vec<Option<usize>> = vec![None; window];
    for slot in (0..window).cycle() {
        if let Some(index) = used[slot].take() {
            completion(job, index).await?;
            goal.add(1, job.now_ps());
        }
        if goal.is_reached() {
            if used.iter().all(Option::is_none) {
                break;
            }
            continue;
        }
        let index = choices[job.thread.random().below(choices.len() as u64) as usize];
        let message = aim(job, index, slot as u64);
        job.post_message(index, &message, true).await?;
        used[slot] = Some(index);
    }
    Ok(())
}

/// Waits for one completion of QP `index`.
async fn completion(job: &Job, index: usize) -> Result<(), Error> {
    let mut failed = None;
    let cq = &job.side.endpoints[index].send_cq;
    job.thread
        .poll_until_hit(cq, 1, |completion| note_failure(&mut failed, &completion))
        .await;
    job.check(failed)
}

/// Returns a message to a random cache line after the part of the region that the peer itself uses.
fn aim(job: &Job, index: usize, slot: u64) -> Message {
    let size = u64::from(job.plan.size);
    let remote = &job.side.endpoints[index].remote[0];
    let head = (u64::from(job.plan.depth) * size).next_multiple_of(LINE);
    let lines = (remote.length.saturating_sub(head + size) / LINE).max(1);
    let place = head + job.thread.random().below(lines) * LINE;
    Message {
        segment: job.side.regions[0].segment(slot * size, size as u32),
        remote: remote.at(place.min(remote.length - size)),
    }
}
