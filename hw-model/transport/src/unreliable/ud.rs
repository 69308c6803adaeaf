//! The unreliable datagram service (IBTA vol 1, 9.8.3): one packet, one message, to and from any
//! queue pair that knows the Q_Key. A datagram that cannot be accepted is dropped silently; a
//! receive WQE that is too small stays for the next datagram.
//!
//! GSI is the same service with a fixed Q_Key.

use ferroce_qp::{PathMtu, Service};
use ferroce_wire::{Deth, Extension, Psn, Qpn, Transport, TransportHeaders};

use super::send_queue::Piece;
use super::{Receive, UnreliableService};
use crate::attributes::RtrAttributes;
use crate::completion::{Completion, CompletionStatus, ReceiveKind};
use crate::context::Context;
use crate::event::Event;
use crate::inbound::Inbound;
use crate::note::Note;
use crate::request::{Destination, LocalKind, SendOperation, SendRequest};
use crate::step::{MemoryAnswer, MemoryOp, Step};

/// Bytes of the global route header, which precedes the payload in every receive buffer.
const GRH_LENGTH: u32 = 40;

/// In the Q_Key of a request: send the queue pair's own Q_Key (IBTA vol 1, chapter 10).
const OWN_Q_KEY: u32 = 1 << 31;

/// The operation for which the datagram being processed waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Receive,
    Grh,
    Payload,
}

/// The receiver.
#[derive(Debug, Clone)]
pub(crate) struct Ud {
    asked: Asked,
    /// The receive WQE of the datagram, or one that was too small for an earlier datagram.
    receive: Option<Receive>,
    packet: Inbound,
    source: Qpn,
}

impl UnreliableService for Ud {
    const TRANSPORT: Transport = Transport::UnreliableDatagram;

    fn new() -> Ud {
        Ud {
            asked: Asked::Nothing,
            receive: None,
            packet: Inbound::NONE,
            source: Qpn::new(0),
        }
    }

    /// Does nothing: the attributes describe a peer, and there is none.
    fn start(&mut self, _attributes: &RtrAttributes) {
        *self = Ud::new();
    }

    fn handle_packet(
        &mut self,
        ctx: &mut Context,
        headers: &TransportHeaders,
        packet: Inbound,
    ) -> Step {
        let (Extension::Deth(deth) | Extension::DethImmediate(deth, _)) = headers.extension else {
            return Step::Done;
        };
        if deth.q_key != ctx.attributes.q_key {
            ctx.statistics.q_key_violations += 1;
            let own = ctx.attributes.q_key;
            let came = deth.q_key;
            ctx.notice(Note::WrongQKey { came, own });
            return Step::Done;
        }
        if packet.payload_length > Ud::mtu(ctx).bytes() {
            return Step::Done;
        }
        self.packet = packet;
        self.source = deth.source_qp;
        match self.receive {
            None => self.ask(Asked::Receive, MemoryOp::TakeReceive),
            Some(receive) => self.check_length(ctx, receive),
        }
    }

    fn handle_memory(&mut self, ctx: &mut Context, answer: MemoryAnswer) -> Step {
        let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
        match (asked, answer) {
            (Asked::Receive, MemoryAnswer::Receive { id, capacity }) => {
                let receive = Receive { id, capacity };
                self.receive = Some(receive);
                self.check_length(ctx, receive)
            }
            (Asked::Receive, MemoryAnswer::NoReceive) => {
                ctx.statistics.no_receive_drops += 1;
                ctx.notice(Note::NoReceive);
                Step::Done
            }
            (Asked::Receive, _) => {
                ctx.raise(Event::Fatal);
                ctx.fault = true;
                Step::Done
            }
            // The datagram is lost. The next one gets the receive WQE.
            (Asked::Grh | Asked::Payload, MemoryAnswer::NotPresent) => Step::Done,
            (Asked::Grh, MemoryAnswer::Done) => self.write_payload(ctx),
            (Asked::Payload, MemoryAnswer::Done) => {
                self.complete(ctx, CompletionStatus::Success);
                Step::Done
            }
            (Asked::Grh | Asked::Payload, _) => {
                self.complete(ctx, CompletionStatus::LocalProtection);
                ctx.fault = true;
                Step::Done
            }
            (Asked::Nothing, _) => Step::Done,
        }
    }

    fn give_up_receive(&mut self) -> Option<u32> {
        self.asked = Asked::Nothing;
        self.receive.take().map(|receive| receive.id)
    }

    /// Returns zero: PSNs of datagrams are not checked.
    fn expected(&self) -> Psn {
        Psn::new(0)
    }

    fn mtu(ctx: &Context) -> PathMtu {
        ctx.config.datagram_mtu
    }

    fn judge(ctx: &Context, request: &SendRequest) -> Option<CompletionStatus> {
        let is_known = match request.operation {
            SendOperation::Local(LocalKind::Nop) => return None,
            SendOperation::Send | SendOperation::SendImmediate(_) => true,
            _ => false,
        };
        if !is_known || !request.destination.suits(ctx.service) {
            Some(CompletionStatus::LocalQpOperation)
        } else if request.length > Ud::mtu(ctx).bytes() {
            Some(CompletionStatus::LocalLength)
        } else {
            None
        }
    }

    fn headers(ctx: &Context, piece: &Piece) -> TransportHeaders {
        let mut bth = ctx.bth(piece.psn, piece.length);
        bth.solicited = piece.is_solicited();
        let is_gsi = ctx.service == Service::Gsi;
        // No receiver of a datagram checks it (IBTA vol 1, 9.2). Linux sets it in management
        // datagrams, and ours are compared with its frames.
        bth.ack_request = is_gsi;
        let mut q_key = ctx.attributes.q_key;
        if let Destination::Datagram { qpn, q_key: given } = piece.request.destination {
            bth.dest_qp = qpn;
            if given.0 & OWN_Q_KEY == 0 && !is_gsi {
                q_key = given;
            }
        }
        let immediate = match piece.request.operation {
            SendOperation::SendImmediate(immediate) => Some(immediate),
            _ => None,
        };
        TransportHeaders::datagram(bth, Deth::new(q_key, ctx.qpn), immediate)
    }
}

impl Ud {
    fn ask(&mut self, asked: Asked, operation: MemoryOp) -> Step {
        self.asked = asked;
        Step::Memory(operation)
    }

    fn check_length(&mut self, ctx: &mut Context, receive: Receive) -> Step {
        if self.packet.payload_length + GRH_LENGTH > receive.capacity {
            ctx.statistics.no_receive_drops += 1;
            ctx.notice(Note::ShortReceive {
                payload: self.packet.payload_length,
                capacity: receive.capacity,
            });
            return Step::Done;
        }
        let receive = receive.id;
        self.ask(Asked::Grh, MemoryOp::WriteGrh { receive })
    }

    fn write_payload(&mut self, ctx: &mut Context) -> Step {
        match (self.packet.payload_length, self.receive) {
            (length @ 1.., Some(receive)) => {
                let write = MemoryOp::WriteReceive {
                    receive: receive.id,
                    offset: GRH_LENGTH,
                    length,
                };
                self.ask(Asked::Payload, write)
            }
            _ => {
                self.complete(ctx, CompletionStatus::Success);
                Step::Done
            }
        }
    }

    fn complete(&mut self, ctx: &mut Context, status: CompletionStatus) {
        let Some(receive) = self.receive.take() else {
            return;
        };
        if status != CompletionStatus::Success {
            ctx.complete(Completion::failed_receive(receive.id, status, None));
            return;
        }
        ctx.complete(Completion::Receive {
            receive: receive.id,
            status,
            operation: ReceiveKind::Send,
            byte_length: self.packet.payload_length + GRH_LENGTH,
            immediate: self.packet.immediate,
            solicited: self.packet.solicited,
            invalidated: None,
            source: Some(self.source),
            with_grh: true,
            srqn: None,
        });
    }
}
