//! The requester: which request packet leaves next.
//!
//! The send queue is a list of entries. Those that were begun own PSNs; `oldest` is the first PSN
//! not yet acknowledged and always lies in the front entry, `next` is the PSN of the next packet
//! to send, `newest` ends what was ever sent. A retry moves `next` back to `oldest` (go-back-N).
//!
//! ```text
//!      acknowledged | in flight          | to send again | never sent
//!   ----------------+--------------------+---------------+------------> PSN
//!                 oldest                next           newest
//! ```

use std::collections::VecDeque;

use ferroce_wire::{Connected, Msn, Position, Psn, Reth, TransportHeaders};

use crate::completion::{Completion, CompletionStatus};
use crate::context::Context;
use crate::event::Event;
use crate::request::{
    MAX_MESSAGE_LENGTH, MAX_OUTSTANDING_SEND_REQUESTS, Remote, SendOperation, SendRequest,
};
use crate::retry::Retry;
use crate::segment;
use crate::state::QpState;
use crate::time::Instant;
use crate::timer::Timer;
use crate::transmit::{Payload, Transmit};

/// PSNs from `from` up to `to`, the long way round if need be.
#[inline]
pub(crate) const fn span(from: Psn, to: Psn) -> u32 {
    to.sub(from.value()).value()
}

/// A request and its PSNs.
#[derive(Debug, Clone)]
pub(crate) struct SendEntry {
    pub(crate) request: SendRequest,
    /// PSN of its first packet; meaningless before it was begun.
    pub(crate) first_psn: Psn,
    /// PSNs that it occupies (for a READ those of its responses).
    pub(crate) packets: u32,
    /// Send sequence number, compared with the credits of the peer.
    ssn: Msn,
    /// It cannot be carried out, and will say so when its turn comes.
    failure: Option<CompletionStatus>,
}

impl SendEntry {
    pub(crate) const fn is_read(&self) -> bool {
        self.request.operation.is_read()
    }
}

/// What becomes of a drain of the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// Not asked for, or already told.
    Idle,
    /// Asked for; an event is due when it is over.
    Notify,
}

#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub(crate) queue: VecDeque<SendEntry>,
    /// Entries at the front of the queue that were begun.
    pub(crate) started: usize,
    /// The entry whose packet leaves next.
    cursor: usize,
    /// Packets of that entry that have left in this pass.
    position: u32,
    pub(crate) oldest: Psn,
    pub(crate) next: Psn,
    pub(crate) newest: Psn,
    /// One behind the newest packet of this pass that asks for an acknowledge.
    ack_requested: Psn,
    /// Request packets sent and not acknowledged; a READ counts once.
    in_flight: u32,
    reads_in_flight: u32,
    since_ack_request: u32,
    ssn: Msn,
    /// Newest SSN that the peer has a receive WQE for; `None` does not limit.
    credit_limit: Option<Msn>,
    pub(crate) retry: Retry,
    /// Some entry has a failure that waits for its turn.
    failing: bool,
    drain: Drain,
}

/// Commands.
impl Requester {
    pub(crate) const fn new() -> Requester {
        Requester {
            queue: VecDeque::new(),
            started: 0,
            cursor: 0,
            position: 0,
            oldest: Psn::new(0),
            next: Psn::new(0),
            newest: Psn::new(0),
            ack_requested: Psn::new(0),
            in_flight: 0,
            reads_in_flight: 0,
            since_ack_request: 0,
            ssn: Msn::new(0),
            credit_limit: None,
            retry: Retry::new(),
            failing: false,
            drain: Drain::Idle,
        }
    }

    /// RTR→RTS.
    pub(crate) fn start(&mut self, sq_psn: Psn, ctx: &Context) {
        *self = Requester::new();
        self.oldest = sq_psn;
        self.next = sq_psn;
        self.newest = sq_psn;
        self.ack_requested = sq_psn;
        self.retry.reset(&ctx.attributes);
    }

    #[inline]
    pub(crate) fn can_accept(&self) -> bool {
        self.queue.len() < MAX_OUTSTANDING_SEND_REQUESTS
    }

    #[inline]
    pub(crate) fn post(&mut self, ctx: &mut Context, request: SendRequest) {
        if !ctx.state.accepts_sends() {
            Self::complete(ctx, &request, CompletionStatus::WrFlush);
            return;
        }
        debug_assert!(self.can_accept(), "the caller asks can_accept_send first");
        let failure = self.judge(ctx, &request);
        self.failing |= failure.is_some();
        self.ssn = self.ssn.next();
        self.queue.push_back(SendEntry {
            request,
            first_psn: self.next,
            packets: ctx.attributes.path_mtu.packets(request.length),
            ssn: self.ssn,
            failure,
        });
        if self.failing {
            self.settle_failure(ctx);
        }
    }

    /// Why a request can never be carried out.
    #[inline]
    fn judge(&self, ctx: &Context, request: &SendRequest) -> Option<CompletionStatus> {
        if request.length > MAX_MESSAGE_LENGTH {
            Some(CompletionStatus::LocalLength)
        } else if !self.can_accept()
            || request.operation.is_atomic()
            || request.operation.is_local()
            || !request.destination.suits(ctx.service)
            || request.operation.is_read() && ctx.attributes.max_rd_atomic == 0
        {
            Some(CompletionStatus::LocalQpOperation)
        } else {
            None
        }
    }

    /// The payload of request `id` could not be gathered.
    pub(crate) fn fail(&mut self, ctx: &mut Context, id: u32, status: CompletionStatus) {
        let Some(index) = self.queue.iter().position(|entry| entry.request.id == id) else {
            return;
        };
        let entry = &mut self.queue[index];
        entry.failure = Some(status);
        self.failing = true;
        if index < self.started && index <= self.cursor {
            // Its packet did not leave, nor may those behind it: the next pass ends here.
            let first_psn = entry.first_psn;
            if index > 0 {
                self.cursor = index;
                self.position = 0;
                self.next = first_psn;
            }
        }
        self.settle_failure(ctx);
    }

    /// If an entry that failed has come to the front it completes; otherwise those before it are
    /// made to be acknowledged.
    pub(crate) fn settle_failure(&mut self, ctx: &mut Context) {
        if !self.failing {
            return;
        }
        if let Some(status) = self.queue.front().and_then(|entry| entry.failure) {
            self.fail_front(ctx, status);
        } else if self
            .queue
            .get(self.cursor)
            .is_some_and(|entry| entry.failure.is_some())
        {
            self.solicit_acknowledge(ctx);
        }
    }

    /// RTS→SQD.
    pub(crate) fn begin_drain(&mut self, ctx: &mut Context, notify: bool) {
        self.drain = if notify { Drain::Notify } else { Drain::Idle };
        if self.position == 0 {
            self.solicit_acknowledge(ctx);
        }
    }

    /// SQD→RTS.
    pub(crate) fn end_drain(&mut self) {
        self.drain = Drain::Idle;
    }

    /// Tells the end of a drain, once.
    #[inline]
    pub(crate) fn settle_drain(&mut self, ctx: &mut Context) {
        if self.drain == Drain::Notify && self.started == 0 {
            self.drain = Drain::Idle;
            ctx.raise(Event::SqDrained);
        }
    }

    /// Flushes everything in order.
    pub(crate) fn flush(&mut self, ctx: &mut Context) {
        while let Some(entry) = self.queue.pop_front() {
            Self::complete(ctx, &entry.request, CompletionStatus::WrFlush);
        }
        self.started = 0;
        self.cursor = 0;
        self.position = 0;
        self.oldest = self.next;
        self.newest = self.next;
        self.in_flight = 0;
        self.reads_in_flight = 0;
        self.failing = false;
        self.drain = Drain::Idle;
    }
}

/// Sending.
impl Requester {
    /// Whether a packet may leave now.
    #[inline]
    pub(crate) fn has_transmit(&self, ctx: &Context) -> bool {
        let Some(entry) = self.queue.get(self.cursor) else {
            return false;
        };
        self.in_flight < ctx.config.max_unacknowledged_packets
            && !ctx.timers.is_set(Timer::RnrBackoff)
            && entry.failure.is_none()
            && (self.cursor < self.started || self.may_begin(ctx, entry))
            && self.fits_window(ctx, entry)
            && (self.in_flight == 0 || !self.is_credit_limited(entry))
    }

    /// Whether a request that was never begun may begin.
    #[inline]
    fn may_begin(&self, ctx: &Context, entry: &SendEntry) -> bool {
        ctx.state == QpState::Rts && !(entry.request.fence && self.reads_in_flight > 0)
    }

    /// READs are limited in number, and PSNs in flight to half of their circle.
    #[inline]
    fn fits_window(&self, ctx: &Context, entry: &SendEntry) -> bool {
        let psns = if entry.is_read() {
            if self.reads_in_flight >= u32::from(ctx.attributes.max_rd_atomic) {
                return false;
            }
            entry.packets - self.position
        } else {
            1
        };
        span(self.oldest, self.next) + psns <= Psn::HALF
    }

    /// Without a credit a request still goes out, but packet by packet, each one acknowledged:
    /// that is how the requester learns of new credits (IBTA vol 1, 9.7.7.2).
    #[inline]
    fn is_credit_limited(&self, entry: &SendEntry) -> bool {
        self.credit_limit
            .is_some_and(|limit| entry.ssn.distance_from(limit) > 0)
            && entry.request.operation.takes_receive()
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, ctx: &mut Context) -> Option<Transmit> {
        if !self.has_transmit(ctx) {
            return None;
        }
        if self.cursor == self.started {
            self.queue[self.cursor].first_psn = self.next;
            self.started += 1;
        }
        let transmit = match self.queue[self.cursor].request.operation {
            SendOperation::RdmaRead { remote } => self.read_request(ctx, remote),
            _ => self.segment(ctx),
        };
        self.in_flight += 1;
        if span(self.oldest, self.next) > span(self.oldest, self.newest) {
            self.newest = self.next;
        } else {
            ctx.statistics.packets_retransmitted += 1;
        }
        if !ctx.timers.is_set(Timer::Retransmit) {
            self.start_timer(now, ctx);
        }
        Some(transmit)
    }

    /// A READ request for what is still missing of the front entry, or for all of a later one.
    fn read_request(&mut self, ctx: &Context, remote: Remote) -> Transmit {
        let entry = &self.queue[self.cursor];
        let offset = self.position << ctx.attributes.path_mtu.shift();
        let mut bth = ctx.bth(self.next, 0);
        bth.ack_request = true;
        let reth = Reth {
            virtual_address: remote.virtual_address.wrapping_add(u64::from(offset)),
            r_key: remote.r_key,
            dma_length: entry.request.length - offset,
        };
        let psns = entry.packets - self.position;
        let request = entry.request.id;
        self.advance(psns, true);
        self.reads_in_flight += 1;
        Transmit {
            headers: TransportHeaders::read_request(bth, reth),
            payload: Payload::None,
            request: Some(request),
        }
    }

    /// The next packet of a SEND or WRITE.
    #[inline]
    fn segment(&mut self, ctx: &Context) -> Transmit {
        let entry = &self.queue[self.cursor];
        let request = &entry.request;
        let mtu = ctx.attributes.path_mtu;
        let position = Position::of(self.position, entry.packets);
        let offset = self.position << mtu.shift();
        let length = mtu.bytes().min(request.length - offset);
        let mut bth = ctx.bth(self.next, length);
        bth.solicited =
            request.solicited && position.ends_message() && request.operation.takes_receive();
        bth.ack_request = self.wants_acknowledge(ctx, entry, position);
        let headers = segment::headers(bth, Connected::Reliable, request, position);
        let payload = match length {
            0 => Payload::None,
            length => Payload::Request {
                request: request.id,
                offset,
                length,
            },
        };
        let request = Some(request.id);
        self.advance(1, headers.bth.ack_request);
        Transmit {
            headers,
            payload,
            request,
        }
    }

    /// AckReq: where nothing else would bring an acknowledge in time.
    #[inline]
    fn wants_acknowledge(&self, ctx: &Context, entry: &SendEntry, position: Position) -> bool {
        if position.ends_message() {
            let next = self.queue.get(self.cursor + 1);
            if entry.request.signaled
                || self.credit_limit.is_some()
                || ctx.state != QpState::Rts
                || next.is_none_or(|next| next.failure.is_some())
            {
                return true;
            }
        }
        self.since_ack_request + 1 >= ctx.config.ack_request_interval
            || self.in_flight + 1 >= ctx.config.max_unacknowledged_packets
            || self.is_credit_limited(entry)
    }

    /// `psns` of the cursor's entry have left.
    #[inline]
    fn advance(&mut self, psns: u32, ack_request: bool) {
        self.next = self.next.add(psns);
        self.position += psns;
        if self.position == self.queue[self.cursor].packets {
            self.cursor += 1;
            self.position = 0;
        }
        if ack_request {
            self.since_ack_request = 0;
            self.ack_requested = self.next;
        } else {
            self.since_ack_request += 1;
        }
    }

    fn start_timer(&self, now: Instant, ctx: &mut Context) {
        match ctx.attributes.timeout.duration() {
            Some(timeout) => ctx.timers.set(Timer::Retransmit, now + timeout),
            None => ctx.timers.stop(Timer::Retransmit),
        }
    }
}

/// Acknowledging and going back.
impl Requester {
    /// Acknowledges `count` PSNs from the oldest on. A READ in the way stops it: its data is
    /// missing. False then.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: Instant, ctx: &mut Context, count: u32) -> bool {
        let sent = span(self.oldest, self.next);
        let mut acknowledged = 0;
        while acknowledged < count && self.started > 0 {
            let front = &self.queue[0];
            if front.is_read() {
                break;
            }
            let left = span(self.oldest, front.first_psn.add(front.packets));
            let step = left.min(count - acknowledged);
            acknowledged += step;
            self.oldest = self.oldest.add(step);
            if step == left {
                self.retire_front(ctx);
            }
        }
        if acknowledged > 0 {
            self.in_flight = self.in_flight.saturating_sub(acknowledged);
            self.progress(now, ctx, acknowledged > sent);
        }
        acknowledged == count
    }

    /// One packet of the READ at the front has arrived.
    pub(crate) fn acknowledge_read_packet(&mut self, now: Instant, ctx: &mut Context) {
        let overtaken = self.next == self.oldest;
        self.oldest = self.oldest.next();
        let front = &self.queue[0];
        if self.oldest == front.first_psn.add(front.packets) {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.reads_in_flight = self.reads_in_flight.saturating_sub(1);
            self.retire_front(ctx);
        }
        self.progress(now, ctx, overtaken);
    }

    /// The peer has come further. `overtaken`: further than this pass has sent, thanks to packets
    /// of an earlier pass; it then goes on from there.
    #[inline]
    fn progress(&mut self, now: Instant, ctx: &mut Context, overtaken: bool) {
        if overtaken {
            self.go_back();
        }
        self.retry.reset(&ctx.attributes);
        ctx.timers.stop(Timer::RnrBackoff);
        if self.next == self.oldest {
            ctx.timers.stop(Timer::Retransmit);
        } else {
            self.start_timer(now, ctx);
        }
        self.settle_failure(ctx);
    }

    /// The front entry succeeded.
    #[inline]
    fn retire_front(&mut self, ctx: &mut Context) {
        let Some(entry) = self.queue.pop_front() else {
            return;
        };
        self.started -= 1;
        self.cursor = self.cursor.saturating_sub(1);
        if entry.request.signaled {
            Self::complete(ctx, &entry.request, CompletionStatus::Success);
        }
    }

    /// The front entry fails, and with it the queue pair.
    pub(crate) fn fail_front(&mut self, ctx: &mut Context, status: CompletionStatus) {
        if let Some(entry) = self.queue.pop_front() {
            Self::complete(ctx, &entry.request, status);
        }
        ctx.fault = true;
    }

    /// Starts a new pass at the oldest PSN.
    fn go_back(&mut self) {
        self.cursor = 0;
        self.position = match self.queue.front() {
            Some(front) if self.started > 0 => span(front.first_psn, self.oldest),
            _ => 0,
        };
        self.next = self.oldest;
        self.ack_requested = self.oldest;
        self.in_flight = 0;
        self.reads_in_flight = 0;
        self.since_ack_request = 0;
    }

    /// Go-back-N after a time-out or a sequence error, as long as retries are left.
    pub(crate) fn retry(&mut self, ctx: &mut Context) {
        if self.retry.spend() {
            self.go_back();
            ctx.timers.stop(Timer::Retransmit);
        } else {
            self.fail_front(ctx, CompletionStatus::RetryExceeded);
        }
    }

    /// Go-back-N after the peer asked for patience.
    pub(crate) fn back_off(&mut self, ctx: &mut Context, until: Instant) {
        if self.retry.spend_rnr(&ctx.attributes) {
            self.go_back();
            ctx.timers.stop(Timer::Retransmit);
            ctx.timers.set(Timer::RnrBackoff, until);
        } else {
            self.fail_front(ctx, CompletionStatus::RnrRetryExceeded);
        }
    }

    /// The local ACK timeout expired.
    pub(crate) fn time_out(&mut self, ctx: &mut Context) {
        if self.oldest != self.next {
            ctx.statistics.local_ack_timeouts += 1;
            self.retry.rearm_implied_nak();
            self.retry(ctx);
        }
    }

    /// What is in flight must be acknowledged although nothing more follows it: sent again if
    /// its last packet did not ask.
    fn solicit_acknowledge(&mut self, ctx: &mut Context) {
        if self.next != self.oldest && self.ack_requested != self.next {
            self.go_back();
            ctx.timers.stop(Timer::Retransmit);
        }
    }

    /// The responder has `credits` receive WQEs beyond message `msn`; `None` does not limit.
    #[inline]
    pub(crate) fn update_credits(&mut self, ctx: &mut Context, msn: Msn, credits: Option<u32>) {
        let Some(credits) = credits else {
            self.credit_limit = None;
            return;
        };
        let limit = Msn::new(msn.value().wrapping_add(credits));
        match self.credit_limit {
            // Credits are never taken back; an older ACK came late.
            Some(old) if limit.distance_from(old) < 0 => {}
            Some(_) => self.credit_limit = Some(limit),
            None => {
                self.credit_limit = Some(limit);
                // What was sent so far may not have asked for an acknowledge.
                if self
                    .queue
                    .get(self.cursor)
                    .is_some_and(|entry| self.is_credit_limited(entry))
                {
                    self.solicit_acknowledge(ctx);
                }
            }
        }
    }

    #[inline]
    fn complete(ctx: &mut Context, request: &SendRequest, status: CompletionStatus) {
        ctx.complete(Completion::Send {
            id: request.id,
            status,
            operation: request.operation.kind(),
            byte_length: request.length,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_goes_round_the_circle() {
        assert_eq!(span(Psn::new(0xff_fffe), Psn::new(3)), 5);
        assert_eq!(span(Psn::new(7), Psn::new(7)), 0);
        assert_eq!(span(Psn::new(1), Psn::new(0)), 0xff_ffff);
    }

    #[test]
    fn an_entry_of_the_send_queue_is_small() {
        assert!(size_of::<SendEntry>() <= 80, "{}", size_of::<SendEntry>());
    }
}
