//! Reasons why a request ends the queue pair, and the side to which each is reported.

use ferroce_wire::NakCode;

use crate::completion::CompletionStatus;
use crate::event::Event;

/// Reason why a request ends the queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refusal {
    /// Out of sequence, unsupported, too many READs, or its length contradicts itself.
    InvalidRequest,
    /// Longer than the receive buffers.
    ReceiveTooShort,
    /// Key, bounds or rights forbid it.
    RemoteAccess,
    /// A receive buffer is not registered for this use.
    ReceiveProtection,
    /// The receive WQE could not be read.
    ReceiveQueue,
}

impl Refusal {
    pub(super) const fn nak_code(self) -> NakCode {
        match self {
            Refusal::InvalidRequest | Refusal::ReceiveTooShort => NakCode::InvalidRequest,
            Refusal::RemoteAccess => NakCode::RemoteAccessError,
            Refusal::ReceiveProtection | Refusal::ReceiveQueue => NakCode::RemoteOperationalError,
        }
    }

    /// Returns the status of the receive WQE that the message was using.
    pub(super) const fn status(self) -> CompletionStatus {
        match self {
            Refusal::InvalidRequest => CompletionStatus::RemoteInvalidRequest,
            Refusal::ReceiveTooShort => CompletionStatus::LocalLength,
            Refusal::RemoteAccess => CompletionStatus::LocalAccess,
            Refusal::ReceiveProtection => CompletionStatus::LocalProtection,
            Refusal::ReceiveQueue => CompletionStatus::LocalQpOperation,
        }
    }

    /// Returns the event if no receive WQE can report the error.
    pub(super) const fn event(self) -> Event {
        match self {
            Refusal::InvalidRequest | Refusal::ReceiveTooShort => Event::RequestError,
            Refusal::RemoteAccess => Event::AccessError,
            Refusal::ReceiveProtection | Refusal::ReceiveQueue => Event::Fatal,
        }
    }
}
