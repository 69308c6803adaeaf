//! Headers of one packet of a SEND or WRITE.

use ferroce_wire::{
    Bth, Connected, Ieth, Immediate, MessageEnd, Position, RecoveryBits, Reth, SendPart,
    TransportHeaders, WritePart,
};

use crate::request::{SendOperation, SendRequest};

/// Returns the headers of the packet at `position` of a SEND or WRITE. (The requester builds READ
/// and atomic requests, which have one packet; local operations have none.)
#[inline]
pub(crate) fn headers(
    bth: Bth,
    service: Connected,
    request: &SendRequest,
    position: Position,
) -> TransportHeaders {
    let (remote, immediate) = match request.operation {
        SendOperation::RdmaWrite { remote } => (remote, None),
        SendOperation::RdmaWriteImmediate { remote, immediate } => (remote, Some(immediate)),
        SendOperation::SendImmediate(immediate) => {
            return TransportHeaders::send(bth, service, send_part(position, Some(immediate)));
        }
        SendOperation::SendInvalidate(r_key) if position.ends_message() => {
            let end = match position {
                Position::Only => MessageEnd::Only,
                _ => MessageEnd::Last,
            };
            return TransportHeaders::send_invalidate(bth, end, Ieth { r_key });
        }
        _ => return TransportHeaders::send(bth, service, send_part(position, None)),
    };
    let reth = Reth {
        virtual_address: remote.virtual_address,
        r_key: remote.r_key,
        dma_length: request.length,
    };
    TransportHeaders::write(bth, service, write_part(position, reth, immediate))
}

/// Returns the headers of the packet at `position` of a WRITE whose packets all carry their own
/// address. Its payload has `length` bytes at `offset` in the message.
pub(crate) fn addressed_headers(
    mut bth: Bth,
    request: &SendRequest,
    position: Position,
    (offset, length): (u32, u32),
) -> TransportHeaders {
    let (remote, immediate) = match request.operation {
        SendOperation::RdmaWrite { remote } => (remote, None),
        SendOperation::RdmaWriteImmediate { remote, immediate } => (remote, Some(immediate)),
        _ => return headers(bth, Connected::Reliable, request, position),
    };
    let ends = position.ends_message();
    let more = RecoveryBits {
        more: !ends,
        ..RecoveryBits::default()
    };
    more.set_in(&mut bth);
    let reth = Reth {
        virtual_address: remote.virtual_address.wrapping_add(u64::from(offset)),
        r_key: remote.r_key,
        dma_length: length,
    };
    let part = write_part(Position::Only, reth, immediate.filter(|_| ends));
    TransportHeaders::write(bth, Connected::Reliable, part)
}

#[inline]
fn send_part(position: Position, immediate: Option<Immediate>) -> SendPart {
    match (position, immediate) {
        (Position::First, _) => SendPart::First,
        (Position::Middle, _) => SendPart::Middle,
        (Position::Last, None) => SendPart::Last,
        (Position::Last, Some(immediate)) => SendPart::LastImmediate(immediate),
        (Position::Only, None) => SendPart::Only,
        (Position::Only, Some(immediate)) => SendPart::OnlyImmediate(immediate),
    }
}

#[inline]
fn write_part(position: Position, reth: Reth, immediate: Option<Immediate>) -> WritePart {
    match (position, immediate) {
        (Position::First, _) => WritePart::First(reth),
        (Position::Middle, _) => WritePart::Middle,
        (Position::Last, None) => WritePart::Last,
        (Position::Last, Some(immediate)) => WritePart::LastImmediate(immediate),
        (Position::Only, None) => WritePart::Only(reth),
        (Position::Only, Some(immediate)) => WritePart::OnlyImmediate(reth, immediate),
    }
}
