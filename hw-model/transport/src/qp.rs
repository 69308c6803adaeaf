//! A queue pair: routes commands, inputs and outputs to the service behind it.

mod train;

use ferroce_qp::{QpState, Service};
use ferroce_units::Instant;
use ferroce_wire::{Msn, Psn, Qpn, TransportHeaders};

use crate::attributes::Attributes;
use crate::completion::{Completion, CompletionStatus};
use crate::config::Config;
use crate::context::Context;
use crate::event::Event;
use crate::rc::Rc;
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

/// The machine behind a service. A further service is a further variant and a file.
#[derive(Debug, Clone)]
enum Machine {
    Reliable(Rc),
    /// An RC machine of which one half is used.
    Extended(Rc),
    Connected(Unreliable<Uc>),
    Datagram(Unreliable<Ud>),
}

/// Calls the same method of whatever machine there is.
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
/// Getters have no effect. *Commands* come from the application ([`Qp::modify`],
/// [`Qp::post_send`], …), *inputs* from the network, the memory blocks and the clock
/// (`handle_*`), *outputs* are taken by `poll_*`, each until it gives `None`.
///
/// One packet is processed to its end (`handle_packet`, then `handle_memory` until [`Step::Done`])
/// before the next one.
#[derive(Debug, Clone)]
pub struct Qp {
    context: Context,
    machine: Machine,
}

/// Getters.
impl Qp {
    /// A queue pair in RESET.
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

    /// Its number.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        self.context.qpn
    }

    /// Its service.
    #[must_use]
    pub const fn service(&self) -> Service {
        self.context.service
    }

    /// Its state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> QpState {
        self.context.state
    }

    /// Its attributes as they stand.
    #[must_use]
    pub const fn attributes(&self) -> &Attributes {
        &self.context.attributes
    }

    /// The policy it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.context.config
    }

    /// PSN of the next new request packet (`sq_psn` of Query QP).
    #[must_use]
    pub fn next_send_psn(&self) -> Psn {
        on_machine!(&self.machine, m => m.next_send_psn())
    }

    /// PSN of the next request packet expected (`rq_psn` of Query QP).
    #[must_use]
    pub fn next_receive_psn(&self) -> Psn {
        on_machine!(&self.machine, m => m.next_receive_psn())
    }

    /// Messages that the responder has completed.
    #[must_use]
    pub fn msn(&self) -> Msn {
        on_machine!(&self.machine, m => m.msn())
    }

    /// Returns true if the send queue is in SQD and requests that were begun are still outstanding.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        on_machine!(&self.machine, m => m.is_draining(&self.context))
    }

    /// Send requests posted and not yet retired.
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
    /// Modify QP.
    ///
    /// Before it resets or destroys a queue pair, the caller should call [`Qp::flush_acknowledge`]
    /// and send what [`Qp::poll_transmit`] returns, or the peer waits for an ACK of what was
    /// already executed. On the way to ERR this is not needed: a delayed ACK is still sent.
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

    /// Chooses how lost packets are recovered, before the transition to RTR; RESET forgets it. Only
    /// the reliable services recover.
    pub fn set_recovery(&mut self, recovery: &Recovery) {
        if self.reliable().is_some() {
            self.context.recovery = RecoveryState::new(recovery);
        }
    }

    /// Posts a send request. In ERR it completes at once as flushed.
    ///
    /// A request that cannot be executed (too long, READ without `max_rd_atomic`, queue full)
    /// completes with an error when it is next in order. Outside of RTS, SQD and ERR, where the
    /// verbs refuse to post, it is flushed too.
    pub fn post_send(&mut self, now: Instant, request: SendRequest) {
        on_machine!(&mut self.machine, m => m.post_send(now, &mut self.context, request));
    }

    /// The payload of request `id` could not be gathered: it completes with `status` after those
    /// before it have completed; then the queue pair goes to ERR. Unknown ids are ignored.
    pub fn fail_send(&mut self, now: Instant, id: u32, status: CompletionStatus) {
        on_machine!(&mut self.machine, m => m.fail_send(now, &mut self.context, id, status));
    }

    /// The next local operation whose turn has come; answer with [`Qp::finish_local`]. Nothing
    /// behind it is sent until then.
    pub fn poll_local(&mut self) -> Option<u32> {
        on_machine!(&mut self.machine, m => m.poll_local(&self.context))
    }

    /// Reports that the local operation `id` was executed, or failed, which fails the queue pair.
    /// It completes after those before it. Unknown ids are ignored.
    pub fn finish_local(&mut self, now: Instant, id: u32, result: Result<(), CompletionStatus>) {
        on_machine!(&mut self.machine, m => m.finish_local(now, &mut self.context, id, result));
    }

    /// Reports that a packet of request `id` ([`Transmit::request`]) was given to the wire, or lost
    /// there. UC and UD need a report of each packet, in order: a request completes when its last
    /// packet has left. RC and XRC ignore it.
    #[inline]
    pub fn packet_left(&mut self, now: Instant, id: u32) {
        on_machine!(&mut self.machine, m => m.packet_left(now, &mut self.context, id));
    }

    /// The payload of the READ response with `psn` could not be gathered: a NAK (remote access
    /// error) takes its place and the queue pair goes to ERR.
    pub fn fail_read_response(&mut self, now: Instant, psn: Psn) {
        on_machine!(&mut self.machine, m => m.fail_read_response(now, &mut self.context, psn));
    }

    /// A receive WQE of a queue pair in ERR: completes as flushed.
    pub fn flush_receive(&mut self, id: u32) {
        let flushed = Completion::failed_receive(id, CompletionStatus::WrFlush, None);
        self.context.complete(flushed);
    }

    /// Makes a delayed ACK due now, so that it leaves right behind a request.
    #[inline]
    pub fn flush_acknowledge(&mut self) {
        on_machine!(&mut self.machine, m => m.flush_acknowledge(&mut self.context));
    }

    /// Sets how many receive WQEs are posted, so that ACKs carry end-to-end credits. `None` (the
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
    /// A packet arrived for this queue pair, with `payload_length` bytes of payload (without
    /// padding and ICRC).
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

    /// Processes the answer to the operation of the last [`Step::Memory`]. An unexpected answer
    /// (the queue pair was reset meanwhile) is ignored.
    #[inline]
    pub fn handle_memory(&mut self, now: Instant, answer: MemoryAnswer) -> Step {
        on_machine!(&mut self.machine, m => m.handle_memory(now, &mut self.context, answer))
    }

    /// The payload of the packet for which the answer was [`Step::Arrivals`].
    pub fn handle_arrivals(&mut self, now: Instant, payload: &[u8]) {
        if let Some((rc, ctx)) = self.reliable_mut() {
            rc.handle_arrivals(now, ctx, payload);
        }
    }

    /// Returns the PSN of the held packet that is next: the caller handles it now as if it had just
    /// arrived. To be asked after each packet until there is none.
    #[inline]
    pub fn take_held(&mut self) -> Option<Psn> {
        let (rc, ctx) = self.reliable_mut()?;
        ctx.recovery.as_ref()?;
        rc.take_held(ctx)
    }

    /// There was no room to hold the packet: it will come again.
    pub fn drop_held(&mut self, psn: Psn) {
        if let Some(recovery) = &mut self.context.recovery {
            recovery.received.drop_held(psn);
        }
    }

    /// Returns true if both sides recover selectively.
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

    /// Returns true if requests were sent that no acknowledge has answered.
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

    /// The packets are known to wait in front of the peer: the local ACK timeout begins anew, and
    /// no retry is spent.
    pub fn postpone_retransmission(&mut self, now: Instant) {
        match &mut self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => {
                rc.postpone_retransmission(now, &mut self.context);
            }
            Machine::Connected(_) | Machine::Datagram(_) => {}
        }
    }

    /// The peer is known to be gone for good: what is not acknowledged fails as after the last
    /// retry (IBTA vol 1, 9.9.2.1.1).
    pub fn give_up(&mut self) {
        match &mut self.machine {
            Machine::Reliable(rc) | Machine::Extended(rc) => rc.give_up(&mut self.context),
            Machine::Connected(_) | Machine::Datagram(_) => {}
        }
    }

    /// Time has come to `now`; harmless if no timer has expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        on_machine!(&mut self.machine, m => m.handle_timeout(now, &mut self.context));
    }
}

/// Outputs.
impl Qp {
    /// The next packet to send. A request goes before a response; then they alternate.
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

    /// The next work completion.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.context.completions.pop_front()
    }

    /// The next asynchronous event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.context.events.is_empty() {
            None
        } else {
            self.context.events.take()
        }
    }

    /// Returns what happened since the last call, for the NIC's counters; `None` if nothing did.
    #[inline]
    pub fn take_statistics(&mut self) -> Option<Statistics> {
        // Most packets change nothing: then nothing is written.
        if self.context.statistics == Statistics::default() {
            return None;
        }
        Some(std::mem::take(&mut self.context.statistics))
    }

    /// Returns the time at which [`Qp::handle_timeout`] is to be called.
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
