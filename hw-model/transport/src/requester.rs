//! The requester: selects the next request packet.
//!
//! The send queue is a list of entries. Started entries own PSNs. `oldest` is the first
//! unacknowledged PSN and always belongs to the front entry, `next` is the PSN of the next packet
//! to send, `newest` ends the PSNs that were ever sent. A retry moves `next` back to `oldest`
//! (go-back-N).
//!
//! ```text
//!      acknowledged | in flight          | to send again | never sent
//!   ----------------+--------------------+---------------+------------> PSN
//!                 oldest                next           newest
//! ```

mod local;
mod progress;
mod selective;
mod train;

use std::collections::VecDeque;

use ferroce_qp::QpState;
use ferroce_units::Instant;
use ferroce_wire::{AtomicEth, Connected, Feth, Msn, Position, Psn, Reth, TransportHeaders};

use crate::completion::CompletionStatus;
use crate::context::Context;
use crate::event::Event;
use crate::note::Note;
use crate::request::{
    ATOMIC_LENGTH, Destination, MAX_MESSAGE_LENGTH, MAX_OUTSTANDING_SEND_REQUESTS, Remote,
    SendOperation, SendRequest,
};
use crate::retry::Retry;
use crate::segment;
use crate::span::span;
use crate::timer::Timer;
use crate::transmit::{Payload, Transmit};

/// A request and its PSNs.
#[derive(Debug, Clone)]
pub(crate) struct SendEntry {
    pub(crate) request: SendRequest,
    /// PSN of its first packet; meaningless before it has started.
    pub(crate) first_psn: Psn,
    /// Number of its PSNs: for a READ the number of response packets, zero for a local operation.
    pub(crate) packets: u32,
    /// Send sequence number, which is compared with the peer's credits.
    ssn: Msn,
    /// It cannot be executed and completes with this status when it is next in order.
    failure: Option<CompletionStatus>,
    /// Each of its packets is a WRITE with its own address.
    addressed: bool,
}

impl SendEntry {
    /// Returns true if it is answered with data rather than with an acknowledge.
    #[inline]
    pub(crate) const fn fetches(&self) -> bool {
        self.request.operation.fetches()
    }

    pub(crate) const fn is_local(&self) -> bool {
        self.packets == 0
    }
}

/// State of a drain of the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// Not requested, or already reported.
    Idle,
    /// Requested; an event is due when it ends.
    Notify,
}

#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub(crate) queue: VecDeque<SendEntry>,
    /// Number of entries at the front of the queue that have started.
    pub(crate) started: usize,
    /// The entry whose packet is sent next.
    cursor: usize,
    /// Packets of that entry that were sent in this pass.
    position: u32,
    /// The first PSN of this connection.
    first: Psn,
    pub(crate) oldest: Psn,
    pub(crate) next: Psn,
    pub(crate) newest: Psn,
    /// The PSN after the newest packet of this pass that requests an acknowledge.
    ack_requested: Psn,
    /// Unacknowledged request packets; a READ counts once.
    in_flight: u32,
    /// READs and atomics in flight.
    fetches_in_flight: u32,
    /// The first entry that has not started is a local operation in execution.
    local_running: bool,
    since_ack_request: u32,
    ssn: Msn,
    /// Newest SSN for which the peer has a receive WQE; `None`: no limit.
    credit_limit: Option<Msn>,
    pub(crate) retry: Retry,
    /// True if an entry has a failure that is not yet reported.
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
            first: Psn::new(0),
            oldest: Psn::new(0),
            next: Psn::new(0),
            newest: Psn::new(0),
            ack_requested: Psn::new(0),
            in_flight: 0,
            fetches_in_flight: 0,
            local_running: false,
            since_ack_request: 0,
            ssn: Msn::new(0),
            credit_limit: None,
            retry: Retry::new(),
            failing: false,
            drain: Drain::Idle,
        }
    }

    /// Starts at RTR→RTS.
    pub(crate) fn start(&mut self, sq_psn: Psn, ctx: &mut Context) {
        *self = Requester::new();
        self.first = sq_psn;
        self.oldest = sq_psn;
        self.next = sq_psn;
        self.newest = sq_psn;
        self.ack_requested = sq_psn;
        self.retry.reset(&ctx.attributes);
        if let Some(recovery) = &mut ctx.recovery {
            recovery.sent.begin(sq_psn);
        }
    }

    /// Notes that the peer expects `expected`, which is not in flight. That is stale once the peer
    /// has acknowledged a packet.
    #[cold]
    pub(crate) fn note_ghost(&self, ctx: &mut Context, expected: Psn) {
        let first = self.first;
        if self.oldest == first && self.newest != first {
            ctx.notice(Note::PeerPsn { expected, first });
        }
    }

    /// Returns true if a request has started and not completed.
    #[inline]
    pub(crate) const fn is_busy(&self) -> bool {
        self.started > 0 || self.local_running
    }

    /// Returns the shared receive queue of the next packet (XRC).
    pub(crate) fn next_srqn(&self, ctx: &Context) -> u32 {
        let repaired = self.next_repair(ctx).and_then(|psn| self.entry_of(psn));
        let next = repaired.unwrap_or(self.cursor);
        match self.queue.get(next).map(|e| e.request.destination) {
            Some(Destination::Xrc { srqn }) => srqn,
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn can_accept(&self) -> bool {
        self.queue.len() < MAX_OUTSTANDING_SEND_REQUESTS
    }

    #[inline]
    pub(crate) fn post(&mut self, ctx: &mut Context, mut request: SendRequest) {
        if !ctx.state.accepts_sends() {
            Self::complete(ctx, &request, CompletionStatus::WrFlush);
            return;
        }
        debug_assert!(self.can_accept(), "the caller asks can_accept_send first");
        let failure = self.judge(ctx, &request);
        self.failing |= failure.is_some();
        let packets = if request.operation.is_local() {
            request.length = 0;
            0
        } else {
            if request.operation.is_atomic() {
                request.length = ATOMIC_LENGTH;
            } else if matches!(request.operation, SendOperation::Flush { .. }) {
                request.length = 0;
            }
            self.ssn = self.ssn.next();
            ctx.attributes.path_mtu.packets(request.length)
        };
        self.queue.push_back(SendEntry {
            request,
            first_psn: self.next,
            packets,
            ssn: self.ssn,
            failure,
            addressed: false,
        });
        if self.failing {
            self.settle_failure(ctx);
        }
    }

    /// Returns the reason why a request can never be executed.
    #[inline]
    fn judge(&self, ctx: &Context, request: &SendRequest) -> Option<CompletionStatus> {
        let operation = request.operation;
        if operation.is_local() {
            return None;
        }
        if request.length > MAX_MESSAGE_LENGTH
            || operation.is_atomic() && request.length < ATOMIC_LENGTH
            || matches!(operation, SendOperation::AtomicWrite { .. })
                && request.length != ATOMIC_LENGTH
        {
            Some(CompletionStatus::LocalLength)
        } else if !self.can_accept()
            || !request.destination.suits(ctx.service)
            || operation.fetches() && ctx.attributes.max_rd_atomic == 0
        {
            Some(CompletionStatus::LocalQpOperation)
        } else {
            None
        }
    }

    /// Fails request `id`, whose payload could not be gathered.
    pub(crate) fn fail(&mut self, ctx: &mut Context, id: u32, status: CompletionStatus) {
        let Some(index) = self.queue.iter().position(|entry| entry.request.id == id) else {
            return;
        };
        let entry = &mut self.queue[index];
        entry.failure = Some(status);
        self.failing = true;
        if index < self.started && index <= self.cursor {
            // Its packet did not leave, and later packets must not: the next pass ends here.
            let first_psn = entry.first_psn;
            if index > 0 {
                self.cursor = index;
                self.position = 0;
                self.next = first_psn;
                self.keep_repairs_before(ctx, first_psn);
            }
        }
        self.settle_failure(ctx);
    }

    /// Completes a failed entry at the front of the queue; otherwise makes the peer acknowledge the
    /// entries before it.
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

    /// Starts a drain at RTS→SQD.
    pub(crate) fn begin_drain(&mut self, ctx: &mut Context, notify: bool) {
        self.drain = if notify { Drain::Notify } else { Drain::Idle };
        if self.position == 0 {
            self.solicit_acknowledge(ctx);
        }
    }

    /// Ends a drain at SQD→RTS.
    pub(crate) fn end_drain(&mut self) {
        self.drain = Drain::Idle;
    }

    /// Reports the end of a drain, once.
    #[inline]
    pub(crate) fn settle_drain(&mut self, ctx: &mut Context) {
        if self.drain == Drain::Notify && !self.is_busy() {
            self.drain = Drain::Idle;
            ctx.raise(Event::SqDrained);
        }
    }

    /// Flushes all entries in order.
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
        self.fetches_in_flight = 0;
        self.local_running = false;
        self.failing = false;
        self.drain = Drain::Idle;
        ctx.trains.set_requester(None);
    }
}

/// Sending.
impl Requester {
    /// Returns true if a packet may leave now.
    #[inline]
    pub(crate) fn has_transmit(&self, ctx: &Context) -> bool {
        self.has_next(ctx) || ctx.recovery.is_some() && self.next_repair(ctx).is_some()
    }

    /// Returns true if the packet at `next` may leave now.
    #[inline]
    fn has_next(&self, ctx: &Context) -> bool {
        let Some(entry) = self.queue.get(self.cursor) else {
            return false;
        };
        self.in_flight < ctx.max_unacknowledged_packets()
            && !ctx.timers.is_set(Timer::RnrBackoff)
            && entry.failure.is_none()
            && !entry.is_local()
            && (self.cursor < self.started || self.may_begin(ctx, entry))
            && self.fits_window(ctx, entry)
            && (self.in_flight == 0 || !self.is_credit_limited(entry))
    }

    /// Returns true if a request that has never been sent may start.
    #[inline]
    fn may_begin(&self, ctx: &Context, entry: &SendEntry) -> bool {
        ctx.state == QpState::Rts && !(entry.request.fence && self.fetches_in_flight > 0)
    }

    /// Returns true if the limits on READs and atomics, and on PSNs in flight (half of their
    /// circle), permit the entry.
    #[inline]
    fn fits_window(&self, ctx: &Context, entry: &SendEntry) -> bool {
        let psns = if entry.fetches() {
            if self.fetches_in_flight >= u32::from(ctx.attributes.max_rd_atomic) {
                return false;
            }
            entry.packets - self.position
        } else {
            1
        };
        span(self.oldest, self.next) + psns <= Psn::HALF
    }

    /// Returns true if the request has no credit. It is still sent, but packet by packet, each
    /// acknowledged: so the requester learns of new credits (IBTA vol 1, 9.7.7.2).
    #[inline]
    fn is_credit_limited(&self, entry: &SendEntry) -> bool {
        self.credit_limit
            .is_some_and(|limit| entry.ssn.distance_from(limit) > 0)
            && entry.request.operation.takes_receive()
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Instant, ctx: &mut Context) -> Option<Transmit> {
        if ctx.recovery.is_some() {
            let repair = self.repair(now, ctx);
            if repair.is_some() {
                return repair;
            }
        }
        if !self.has_next(ctx) {
            return None;
        }
        if self.cursor == self.started {
            self.queue[self.cursor].first_psn = self.next;
            self.started += 1;
            if ctx.recovery.is_some() {
                self.choose_form(ctx);
            }
        }
        let transmit = match self.queue[self.cursor].request.operation {
            SendOperation::RdmaRead { remote } => self.read_request(ctx, remote),
            SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            } => self.atomic_request(ctx, remote, swap, Some(compare)),
            SendOperation::FetchAdd { remote, add } => self.atomic_request(ctx, remote, add, None),
            SendOperation::Flush {
                remote,
                length,
                feth,
            } => self.flush_request(ctx, feth, remote.reth(length)),
            SendOperation::AtomicWrite { remote } => self.atomic_write_request(ctx, remote),
            _ => self.segment(ctx),
        };
        if let Some(recovery) = &mut ctx.recovery {
            recovery.sent.advance(self.oldest);
            recovery.sent.stamp(transmit.headers.bth.psn, 1);
        }
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

    /// Builds a READ request for the missing part of the front entry, or for all of a later one.
    fn read_request(&mut self, ctx: &Context, remote: Remote) -> Transmit {
        let entry = &self.queue[self.cursor];
        let psns = entry.packets - self.position;
        let transmit = read_packet(ctx, entry, remote, self.next, (self.position, psns));
        self.advance(psns, true);
        self.fetches_in_flight += 1;
        transmit
    }

    /// Builds a compare and swap, or a fetch and add without `compare`.
    #[inline(never)]
    fn atomic_request(
        &mut self,
        ctx: &Context,
        remote: Remote,
        swap_or_add: u64,
        compare: Option<u64>,
    ) -> Transmit {
        let request = self.queue[self.cursor].request.id;
        let operands = (swap_or_add, compare);
        let transmit = atomic_packet(ctx, request, remote, self.next, operands);
        self.advance(1, true);
        self.fetches_in_flight += 1;
        transmit
    }

    /// Builds a FLUSH.
    #[inline(never)]
    fn flush_request(&mut self, ctx: &Context, feth: Feth, reth: Reth) -> Transmit {
        let request = self.queue[self.cursor].request.id;
        let transmit = flush_packet(ctx, request, self.next, feth, reth);
        self.advance(1, true);
        self.fetches_in_flight += 1;
        transmit
    }

    /// Builds an ATOMIC WRITE.
    #[inline(never)]
    fn atomic_write_request(&mut self, ctx: &Context, remote: Remote) -> Transmit {
        let request = self.queue[self.cursor].request.id;
        let transmit = atomic_write_packet(ctx, request, self.next, remote);
        self.advance(1, true);
        self.fetches_in_flight += 1;
        transmit
    }

    /// Builds the next packet of a SEND or WRITE.
    #[inline]
    fn segment(&mut self, ctx: &Context) -> Transmit {
        let entry = &self.queue[self.cursor];
        let position = Position::of(self.position, entry.packets);
        let ack_request = self.wants_acknowledge(ctx, entry, position);
        let transmit = data_packet(ctx, entry, self.next, self.position, ack_request);
        self.advance(1, ack_request);
        transmit
    }

    /// Returns true if the packet needs AckReq: no other packet would request an acknowledge in
    /// time.
    #[inline]
    fn wants_acknowledge(&self, ctx: &Context, entry: &SendEntry, position: Position) -> bool {
        if position.ends_message() {
            let next = self.queue.get(self.cursor + 1);
            if entry.request.signaled
                || self.credit_limit.is_some()
                || ctx.state != QpState::Rts
                || next.is_none_or(|next| next.failure.is_some() || next.is_local())
            {
                return true;
            }
        }
        self.since_ack_request + 1 >= ctx.config.ack_request_interval
            || self.in_flight + 1 >= ctx.max_unacknowledged_packets()
            || self.is_credit_limited(entry)
    }

    /// Records that `psns` of the current entry were sent.
    #[inline]
    fn advance(&mut self, psns: u32, ack_request: bool) {
        self.next = self.next.add(psns);
        self.position += psns;
        if self.position == self.queue[self.cursor].packets {
            self.cursor += 1;
            self.position = 0;
            self.skip_locals();
        }
        if ack_request {
            self.since_ack_request = 0;
            self.ack_requested = self.next;
        } else {
            self.since_ack_request += 1;
        }
    }

    /// Returns true if anything sent in this or an earlier pass is unacknowledged.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.oldest != self.newest
    }

    pub(crate) fn start_timer(&self, now: Instant, ctx: &mut Context) {
        let multiple = ctx.config.local_ack_timeout_multiple;
        match ctx.ack_timer.delay(&ctx.attributes, multiple) {
            Some(delay) => ctx.timers.set(Timer::Retransmit, now + delay),
            None => ctx.timers.stop(Timer::Retransmit),
        }
    }
}

/// Builds a READ request for `count` packets of the response, starting at packet `index`.
fn read_packet(
    ctx: &Context,
    entry: &SendEntry,
    remote: Remote,
    psn: Psn,
    (index, count): (u32, u32),
) -> Transmit {
    let mtu = ctx.attributes.path_mtu;
    let offset = index << mtu.shift();
    let rest = entry.request.length - offset;
    let dma_length = if index + count < entry.packets {
        count << mtu.shift()
    } else {
        rest
    };
    let mut bth = ctx.bth(psn, 0);
    bth.ack_request = true;
    let reth = Reth {
        virtual_address: remote.virtual_address.wrapping_add(u64::from(offset)),
        r_key: remote.r_key,
        dma_length,
    };
    Transmit {
        headers: TransportHeaders::read_request(bth, reth),
        payload: Payload::None,
        request: Some(entry.request.id),
    }
}

/// Builds a compare and swap, or a fetch and add without `compare`.
fn atomic_packet(
    ctx: &Context,
    request: u32,
    remote: Remote,
    psn: Psn,
    (swap_or_add, compare): (u64, Option<u64>),
) -> Transmit {
    let mut bth = ctx.bth(psn, 0);
    bth.ack_request = true;
    let operands = AtomicEth {
        virtual_address: remote.virtual_address,
        r_key: remote.r_key,
        swap_or_add,
        compare: compare.unwrap_or(0),
    };
    Transmit {
        headers: match compare {
            Some(_) => TransportHeaders::compare_swap(bth, operands),
            None => TransportHeaders::fetch_add(bth, operands),
        },
        payload: Payload::None,
        request: Some(request),
    }
}

/// Builds a FLUSH.
fn flush_packet(ctx: &Context, request: u32, psn: Psn, feth: Feth, reth: Reth) -> Transmit {
    let mut bth = ctx.bth(psn, 0);
    bth.ack_request = true;
    Transmit {
        headers: TransportHeaders::flush(bth, feth, reth),
        payload: Payload::None,
        request: Some(request),
    }
}

/// Builds an ATOMIC WRITE.
fn atomic_write_packet(ctx: &Context, request: u32, psn: Psn, remote: Remote) -> Transmit {
    let mut bth = ctx.bth(psn, ATOMIC_LENGTH);
    bth.ack_request = true;
    let payload = Payload::Request {
        request,
        offset: 0,
        length: ATOMIC_LENGTH,
    };
    Transmit {
        headers: TransportHeaders::atomic_write(bth, remote.reth(ATOMIC_LENGTH)),
        payload,
        request: Some(request),
    }
}

/// Builds packet `index` of a SEND or WRITE.
#[inline]
fn data_packet(
    ctx: &Context,
    entry: &SendEntry,
    psn: Psn,
    index: u32,
    ack_request: bool,
) -> Transmit {
    let request = &entry.request;
    let mtu = ctx.attributes.path_mtu;
    let position = Position::of(index, entry.packets);
    let offset = index << mtu.shift();
    let length = mtu.bytes().min(request.length - offset);
    let mut bth = ctx.bth(psn, length);
    bth.solicited =
        request.solicited && position.ends_message() && request.operation.takes_receive();
    bth.ack_request = ack_request;
    let headers = if entry.addressed {
        segment::addressed_headers(bth, request, position, (offset, length))
    } else {
        segment::headers(bth, Connected::Reliable, request, position)
    };
    let payload = match length {
        0 => Payload::None,
        length => Payload::Request {
            request: request.id,
            offset,
            length,
        },
    };
    Transmit {
        headers,
        payload,
        request: Some(request.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache line and a quarter: the operands of a compare and swap (24 bytes more than a WRITE)
    /// and the destination make it that long. To keep them elsewhere would cost each packet of such
    /// a request a look-up.
    #[test]
    fn an_entry_of_the_send_queue_is_small() {
        assert!(size_of::<SendEntry>() <= 80, "{}", size_of::<SendEntry>());
    }
}
