//! perftest's latency loops: `run_iter_lat_write`, `run_iter_lat_send` and `run_iter_lat`.

use crate::error::Error;
use crate::workload::{Job, note_failure};

/// Plays ping-pong with WRITEs: each side waits until the last byte of its buffer has changed. As
/// in perftest the server begins.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn write(job: &Job, is_server: bool) -> Result<(), Error> {
    let iterations = job.plan.iterations;
    let size = u64::from(job.plan.size);
    let endpoint = &job.side.endpoints[0];
    let post_place = (endpoint.local_base + size - 1) as usize;
    let poll_place = (endpoint.receive_base + size - 1) as usize;
    let (mut sent, mut received) = (0, 0);
    while sent < iterations || received < iterations {
        if received < iterations && (sent > 0 || !is_server) {
            // Message `n` uses the same region at both ends.
            let region = received as usize % job.side.regions.len();
            received += 1;
            wait_for_byte(job, region, poll_place, received as u8).await;
        }
        if sent < iterations {
            job.record.timeline.borrow_mut().posted.push(job.now_ps());
            let region = sent as usize % job.side.regions.len();
            if let Some(buffer) = &job.side.regions[region].buffer {
                buffer.store(post_place, (sent + 1) as u8);
            }
            post_in_place(job, sent).await?;
            sent += 1;
            completion(job).await?;
        }
    }
    Ok(())
}

/// Posts message `count`, at the beginning of the buffers: latency tests do not cycle.
async fn post_in_place(job: &Job, count: u64) -> Result<(), Error> {
    let endpoint = &job.side.endpoints[0];
    let region = &job.side.regions[count as usize % job.side.regions.len()];
    let remote = &endpoint.remote[count as usize % endpoint.remote.len()];
    let message = crate::side::Message {
        segment: region.segment(endpoint.local_base, job.plan.size),
        remote: remote.at(endpoint.remote_base),
    };
    job.post_message(0, &message, true).await
}

/// Polls a byte until it has a value.
async fn wait_for_byte(job: &Job, region: usize, place: usize, value: u8) {
    let Some(buffer) = &job.side.regions[region].buffer else {
        return;
    };
    let turn = job.thread.costs().memory_poll;
    let address = buffer.address() + place;
    loop {
        job.thread.catch_up().await;
        if buffer.load(place) == value {
            break;
        }
        job.thread.wait_for_write(address..address + 1, turn).await;
    }
    job.thread.compute(turn).await;
}

/// Waits for one completion of a send.
async fn completion(job: &Job) -> Result<(), Error> {
    let mut failed = None;
    job.thread
        .poll_until_hit(&job.side.send_cq, 1, |completion| {
            note_failure(&mut failed, &completion);
        })
        .await;
    job.check(failed)
}

/// Plays ping-pong with SENDs: each side waits for a receive completion.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn send(job: &Job, is_server: bool) -> Result<(), Error> {
    let plan = &*job.plan;
    let iterations = plan.iterations;
    let (mut sent, mut received) = (0, 0);
    while sent < iterations || received < iterations {
        if received < iterations && (sent > 0 || is_server) {
            let mut failed = None;
            let cq = &job.side.receive_cq;
            job.thread
                .poll_until_hit(cq, 1, |completion| note_failure(&mut failed, &completion))
                .await;
            job.check(failed)?;
            received += 1;
            if received + u64::from(plan.receive_depth) <= iterations {
                job.post_receive(0, 0).await?;
            }
        }
        if sent < iterations {
            job.record.timeline.borrow_mut().posted.push(job.now_ps());
            post_in_place(job, sent).await?;
            sent += 1;
            completion(job).await?;
        }
    }
    Ok(())
}

/// Runs READs or atomics one after the other.
///
/// # Errors
/// [`Error::Post`], [`Error::Completion`].
pub async fn one_by_one(job: &Job) -> Result<(), Error> {
    for count in 0..job.plan.iterations {
        job.record.timeline.borrow_mut().posted.push(job.now_ps());
        post_in_place(job, count).await?;
        completion(job).await?;
    }
    Ok(())
}
