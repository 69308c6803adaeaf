//! Work requests that a program builds call by call with `ibv_wr_*`.
//!
//! A builder call names the operation; later setter calls name the destination, if the service
//! requires one, and the data, in any order. A work request is posted to the batch when it is
//! complete, or, without any data, at the next builder call or the end. Failures are kept until the
//! end, which then discards the whole batch.

use std::sync::Arc;

use ferroce_driver::bus::ProgramClock;
use ferroce_driver::{
    AddressVector, DataSegment, Destination, PostError, Qpn, SendBatch, SendData, SendOperation,
    SendRequest, Srqn,
};

use crate::abi::{IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED};
use crate::errno::Errno;

/// A work request that is waiting for its data.
#[derive(Clone, Copy)]
struct Pending {
    wr_id: u64,
    flags: u32,
    operation: SendOperation,
}

/// Destination of a work request, as set by setters.
#[derive(Clone, Copy, Default)]
pub enum Target {
    /// No setter has set it.
    #[default]
    Unnamed,
    Datagram {
        path: AddressVector,
        qpn: u32,
        q_key: u32,
    },
    Xrc {
        srqn: u32,
    },
}

impl Target {
    /// Returns the destination for the driver.
    #[inline]
    pub fn destination(&self) -> Destination<'_> {
        match self {
            Self::Unnamed => Destination::Connected,
            Self::Datagram { path, qpn, q_key } => Destination::Datagram {
                path,
                qpn: Qpn(*qpn),
                q_key: *q_key,
            },
            Self::Xrc { srqn } => Destination::Xrc { srqn: Srqn(*srqn) },
        }
    }
}

/// Data that was set before the destination.
enum Early {
    ScatterGather(Vec<DataSegment>),
    Inline(Vec<u8>),
}

impl Early {
    fn of(data: SendData<'_>) -> Self {
        match data {
            SendData::ScatterGather(list) => Self::ScatterGather(list.to_vec()),
            SendData::Inline(pieces) => Self::Inline(pieces.concat()),
        }
    }
}

/// State of the critical section between `ibv_wr_start` and `ibv_wr_complete`.
#[derive(Default)]
pub struct Builder {
    /// True if each work request names its destination.
    addressed: bool,
    pending: Option<Pending>,
    target: Target,
    early: Option<Early>,
    failure: Option<Errno>,
    clock: Option<Arc<dyn ProgramClock>>,
}

impl Builder {
    /// Creates a section of a QP; `addressed` is true if its work requests name their destination
    /// (UD, XRC). Posts are charged to `clock`.
    #[inline]
    pub fn new(addressed: bool, clock: Option<&Arc<dyn ProgramClock>>) -> Self {
        Self {
            addressed,
            clock: clock.cloned(),
            ..Self::default()
        }
    }

    /// Begins a work request.
    #[inline]
    pub fn begin(
        &mut self,
        batch: &mut SendBatch<'_>,
        wr_id: u64,
        flags: u32,
        operation: SendOperation,
    ) {
        self.flush(batch);
        self.pending = Some(Pending {
            wr_id,
            flags,
            operation,
        });
    }

    /// Posts a local operation, which has neither destination nor data.
    pub fn local(
        &mut self,
        batch: &mut SendBatch<'_>,
        wr_id: u64,
        flags: u32,
        operation: SendOperation,
    ) {
        self.begin(batch, wr_id, flags, operation);
        self.post(batch, SendData::ScatterGather(&[]));
    }

    /// Sets the destination of the current work request.
    pub fn target(&mut self, batch: &mut SendBatch<'_>, target: Target) {
        self.target = target;
        match self.early.take() {
            Some(Early::ScatterGather(list)) => self.post(batch, SendData::ScatterGather(&list)),
            Some(Early::Inline(bytes)) => self.post(batch, SendData::Inline(&[&bytes])),
            None => {}
        }
    }

    /// Sets the data of the current work request, and posts it.
    #[inline]
    pub fn data(&mut self, batch: &mut SendBatch<'_>, data: SendData<'_>) {
        if self.addressed && matches!(self.target, Target::Unnamed) && self.pending.is_some() {
            self.early = Some(Early::of(data));
        } else {
            self.post(batch, data);
        }
    }

    /// Posts the current work request, if there is one.
    #[inline]
    fn post(&mut self, batch: &mut SendBatch<'_>, data: SendData<'_>) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let destination = self.target.destination();
        let request = request(
            pending.wr_id,
            pending.flags,
            pending.operation,
            destination,
            data,
        );
        let posted = batch.post(&request);
        let posted = posted.map_err(|error| refusal(error, &request));
        if self.addressed {
            self.target = Target::Unnamed;
        }
        match posted {
            Ok(()) => charge(self.clock.as_ref(), data),
            Err(errno) => self.fail(errno),
        }
    }

    /// Posts a work request without data. The driver refuses one without its destination.
    #[inline]
    fn flush(&mut self, batch: &mut SendBatch<'_>) {
        if self.pending.is_some() {
            self.early = None;
            self.post(batch, SendData::ScatterGather(&[]));
        }
    }

    /// Records the first failure.
    pub fn fail(&mut self, errno: Errno) {
        self.pending = None;
        self.early = None;
        self.failure.get_or_insert(errno);
    }

    /// Ends the section: posts all work requests or none.
    #[inline]
    pub fn complete(mut self, mut batch: SendBatch<'_>) -> Result<(), Errno> {
        self.flush(&mut batch);
        match self.failure {
            None => {
                // The drop of the batch rings the doorbell.
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

/// Returns the error of a work request that the queue refuses.
#[cold]
pub fn refusal(error: PostError, request: &SendRequest<'_>) -> Errno {
    let size = match request.data {
        SendData::Inline(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
        SendData::ScatterGather(list) => list.len(),
    };
    Errno::post(error, Some(operation_name(&request.operation)), size)
}

/// Returns the name of an operation in verbs.h.
fn operation_name(operation: &SendOperation) -> &'static str {
    match operation {
        SendOperation::Send => "IBV_WR_SEND",
        SendOperation::SendImmediate(_) => "IBV_WR_SEND_WITH_IMM",
        SendOperation::SendInvalidate(_) => "IBV_WR_SEND_WITH_INV",
        SendOperation::RdmaWrite(_) => "IBV_WR_RDMA_WRITE",
        SendOperation::RdmaWriteImmediate(..) => "IBV_WR_RDMA_WRITE_WITH_IMM",
        SendOperation::RdmaRead(_) => "IBV_WR_RDMA_READ",
        SendOperation::CompareSwap { .. } => "IBV_WR_ATOMIC_CMP_AND_SWP",
        SendOperation::FetchAdd { .. } => "IBV_WR_ATOMIC_FETCH_AND_ADD",
        SendOperation::Flush { .. } => "IBV_WR_FLUSH",
        SendOperation::AtomicWrite(_) => "IBV_WR_ATOMIC_WRITE",
        SendOperation::BindWindow(_) => "IBV_WR_BIND_MW",
        SendOperation::LocalInvalidate(_) => "IBV_WR_LOCAL_INV",
    }
}

/// Charges the post of a work request with these data.
#[inline]
pub fn charge(clock: Option<&Arc<dyn ProgramClock>>, data: SendData<'_>) {
    let Some(clock) = clock else { return };
    let inline = match data {
        SendData::Inline(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        SendData::ScatterGather(_) => 0,
    };
    clock.post_send(inline);
}

/// Returns a work request with the flags of `enum ibv_send_flags`.
#[inline]
pub fn request<'a>(
    wr_id: u64,
    flags: u32,
    operation: SendOperation,
    destination: Destination<'a>,
    data: SendData<'a>,
) -> SendRequest<'a> {
    SendRequest {
        wr_id,
        operation,
        destination,
        signaled: flags & IBV_SEND_SIGNALED != 0,
        solicited: flags & IBV_SEND_SOLICITED != 0,
        fence: flags & IBV_SEND_FENCE != 0,
        data,
    }
}
