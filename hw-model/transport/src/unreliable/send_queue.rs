//! The send queue of an unreliable service: packets leave once, in order, and a request completes
//! when the caller has reported that all of its packets have left.

use std::collections::VecDeque;

use ferroce_qp::{PathMtu, QpState};
use ferroce_wire::{Position, Psn};

use crate::completion::{Completion, CompletionStatus};
use crate::context::Context;
use crate::event::Event;
use crate::request::{LocalKind, MAX_OUTSTANDING_SEND_REQUESTS, SendOperation, SendRequest};
use crate::transmit::Payload;

/// A request and its progress.
#[derive(Debug, Clone)]
struct Entry {
    request: SendRequest,
    /// Number of packets; zero for a local operation.
    packets: u32,
    /// Packets that have left.
    left: u32,
    /// It cannot be executed and completes with this status when it is next in order.
    failure: Option<CompletionStatus>,
}

impl Entry {
    const fn is_local(&self) -> bool {
        self.packets == 0
    }
}

/// A packet to send, before it has headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) request: SendRequest,
    pub(crate) psn: Psn,
    pub(crate) position: Position,
    offset: u32,
    pub(crate) length: u32,
}

impl Piece {
    /// Returns the source of its payload.
    pub(crate) const fn payload(&self) -> Payload {
        match self.length {
            0 => Payload::None,
            length => Payload::Request {
                request: self.request.id,
                offset: self.offset,
                length,
            },
        }
    }

    /// Returns true if the end of the message requests a completion event at the peer.
    pub(crate) const fn is_solicited(&self) -> bool {
        self.request.solicited
            && self.position.ends_message()
            && self.request.operation.takes_receive()
    }
}

/// The requests in order: first those that wait for their packets to leave, then the one at the
/// cursor whose packets are being sent, then later ones.
#[derive(Debug, Clone)]
pub(crate) struct SendQueue {
    queue: VecDeque<Entry>,
    cursor: usize,
    /// Packets of the entry at the cursor that were taken.
    position: u32,
    /// PSN of the next packet.
    pub(crate) next: Psn,
    /// True if the entry at the cursor is a local operation in execution.
    local_running: bool,
    /// True if an entry has a failure that is not yet reported.
    failing: bool,
    /// True if a request has failed; the send queue ends.
    failed: bool,
    /// True if an event is due when the drain ends.
    notify_drained: bool,
}

/// Commands.
impl SendQueue {
    pub(crate) const fn new() -> SendQueue {
        SendQueue {
            queue: VecDeque::new(),
            cursor: 0,
            position: 0,
            next: Psn::new(0),
            local_running: false,
            failing: false,
            failed: false,
            notify_drained: false,
        }
    }

    /// Starts at RTR→RTS.
    pub(crate) fn start(&mut self, sq_psn: Psn) {
        *self = SendQueue {
            next: sq_psn,
            ..SendQueue::new()
        };
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn can_accept(&self) -> bool {
        self.queue.len() < MAX_OUTSTANDING_SEND_REQUESTS
    }

    /// Posts a request of `packets` packets; zero for a local operation.
    pub(crate) fn post(
        &mut self,
        ctx: &mut Context,
        mut request: SendRequest,
        mut packets: u32,
        failure: Option<CompletionStatus>,
    ) {
        if request.operation.is_local() {
            (request.length, packets) = (0, 0);
        }
        if !ctx.state.accepts_sends() {
            complete(ctx, &request, CompletionStatus::WrFlush);
            return;
        }
        debug_assert!(self.can_accept(), "the caller asks can_accept_send first");
        self.failing |= failure.is_some();
        self.queue.push_back(Entry {
            request,
            packets,
            left: 0,
            failure,
        });
        self.settle_failure(ctx);
    }

    /// Fails request `id`, whose payload could not be gathered.
    pub(crate) fn fail(&mut self, ctx: &mut Context, id: u32, status: CompletionStatus) {
        let Some(index) = self.queue.iter().position(|entry| entry.request.id == id) else {
            return;
        };
        self.queue[index].failure = Some(status);
        self.failing = true;
        if index < self.cursor {
            // Its packet did not leave, and later packets must not.
            self.cursor = index;
            self.position = 0;
        }
        self.settle_failure(ctx);
    }

    /// Records that a packet of request `id` has left.
    pub(crate) fn packet_left(&mut self, ctx: &mut Context, id: u32) {
        let handed_out = if self.cursor == 0 {
            self.position
        } else {
            u32::MAX
        };
        let Some(front) = self.queue.front_mut() else {
            return;
        };
        if front.request.id != id || front.left >= handed_out || front.failure.is_some() {
            return;
        }
        front.left += 1;
        if front.left == front.packets {
            self.retire_front(ctx);
            self.retire_locals(ctx);
            self.settle_failure(ctx);
        }
    }

    /// Starts a drain at RTS→SQD.
    pub(crate) fn begin_drain(&mut self, notify: bool) {
        self.notify_drained = notify;
    }

    /// Ends a drain at SQD→RTS.
    pub(crate) fn end_drain(&mut self) {
        self.notify_drained = false;
    }

    /// Reports the end of a drain, once.
    pub(crate) fn settle_drain(&mut self, ctx: &mut Context) {
        if self.notify_drained && !self.is_busy() {
            self.notify_drained = false;
            ctx.raise(Event::SqDrained);
        }
    }

    /// Returns true if a request has started and not completed.
    pub(crate) const fn is_busy(&self) -> bool {
        self.cursor > 0 || self.position > 0 || self.local_running
    }

    /// Returns true if a request has failed since the last call.
    pub(crate) fn take_failed(&mut self) -> bool {
        std::mem::replace(&mut self.failed, false)
    }

    /// Flushes all entries in order.
    pub(crate) fn flush(&mut self, ctx: &mut Context) {
        while let Some(entry) = self.queue.pop_front() {
            complete(ctx, &entry.request, CompletionStatus::WrFlush);
        }
        *self = SendQueue {
            next: self.next,
            ..SendQueue::new()
        };
    }
}

/// Sending.
impl SendQueue {
    /// Returns true if a packet may leave now: in SQD only packets of a started message.
    pub(crate) fn has_transmit(&self, ctx: &Context) -> bool {
        let Some(entry) = self.queue.get(self.cursor) else {
            return false;
        };
        !entry.is_local()
            && entry.failure.is_none()
            && (self.position > 0 || ctx.state == QpState::Rts)
    }

    pub(crate) fn poll(&mut self, ctx: &Context, mtu: PathMtu) -> Option<Piece> {
        if !self.has_transmit(ctx) {
            return None;
        }
        let entry = &self.queue[self.cursor];
        let offset = self.position << mtu.shift();
        let piece = Piece {
            request: entry.request,
            psn: self.next,
            position: Position::of(self.position, entry.packets),
            offset,
            length: mtu.bytes().min(entry.request.length - offset),
        };
        self.next = self.next.next();
        self.position += 1;
        if self.position == entry.packets {
            self.cursor += 1;
            self.position = 0;
        }
        Some(piece)
    }
}

/// Local operations.
impl SendQueue {
    /// Returns true if a local operation is next.
    pub(crate) fn has_local(&self, ctx: &Context) -> bool {
        let Some(entry) = self.queue.get(self.cursor).filter(|e| e.is_local()) else {
            return false;
        };
        let is_invalidate = entry.request.operation == SendOperation::Local(LocalKind::Invalidate);
        ctx.state == QpState::Rts
            && !self.local_running
            && entry.failure.is_none()
            // Packets of earlier requests may not have been gathered yet from the memory that is
            // invalidated.
            && (!is_invalidate || self.cursor == 0)
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
        let running = self.queue.get_mut(self.cursor);
        let Some(entry) = running.filter(|e| e.request.id == id && e.failure.is_none()) else {
            return;
        };
        if !std::mem::replace(&mut self.local_running, false) {
            return;
        }
        match result {
            Ok(()) => {
                self.cursor += 1;
                self.retire_locals(ctx);
            }
            Err(status) => {
                entry.failure = Some(status);
                self.failing = true;
            }
        }
        self.settle_failure(ctx);
    }

    /// Completes executed local operations at the front.
    fn retire_locals(&mut self, ctx: &mut Context) {
        while self.cursor > 0 && self.queue.front().is_some_and(Entry::is_local) {
            self.retire_front(ctx);
        }
    }
}

/// Completing.
impl SendQueue {
    /// Completes the front entry with success.
    fn retire_front(&mut self, ctx: &mut Context) {
        let Some(entry) = self.queue.pop_front() else {
            return;
        };
        self.cursor = self.cursor.saturating_sub(1);
        if entry.request.signaled {
            complete(ctx, &entry.request, CompletionStatus::Success);
        }
    }

    /// Completes a failed entry at the front, and ends the send queue.
    fn settle_failure(&mut self, ctx: &mut Context) {
        if !self.failing {
            return;
        }
        let status = self.queue.front().and_then(|entry| entry.failure);
        if let (Some(status), Some(entry)) = (status, self.queue.front()) {
            complete(ctx, &entry.request, status);
            self.queue.pop_front();
            self.failed = true;
        }
    }
}

fn complete(ctx: &mut Context, request: &SendRequest, status: CompletionStatus) {
    ctx.complete(Completion::Send {
        id: request.id,
        status,
        operation: request.operation.kind(),
        byte_length: request.length,
    });
}
