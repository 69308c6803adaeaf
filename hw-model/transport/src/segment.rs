//! Headers of one packet of a SEND or WRITE.

use ferroce_wire::{Bth, Connected, Position, Reth, SendPart, TransportHeaders, WritePart};

use crate::request::{Remote, SendOperation, SendRequest};

/// Headers of the packet at `position` of a SEND or WRITE. (READ requests are built by the
/// requester; nothing else of them is segmented.)
#[inline]
pub(crate) fn headers(bth: Bth, request: &SendRequest, position: Position) -> TransportHeaders {
    const RC: Connected = Connected::Reliable;
    let reth = |remote: Remote| Reth {
        virtual_address: remote.virtual_address,
        r_key: remote.r_key,
        dma_length: request.length,
    };
    match request.operation {
        SendOperation::Send => {
            let part = match position {
                Position::First => SendPart::First,
                Position::Middle => SendPart::Middle,
                Position::Last => SendPart::Last,
                Position::Only => SendPart::Only,
            };
            TransportHeaders::send(bth, RC, part)
        }
        SendOperation::SendImmediate(immediate) => {
            let part = match position {
                Position::First => SendPart::First,
                Position::Middle => SendPart::Middle,
                Position::Last => SendPart::LastImmediate(immediate),
                Position::Only => SendPart::OnlyImmediate(immediate),
            };
            TransportHeaders::send(bth, RC, part)
        }
        SendOperation::RdmaWrite { remote } | SendOperation::RdmaRead { remote } => {
            let part = match position {
                Position::First => WritePart::First(reth(remote)),
                Position::Middle => WritePart::Middle,
                Position::Last => WritePart::Last,
                Position::Only => WritePart::Only(reth(remote)),
            };
            TransportHeaders::write(bth, RC, part)
        }
        SendOperation::RdmaWriteImmediate { remote, immediate } => {
            let part = match position {
                Position::First => WritePart::First(reth(remote)),
                Position::Middle => WritePart::Middle,
                Position::Last => WritePart::LastImmediate(immediate),
                Position::Only => WritePart::OnlyImmediate(reth(remote), immediate),
            };
            TransportHeaders::write(bth, RC, part)
        }
    }
}
