//! What the application learns of its work requests.

use ferroce_wire::{Immediate, Qpn, RKey};

use crate::request::SendKind;

/// How a work request ended, numbered as in the verbs (`enum ibv_wc_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionStatus {
    /// It was executed.
    Success = 0,
    /// The message is longer than the buffers, or longer than messages may be.
    LocalLength = 1,
    /// The request itself is not consistent, or the queue pair cannot do it.
    LocalQpOperation = 2,
    /// A local buffer is not registered for this use.
    LocalProtection = 4,
    /// Not executed: the queue pair is in the error state.
    WrFlush = 5,
    /// A memory window could not be bound.
    WindowBind = 6,
    /// The responder's answer makes no sense.
    BadResponse = 7,
    /// Receive WQE of a WRITE with immediate: what was to be written is not registered for this
    /// use (IBTA vol 1, 11.6.2).
    LocalAccess = 8,
    /// The responder found the request invalid.
    RemoteInvalidRequest = 9,
    /// The responder's memory is not registered for this use.
    RemoteAccess = 10,
    /// The responder failed.
    RemoteOperation = 11,
    /// Too many time-outs or sequence errors.
    RetryExceeded = 12,
    /// The responder had no receive WQE too many times.
    RnrRetryExceeded = 13,
}

/// What a receive WQE was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveKind {
    /// SEND; the payload is in the buffers of the WQE.
    Send,
    /// RDMA WRITE with immediate; the payload is where the writer wanted it.
    RdmaWriteImmediate,
}

/// A work completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// A send request completed.
    Send {
        /// [`crate::SendRequest::id`].
        id: u32,
        /// How it ended.
        status: CompletionStatus,
        /// What it was.
        operation: SendKind,
        /// Bytes of the message.
        byte_length: u32,
    },
    /// A receive WQE completed.
    Receive {
        /// The id of [`crate::MemoryAnswer::Receive`], or of [`crate::Qp::flush_receive`].
        receive: u32,
        /// How it ended.
        status: CompletionStatus,
        /// What it was spent on.
        operation: ReceiveKind,
        /// Bytes of the message, with the 40 of a GRH; zero unless it succeeded.
        byte_length: u32,
        /// Immediate data of the message.
        immediate: Option<Immediate>,
        /// The sender asked for a completion event.
        solicited: bool,
        /// The key that the message has invalidated.
        invalidated: Option<RKey>,
        /// UD: the queue pair that sent it.
        source: Option<Qpn>,
        /// UD: the buffer begins with a GRH.
        with_grh: bool,
        /// XRC target: the shared receive queue, whose completion queue gets this.
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

    /// A receive WQE that ended without having served a message.
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
