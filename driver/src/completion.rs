//! Work completions as callers get them.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_spec::cqe::{CqeStatus, VendorError};

use crate::identifier::{Qpn, Srqn};

/// Result of a work request, with the numbers of `enum ibv_wc_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionStatus {
    /// Success.
    Success = 0,
    /// The message does not fit its buffers or is too long.
    LocalLengthError = 1,
    /// The work request is not consistent.
    LocalQpOperationError = 2,
    /// A local key, its bounds or its rights do not allow the access.
    LocalProtectionError = 4,
    /// The QP was in the error state before the work request was executed.
    WorkRequestFlushedError = 5,
    /// A memory window could not be bound.
    MemoryWindowBindError = 6,
    /// The responder's answer was not consistent.
    BadResponseError = 7,
    /// A receive buffer could not be written.
    LocalAccessError = 8,
    /// The responder refused the request as invalid.
    RemoteInvalidRequestError = 9,
    /// The responder refused the remote key, its bounds or its rights.
    RemoteAccessError = 10,
    /// The responder could not complete the operation.
    RemoteOperationError = 11,
    /// No answer in all retries.
    RetryExceededError = 12,
    /// The receiver was not ready in all retries.
    RnrRetryExceededError = 13,
    /// The device has stopped.
    FatalError = 19,
    /// The device reported a status that the driver does not know.
    GeneralError = 21,
}

impl From<CqeStatus> for CompletionStatus {
    fn from(status: CqeStatus) -> Self {
        match status {
            CqeStatus::SUCCESS => Self::Success,
            CqeStatus::LOCAL_LENGTH => Self::LocalLengthError,
            CqeStatus::LOCAL_QP_OPERATION => Self::LocalQpOperationError,
            CqeStatus::LOCAL_PROTECTION => Self::LocalProtectionError,
            CqeStatus::WR_FLUSH => Self::WorkRequestFlushedError,
            CqeStatus::WINDOW_BIND => Self::MemoryWindowBindError,
            CqeStatus::BAD_RESPONSE => Self::BadResponseError,
            CqeStatus::LOCAL_ACCESS => Self::LocalAccessError,
            CqeStatus::REMOTE_INVALID_REQUEST => Self::RemoteInvalidRequestError,
            CqeStatus::REMOTE_ACCESS => Self::RemoteAccessError,
            CqeStatus::REMOTE_OPERATION => Self::RemoteOperationError,
            CqeStatus::RETRY_EXCEEDED => Self::RetryExceededError,
            CqeStatus::RNR_RETRY_EXCEEDED => Self::RnrRetryExceededError,
            CqeStatus::FATAL => Self::FatalError,
            _ => Self::GeneralError,
        }
    }
}

/// Target of the lines about failed completions.
const FAILED: &str = "ferroce::failed";

/// Completions of this process in error, without those that another error has flushed.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// Returns how many completions of this process have failed, without those that another error has
/// flushed.
pub fn failed_completions() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

impl CompletionStatus {
    /// Returns the name of the status in verbs.h.
    #[must_use]
    pub fn verbs_name(self) -> &'static str {
        match self {
            Self::Success => "IBV_WC_SUCCESS",
            Self::LocalLengthError => "IBV_WC_LOC_LEN_ERR",
            Self::LocalQpOperationError => "IBV_WC_LOC_QP_OP_ERR",
            Self::LocalProtectionError => "IBV_WC_LOC_PROT_ERR",
            Self::WorkRequestFlushedError => "IBV_WC_WR_FLUSH_ERR",
            Self::MemoryWindowBindError => "IBV_WC_MW_BIND_ERR",
            Self::BadResponseError => "IBV_WC_BAD_RESP_ERR",
            Self::LocalAccessError => "IBV_WC_LOC_ACCESS_ERR",
            Self::RemoteInvalidRequestError => "IBV_WC_REM_INV_REQ_ERR",
            Self::RemoteAccessError => "IBV_WC_REM_ACCESS_ERR",
            Self::RemoteOperationError => "IBV_WC_REM_OP_ERR",
            Self::RetryExceededError => "IBV_WC_RETRY_EXC_ERR",
            Self::RnrRetryExceededError => "IBV_WC_RNR_RETRY_EXC_ERR",
            Self::FatalError => "IBV_WC_FATAL_ERR",
            Self::GeneralError => "IBV_WC_GENERAL_ERR",
        }
    }

    /// Logs the meaning of a completion in error in one line: at level info, or at level debug when
    /// it was flushed because of another error. `code` is the `vendor_err` that the program sees.
    #[cold]
    pub(crate) fn explain(self, detail: VendorError, code: u32, wr_id: u64, qpn: u32) {
        let name = self.verbs_name();
        match self {
            Self::WorkRequestFlushedError => tracing::debug!(target: FAILED, wr_id, qpn,
                "{name}, vendor_err {code:#04x}: {}", meaning(detail)),
            _ => {
                FAILURES.fetch_add(1, Ordering::Relaxed);
                tracing::info!(target: FAILED, wr_id, qpn,
                    "{name}, vendor_err {code:#04x}: {}", meaning(detail));
            }
        }
    }
}

fn meaning(detail: VendorError) -> &'static str {
    let mut known = VendorError::TABLE.values.iter();
    known
        .find(|known| known.value == u64::from(detail.0))
        .map_or("the device says no more", |known| known.meaning.trim())
}

/// Kind of the completed operation, with the numbers of `enum ibv_wc_opcode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionOpcode {
    /// A SEND of any kind.
    Send = 0,
    /// An RDMA WRITE of any kind.
    RdmaWrite = 1,
    /// An RDMA READ.
    RdmaRead = 2,
    /// A compare and swap.
    CompareSwap = 3,
    /// A fetch and add.
    FetchAdd = 4,
    /// A bind of a memory window.
    BindMemoryWindow = 5,
    /// A local invalidate.
    LocalInvalidate = 6,
    /// A FLUSH.
    Flush = 8,
    /// An ATOMIC WRITE.
    AtomicWrite = 9,
    /// A receive that a SEND has consumed.
    Receive = 128,
    /// A receive that an RDMA WRITE with immediate has consumed.
    ReceiveRdmaWithImmediate = 129,
}

/// A work completion.
///
/// When the status is not success, only `wr_id`, `status`, `vendor_error`, `qpn` and `opcode` are
/// valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkCompletion {
    /// ID from the work request.
    pub wr_id: u64,
    /// Result.
    pub status: CompletionStatus,
    /// The device's detail of an error.
    pub vendor_error: u32,
    /// Kind of the completed operation.
    pub opcode: CompletionOpcode,
    /// Bytes received, or read by READs and atomics.
    pub byte_length: u32,
    /// Immediate data as they came on the wire.
    pub immediate: Option<[u8; 4]>,
    /// Remote key that the peer has invalidated.
    pub invalidated_key: Option<u32>,
    /// QP of the work request.
    pub qpn: Qpn,
    /// UD: the sender's QP.
    pub source_qpn: Qpn,
    /// XRC receives: the shared receive queue that the peer has named.
    pub srqn: Option<Srqn>,
    /// True if the first 40 bytes of the buffer hold the IP header (UD).
    pub with_grh: bool,
    /// True if that IP header is IPv4.
    pub ipv4: bool,
    /// True if the sender asked for a solicited event.
    pub solicited: bool,
    /// Device clock when the CQE was made, in nanoseconds.
    pub timestamp_ns: u64,
}
