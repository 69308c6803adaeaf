//! The completer when both sides use selective repeat.
//!
//! An acknowledge only says which requests the responder has executed. It says nothing about READ
//! responses, each of which is accepted when it arrives.

use ferroce_units::{Duration, Instant};
use ferroce_wire::{
    Aeth, Arrivals, Extension, NakCode, OpcodeProperties, Operation, Position, Psn, Syndrome,
    TransportHeaders,
};

use super::{packets_before, place_of_packet, refusal_status, update_credits};
use crate::completion::CompletionStatus;
use crate::context::Context;
use crate::requester::Requester;
use crate::span::span;
use crate::step::{MemoryOp, Step};

/// A response packet: headers, properties of its opcode, and bytes of payload.
type Response<'a> = (&'a TransportHeaders, OpcodeProperties, u32);

/// Handles a response of any kind.
#[inline(never)]
pub(crate) fn handle_response(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    response: Response<'_>,
) -> Step {
    let (headers, properties, payload_length) = response;
    let psn = headers.bth.psn;
    let aeth = match headers.extension {
        Extension::Aeth(aeth) | Extension::AtomicAck(aeth, _) => Some(aeth),
        _ => None,
    };
    let Some(recovery) = &mut ctx.recovery else {
        return Step::Done;
    };
    recovery.sent.advance(requester.oldest);
    recovery.sent.pending = None;
    if packets_before(requester, psn).is_none() {
        // The newest acknowledge again, unsolicited: the responder advertises new credits.
        if let Some(aeth) = aeth.filter(|_| psn.next() == requester.oldest) {
            update_credits(requester, ctx, aeth);
        }
        return Step::Done;
    }
    match (properties.operation, headers.extension) {
        (Operation::Acknowledge, Extension::Aeth(aeth)) => {
            handle_acknowledge(requester, now, ctx, psn, (aeth, payload_length))
        }
        (Operation::RdmaReadResponse, _) => {
            let place = place_read(requester, ctx, psn, (properties.position, payload_length));
            take_data(requester, now, ctx, (psn, aeth), place)
        }
        (Operation::AtomicAcknowledge, Extension::AtomicAck(_, result)) => {
            let entry = requester.entry_of(psn).map(|found| &requester.queue[found]);
            let atomic = entry.filter(|entry| entry.request.operation.is_atomic());
            let place = atomic.map(|entry| MemoryOp::WriteAtomicResult {
                request: entry.request.id,
                value: result.original,
            });
            take_data(requester, now, ctx, (psn, aeth), place)
        }
        _ => Step::Done,
    }
}

/// Handles an ACK, NAK or RNR NAK.
fn handle_acknowledge(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    psn: Psn,
    (aeth, payload_length): (Aeth, u32),
) -> Step {
    let executed = match aeth.syndrome {
        Syndrome::Ack { .. } => psn.next(),
        Syndrome::Reserved(_) => return Step::Done,
        _ => psn,
    };
    execute_before(requester, now, ctx, executed);
    if ctx.fault {
        return Step::Done;
    }
    match aeth.syndrome {
        Syndrome::Ack { .. } => update_credits(requester, ctx, aeth),
        Syndrome::RnrNak { timer } => {
            let until = now + Duration::from_ns(timer.nanoseconds());
            requester.back_off_from(ctx, psn, until);
        }
        Syndrome::Nak(NakCode::PsnSequenceError) if payload_length > 0 => {
            if let Some(recovery) = &mut ctx.recovery {
                recovery.sent.pending = Some(psn);
            }
            return Step::Arrivals;
        }
        Syndrome::Nak(NakCode::PsnSequenceError) => lose_named(requester, now, ctx, psn),
        // The responder reports one error; packets that are missing before it will not arrive any
        // more.
        Syndrome::Nak(code) if psn == requester.oldest => {
            ctx.statistics.other_naks_received += 1;
            requester.fail_front(ctx, refusal_status(code));
        }
        Syndrome::Nak(_) | Syndrome::Reserved(_) => {}
    }
    Step::Done
}

/// Records that all requests before `executed` are executed; requests with data have been answered.
fn execute_before(requester: &mut Requester, now: Instant, ctx: &mut Context, executed: Psn) {
    let newest = executed.sub(1);
    let Some(recovery) = &mut ctx.recovery else {
        return;
    };
    recovery.sent.execute_before(executed);
    if newest.is_before(requester.oldest) {
        return;
    }
    let entry = requester.entry_of(newest);
    let first = entry.map_or(newest, |found| requester.queue[found].first_psn);
    let is_fetch = entry.is_some_and(|found| requester.queue[found].fetches());
    let request = if is_fetch { first } else { newest };
    recovery
        .sent
        .note_answer(recovery.sent.transmission(newest, request));
    requester.pass(now, ctx);
    if !ctx.fault {
        requester.judge_responses(now, ctx);
    }
}

/// Handles a NAK that names a missing packet but not the later ones that arrived: once.
fn lose_named(requester: &mut Requester, now: Instant, ctx: &mut Context, missing: Psn) {
    let Some(recovery) = &mut ctx.recovery else {
        return;
    };
    let sent = &mut recovery.sent;
    let first = requester
        .entry_of(missing)
        .map(|found| &requester.queue[found]);
    let is_request = first.is_some_and(|entry| !entry.fetches() || entry.first_psn == missing);
    let is_new = sent.named.replace(missing) != Some(missing);
    let any = is_request && is_new && missing.is_before(requester.next) && sent.lose(missing);
    requester.note_lost(now, ctx, any);
}

/// Handles the bitmap of the last NAK.
pub(crate) fn handle_arrivals(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    arrivals: &Arrivals,
) {
    let Some(recovery) = &mut ctx.recovery else {
        return;
    };
    let sent = &mut recovery.sent;
    let Some(missing) = sent.pending.take() else {
        return;
    };
    let in_flight = span(missing, requester.next);
    let mut last = None;
    for psn in arrivals.psns(missing) {
        if span(missing, psn) < in_flight {
            sent.note_arrived(psn);
            last = Some(psn);
        }
    }
    match last {
        Some(last) => {
            let any = requester.lose_requests(ctx, missing, last);
            requester.note_lost(now, ctx, any);
        }
        None => lose_named(requester, now, ctx, missing),
    }
}

/// Accepts a response with data for the operation `place`; `None`: it answers no request.
fn take_data(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    (psn, aeth): (Psn, Option<Aeth>),
    place: Option<MemoryOp>,
) -> Step {
    execute_before(requester, now, ctx, psn.next());
    if ctx.fault {
        return Step::Done;
    }
    let Some(place) = place else {
        if psn == requester.oldest {
            requester.fail_front(ctx, CompletionStatus::BadResponse);
        }
        return Step::Done;
    };
    if let Some(aeth) = aeth {
        update_credits(requester, ctx, aeth);
    }
    let Some(recovery) = ctx.recovery.as_mut().filter(|_| !ctx.fault) else {
        return Step::Done;
    };
    if recovery.sent.is_answered(psn) || !recovery.sent.can_answer(psn) {
        return Step::Done;
    }
    recovery.sent.pending = Some(psn);
    match place {
        MemoryOp::WriteReadResponse { length: 0, .. } => {
            finish_response(requester, now, ctx, true);
            Step::Done
        }
        operation => Step::Memory(operation),
    }
}

/// Returns where to write the payload of a READ response packet; `None` if it does not belong to a
/// READ in flight.
fn place_read(
    requester: &Requester,
    ctx: &Context,
    psn: Psn,
    (position, payload_length): (Position, u32),
) -> Option<MemoryOp> {
    let entry = &requester.queue[requester.entry_of(psn)?];
    let (place, ends) = place_of_packet(entry, ctx, psn, payload_length)?;
    // A range that was requested again ends with its own Last packet.
    (!ends || position.ends_message()).then_some(place)
}

/// Handles the result of writing the data of the response.
pub(crate) fn finish_response(
    requester: &mut Requester,
    now: Instant,
    ctx: &mut Context,
    written: bool,
) {
    let pending = ctx.recovery.as_mut().and_then(|r| r.sent.pending.take());
    let (Some(psn), Some(recovery)) = (pending, &mut ctx.recovery) else {
        return;
    };
    if written {
        recovery.sent.note_answered(psn);
        requester.pass(now, ctx);
        if !ctx.fault {
            requester.judge_responses(now, ctx);
        }
    } else if psn == requester.oldest {
        requester.fail_front(ctx, CompletionStatus::LocalProtection);
    }
    // Otherwise it is requested again, and fails when it is next in order.
}
