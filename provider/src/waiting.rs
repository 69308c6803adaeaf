//! Calls that wait for what the program has to cause, and has not caused. They are reported as long
//! as they wait, so that the summary of `--explain-errors` names those that still do when the
//! program ends.

use crate::log::{self, WAITING};

/// A call, and what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Wait {
    /// `ibv_get_cq_event` on a channel without an armed CQ.
    Arming,
    /// `ibv_destroy_cq` with completion events that are not acknowledged.
    CompletionEvents,
    /// `ibv_destroy_cq` with async events that are not acknowledged.
    CqEvents,
    /// `ibv_destroy_qp`, the same.
    QpEvents,
    /// `ibv_destroy_srq`, the same.
    SrqEvents,
}

impl Wait {
    fn text(self) -> &'static str {
        match self {
            Self::Arming => {
                "ibv_get_cq_event: no CQ of the channel is armed; right: ibv_req_notify_cq before \
                 each wait, and then a poll"
            }
            Self::CompletionEvents => {
                "ibv_destroy_cq: completion events of the CQ are not acknowledged; right: \
                 ibv_ack_cq_events after each ibv_get_cq_event"
            }
            Self::CqEvents => {
                "ibv_destroy_cq: async events of the CQ are not acknowledged; right: \
                 ibv_ack_async_event after each ibv_get_async_event"
            }
            Self::QpEvents => {
                "ibv_destroy_qp: async events of the QP are not acknowledged; right: \
                 ibv_ack_async_event after each ibv_get_async_event"
            }
            Self::SrqEvents => {
                "ibv_destroy_srq: async events of the SRQ are not acknowledged; right: \
                 ibv_ack_async_event after each ibv_get_async_event"
            }
        }
    }

    /// Reports that a call begins to wait.
    #[cold]
    pub fn begin(self) {
        let site = log::site();
        tracing::debug!(target: WAITING, site, "{}", self.text());
    }

    /// Reports that it has returned.
    #[cold]
    pub fn end(self) {
        let site = log::site();
        tracing::debug!(target: WAITING, site, ended = true, "{}", self.text());
    }
}
