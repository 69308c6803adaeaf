//! Work requests that a program builds call by call with `ibv_wr_*`.
//!
//! A builder call names the operation and a setter call behind it names the data, so a work request
//! is posted to the batch when its setter comes, or, without any data, when the next builder call
//! or the end comes. Failures are kept until the end, which then discards the whole batch.

use crate::errno::Errno;
use crate::ffi::abi::{IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED};
use ferroce_driver::{SendBatch, SendData, SendOperation, SendRequest};

/// A work request whose data have not come yet.
#[derive(Clone, Copy)]
struct Pending {
    wr_id: u64,
    flags: u32,
    operation: SendOperation,
}

/// State of the critical section between `ibv_wr_start` and `ibv_wr_complete`.
#[derive(Default)]
pub struct Builder {
    pending: Option<Pending>,
    failure: Option<Errno>,
}

impl Builder {
    /// Begins a work request.
    #[inline]
    pub fn begin(
        &mut self,
        batch: &mut SendBatch<'_>,
        wr_id: u64,
        flags: u32,
        operation: SendOperation,
    ) {
        self.data(batch, SendData::ScatterGather(&[]));
        self.pending = Some(Pending {
            wr_id,
            flags,
            operation,
        });
    }

    /// Posts the work request that was begun, if there is one, with its data.
    #[inline]
    pub fn data(&mut self, batch: &mut SendBatch<'_>, data: SendData<'_>) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let posted = batch.post(&request(
            pending.wr_id,
            pending.flags,
            pending.operation,
            data,
        ));
        if let Err(error) = posted {
            self.fail(error.into());
        }
    }

    /// Remembers the first failure.
    pub fn fail(&mut self, errno: Errno) {
        self.pending = None;
        self.failure.get_or_insert(errno);
    }

    /// Ends the section: everything is posted, or nothing.
    #[inline]
    pub fn complete(mut self, mut batch: SendBatch<'_>) -> Result<(), Errno> {
        self.data(&mut batch, SendData::ScatterGather(&[]));
        match self.failure {
            None => {
                // Going, the batch rings the doorbell.
                drop(batch);
                Ok(())
            }
            Some(errno) => {
                batch.abort();
                Err(errno)
            }
        }
    }
}

/// A work request with `enum ibv_send_flags` taken apart.
#[inline]
pub fn request<'a>(
    wr_id: u64,
    flags: u32,
    operation: SendOperation,
    data: SendData<'a>,
) -> SendRequest<'a> {
    SendRequest {
        wr_id,
        operation,
        signaled: flags & IBV_SEND_SIGNALED != 0,
        solicited: flags & IBV_SEND_SOLICITED != 0,
        fence: flags & IBV_SEND_FENCE != 0,
        data,
    }
}
