//! Completions of work requests.

use ferroce_wire::{Immediate, Qpn, RKey};

use crate::request::SendKind;

/// Status of a completed work request, numbered as in the verbs (`enum ibv_wc_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionStatus {
    /// It was executed.
    Success = 0,
    /// The message is longer than the buffers, or exceeds the maximum message length.
    LocalLength = 1,
    /// The request is inconsistent, or the queue pair cannot execute it.
    LocalQpOperation = 2,
    /// A local buffer is not registered for this use.
    LocalProtection = 4,
    /// Not executed: the queue pair is in the error state.
    WrFlush = 5,
    /// A memory window could not be bound.
    WindowBind = 6,
    /// The response is malformed.
    BadResponse = 7,
    /// Receive WQE of a WRITE with immediate: the destination is not registered for this use (IBTA
    /// vol 1, 11.6.2).
    LocalAccess = 8,
    /// The responder found the request invalid.
    RemoteInvalidRequest = 9,
    /// The responder's memory is not registered for this use.
    RemoteAccess = 10,
    /// The responder failed.
    RemoteOperation = 11,
    /// Too many timeouts or sequence errors.
    RetryExceeded = 12,
    /// Too many RNR NAKs: the responder had no receive WQE.
    RnrRetryExceeded = 13,
}

/// The kind of message that consumed a receive WQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveKind {
    /// SEND; the payload is in the buffers of the WQE.
    Send,
    /// RDMA WRITE with immediate; the payload is at its destination.
    RdmaWriteImmediate,
}

/// A work completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// A send request completed.
    Send {
        /// [`crate::SendRequest::id`].
        id: u32,
        /// Status.
        status: CompletionStatus,
        /// Kind of request.
        operation: SendKind,
        /// Bytes of the message.
        byte_length: u32,
    },
    /// A receive WQE completed.
    Receive {
        /// The id of [`crate::MemoryAnswer::Receive`], or of [`crate::Qp::flush_receive`].
        receive: u32,
        /// Status.
        status: CompletionStatus,
        /// Kind of message.
        operation: ReceiveKind,
        /// Bytes of the message, including the 40 bytes of a GRH; zero unless it succeeded.
        byte_length: u32,
        /// Immediate data of the message.
        immediate: Option<Immediate>,
        /// True if the sender requested a completion event.
        solicited: bool,
        /// The key that the message has invalidated.
        invalidated: Option<RKey>,
        /// UD: the sending queue pair.
        source: Option<Qpn>,
        /// UD: the buffer begins with a GRH.
        with_grh: bool,
        /// XRC target: the shared receive queue whose completion queue gets this completion.
        srqn: Option<u32>,
    },
}

impl Completion {
    /// Returns the status of the work request.
    #[must_use]
    pub const fn status(&self) -> CompletionStatus {
        match self {
            Completion::Send { status, .. } | Completion::Receive { status, .. } => *status,
        }
    }

    /// Returns true if a send request completed.
    #[must_use]
    pub const fn is_send(&self) -> bool {
        matches!(self, Completion::Send { .. })
    }

    /// Returns the completion of a receive WQE that served no message.
    pub(crate) const fn failed_receive(
        receive: u32,
        status: CompletionStatus,
        srqn: Option<u32>,
    ) -> Completion {
        Completion::Receive {
            receive,
            status,
            operation: ReceiveKind::Send,
            byte_length: 0,
            immediate: None,
            solicited: false,
            invalidated: None,
            source: None,
            with_grh: false,
            srqn,
        }
    }
}
