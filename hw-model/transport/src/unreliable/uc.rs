//! The unreliable connected service (IBTA vol 1, 9.8.2): messages of one peer, which complete as a
//! whole or not at all. If anything is wrong with a packet, its message is dropped silently; the
//! receive WQE that it used serves the next message.

use ferroce_qp::{PathMtu, QpState};
use ferroce_wire::{Connected, Operation, Position, Psn, Transport, TransportHeaders};

use super::send_queue::Piece;
use super::{Receive, UnreliableService};
use crate::attributes::RtrAttributes;
use crate::completion::{Completion, CompletionStatus};
use crate::context::Context;
use crate::event::Event;
use crate::inbound::Inbound;
use crate::message::Message;
use crate::note::Note;
use crate::request::{LocalKind, MAX_MESSAGE_LENGTH, SendOperation, SendRequest};
use crate::segment;
use crate::step::{Access, MemoryAnswer, MemoryOp, Step};

/// The operation for which the packet being processed waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Receive,
    RemoteAccess,
    Payload,
}

/// The receiver.
#[derive(Debug, Clone)]
pub(crate) struct Uc {
    expected: Psn,
    asked: Asked,
    /// True if the first packet has arrived.
    established: bool,
    /// True if a packet of the message is missing.
    broken: bool,
    message: Message,
    /// The receive WQE of the message, or one that a dropped message did not use.
    receive: Option<Receive>,
    packet: Inbound,
}

impl UnreliableService for Uc {
    const TRANSPORT: Transport = Transport::UnreliableConnected;

    fn new() -> Uc {
        Uc {
            expected: Psn::new(0),
            asked: Asked::Nothing,
            established: false,
            broken: false,
            message: Message::None,
            receive: None,
            packet: Inbound::NONE,
        }
    }

    fn start(&mut self, attributes: &RtrAttributes) {
        *self = Uc {
            expected: attributes.rq_psn,
            ..Uc::new()
        };
    }

    fn handle_packet(
        &mut self,
        ctx: &mut Context,
        _headers: &TransportHeaders,
        packet: Inbound,
    ) -> Step {
        self.packet = packet;
        if ctx.state == QpState::Rtr && !self.established {
            self.established = true;
            ctx.raise(Event::CommunicationEstablished);
        }
        let in_sequence = self.is_in_sequence();
        let follows = packet.psn == self.expected;
        self.expected = packet.psn.next();
        if packet.position.starts_message() {
            self.message = Message::None;
            self.broken = false;
        }
        if !in_sequence {
            self.broken |= !follows;
            ctx.statistics.out_of_sequence_drops += u32::from(self.broken);
            return self.drop_message();
        }
        if packet.is_write() && !ctx.attributes.access.write {
            return self.drop_message();
        }
        self.find_receive(ctx)
    }

    fn handle_memory(&mut self, ctx: &mut Context, answer: MemoryAnswer) -> Step {
        let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
        match (asked, answer) {
            (Asked::Receive, MemoryAnswer::Receive { id, capacity }) => {
                self.receive = Some(Receive { id, capacity });
                self.check_length(ctx)
            }
            (Asked::Receive, MemoryAnswer::NoReceive) => {
                ctx.statistics.no_receive_drops += 1;
                ctx.notice(Note::NoReceive);
                self.drop_message()
            }
            (Asked::Receive, _) => {
                ctx.raise(Event::Fatal);
                ctx.fault = true;
                Step::Done
            }
            (Asked::Payload, MemoryAnswer::NotPresent) => self.drop_message(),
            (Asked::RemoteAccess, MemoryAnswer::Valid) => self.execute(ctx),
            (Asked::Payload, MemoryAnswer::Done) => self.complete(ctx),
            (Asked::Payload, _) if self.packet.is_send() => self.fail_receive(ctx),
            (Asked::RemoteAccess | Asked::Payload, _) => self.drop_message(),
            (Asked::Nothing, _) => Step::Done,
        }
    }

    fn give_up_receive(&mut self) -> Option<u32> {
        self.asked = Asked::Nothing;
        self.message = Message::None;
        self.receive.take().map(|receive| receive.id)
    }

    fn expected(&self) -> Psn {
        self.expected
    }

    fn mtu(ctx: &Context) -> PathMtu {
        ctx.attributes.path_mtu
    }

    fn judge(ctx: &Context, request: &SendRequest) -> Option<CompletionStatus> {
        let is_known = match request.operation {
            SendOperation::Local(LocalKind::Invalidate | LocalKind::Bind | LocalKind::Nop) => {
                return None;
            }
            SendOperation::Send
            | SendOperation::SendImmediate(_)
            | SendOperation::RdmaWrite { .. }
            | SendOperation::RdmaWriteImmediate { .. } => true,
            SendOperation::SendInvalidate(_)
            | SendOperation::RdmaRead { .. }
            | SendOperation::CompareSwap { .. }
            | SendOperation::FetchAdd { .. }
            | SendOperation::Flush { .. }
            | SendOperation::AtomicWrite { .. } => false,
        };
        if request.length > MAX_MESSAGE_LENGTH {
            Some(CompletionStatus::LocalLength)
        } else if !is_known || !request.destination.suits(ctx.service) {
            Some(CompletionStatus::LocalQpOperation)
        } else {
            None
        }
    }

    fn headers(ctx: &Context, piece: &Piece) -> TransportHeaders {
        let mut bth = ctx.bth(piece.psn, piece.length);
        bth.solicited = piece.is_solicited();
        segment::headers(bth, Connected::Unreliable, &piece.request, piece.position)
    }
}

/// The checks of a packet, in order.
impl Uc {
    /// Checks the sequence: a packet that starts a message may have any PSN; any other must follow
    /// the previous one and have the same operation (IBTA vol 1, 9.8.2).
    fn is_in_sequence(&self) -> bool {
        if self.packet.position.starts_message() {
            return true;
        }
        let continues = match self.message {
            Message::None => false,
            Message::Send { .. } => self.packet.is_send(),
            Message::Write { .. } => self.packet.is_write(),
        };
        continues && self.packet.psn == self.expected
    }

    /// Takes a receive WQE for the first packet of a SEND and the last of a WRITE with immediate.
    fn find_receive(&mut self, ctx: &mut Context) -> Step {
        let takes_receive = if self.packet.is_send() {
            self.packet.position.starts_message()
        } else {
            self.packet.immediate.is_some()
        };
        if takes_receive && self.receive.is_none() {
            self.ask(Asked::Receive, MemoryOp::TakeReceive)
        } else {
            self.check_length(ctx)
        }
    }

    /// Checks the payload against path MTU, position, announced length and receive buffers.
    fn check_length(&mut self, ctx: &mut Context) -> Step {
        let mtu = ctx.attributes.path_mtu.bytes();
        let payload = self.packet.payload_length;
        let fits_position = match self.packet.position {
            Position::First | Position::Middle => payload == mtu,
            Position::Last => 1 <= payload && payload <= mtu,
            Position::Only => payload <= mtu,
        };
        if !fits_position {
            return self.drop_message();
        }
        if self.packet.is_send() {
            self.check_send_length(ctx, payload)
        } else {
            self.check_write_length(ctx, payload)
        }
    }

    fn check_send_length(&mut self, ctx: &mut Context, payload: u32) -> Step {
        let received = match self.message {
            Message::Send { received } => received,
            _ => 0,
        };
        let capacity = self.receive.map_or(0, |receive| receive.capacity);
        if received + payload > capacity.min(MAX_MESSAGE_LENGTH) {
            ctx.statistics.no_receive_drops += 1;
            ctx.notice(Note::LongMessage {
                length: received + payload,
                capacity,
            });
            return self.drop_message();
        }
        self.message = Message::Send { received };
        self.execute(ctx)
    }

    /// Checks the length of a WRITE, and at its start the access to memory. For a message of zero
    /// bytes the key is not checked.
    fn check_write_length(&mut self, ctx: &mut Context, payload: u32) -> Step {
        let reth = self.packet.reth;
        if self.packet.position.starts_message() {
            self.message = Message::Write {
                r_key: reth.r_key,
                virtual_address: reth.virtual_address,
                remaining: reth.dma_length,
                total: reth.dma_length,
            };
        }
        let remaining = match self.message {
            Message::Write { remaining, .. } => remaining,
            _ => 0,
        };
        let fits = if self.packet.position.ends_message() {
            payload == remaining
        } else {
            payload < remaining
        };
        if !fits || remaining > MAX_MESSAGE_LENGTH {
            return self.drop_message();
        }
        if !self.packet.position.starts_message() || reth.dma_length == 0 {
            return self.execute(ctx);
        }
        let validate = MemoryOp::Validate {
            r_key: reth.r_key,
            virtual_address: reth.virtual_address,
            length: reth.dma_length,
            access: Access::Write,
            srqn: None,
        };
        self.ask(Asked::RemoteAccess, validate)
    }
}

/// Execution.
impl Uc {
    fn ask(&mut self, asked: Asked, operation: MemoryOp) -> Step {
        self.asked = asked;
        Step::Memory(operation)
    }

    /// Drops the message without a completion. A receive WQE stays for the next message.
    fn drop_message(&mut self) -> Step {
        self.message = Message::None;
        Step::Done
    }

    fn execute(&mut self, ctx: &mut Context) -> Step {
        let length = self.packet.payload_length;
        let operation = match (self.message, self.receive) {
            _ if length == 0 => return self.complete(ctx),
            (Message::Send { received }, Some(receive)) => MemoryOp::WriteReceive {
                receive: receive.id,
                offset: received,
                length,
            },
            (
                Message::Write {
                    r_key,
                    virtual_address,
                    ..
                },
                _,
            ) => MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length,
                srqn: None,
            },
            _ => return self.drop_message(),
        };
        self.ask(Asked::Payload, operation)
    }

    /// Advances past an executed packet, and ends the message if it was the last.
    fn complete(&mut self, ctx: &mut Context) -> Step {
        let total = self.message.advance(self.packet.payload_length);
        if self.packet.position.ends_message() {
            self.message = Message::None;
            if self.packet.operation != Operation::RdmaWrite {
                if let Some(receive) = self.receive.take() {
                    ctx.complete(self.packet.received(receive.id, total, None));
                }
            }
        }
        Step::Done
    }

    /// Reports that a receive buffer is not registered for this use: a local error, which is not
    /// silent.
    fn fail_receive(&mut self, ctx: &mut Context) -> Step {
        if let Some(receive) = self.receive.take() {
            let status = CompletionStatus::LocalProtection;
            ctx.complete(Completion::failed_receive(receive.id, status, None));
        }
        ctx.fault = true;
        Step::Done
    }
}
