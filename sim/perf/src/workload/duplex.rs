//! perftest's `run_iter_bi`: sends and receives in one loop.

use crate::error::Error;
use crate::workload::{Job, POLL_BATCH, note_failure};

/// Sends and receives all messages. The server begins when the first message has arrived.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn run(job: &Job, is_server: bool) -> Result<(), Error> {
    let plan = &*job.plan;
    let qps = job.side.endpoints.len();
    let total = plan.iterations * qps as u64;
    let mut posted = vec![0u64; qps];
    let mut completed = vec![0u64; qps];
    let mut receives = vec![u64::from(plan.receive_depth); qps];
    let (mut done, mut received, mut may_send) = (0u64, 0u64, !is_server);
    while done < total || received < total {
        for index in 0..qps {
            while may_send
                && posted[index] < plan.iterations
                && posted[index] < completed[index] + u64::from(plan.depth)
            {
                job.record.timeline.borrow_mut().posted.push(job.now_ps());
                let signaled = plan.is_signaled(posted[index], plan.iterations);
                job.post(index, posted[index], signaled).await?;
                posted[index] += 1;
            }
        }
        let arrived = take(job, true, plan.receive_depth as usize).await?;
        let finished_before = done;
        may_send |= !arrived.is_empty();
        for &index in &arrived {
            received += 1;
            if receives[index] < plan.iterations {
                job.post_receive(index, receives[index]).await?;
                receives[index] += 1;
            }
        }
        for index in take(job, false, POLL_BATCH).await? {
            completed[index] += u64::from(plan.signal_every);
            done = completed
                .iter()
                .map(|count| count.min(&plan.iterations))
                .sum();
            job.record
                .timeline
                .borrow_mut()
                .completed
                .push((done, job.now_ps()));
        }
        if arrived.is_empty() && done == finished_before {
            let (receives, sends) = (&job.side.receive_cq, &job.side.send_cq);
            if plan.events {
                job.thread.sleep_on(&[receives, sends]).await;
            } else {
                job.thread.wait_for_completion(&[receives, sends]).await;
            }
        }
    }
    Ok(())
}

/// Polls once for completions of receives or sends; returns their QPs.
async fn take(job: &Job, receives: bool, most: usize) -> Result<Vec<usize>, Error> {
    let (mut failed, mut found) = (None, Vec::new());
    let cq = if receives {
        &job.side.receive_cq
    } else {
        &job.side.send_cq
    };
    job.thread
        .poll(cq, most, |completion| {
            note_failure(&mut failed, &completion);
            found.push(completion.wr_id as usize);
        })
        .await;
    job.check(failed)?;
    Ok(found)
}
