//! The completer: applies responses to the requests in flight.
//!
//! A response acknowledges all PSNs before its own. The parent calls [`handle_acknowledge`],
//! [`handle_read_response`] or [`handle_atomic_response`]; each first locates the response among
//! the PSNs in flight.

pub(crate) mod selective;

use ferroce_units::{Duration, Instant};
use ferroce_wire::{Aeth, AtomicAckEth, NakCode, Position, Psn, RnrTimer, Syndrome};

use crate::completion::CompletionStatus;
use crate::context::Context;
use crate::note::Note;
use crate::requester::{Requester, SendEntry};
use crate::span::span;
use crate::step::{MemoryOp, Step};

/// Time after which data is asked for again that found no page of an on-demand region. It takes no
/// retries. ConnectX asks about every 0.5 ms (Fukuoka et al., Pitfalls of InfiniBand with On-Demand
/// Paging, 2021; recalled).
const PAGE_RETRY: Duration = Duration::from_us(500);

/// A packet of a READ response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadResponse {
    pub(crate) psn: Psn,
    pub(crate) position: Position,
    /// Present except in a Middle packet.
    pub(crate) aeth: Option<Aeth>,
    pub(crate) payload_length: u32,
}

/// Returns the number of PSNs between the oldest in flight and `psn`; `None` if `psn` is not in
/// flight: late, or never sent (a ghost acknowledge).
#[inline]
fn packets_before(requester: &Requester, psn: Psn) -> Option<u32> {
    let before = span(requester.oldest, psn);
    (before < span(requester.oldest, requester.newest)).then_some(before)
}

/// Handles an ACK, NAK or RNR NAK.
#[inline]
pub(crate) fn handle_acknowledge(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    psn: Psn,
    aeth: Aeth,
) {
    let Some(before) = packets_before(requester, psn) else {
        // The newest acknowledge again, unsolicited: the responder advertises new credits.
        if psn.next() == requester.oldest {
            update_credits(requester, ctx, aeth);
        } else {
            let expected = match aeth.syndrome {
                Syndrome::Nak(_) | Syndrome::RnrNak { .. } => psn,
                _ => psn.next(),
            };
            requester.note_ghost(ctx, expected);
        }
        return;
    };
    match aeth.syndrome {
        Syndrome::Ack { .. } => {
            if !requester.acknowledge(now, ctx, before + 1) {
                imply_nak(requester, now, ctx);
            }
            update_credits(requester, ctx, aeth);
        }
        Syndrome::RnrNak { timer } => handle_rnr_nak(requester, now, ctx, before, timer),
        Syndrome::Nak(code) => handle_nak(requester, now, ctx, before, code),
        Syndrome::Reserved(_) => {}
    }
}

fn update_credits(requester: &mut Requester, ctx: &mut Context, aeth: Aeth) {
    if let Syndrome::Ack { credits } = aeth.syndrome {
        requester.update_credits(ctx, aeth.msn, credits.credits());
    }
}

/// Handles a response that is missing before one that arrived, as if the responder had sent a NAK
/// for it (IBTA vol 1, 9.7.5.2, implied NAK).
fn imply_nak(requester: &mut Requester, now: Instant, ctx: &mut Context) {
    if !ctx.fault && requester.retry.take_implied_nak() {
        ctx.statistics.sequence_naks_received += 1;
        requester.retry(now, ctx);
    }
}

/// Acknowledges the PSNs before a NAK. Returns true if the NAK takes effect: it does not if an
/// earlier READ lacks data, or if it repeats an earlier NAK.
fn acknowledge_before_nak(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    before: u32,
) -> bool {
    if !requester.acknowledge(now, ctx, before) {
        imply_nak(requester, now, ctx);
        return false;
    }
    !ctx.fault
}

fn handle_rnr_nak(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    before: u32,
    timer: RnrTimer,
) {
    let obey = acknowledge_before_nak(requester, now, ctx, before);
    if obey && requester.next != requester.oldest {
        ctx.statistics.rnr_naks_received += 1;
        ctx.notice(Note::PeerNotReady);
        requester.back_off(ctx, now + Duration::from_ns(timer.nanoseconds()));
    }
}

fn handle_nak(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    before: u32,
    code: NakCode,
) {
    if !acknowledge_before_nak(requester, now, ctx, before) {
        return;
    }
    let status = match code {
        NakCode::PsnSequenceError => {
            if requester.next != requester.oldest {
                ctx.statistics.sequence_naks_received += 1;
                requester.retry(now, ctx);
            }
            return;
        }
        code => refusal_status(code),
    };
    ctx.statistics.other_naks_received += 1;
    requester.fail_front(ctx, status);
}

/// Returns the status of a request that the responder has refused permanently.
const fn refusal_status(code: NakCode) -> CompletionStatus {
    match code {
        NakCode::InvalidRequest | NakCode::InvalidRdRequest => {
            CompletionStatus::RemoteInvalidRequest
        }
        NakCode::RemoteAccessError => CompletionStatus::RemoteAccess,
        NakCode::RemoteOperationalError => CompletionStatus::RemoteOperation,
        NakCode::PsnSequenceError | NakCode::Other(_) => CompletionStatus::BadResponse,
    }
}

/// Acknowledges the PSNs before a response with data. Returns true if the front entry waits for
/// this response.
fn reaches_front(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    psn: Psn,
    aeth: Option<Aeth>,
) -> bool {
    let Some(before) = packets_before(requester, psn) else {
        return false;
    };
    if !requester.acknowledge(now, ctx, before) {
        imply_nak(requester, now, ctx);
        return false;
    }
    if ctx.fault {
        return false;
    }
    if let Some(aeth) = aeth {
        update_credits(requester, ctx, aeth);
    }
    true
}

/// Handles a packet of a READ response: requests that its payload is written, or is done with it.
pub(crate) fn handle_read_response(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    response: &ReadResponse,
) -> Step {
    if !reaches_front(requester, now, ctx, response.psn, response.aeth) {
        return Step::Done;
    }
    match place_read_response(requester, ctx, response) {
        Some(MemoryOp::WriteReadResponse { length: 0, .. }) => {
            requester.acknowledge_response(now, ctx);
            Step::Done
        }
        Some(operation) => Step::Memory(operation),
        None => {
            requester.fail_front(ctx, CompletionStatus::BadResponse);
            Step::Done
        }
    }
}

/// Handles the response to an atomic: requests that its result is written.
pub(crate) fn handle_atomic_response(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    psn: Psn,
    (aeth, result): (Aeth, AtomicAckEth),
) -> Step {
    if !reaches_front(requester, now, ctx, psn, Some(aeth)) {
        return Step::Done;
    }
    match requester.queue.front() {
        Some(front) if front.request.operation.is_atomic() => {
            Step::Memory(MemoryOp::WriteAtomicResult {
                request: front.request.id,
                value: result.original,
            })
        }
        _ => {
            requester.fail_front(ctx, CompletionStatus::BadResponse);
            Step::Done
        }
    }
}

/// Returns where to write the payload of the expected response packet; `None` if the packet does
/// not answer the request at the front.
fn place_read_response(
    requester: &Requester,
    ctx: &Context,
    response: &ReadResponse,
) -> Option<MemoryOp> {
    let front = requester.queue.front()?;
    let (place, ends) = place_of_packet(front, ctx, requester.oldest, response.payload_length)?;
    // After a retry a response may start anywhere, so First counts as Middle, and Only as Last.
    (response.position.ends_message() == ends).then_some(place)
}

/// Returns where to write the payload of a READ response with this PSN, and whether it is the last
/// packet; `None` if the request is not a READ, or if such a packet has another length.
fn place_of_packet(
    entry: &SendEntry,
    ctx: &Context,
    psn: Psn,
    payload_length: u32,
) -> Option<(MemoryOp, bool)> {
    let operation = entry.request.operation;
    if operation.expects_empty_response() {
        let nothing = MemoryOp::WriteReadResponse {
            request: entry.request.id,
            offset: 0,
            length: 0,
        };
        return (payload_length == 0).then_some((nothing, true));
    }
    if !operation.is_read() {
        return None;
    }
    let mtu = ctx.attributes.path_mtu;
    let index = span(entry.first_psn, psn);
    let offset = index << mtu.shift();
    let length = mtu.bytes().min(entry.request.length - offset);
    let place = MemoryOp::WriteReadResponse {
        request: entry.request.id,
        offset,
        length,
    };
    (payload_length == length).then_some((place, index + 1 == entry.packets))
}

/// Drops a response whose data finds no page, and asks for it again after [`PAGE_RETRY`].
pub(crate) fn await_page(requester: &mut Requester, now: Instant, ctx: &mut Context) {
    let until = now + PAGE_RETRY;
    if ctx.is_selective() {
        let pending = ctx.recovery.as_mut().and_then(|r| r.sent.pending.take());
        if let Some(psn) = pending {
            requester.ask_later(ctx, psn, until);
        }
    } else if requester.next != requester.oldest {
        requester.pause(ctx, until);
    }
}

/// Handles the result of writing the data of the expected response packet.
pub(crate) fn finish_response(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    written: bool,
) {
    if ctx.is_selective() {
        selective::finish_response(requester, now, ctx, written);
        return;
    }
    if requester.started == 0 || !requester.queue.front().is_some_and(|front| front.fetches()) {
        return;
    }
    if written {
        requester.acknowledge_response(now, ctx);
    } else {
        requester.fail_front(ctx, CompletionStatus::LocalProtection);
    }
}
