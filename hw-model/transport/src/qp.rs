//! A queue pair: routes commands, inputs and outputs to its service.

mod train;

use ferroce_qp::{QpState, Service};
use ferroce_units::Instant;
use ferroce_wire::{Msn, Psn, Qpn, TransportHeaders};

use crate::attributes::Attributes;
use crate::completion::{Completion, CompletionStatus};
use crate::config::Config;
use crate::context::Context;
use crate::event::Event;
use crate::note::Note;
use crate::rc::Rc;
use crate::recovery::ack_timer::AckTimer;
use crate::recovery::{Recovery, RecoveryState};
use crate::request::SendRequest;
use crate::statistics::Statistics;
use crate::step::{MemoryAnswer, Step};
use crate::timer::Timer;
use crate::transition::{ModifyError, Transition};
use crate::transmit::Transmit;
use crate::unreliable::Unreliable;
use crate::unreliable::uc::Uc;
use crate::unreliable::ud::Ud;
use crate::xrc;

/// The machine of a service. Another service is another variant and another file.
#[derive(Debug, Clone)]
enum Machine {
    Reliable(Rc),
    /// An RC machine with only one half in use.
    Extended(Rc),
    Connected(Unreliable<Uc>),
    Datagram(Unreliable<Ud>),
}

/// Calls the same method of the current machine.
macro_rules! on_machine {
    ($machine:expr, $m:ident => $call:expr) => {
        match $machine {
            Machine::Reliable($m) | Machine::Extended($m) => $call,
            Machine::Connected($m) => $call,
            Machine::Datagram($m) => $call,
        }
    };
}

/// A queue pair.
///
/// Getters have no effect. *Commands* come from the application ([`Qp::modify`], [`Qp::post_send`],
/// …), *inputs* from the network, the memory blocks and the clock (`handle_*`), and `poll_*` takes
/// *outputs*, each until it returns `None`.
///
/// One packet is processed completely (`handle_packet`, then `handle_memory` until [`Step::Done`])
/// before the next one.
#[derive(Debug, Clone)]
pub struct Qp {
    context: Context,
    machine: Machine,
}

/// Getters.
impl Qp {
    /// Returns a queue pair in RESET.
    #[must_use]
    pub fn new(qpn: Qpn, service: Service, config: Config) -> Qp {
        let machine = match service {
            Service::ReliableConnected => Machine::Reliable(Rc::new()),
            Service::XrcInitiator | Service::XrcTarget => Machine::Extended(Rc::new()),
            Service::UnreliableConnected => Machine::Connected(Unreliable::new()),
            Service::UnreliableDatagram | Service::Gsi => Machine::Datagram(Unreliable::new()),
        };
        Qp {
            context: Context::new(qpn, service, config),
            machine,
        }
    }

    /// Returns its number.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        self.context.qpn
    }

    /// Returns its service.
    #[must_use]
    pub const fn service(&self) -> Service {
        self.context.service
    }

    /// Returns its state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> QpState {
        self.context.state
    }

    /// Returns its current attributes.
    #[must_use]
    pub const fn attributes(&self) -> &Attributes {
        &self.context.attributes
    }

    /// Returns its policy.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.context.config
    }

    /// Returns the PSN of the next new request packet (`sq_psn` of Query QP).
    #[must_use]
    pub fn next_send_psn(&self) -> Psn {
        on_machine!(&self.machine, m => m.next_send_psn())
    }

    /// Returns the PSN of the next expected request packet (`rq_psn` of Query QP).
    #[must_use]
    pub fn next_receive_psn(&self) -> Psn {
        on_machine!(&self.machine, m => m.next_receive_psn())
    }

    /// Returns the number of messages that the responder has completed.
    #[must_use]
    pub fn msn(&self) -> Msn {
        on_machine!(&self.machine, m => m.msn())
    }

    /// Returns true if the send queue is in SQD and requests that have started are still
    /// outstanding.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        on_machine!(&self.machine, m => m.is_draining(&self.context))
    }

    /// Returns the number of send requests that were posted and not retired.
    #[must_use]
    pub fn outstanding_sends(&self) -> usize {
        on_machine!(&self.machine, m => m.outstanding_sends())
    }

    /// Returns true if [`Qp::post_send`] may be called: fewer than
    /// [`crate::MAX_OUTSTANDING_SEND_REQUESTS`] are outstanding.
    #[inline]
    #[must_use]
    pub fn can_accept_send(&self) -> bool {
        on_machine!(&self.machine, m => m.can_accept_send())
    }
}

/// Commands.
impl Qp {
    /// Executes a Modify QP.
    ///
    /// Before it resets or destroys a queue pair, the caller should call [`Qp::flush_acknowledge`]
    /// and send what [`Qp::poll_transmit`] returns; otherwise the peer waits for an ACK of executed
    /// requests. This is not needed on the way to ERR: a delayed ACK is still sent.
    ///
    /// # Errors
    ///
    /// See [`ModifyError`]; the queue pair is then unchanged.
    pub fn modify(&mut self, now: Instant, transition: Transition) -> Result<(), ModifyError> {
        let target = transition.check(self.context.service, self.context.state)?;
        if matches!(transition, Transition::Update(_)) && self.is_draining() {
            return Err(ModifyError::Draining);
        }
        self.context.apply(&transition, target);
        on_machine!(&mut self.machine, m => m.modify(now, &mut self.context, &transition));
        Ok(())
    }

    /// Sets the recovery mode before the transition to RTR; RESET clears it. Only the reliable
    /// services recover.
    pub fn set_recovery(&mut self, recovery: &Recovery) {
        if self.reliable().is_some() {
            self.context.recovery = RecoveryState::new(recovery);
            self.context.ack_timer = AckTimer::new(recovery.ack_timeouts, recovery.seed);
        }
    }

    /// Posts a send request. In ERR it completes immediately as flushed.
    ///
    /// A request that cannot be executed (too long, READ without `max_rd_atomic`, queue full)
    /// completes with an error when it is next in order. In states other than RTS, SQD and ERR,
    /// where the verbs refuse to post, it is flushed as well.
    pub fn post_send(&mut self, now: Instant, request: SendRequest) {
        on_machine!(&mut self.machine, m => m.post_send(now, &mut self.context, request));
    }

    /// Reports that the payload of request `id` could not be gathered: it completes with `status`
    /// after earlier requests; then the queue pair goes to ERR. Unknown ids are ignored.
    pub fn fail_send(&mut self, now: Instant, id: u32, status: CompletionStatus) {
        on_machine!(&mut self.machine, m => m.fail_send(now, &mut self.context, id, status));
    }

    /// Takes the next local operation if all earlier requests are done; the caller answers with
    /// [`Qp::finish_local`]. Later requests are not sent until then.
    pub fn poll_local(&mut self) -> Option<u32> {
        on_machine!(&mut self.machine, m => m.poll_local(&self.context))
    }

    /// Reports that the local operation `id` was executed, or that it failed, which fails the queue
    /// pair. It completes after earlier requests. Unknown ids are ignored.
    pub fn finish_local(&mut self, now: Instant, id: u32, result: Result<(), CompletionStatus>) {
        on_machine!(&mut self.machine, m => m.finish_local(now, &mut self.context, id, result));
    }

    /// Reports that a packet of request `id` ([`Transmit::request`]) was given to the wire, or lost
    /// there. UC and UD need this for each packet, in order: a request completes when its last
    /// packet has left. RC and XRC ignore it.
    #[inline]
    pub fn packet_left(&mut self, now: Instant, id: u32) {
        on_machine!(&mut self.machine, m => m.packet_left(now, &mut self.context, id));
    }

    /// Reports that the payload of the READ response with `psn` could not be gathered: a NAK
    /// (remote access error) replaces it, and the queue pair goes to ERR.
    pub fn fail_read_response(&mut self, now: Instant, psn: Psn) {
        on_machine!(&mut self.machine, m => m.fail_read_response(now, &mut self.context, psn));
    }

    /// Completes a receive WQE of a queue pair in ERR as flushed.
    pub fn flush_receive(&mut self, id: u32) {
        let flushed = Completion::failed_receive(id, CompletionStatus::WrFlush, None);
        self.context.complete(flushed);
    }

    /// Makes a delayed ACK due now, so that it leaves directly after a request.
    #[inline]
    pub fn flush_acknowledge(&mut self) {
        on_machine!(&mut self.machine, m => m.flush_acknowledge(&mut self.context));
    }

    /// Sets the number of posted receive WQEs, so that ACKs carry end-to-end credits. `None` (the
    /// default, and right for a shared receive queue) does not limit the peer.
    pub fn set_receive_credits(&mut self, available: Option<u32>) {
        on_machine!(&mut self.machine, m => m.set_receive_credits(available));
    }
}

/// Access to the machine of the reliable services.
impl Qp {
    pub(crate) fn reliable(&self) -> Option<(&Rc, &Context)> {
        match &self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => Some((rc, &self.context)),
            Machine::Connected(_) | Machine::Datagram(_) => None,
        }
    }

    pub(crate) fn reliable_mut(&mut self) -> Option<(&mut Rc, &mut Context)> {
        match &mut self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => Some((rc, &mut self.context)),
            Machine::Connected(_) | Machine::Datagram(_) => None,
        }
    }
}

/// Inputs.
impl Qp {
    /// Handles a packet for this queue pair with `payload_length` bytes of payload (without padding
    /// and ICRC).
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        headers: &TransportHeaders,
        payload_length: u32,
    ) -> Step {
        let ctx = &mut self.context;
        match &mut self.machine {
            Machine::Reliable(rc) => rc.handle_packet(now, ctx, headers, payload_length, None),
            Machine::Extended(rc) => xrc::handle_packet(rc, now, ctx, headers, payload_length),
            Machine::Connected(uc) => uc.handle_packet(now, ctx, headers, payload_length),
            Machine::Datagram(ud) => ud.handle_packet(now, ctx, headers, payload_length),
        }
    }

    /// Handles the result of the last [`Step::Memory`]. An unexpected result (the queue pair was
    /// reset meanwhile) is ignored.
    #[inline]
    pub fn handle_memory(&mut self, now: Instant, answer: MemoryAnswer) -> Step {
        on_machine!(&mut self.machine, m => m.handle_memory(now, &mut self.context, answer))
    }

    /// Handles the payload of the packet that returned [`Step::Arrivals`].
    pub fn handle_arrivals(&mut self, now: Instant, payload: &[u8]) {
        if let Some((rc, ctx)) = self.reliable_mut() {
            rc.handle_arrivals(now, ctx, payload);
        }
    }

    /// Returns the PSN of the held packet that is next: the caller handles it as if it had just
    /// arrived, and calls this after each packet until it returns `None`.
    #[inline]
    pub fn take_held(&mut self) -> Option<Psn> {
        let (rc, ctx) = self.reliable_mut()?;
        ctx.recovery.as_ref()?;
        rc.take_held(ctx)
    }

    /// Reports that there was no room to hold the packet: it will be retransmitted.
    pub fn drop_held(&mut self, psn: Psn) {
        if let Some(recovery) = &mut self.context.recovery {
            recovery.received.drop_held(psn);
        }
    }

    /// Returns true if both sides use selective repeat.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        self.context.is_selective()
    }

    /// Writes the bitmap of a [`crate::Payload::Arrivals`].
    pub fn write_arrivals(&self, missing: Psn, buffer: &mut [u8]) {
        match &self.context.recovery {
            Some(recovery) => recovery.received.arrivals(missing).emit(buffer),
            None => buffer.fill(0),
        }
    }

    /// Returns true if requests were sent that are not acknowledged.
    #[must_use]
    pub fn has_unacknowledged(&self) -> bool {
        match &self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => rc.has_unacknowledged(),
            Machine::Connected(_) | Machine::Datagram(_) => false,
        }
    }

    /// Returns true if the local ACK timeout has expired by `now`.
    #[must_use]
    pub fn retransmission_is_due(&self, now: Instant) -> bool {
        self.context.timers.is_due(Timer::Retransmit, now)
    }

    /// Restarts the local ACK timeout without using up a retry, because the packets are known to be
    /// queued at the peer.
    pub fn postpone_retransmission(&mut self, now: Instant) {
        match &mut self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => {
                rc.postpone_retransmission(now, &mut self.context);
            }
            Machine::Connected(_) | Machine::Datagram(_) => {}
        }
    }

    /// Gives up because the peer is known to be gone: unacknowledged requests fail as after the
    /// last retry (IBTA vol 1, 9.9.2.1.1).
    pub fn give_up(&mut self) {
        match &mut self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => rc.give_up(&mut self.context),
            Machine::Connected(_) | Machine::Datagram(_) => {}
        }
    }

    /// Advances the time to `now`; no effect if no timer has expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        on_machine!(&mut self.machine, m => m.handle_timeout(now, &mut self.context));
    }
}

/// Outputs.
impl Qp {
    /// Takes the next packet to send. A request goes before a response; then they alternate.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let ctx = &mut self.context;
        match &mut self.machine {
            Machine::Reliable(rc) => rc.poll_transmit(now, ctx),
            Machine::Extended(rc) => xrc::poll_transmit(rc, now, ctx),
            Machine::Connected(uc) => uc.poll_transmit(now, ctx),
            Machine::Datagram(ud) => ud.poll_transmit(now, ctx),
        }
    }

    /// Takes the next work completion.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.context.completions.pop_front()
    }

    /// Takes the next asynchronous event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.context.events.is_empty() {
            None
        } else {
            self.context.events.take()
        }
    }

    /// Takes the statistics since the last call, for the NIC's counters; `None` if nothing
    /// happened.
    #[inline]
    pub fn take_statistics(&mut self) -> Option<Statistics> {
        // Most packets change nothing; then nothing is written.
        if self.context.statistics == Statistics::default() {
            return None;
        }
        Some(std::mem::take(&mut self.context.statistics))
    }

    /// Takes what the queue pair has noticed last, for explanations.
    #[inline]
    pub fn take_note(&mut self) -> Option<Note> {
        self.context.note.take().map(|note| *note)
    }

    /// Returns true if [`Qp::take_note`] returns something.
    #[inline]
    pub fn has_note(&self) -> bool {
        self.context.note.is_some()
    }

    /// Returns the time at which [`Qp::handle_timeout`] must be called.
    #[inline]
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let timers = self.context.timers.next_timeout();
        match &self.context.recovery {
            None => timers,
            Some(recovery) => [timers, recovery.next_timeout()]
                .into_iter()
                .flatten()
                .min(),
        }
    }

    /// Returns true if [`Qp::poll_transmit`] would return a packet. A delayed ACK does not count
    /// before its deadline.
    #[inline]
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        on_machine!(&self.machine, m => m.has_transmit(&self.context))
    }

    /// Returns true if [`Qp::poll_local`] would return an operation.
    #[inline]
    #[must_use]
    pub fn has_local(&self) -> bool {
        on_machine!(&self.machine, m => m.has_local(&self.context))
    }

    /// Returns true if there is a delayed ACK.
    #[inline]
    #[must_use]
    pub fn pending_acknowledge(&self) -> bool {
        on_machine!(&self.machine, m => m.pending_acknowledge(&self.context))
    }
}
