//! Common parts of the unreliable services: a send queue without acknowledges, a receiver that
//! drops what it cannot accept, and two error states, one for each direction.

pub(crate) mod send_queue;
pub(crate) mod uc;
pub(crate) mod ud;

use std::fmt::Debug;

use ferroce_qp::{PathMtu, QpState};
use ferroce_units::Instant;
use ferroce_wire::{Msn, Psn, Transport, TransportHeaders};
use send_queue::{Piece, SendQueue};

use crate::attributes::RtrAttributes;
use crate::completion::{Completion, CompletionStatus};
use crate::context::Context;
use crate::event::Event;
use crate::inbound::{Inbound, passes_header_checks};
use crate::request::SendRequest;
use crate::step::{MemoryAnswer, Step};
use crate::transition::Transition;
use crate::transmit::Transmit;

/// A receive WQE in use.
#[derive(Debug, Clone, Copy)]
struct Receive {
    id: u32,
    capacity: u32,
}

/// The differences between UC and UD: the receiver, and the headers of a packet.
pub(crate) trait UnreliableService: Debug + Clone {
    /// The transport of its opcodes.
    const TRANSPORT: Transport;

    /// Returns the state of RESET.
    fn new() -> Self;

    /// Starts at INIT→RTR.
    fn start(&mut self, attributes: &RtrAttributes);

    /// Handles a packet that passed the checks of its header.
    fn handle_packet(
        &mut self,
        ctx: &mut Context,
        headers: &TransportHeaders,
        packet: Inbound,
    ) -> Step;

    /// Handles the result of the last memory operation.
    fn handle_memory(&mut self, ctx: &mut Context, answer: MemoryAnswer) -> Step;

    /// Returns the receive WQE that it holds because the queue pair goes to ERR.
    fn give_up_receive(&mut self) -> Option<u32>;

    /// Returns the PSN that the next packet should have.
    fn expected(&self) -> Psn;

    /// Returns the maximum payload of a packet.
    fn mtu(ctx: &Context) -> PathMtu;

    /// Returns the reason why a request can never be executed.
    fn judge(ctx: &Context, request: &SendRequest) -> Option<CompletionStatus>;

    /// Returns the headers of a packet.
    fn headers(ctx: &Context, piece: &Piece) -> TransportHeaders;
}

/// An unreliable service.
#[derive(Debug, Clone)]
pub(crate) struct Unreliable<S> {
    /// True if the receiver waits for a memory block.
    waiting: bool,
    send_queue: SendQueue,
    receiver: S,
}

/// Getters.
impl<S: UnreliableService> Unreliable<S> {
    pub(crate) fn new() -> Unreliable<S> {
        Unreliable {
            waiting: false,
            send_queue: SendQueue::new(),
            receiver: S::new(),
        }
    }

    pub(crate) fn next_send_psn(&self) -> Psn {
        self.send_queue.next
    }

    pub(crate) fn next_receive_psn(&self) -> Psn {
        self.receiver.expected()
    }

    /// Returns 0: an unreliable service does not report the number of messages that have arrived.
    pub(crate) fn msn(&self) -> Msn {
        Msn::new(0)
    }

    pub(crate) fn is_draining(&self, ctx: &Context) -> bool {
        ctx.state == QpState::Sqd && self.send_queue.is_busy()
    }

    pub(crate) fn outstanding_sends(&self) -> usize {
        self.send_queue.len()
    }

    pub(crate) fn can_accept_send(&self) -> bool {
        self.send_queue.can_accept()
    }

    pub(crate) fn has_transmit(&self, ctx: &Context) -> bool {
        self.send_queue.has_transmit(ctx)
    }

    pub(crate) fn has_local(&self, ctx: &Context) -> bool {
        self.send_queue.has_local(ctx)
    }

    /// Returns false: there are no acknowledges.
    pub(crate) fn pending_acknowledge(&self, _ctx: &Context) -> bool {
        false
    }
}

/// Commands.
impl<S: UnreliableService> Unreliable<S> {
    pub(crate) fn modify(&mut self, _now: Instant, ctx: &mut Context, transition: &Transition) {
        match transition {
            Transition::Reset => *self = Unreliable::new(),
            Transition::Rtr { attributes, .. } => self.receiver.start(attributes),
            Transition::Rts { attributes, .. } => self.send_queue.start(attributes.sq_psn),
            Transition::Drain { notify } => self.send_queue.begin_drain(*notify),
            Transition::Resume(_) => self.send_queue.end_drain(),
            Transition::Init(_) | Transition::Update(_) | Transition::Err => {}
        }
        self.settle(ctx);
    }

    #[inline(never)]
    pub(crate) fn post_send(&mut self, _now: Instant, ctx: &mut Context, request: SendRequest) {
        let failure = S::judge(ctx, &request);
        let packets = S::mtu(ctx).packets(request.length);
        self.send_queue.post(ctx, request, packets, failure);
        self.settle(ctx);
    }

    pub(crate) fn fail_send(
        &mut self,
        _now: Instant,
        ctx: &mut Context,
        id: u32,
        status: CompletionStatus,
    ) {
        self.send_queue.fail(ctx, id, status);
        self.settle(ctx);
    }

    pub(crate) fn packet_left(&mut self, _now: Instant, ctx: &mut Context, id: u32) {
        self.send_queue.packet_left(ctx, id);
        self.settle(ctx);
    }

    pub(crate) fn poll_local(&mut self, ctx: &Context) -> Option<u32> {
        self.send_queue.poll_local(ctx)
    }

    pub(crate) fn finish_local(
        &mut self,
        _now: Instant,
        ctx: &mut Context,
        id: u32,
        result: Result<(), CompletionStatus>,
    ) {
        self.send_queue.finish_local(ctx, id, result);
        self.settle(ctx);
    }

    /// Does nothing: there are no READs.
    pub(crate) fn fail_read_response(&mut self, _now: Instant, _ctx: &mut Context, _psn: Psn) {}

    /// Does nothing: there are no acknowledges.
    pub(crate) fn flush_acknowledge(&mut self, _ctx: &mut Context) {}

    /// Does nothing: an unreliable service advertises no credits.
    pub(crate) fn set_receive_credits(&mut self, _available: Option<u32>) {}
}

/// Inputs.
impl<S: UnreliableService> Unreliable<S> {
    #[inline(never)]
    pub(crate) fn handle_packet(
        &mut self,
        _now: Instant,
        ctx: &mut Context,
        headers: &TransportHeaders,
        payload_length: u32,
    ) -> Step {
        debug_assert!(!self.waiting, "one packet after the other");
        let is_for_us = !self.waiting
            && ctx.state.accepts_requests()
            && passes_header_checks(headers, ctx.attributes.p_key);
        let known = headers.bth.opcode.parse();
        let Some(known) = known.filter(|known| is_for_us && known.transport == S::TRANSPORT) else {
            return Step::Done;
        };
        let mut packet = Inbound::NONE;
        if !packet.read(headers, known, payload_length) {
            return Step::Done;
        }
        let step = self.receiver.handle_packet(ctx, headers, packet);
        self.finish(ctx, step)
    }

    #[inline(never)]
    pub(crate) fn handle_memory(
        &mut self,
        _now: Instant,
        ctx: &mut Context,
        answer: MemoryAnswer,
    ) -> Step {
        if !std::mem::replace(&mut self.waiting, false) {
            // The queue pair went to ERR while its receive WQE was being fetched.
            if let (QpState::Err, MemoryAnswer::Receive { id, .. }) = (ctx.state, answer) {
                let flushed = Completion::failed_receive(id, CompletionStatus::WrFlush, None);
                ctx.complete(flushed);
            }
            return Step::Done;
        }
        let step = self.receiver.handle_memory(ctx, answer);
        self.finish(ctx, step)
    }

    fn finish(&mut self, ctx: &mut Context, step: Step) -> Step {
        self.waiting = matches!(step, Step::Memory(_));
        self.settle(ctx);
        step
    }

    /// Does nothing: there are no timers.
    pub(crate) fn handle_timeout(&mut self, _now: Instant, _ctx: &mut Context) {}
}

/// Outputs.
impl<S: UnreliableService> Unreliable<S> {
    #[inline(never)]
    pub(crate) fn poll_transmit(&mut self, _now: Instant, ctx: &mut Context) -> Option<Transmit> {
        let piece = self.send_queue.poll(ctx, S::mtu(ctx))?;
        Some(Transmit {
            headers: S::headers(ctx, &piece),
            payload: piece.payload(),
            request: Some(piece.request.id),
        })
    }
}

/// Entering the error states.
impl<S: UnreliableService> Unreliable<S> {
    /// Applies the decisions of the parts after every input.
    fn settle(&mut self, ctx: &mut Context) {
        if ctx.fault {
            self.enter_error(ctx);
        }
        if self.send_queue.take_failed() && ctx.state != QpState::Err {
            // Only the send queue fails; the receive side continues (IBTA vol 1, 10.3.1, SQE).
            ctx.state = QpState::Sqe;
            self.send_queue.flush(ctx);
        }
        self.send_queue.settle_drain(ctx);
    }

    /// Enters ERR: the failed request has completed with its status, everything else is flushed in
    /// order.
    fn enter_error(&mut self, ctx: &mut Context) {
        ctx.fault = false;
        ctx.state = QpState::Err;
        self.waiting = false;
        self.send_queue.flush(ctx);
        if let Some(id) = self.receiver.give_up_receive() {
            let flushed = Completion::failed_receive(id, CompletionStatus::WrFlush, None);
            ctx.complete(flushed);
        }
        ctx.raise(Event::LastWqeReached);
    }
}
