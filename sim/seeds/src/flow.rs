//! Requests posted in one direction of a connection, and their results.

use std::collections::VecDeque;

use ferroce_driver::{CompletionOpcode, CompletionStatus, RKey, WorkCompletion};

use crate::error::Wrong;
use crate::program::{Kind, Operation};

/// A work request.
#[derive(Debug, Clone)]
pub(crate) struct Posted {
    pub operation: Operation,
    /// Offset and data of its write at the target.
    pub write: Option<(usize, Vec<u8>)>,
    /// The expected data of the response.
    pub expected: Option<Vec<u8>>,
    /// The returned data when it completed.
    pub returned: Option<Vec<u8>>,
    /// The key that it invalidates.
    pub invalidates: Option<RKey>,
    /// True if it, or a later request, has completed with success.
    pub is_done: bool,
}

/// One direction of a connection, in one round.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub posted: Vec<Posted>,
    /// Numbers of requests without completions.
    pub outstanding: VecDeque<usize>,
    /// Contents of the target memory when all posted requests are executed.
    pub target: Vec<u8>,
    /// Messages that the other side has received.
    pub received: usize,
    /// True if a request has failed.
    pub has_failed: bool,
}

/// Events that may make a request fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// The connection may break.
    pub breaks: bool,
    /// The memory at the target may be deregistered.
    pub deregisters: bool,
}

impl Flow {
    /// Handles a completion: checks that it is in order, once, with a possible status. Returns the
    /// request.
    pub fn complete(
        &mut self,
        completion: &WorkCompletion,
        allowed: Allowed,
    ) -> Result<&mut Posted, Wrong> {
        let index = completion.wr_id as usize;
        let is_it = |number: &usize| self.posted[*number].operation.index == index;
        let Some(place) = self.outstanding.iter().position(is_it) else {
            return Err(Wrong::new(format!(
                "request {index} completes, but is not outstanding: {completion:?}"
            )));
        };
        let status = completion.status;
        let passed: Vec<usize> = self.outstanding.drain(..=place).collect();
        let (number, before) = passed.split_last().expect("one at least");
        for number in before {
            let earlier = &mut self.posted[*number];
            if earlier.operation.is_signaled || self.has_failed {
                return Err(Wrong::new(format!(
                    "request {} has no completion: the next is {completion:?}",
                    earlier.operation
                )));
            }
            earlier.is_done = true;
        }
        let posted = &mut self.posted[*number];
        check_status(posted, status, self.has_failed, allowed)?;
        if status != CompletionStatus::Success {
            self.has_failed = true;
            return Ok(posted);
        }
        posted.is_done = true;
        check_success(posted, completion)?;
        Ok(posted)
    }
}

fn check_status(
    posted: &Posted,
    status: CompletionStatus,
    has_failed: bool,
    allowed: Allowed,
) -> Result<(), Wrong> {
    use CompletionStatus as Status;
    let kind = posted.operation.kind;
    let may_be = match status {
        Status::Success => !has_failed && kind != Kind::WrongKey,
        Status::WorkRequestFlushedError => allowed.breaks,
        Status::RetryExceededError => allowed.breaks && !has_failed,
        Status::RemoteAccessError => {
            let may_meet = allowed.deregisters && posted.operation.kind != Kind::Send;
            !has_failed && (kind == Kind::WrongKey || may_meet)
        }
        // A SEND that invalidates a deregistered key.
        Status::RemoteOperationError | Status::RemoteInvalidRequestError => {
            allowed.deregisters && !has_failed
        }
        _ => false,
    };
    if may_be {
        Ok(())
    } else {
        Err(Wrong::new(format!(
            "request {} completes with {status:?}",
            posted.operation
        )))
    }
}

fn check_success(posted: &Posted, completion: &WorkCompletion) -> Result<(), Wrong> {
    let operation = &posted.operation;
    let opcode = match operation.kind {
        Kind::Write | Kind::WriteImmediate | Kind::WrongKey => CompletionOpcode::RdmaWrite,
        Kind::Read => CompletionOpcode::RdmaRead,
        Kind::CompareSwap => CompletionOpcode::CompareSwap,
        Kind::FetchAdd => CompletionOpcode::FetchAdd,
        _ => CompletionOpcode::Send,
    };
    let has_length = !operation.kind.reads() || completion.byte_length as usize == operation.length;
    if completion.opcode == opcode && has_length {
        Ok(())
    } else {
        Err(Wrong::new(format!(
            "request {operation} has {completion:?}"
        )))
    }
}

/// Checks all fields of the receive completion of a message.
pub(crate) fn check_received(posted: &Posted, completion: &WorkCompletion) -> Result<(), Wrong> {
    let operation = &posted.operation;
    let opcode = match operation.kind {
        Kind::WriteImmediate => CompletionOpcode::ReceiveRdmaWithImmediate,
        _ => CompletionOpcode::Receive,
    };
    let immediate = operation.kind.has_immediate();
    let immediate = immediate.then(|| operation.immediate());
    let invalidated = posted.invalidates.map(|key| key.0);
    let header = if completion.with_grh {
        crate::layout::GRH
    } else {
        0
    };
    let is_right = completion.opcode == opcode
        && completion.immediate == immediate
        && completion.invalidated_key == invalidated
        && completion.solicited == operation.is_solicited
        && completion.byte_length as usize == operation.length + header;
    if is_right {
        Ok(())
    } else {
        Err(Wrong::new(format!(
            "the receive of {operation} has {completion:?}"
        )))
    }
}
