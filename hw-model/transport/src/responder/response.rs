//! Packets of the responder: responses with data, ACKs and NAKs.

use ferroce_wire::{
    Aeth, Arrivals, AtomicAckEth, CreditCount, NakCode, Position, Psn, ReadPart, Syndrome,
    TransportHeaders,
};

use super::{Message, Responder};
use crate::context::Context;
use crate::resource::ResponsePacket;
use crate::transmit::{Payload, Transmit};

impl Responder {
    #[inline]
    pub(crate) fn has_transmit(&self, ctx: &Context) -> bool {
        self.resources.has_pending() || self.acknowledger.is_due() || has_ranges(ctx)
    }

    #[inline]
    pub(crate) fn flush_acknowledge(&mut self, ctx: &mut Context) {
        self.acknowledger.flush(ctx);
    }

    /// Ends the delay of an ACK.
    pub(crate) fn acknowledge_now(&mut self) {
        self.acknowledger.make_due();
    }

    /// Takes the next response. Responses with data go before an ACK or NAK, which has a later PSN.
    #[inline]
    pub(crate) fn poll(&mut self, ctx: &mut Context) -> Option<Transmit> {
        let (psn, syndrome) = if let Some(psn) = self.acknowledger.take_duplicate() {
            (psn, self.positive())
        } else if let Some(packet) = self.next_of_range(ctx) {
            return Some(self.response(ctx, &packet));
        } else if let Some(packet) = self.resources.next_packet(ctx.attributes.path_mtu) {
            return Some(self.response(ctx, &packet));
        } else if let Some(nak) = self.acknowledger.take_nak() {
            (nak.psn, nak.syndrome)
        } else if self.acknowledger.take_due(ctx) {
            (self.newest(), self.positive())
        } else {
            return None;
        };
        Some(self.acknowledge_packet(ctx, psn, syndrome))
    }

    /// Returns the newest executed packet.
    #[inline]
    fn newest(&self) -> Psn {
        #[cfg(feature = "canary")]
        if crate::canary::acknowledges_too_much() {
            return self.expected;
        }
        self.expected.sub(1)
    }

    /// Returns a positive syndrome with the current credits. The receive WQE of an unfinished SEND
    /// counts as available, because the MSN does not include that SEND yet.
    #[inline]
    pub(super) fn positive(&self) -> Syndrome {
        let Some(available) = self.credits else {
            return Syndrome::ACK_UNLIMITED;
        };
        let in_use = u32::from(matches!(self.message, Message::Send { .. }));
        Syndrome::Ack {
            credits: CreditCount::from_credits(available.saturating_add(in_use)),
        }
    }

    #[inline]
    fn acknowledge_packet(&self, ctx: &mut Context, psn: Psn, syndrome: Syndrome) -> Transmit {
        let statistics = &mut ctx.statistics;
        *match syndrome {
            Syndrome::Ack { .. } => &mut statistics.acks_sent,
            Syndrome::RnrNak { .. } => &mut statistics.rnr_naks_sent,
            Syndrome::Nak(NakCode::PsnSequenceError) => &mut statistics.sequence_naks_sent,
            _ => &mut statistics.other_naks_sent,
        } += 1;
        let aeth = Aeth {
            syndrome,
            msn: self.msn,
        };
        let payload = match syndrome {
            Syndrome::Nak(NakCode::PsnSequenceError) => arrivals(ctx, psn),
            _ => Payload::None,
        };
        Transmit {
            headers: TransportHeaders::acknowledge(ctx.bth(psn, 0), aeth),
            payload,
            request: None,
        }
    }

    /// Returns a packet of a READ response that the requester has requested again.
    #[inline]
    fn next_of_range(&self, ctx: &mut Context) -> Option<ResponsePacket> {
        let received = &mut ctx.recovery.as_mut()?.received;
        let mtu = ctx.attributes.path_mtu;
        // A range whose READ is no longer known was answered already.
        while let Some((psn, place)) = received.next_of_range() {
            let packet = self.resources.packet_again(psn, place, mtu);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn response(&self, ctx: &Context, packet: &ResponsePacket) -> Transmit {
        let aeth = Aeth {
            syndrome: self.positive(),
            msn: self.msn,
        };
        let (psn, position, length, payload) = match *packet {
            ResponsePacket::Atomic { psn, original } => {
                let result = AtomicAckEth { original };
                return Transmit {
                    headers: TransportHeaders::atomic_acknowledge(ctx.bth(psn, 0), aeth, result),
                    payload: Payload::None,
                    request: None,
                };
            }
            ResponsePacket::Read {
                psn,
                position,
                r_key,
                virtual_address,
                length,
                srqn,
            } => {
                let payload = Payload::ReadResponse {
                    r_key,
                    virtual_address,
                    length,
                    srqn,
                };
                (psn, position, length, payload)
            }
        };
        let part = match position {
            Position::First => ReadPart::First(aeth),
            Position::Middle => ReadPart::Middle,
            Position::Last => ReadPart::Last(aeth),
            Position::Only => ReadPart::Only(aeth),
        };
        Transmit {
            headers: TransportHeaders::read_response(ctx.bth(psn, length), part),
            payload: if length == 0 { Payload::None } else { payload },
            request: None,
        }
    }
}

fn has_ranges(ctx: &Context) -> bool {
    ctx.recovery
        .as_ref()
        .is_some_and(|recovery| recovery.received.has_ranges())
}

/// Returns the payload of a NAK for `missing`: the later packets that have arrived.
fn arrivals(ctx: &Context, missing: Psn) -> Payload {
    let recovery = ctx.recovery.as_ref().filter(|r| r.is_selective());
    let behind = recovery.map_or(0, |r| r.received.reported_behind(missing));
    match Arrivals::length_to(behind) {
        0 => Payload::None,
        length => Payload::Arrivals { missing, length },
    }
}
