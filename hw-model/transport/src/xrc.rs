//! The extended reliable connected service (IBTA annex A14): RC whose requests name a shared
//! receive queue of the peer, and whose two directions are separate queue pairs.
//!
//! An XRC queue pair is an RC machine with only one half in use. This file translates its packets
//! in both directions; the only other difference between XRC and RC is the shared receive queue
//! that a request carries ([`Inbound::srqn`](crate::inbound::Inbound)).

use ferroce_qp::Service;
use ferroce_units::Instant;
use ferroce_wire::{Bth, Extension, Opcode, Transport, TransportHeaders, XrcEth};

use crate::context::Context;
use crate::rc::Rc;
use crate::step::Step;
use crate::transmit::Transmit;

/// Converts a packet of the XRC service to RC; also returns the shared receive queue that a request
/// names.
fn to_rc(headers: &TransportHeaders) -> Option<(TransportHeaders, Option<u32>)> {
    let known = headers.bth.opcode.parse()?;
    if known.transport != Transport::ExtendedReliableConnected {
        return None;
    }
    let opcode = Opcode::new(
        Transport::ReliableConnected,
        known.operation,
        known.position,
    )?;
    let (extension, srqn) = match headers.extension {
        Extension::Xrc(xrc, request) => (request.into(), Some(xrc.srq_number)),
        response => (response, None),
    };
    let bth = Bth {
        opcode,
        ..headers.bth
    };
    // A request without XRCETH would look like an RC request.
    (known.is_response() || srqn.is_some()).then_some((TransportHeaders { bth, extension }, srqn))
}

/// Handles a packet: requests are for a target, responses for an initiator.
#[inline(never)]
pub(crate) fn handle_packet(
    rc: &mut Rc,
    now: Instant,
    ctx: &mut Context,
    headers: &TransportHeaders,
    payload_length: u32,
) -> Step {
    let is_target = ctx.service == Service::XrcTarget;
    match to_rc(headers) {
        Some((headers, srqn)) if srqn.is_some() == is_target => {
            rc.handle_packet(now, ctx, &headers, payload_length, srqn)
        }
        _ => Step::Done,
    }
}

/// Takes the next packet to send.
#[inline(never)]
pub(crate) fn poll_transmit(rc: &mut Rc, now: Instant, ctx: &mut Context) -> Option<Transmit> {
    let xrc = XrcEth::new(rc.next_srqn(ctx));
    let transmit = rc.poll_transmit(now, ctx)?;
    let headers = transmit.headers.into_xrc(xrc);
    debug_assert!(headers.is_ok(), "an RC machine sends RC packets");
    Some(Transmit {
        headers: headers.unwrap_or(transmit.headers),
        ..transmit
    })
}
