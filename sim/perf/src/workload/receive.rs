//! perftest's `run_iter_bw_server`: polls receive completions, and posts receives again.

use crate::error::Error;
use crate::workload::{Job, POLL_BATCH, note_failure};

/// Receives all messages.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn run(job: &Job) -> Result<(), Error> {
    let plan = &*job.plan;
    let qps = job.side.endpoints.len();
    let mut received = 0;
    let mut posted = vec![u64::from(plan.receive_depth); qps];
    while received < job.count.get() * qps as u64 {
        let mut failed = None;
        let mut found = Vec::new();
        let cq = &job.side.receive_cq;
        job.thread
            .poll_until_hit(cq, POLL_BATCH, |completion| {
                note_failure(&mut failed, &completion);
                found.push(completion.wr_id as usize);
            })
            .await;
        job.check(failed)?;
        for index in found {
            received += 1;
            job.record
                .timeline
                .borrow_mut()
                .completed
                .push((received, job.now_ps()));
            if posted[index] < plan.iterations {
                job.post_receive(index, posted[index]).await?;
                posted[index] += 1;
            }
        }
    }
    Ok(())
}
