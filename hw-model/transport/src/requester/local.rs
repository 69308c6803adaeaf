//! Local operations: they keep their place in the send queue, but use no PSN and send nothing.
//!
//! A local operation is next when every earlier request has been sent. It counts as started once it
//! has been executed; later requests start only after that. It completes when it reaches the front
//! of the queue, so the front is never a started local operation.

use super::Requester;
use crate::completion::CompletionStatus;
use crate::context::Context;
use crate::request::{LocalKind, SendOperation};

impl Requester {
    /// Returns true if a local operation is next.
    #[inline]
    pub(crate) fn has_local(&self, ctx: &Context) -> bool {
        let Some(entry) = self.queue.get(self.cursor).filter(|e| e.is_local()) else {
            return false;
        };
        let is_invalidate = entry.request.operation == SendOperation::Local(LocalKind::Invalidate);
        self.cursor == self.started
            && !self.local_running
            && entry.failure.is_none()
            && self.may_begin(ctx, entry)
            // A retransmission of earlier requests may read the memory that is invalidated.
            && (!is_invalidate || self.started == 0)
    }

    /// Takes the next local operation if it may be executed now.
    pub(crate) fn poll_local(&mut self, ctx: &Context) -> Option<u32> {
        if !self.has_local(ctx) {
            return None;
        }
        self.local_running = true;
        Some(self.queue[self.cursor].request.id)
    }

    /// Reports that the local operation `id` was executed, or failed.
    pub(crate) fn finish_local(
        &mut self,
        ctx: &mut Context,
        id: u32,
        result: Result<(), CompletionStatus>,
    ) {
        let running = self.queue.get_mut(self.started);
        let Some(entry) = running.filter(|e| e.request.id == id && e.failure.is_none()) else {
            return;
        };
        if !std::mem::replace(&mut self.local_running, false) {
            return;
        }
        if let Err(status) = result {
            entry.failure = Some(status);
            self.failing = true;
            self.settle_failure(ctx);
            return;
        }
        // Started entries are ordered by PSN.
        self.queue[self.started].first_psn = self.next;
        if self.cursor == self.started {
            self.cursor += 1;
        }
        self.started += 1;
        self.retire_locals(ctx);
        self.settle_failure(ctx);
    }

    /// Completes started local operations at the front of the queue.
    #[inline]
    pub(super) fn retire_locals(&mut self, ctx: &mut Context) {
        while self.started > 0 && self.queue.front().is_some_and(|e| e.is_local()) {
            let Some(entry) = self.queue.pop_front() else {
                return;
            };
            self.started -= 1;
            self.cursor = self.cursor.saturating_sub(1);
            if entry.request.signaled {
                Self::complete(ctx, &entry.request, CompletionStatus::Success);
            }
        }
    }

    /// Skips local operations in a further pass over the queue: they are not repeated.
    #[inline]
    pub(super) fn skip_locals(&mut self) {
        while self.cursor < self.started && self.queue[self.cursor].is_local() {
            self.cursor += 1;
        }
    }
}
