//! The loops of simulated threads.
//!
//! - [`bandwidth`], [`receive`], [`duplex`]: `run_iter_bw`, `run_iter_bw_server` and `run_iter_bi`
//!   of perftest 4.5.
//! - [`latency`]: `run_iter_lat_write`, `run_iter_lat` and `run_iter_lat_send`.
//! - [`batch`]: SMART's loop. [`window`]: FaSST's.

pub mod bandwidth;
pub mod batch;
pub mod duplex;
pub mod latency;
pub mod receive;
pub mod window;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ferroce_driver::{CompletionStatus, SendData, WorkCompletion};
use ferroce_spec::wqe::{DataSegment, MAX_DATA_SEGMENTS};

use crate::error::Error;
use crate::plan::Plan;
use crate::processor::SimThread;
use crate::side::{Message, Side, pieces};
use crate::timeline::Timeline;

/// Maximum number of completions that a loop of bandwidth tests polls at once (`CTX_POLL_BATCH`).
pub const POLL_BATCH: usize = 16;

/// Bytes of a segment in a WQE.
const SEGMENT_BYTES: u64 = size_of::<DataSegment>() as u64;

/// A thread and its work.
pub struct Job {
    /// The simulated thread.
    pub thread: Rc<SimThread>,
    /// Queues and memory.
    pub side: Rc<Side>,
    /// The plan.
    pub plan: Rc<Plan>,
    /// Its progress.
    pub record: Rc<Record>,
    /// Messages of each QP. The sending thread sets it; it may end early.
    pub count: Rc<Cell<u64>>,
}

/// Progress of a thread's loop.
#[derive(Debug, Default)]
pub struct Record {
    /// Times of posts and completions.
    pub timeline: RefCell<Timeline>,
    /// True if it has ended before all its iterations.
    pub ended_early: Cell<bool>,
}

impl Job {
    /// Posts message number `count` of QP `index`.
    pub async fn post(&self, index: usize, count: u64, signaled: bool) -> Result<(), Error> {
        let message = self.side.message(&self.plan, index, count);
        self.post_message(index, &message, signaled).await
    }

    /// Posts a message on QP `index`.
    pub async fn post_message(
        &self,
        index: usize,
        message: &Message,
        signaled: bool,
    ) -> Result<(), Error> {
        self.post_marked(index, message, signaled, index as u64)
            .await
    }

    /// Posts a message on QP `index` with a `wr_id`.
    pub async fn post_marked(
        &self,
        index: usize,
        message: &Message,
        signaled: bool,
        wr_id: u64,
    ) -> Result<(), Error> {
        let (plan, side) = (&*self.plan, &*self.side);
        let endpoint = &side.endpoints[index];
        let place = (&*endpoint.qp, &endpoint.locks);
        let posted = if plan.is_inline() {
            let bytes = side.bytes(&message.segment);
            let pieces = [&bytes[..]];
            let data = SendData::Inline(&pieces);
            let mut request = side.request(plan, index, message, data, signaled);
            request.wr_id = wr_id;
            let length = u64::from(plan.size);
            self.thread
                .post_send(place, &request, length, plan.size)
                .await
        } else {
            let mut segments = [message.segment; MAX_DATA_SEGMENTS];
            let pieces = pieces(message.segment, plan.segments);
            let count = segments
                .iter_mut()
                .zip(pieces)
                .fold(0, |count, (place, piece)| {
                    *place = piece;
                    count + 1
                });
            let data = SendData::ScatterGather(&segments[..count]);
            let mut request = side.request(plan, index, message, data, signaled);
            request.wr_id = wr_id;
            // The processor writes further segments to the WQE just as it writes inline payload.
            let further = (count as u64 - 1) * SEGMENT_BYTES;
            self.thread
                .post_send(place, &request, further, plan.size)
                .await
        };
        posted.map_err(|source| self.post_error(source))
    }

    fn post_error(&self, source: ferroce_driver::PostError) -> Error {
        Error::Post {
            operation: self.plan.operation,
            size: self.plan.size,
            host: self.side.host,
            source,
        }
    }

    /// Posts receive number `count` of QP `index` again.
    pub async fn post_receive(&self, index: usize, count: u64) -> Result<(), Error> {
        let segment = self.side.receive(&self.plan, index, count);
        let qp = &self.side.endpoints[index].qp;
        let posted = self.thread.post_receive(qp, index as u64, segment).await;
        posted.map_err(|source| self.post_error(source))
    }

    /// Converts a failed completion to an error.
    pub fn check(&self, failed: Option<WorkCompletion>) -> Result<(), Error> {
        failed.map_or(Ok(()), |completion| {
            Err(Error::Completion {
                operation: self.plan.operation,
                size: self.plan.size,
                host: self.side.host,
                qpn: completion.qpn.0,
                status: completion.status,
            })
        })
    }

    /// Returns the time in picoseconds.
    pub fn now_ps(&self) -> u64 {
        self.thread.now().as_ps()
    }
}

/// Records the first completion with an error.
pub fn note_failure(failed: &mut Option<WorkCompletion>, completion: &WorkCompletion) {
    if completion.status != CompletionStatus::Success && failed.is_none() {
        *failed = Some(*completion);
    }
}
