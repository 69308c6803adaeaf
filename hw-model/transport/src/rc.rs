//! The reliable connected service: routes packets, results and timeouts to its parts, and enters
//! the error state.

use ferroce_qp::QpState;
use ferroce_units::Instant;
use ferroce_wire::{
    Arrivals, Extension, Msn, OpcodeProperties, Operation, Psn, RecoveryBits, Transport,
    TransportHeaders,
};

use crate::completer::{self, ReadResponse};
use crate::completion::{Completion, CompletionStatus};
use crate::context::Context;
use crate::event::Event;
use crate::inbound::passes_header_checks;
use crate::request::SendRequest;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::step::{MemoryAnswer, Step};
use crate::timer::Timer;
use crate::transition::Transition;
use crate::transmit::Transmit;

/// The part that waits for the result of a memory operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Idle,
    Responder,
    Completer,
}

/// Requester and completer for the peer's memory, responder for local memory.
#[derive(Debug, Clone)]
pub(crate) struct Rc {
    waiting: Waiting,
    /// A response was pending while the last request was sent: it goes next.
    response_next: bool,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
}

/// Getters.
impl Rc {
    pub(crate) const fn new() -> Rc {
        Rc {
            waiting: Waiting::Idle,
            response_next: false,
            requester: Requester::new(),
            responder: Responder::new(),
        }
    }

    pub(crate) const fn next_send_psn(&self) -> Psn {
        self.requester.newest
    }

    pub(crate) const fn next_receive_psn(&self) -> Psn {
        self.responder.expected
    }

    pub(crate) const fn msn(&self) -> Msn {
        self.responder.msn
    }

    pub(crate) fn is_draining(&self, ctx: &Context) -> bool {
        ctx.state == QpState::Sqd && self.requester.is_busy()
    }

    pub(crate) fn outstanding_sends(&self) -> usize {
        self.requester.queue.len()
    }

    /// Returns the shared receive queue of the next request packet (XRC).
    pub(crate) fn next_srqn(&self, ctx: &Context) -> u32 {
        self.requester.next_srqn(ctx)
    }

    #[inline]
    pub(crate) fn can_accept_send(&self) -> bool {
        self.requester.can_accept()
    }

    /// Returns true if no packet waits for the result of a memory operation.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == Waiting::Idle
    }

    #[inline]
    pub(crate) fn has_transmit(&self, ctx: &Context) -> bool {
        self.responder.has_transmit(ctx) || self.requester.has_transmit(ctx)
    }
}

/// Commands.
impl Rc {
    pub(crate) fn modify(&mut self, _now: Instant, ctx: &mut Context, transition: &Transition) {
        match transition {
            Transition::Reset => *self = Rc::new(),
            Transition::Rtr { attributes, .. } => self.responder.start(attributes.rq_psn, ctx),
            Transition::Rts { attributes, .. } => self.requester.start(attributes.sq_psn, ctx),
            Transition::Update(_) => self.requester.retry.reset(&ctx.attributes),
            Transition::Drain { notify } => self.requester.begin_drain(ctx, *notify),
            Transition::Resume(_) => self.requester.end_drain(),
            Transition::Init(_) | Transition::Err => {}
        }
        self.settle(ctx);
    }

    #[inline]
    pub(crate) fn post_send(&mut self, _now: Instant, ctx: &mut Context, request: SendRequest) {
        self.requester.post(ctx, request);
        self.settle(ctx);
    }

    pub(crate) fn fail_send(
        &mut self,
        _now: Instant,
        ctx: &mut Context,
        id: u32,
        status: CompletionStatus,
    ) {
        self.requester.fail(ctx, id, status);
        self.settle(ctx);
    }

    pub(crate) fn poll_local(&mut self, ctx: &Context) -> Option<u32> {
        self.requester.poll_local(ctx)
    }

    #[inline]
    pub(crate) fn has_local(&self, ctx: &Context) -> bool {
        self.requester.has_local(ctx)
    }

    pub(crate) fn finish_local(
        &mut self,
        _now: Instant,
        ctx: &mut Context,
        id: u32,
        result: Result<(), CompletionStatus>,
    ) {
        self.requester.finish_local(ctx, id, result);
        self.settle(ctx);
    }

    /// Does nothing: the peer acknowledges.
    #[inline]
    pub(crate) fn packet_left(&self, _now: Instant, _ctx: &mut Context, _id: u32) {}

    pub(crate) fn fail_read_response(&mut self, _now: Instant, ctx: &mut Context, psn: Psn) {
        if ctx.state.accepts_requests() || ctx.state == QpState::Err {
            self.responder.fail_read_response(ctx, psn);
            self.settle(ctx);
        }
    }

    #[inline]
    pub(crate) fn flush_acknowledge(&mut self, ctx: &mut Context) {
        self.responder.flush_acknowledge(ctx);
    }

    pub(crate) fn set_receive_credits(&mut self, available: Option<u32>) {
        self.responder.credits = available;
    }

    #[inline]
    pub(crate) fn pending_acknowledge(&self, ctx: &Context) -> bool {
        ctx.timers.is_set(Timer::Acknowledge)
    }
}

/// Inputs.
impl Rc {
    /// Handles a packet, and the shared receive queue that it names if it is an XRC packet.
    #[inline]
    pub(crate) fn handle_packet(
        &mut self,
        now: Instant,
        ctx: &mut Context,
        headers: &TransportHeaders,
        payload_length: u32,
        srqn: Option<u32>,
    ) -> Step {
        debug_assert!(self.waiting == Waiting::Idle, "one packet after the other");
        if self.waiting != Waiting::Idle || !passes_header_checks(headers, ctx.attributes.p_key) {
            return Step::Done;
        }
        let properties = match headers.bth.opcode.parse() {
            Some(known) if known.transport == Transport::ReliableConnected => known,
            _ => return Step::Done,
        };
        if let Some(recovery) = &mut ctx.recovery {
            recovery.note_peer(&headers.bth);
        }
        let step = if properties.operation.is_response() {
            self.handle_response(now, ctx, headers, properties, payload_length)
        } else if ctx.state.accepts_requests() {
            let packet = &mut self.responder.packet;
            packet.srqn = srqn;
            if packet.read(headers, properties, payload_length) {
                if ctx.recovery.is_some() {
                    self.responder.read_recovery(ctx, &headers.bth);
                }
                self.responder.handle_packet(now, ctx)
            } else {
                Step::Done
            }
        } else {
            Step::Done
        };
        if matches!(step, Step::Memory(_)) {
            self.waiting = if properties.operation.is_response() {
                Waiting::Completer
            } else {
                Waiting::Responder
            };
        } else if ctx.recovery.is_some() {
            self.responder.settle_gap(now, ctx);
        }
        self.settle(ctx);
        step
    }

    #[inline]
    fn handle_response(
        &mut self,
        now: Instant,
        ctx: &mut Context,
        headers: &TransportHeaders,
        properties: OpcodeProperties,
        payload_length: u32,
    ) -> Step {
        if !ctx.state.accepts_responses() {
            return Step::Done;
        }
        if ctx.is_selective() {
            let response = (headers, properties, payload_length);
            return completer::selective::handle_response(&mut self.requester, now, ctx, response);
        }
        let psn = headers.bth.psn;
        if let (Operation::AtomicAcknowledge, Extension::AtomicAck(aeth, result)) =
            (properties.operation, headers.extension)
        {
            let response = (aeth, result);
            return completer::handle_atomic_response(&mut self.requester, now, ctx, psn, response);
        }
        let aeth = match headers.extension {
            Extension::Aeth(aeth) => Some(aeth),
            _ => None,
        };
        match (properties.operation, aeth) {
            (Operation::Acknowledge, Some(aeth)) => {
                completer::handle_acknowledge(&mut self.requester, now, ctx, psn, aeth);
                Step::Done
            }
            (Operation::RdmaReadResponse, aeth) => {
                let position = properties.position;
                let response = ReadResponse {
                    psn,
                    position,
                    aeth,
                    payload_length,
                };
                completer::handle_read_response(&mut self.requester, now, ctx, &response)
            }
            _ => Step::Done,
        }
    }

    #[inline]
    pub(crate) fn handle_memory(
        &mut self,
        now: Instant,
        ctx: &mut Context,
        answer: MemoryAnswer,
    ) -> Step {
        let waiting = std::mem::replace(&mut self.waiting, Waiting::Idle);
        let step = match waiting {
            Waiting::Responder => self.responder.handle_memory(now, ctx, answer),
            Waiting::Completer if answer == MemoryAnswer::NotPresent => {
                completer::await_page(&mut self.requester, now, ctx);
                Step::Done
            }
            Waiting::Completer => {
                let written = answer == MemoryAnswer::Done;
                completer::finish_response(&mut self.requester, now, ctx, written);
                Step::Done
            }
            Waiting::Idle => {
                // The queue pair went to ERR while its receive WQE was being fetched.
                if let (QpState::Err, MemoryAnswer::Receive { id, .. }) = (ctx.state, answer) {
                    let srqn = self.responder.srqn;
                    let flushed = Completion::failed_receive(id, CompletionStatus::WrFlush, srqn);
                    ctx.complete(flushed);
                }
                Step::Done
            }
        };
        if matches!(step, Step::Memory(_)) {
            self.waiting = waiting;
        } else if ctx.recovery.is_some() {
            self.responder.settle_gap(now, ctx);
        }
        self.settle(ctx);
        step
    }

    /// Handles the bitmap of a NAK.
    pub(crate) fn handle_arrivals(&mut self, now: Instant, ctx: &mut Context, payload: &[u8]) {
        if ctx.is_selective() && ctx.state.accepts_responses() {
            let arrivals = Arrivals::parse(payload);
            completer::selective::handle_arrivals(&mut self.requester, now, ctx, &arrivals);
            self.settle(ctx);
        }
    }

    /// Takes the expected packet if the caller holds it.
    pub(crate) fn take_held(&mut self, ctx: &mut Context) -> Option<Psn> {
        if !ctx.state.accepts_requests() || !self.is_idle() {
            return None;
        }
        let expected = self.responder.expected;
        let received = &mut ctx.recovery.as_mut()?.received;
        let is_held = received.is_held(expected);
        received.drop_held(expected);
        is_held.then_some(expected)
    }

    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.requester.has_unacknowledged()
    }

    /// Gives up because the peer will never answer: unacknowledged requests have used up their
    /// retries.
    pub(crate) fn give_up(&mut self, ctx: &mut Context) {
        if self.requester.has_unacknowledged() {
            self.requester
                .fail_front(ctx, CompletionStatus::RetryExceeded);
            self.settle(ctx);
        }
    }

    /// Restarts the local ACK timeout without using up a retry.
    pub(crate) fn postpone_retransmission(&mut self, now: Instant, ctx: &mut Context) {
        self.requester.start_timer(now, ctx);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, ctx: &mut Context) {
        if ctx.timers.take_expired(Timer::Acknowledge, now) {
            self.responder.acknowledge_now();
        }
        // No further action on expiry: the requester may send again.
        let _ = ctx.timers.take_expired(Timer::RnrBackoff, now);
        if ctx.timers.take_expired(Timer::Retransmit, now) {
            self.requester.time_out(now, ctx);
        }
        if ctx.recovery.is_some() {
            self.responder.gap_time_out(now, ctx);
            self.requester.gap_time_out(now, ctx);
        }
        self.settle(ctx);
    }
}

/// Outputs.
impl Rc {
    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, ctx: &mut Context) -> Option<Transmit> {
        let response_due = self.responder.has_transmit(ctx);
        if !(response_due && self.response_next) {
            let mut request = self.requester.poll(now, ctx);
            if request.is_some() {
                self.response_next = response_due;
                if let Some(recovery) = &ctx.recovery {
                    mark(&mut request, recovery.request_bits());
                }
                return request;
            }
        }
        self.response_next = false;
        if !response_due {
            return None;
        }
        let mut response = self.responder.poll(ctx);
        if let Some(recovery) = &ctx.recovery {
            mark(&mut response, recovery.response_bits());
        }
        response
    }
}

/// The way into the error state.
impl Rc {
    /// Applies the decisions of the parts after every input.
    #[inline]
    fn settle(&mut self, ctx: &mut Context) {
        if ctx.fault {
            self.enter_error(ctx);
        }
        self.requester.settle_drain(ctx);
    }

    /// Enters ERR: the failed request has completed with its status, everything else is flushed in
    /// order.
    fn enter_error(&mut self, ctx: &mut Context) {
        ctx.fault = false;
        ctx.state = QpState::Err;
        ctx.timers.stop_all();
        if let Some(recovery) = &mut ctx.recovery {
            recovery.stop();
        }
        self.waiting = Waiting::Idle;
        self.requester.flush(ctx);
        self.responder.enter_error(ctx);
        ctx.raise(Event::LastWqeReached);
    }
}

/// Sets the bits that show the capabilities of this side to the peer.
#[inline(never)]
fn mark(transmit: &mut Option<Transmit>, bits: RecoveryBits) {
    if let Some(transmit) = transmit {
        let bth = &mut transmit.headers.bth;
        let more = RecoveryBits::of(bth).more;
        RecoveryBits { more, ..bits }.set_in(bth);
    }
}
