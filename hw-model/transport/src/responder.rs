//! The responder: checks an inbound request in the order of IBTA vol 1, 9.7.4, and executes it.
//! Each check is one function (in `checks`) that returns the next step; [`Responder::run`] has the
//! control flow. The responses are in `response`.
//!
//! PSN → opcode sequence → opcode valid → resources → length → remote access → execute → complete
//! → acknowledge

mod checks;
mod refusal;
mod response;
mod train;
mod window;

use std::num::NonZeroU8;

use ferroce_qp::QpState;
use ferroce_units::Instant;
use ferroce_wire::{Feth, Msn, NakCode, Psn, Syndrome};
use refusal::Refusal;

use crate::acknowledge::{Acknowledger, Nak};
use crate::completion::{Completion, CompletionStatus};
use crate::config::RemoteCheck;
use crate::context::Context;
use crate::event::Event;
use crate::inbound::Inbound;
use crate::message::Message;
use crate::note::Note;
use crate::resource::Resources;
use crate::step::{Access, MemoryAnswer, MemoryOp, Step};

/// A receive WQE in use.
#[derive(Debug, Clone, Copy)]
struct Receive {
    id: u32,
    capacity: u32,
}

/// The first packet of a queue pair that came ahead of the expected one.
#[derive(Debug, Clone, Copy)]
struct FirstAhead {
    psn: Psn,
    /// How often it came.
    times: NonZeroU8,
}

/// The operation for which the packet being processed waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Receive,
    RemoteAccess,
    /// The memory check of a WRITE that is placed although earlier packets are missing.
    EarlyAccess,
    EarlyPayload,
    Payload,
    Atomic,
    Flush,
    AtomicWrite,
    Invalidate,
}

/// The next step of the packet.
enum Next {
    CheckPsn,
    CheckOpcodeSequence,
    CheckOpcodeValid,
    CheckResource,
    CheckLength,
    CheckRemoteAccess,
    Execute,
    Invalidate,
    Complete,
    Acknowledge,
    Duplicate,
    Hold,
    Ask(Asked),
    Refuse(Refusal),
    Done,
}

#[derive(Debug, Clone)]
pub(crate) struct Responder {
    pub(crate) expected: Psn,
    pub(crate) msn: Msn,
    asked: Asked,
    /// True if the first packet has arrived.
    established: bool,
    /// True if a NAK or RNR NAK was sent for the expected packet; no further one is sent until it
    /// arrives.
    awaiting_retry: bool,
    /// True if an RNR NAK was sent: the peer's PSN is the expected one.
    was_refused_for_now: bool,
    first_ahead: Option<FirstAhead>,
    message: Message,
    /// XRC: the shared receive queue that the message names.
    pub(crate) srqn: Option<u32>,
    /// The receive WQE that the message uses.
    receive: Option<Receive>,
    /// The packet being processed; [`Inbound::read`] fills it.
    pub(crate) packet: Inbound,
    acknowledger: Acknowledger,
    resources: Resources,
    /// Number of posted receive WQEs; `None`: no limit.
    pub(crate) credits: Option<u32>,
}

/// Control flow.
impl Responder {
    pub(crate) const fn new() -> Responder {
        Responder {
            expected: Psn::new(0),
            msn: Msn::new(0),
            asked: Asked::Nothing,
            established: false,
            awaiting_retry: false,
            was_refused_for_now: false,
            first_ahead: None,
            message: Message::None,
            srqn: None,
            receive: None,
            packet: Inbound::NONE,
            acknowledger: Acknowledger::new(),
            resources: Resources::new(),
            credits: None,
        }
    }

    /// Starts at INIT→RTR.
    pub(crate) fn start(&mut self, rq_psn: Psn, ctx: &mut Context) {
        if let Some(recovery) = &mut ctx.recovery {
            recovery.received.start(rq_psn);
        }
        *self = Responder {
            expected: rq_psn,
            credits: self.credits,
            ..Responder::new()
        };
    }

    #[inline]
    pub(crate) fn handle_packet(&mut self, now: Instant, ctx: &mut Context) -> Step {
        self.run(now, ctx, Next::CheckPsn)
    }

    #[inline]
    pub(crate) fn handle_memory(
        &mut self,
        now: Instant,
        ctx: &mut Context,
        answer: MemoryAnswer,
    ) -> Step {
        let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
        let next = match (asked, answer) {
            (Asked::Receive, MemoryAnswer::Receive { id, capacity }) => {
                self.take_receive(id, capacity)
            }
            (Asked::Receive, MemoryAnswer::NoReceive) => self.refuse_for_now(ctx),
            (Asked::EarlyAccess | Asked::EarlyPayload, MemoryAnswer::NotPresent) => self.hold(ctx),
            (Asked::Nothing, MemoryAnswer::NotPresent) => Next::Done,
            (_, MemoryAnswer::NotPresent) => self.await_page(ctx),
            (Asked::RemoteAccess, MemoryAnswer::Forbidden)
                if ctx.config.remote_check == RemoteCheck::Connectx =>
            {
                Next::Refuse(Refusal::InvalidRequest)
            }
            (Asked::RemoteAccess, answer) => {
                let ends_write = self.packet.is_write() && self.packet.position.ends_message();
                ctx.statistics.write_requests += u16::from(ends_write);
                ctx.statistics.read_requests += u16::from(self.packet.is_read());
                match answer {
                    MemoryAnswer::Valid => Next::Execute,
                    _ => Next::Refuse(Refusal::RemoteAccess),
                }
            }
            (Asked::EarlyAccess, MemoryAnswer::Valid) => Next::Ask(Asked::EarlyPayload),
            (Asked::EarlyPayload, MemoryAnswer::Done) => self.placed(ctx),
            (Asked::EarlyAccess | Asked::EarlyPayload, _) => self.hold(ctx),
            (Asked::Payload, MemoryAnswer::Done) => Next::Invalidate,
            (Asked::Payload, _) if self.packet.is_send() => {
                Next::Refuse(Refusal::ReceiveProtection)
            }
            (Asked::Atomic, MemoryAnswer::Atomic(original)) => self.accept_atomic(ctx, original),
            (Asked::Flush | Asked::AtomicWrite, MemoryAnswer::Done) => self.accept_executed(ctx),
            (Asked::Invalidate, MemoryAnswer::Done) => Next::Complete,
            (Asked::Invalidate, _) => self.fail_invalidate(ctx),
            (Asked::Payload | Asked::Atomic | Asked::Flush | Asked::AtomicWrite, _) => {
                Next::Refuse(Refusal::RemoteAccess)
            }
            // XRC: the shared receive queue does not exist here.
            (Asked::Receive, MemoryAnswer::Invalid) => Next::Refuse(Refusal::InvalidRequest),
            (Asked::Receive, _) => Next::Refuse(Refusal::ReceiveQueue),
            (Asked::Nothing, _) => Next::Done,
        };
        self.run(now, ctx, next)
    }

    /// Runs the steps of a packet until it is done or needs a memory block. It terminates: no step
    /// leads back to an earlier one.
    #[inline]
    fn run(&mut self, now: Instant, ctx: &mut Context, mut next: Next) -> Step {
        loop {
            next = match next {
                Next::CheckPsn => self.check_psn(ctx),
                Next::CheckOpcodeSequence => self.check_opcode_sequence(),
                Next::CheckOpcodeValid => self.check_opcode_valid(ctx),
                Next::CheckResource => self.check_resource(ctx),
                Next::CheckLength => self.check_length(ctx),
                Next::CheckRemoteAccess => self.check_remote_access(),
                Next::Execute => self.execute(ctx),
                Next::Invalidate => self.invalidate(),
                Next::Complete => self.complete(ctx),
                Next::Acknowledge => self.acknowledge(now, ctx),
                Next::Duplicate => self.repeat(ctx),
                Next::Refuse(refusal) => self.refuse(ctx, refusal),
                Next::Ask(asked) => {
                    self.asked = asked;
                    return Step::Memory(self.memory_operation(ctx, asked));
                }
                Next::Hold => return Step::Hold,
                Next::Done => return Step::Done,
            }
        }
    }
}

/// Operations of the memory blocks.
impl Responder {
    #[inline]
    fn memory_operation(&self, ctx: &Context, asked: Asked) -> MemoryOp {
        let srqn = self.srqn;
        match asked {
            Asked::Payload => self.write_payload(),
            Asked::EarlyAccess | Asked::EarlyPayload => self.early_operation(asked),
            Asked::RemoteAccess => MemoryOp::Validate {
                r_key: self.packet.reth.r_key,
                virtual_address: self.packet.reth.virtual_address,
                length: match ctx.config.remote_check {
                    RemoteCheck::Connectx if self.packet.is_write() => self.packet.payload_length,
                    _ => self.packet.reth.dma_length,
                },
                access: self.access(),
                srqn,
            },
            Asked::Atomic => MemoryOp::Atomic {
                r_key: self.packet.reth.r_key,
                virtual_address: self.packet.reth.virtual_address,
                operation: self.packet.atomic(),
                srqn,
            },
            Asked::Flush => MemoryOp::Flush {
                r_key: self.packet.reth.r_key,
                virtual_address: self.packet.reth.virtual_address,
                length: self.packet.reth.dma_length,
                access: self.access(),
                srqn,
            },
            Asked::AtomicWrite => MemoryOp::WriteAtomically {
                r_key: self.packet.reth.r_key,
                virtual_address: self.packet.reth.virtual_address,
                srqn,
            },
            Asked::Invalidate => MemoryOp::Invalidate {
                r_key: self.packet.invalidate.unwrap_or_default(),
                srqn,
            },
            Asked::Receive | Asked::Nothing => match srqn {
                Some(srqn) => MemoryOp::TakeShared { srqn },
                None => MemoryOp::TakeReceive,
            },
        }
    }

    /// Returns the access that the packet needs.
    #[inline]
    fn access(&self) -> Access {
        if self.packet.is_write() || self.packet.is_atomic_write() {
            Access::Write
        } else if self.packet.is_read() {
            Access::Read
        } else if self.packet.is_flush() {
            let feth = self.packet.feth;
            Access::Flush {
                global: feth.has(Feth::GLOBAL),
                persistent: feth.has(Feth::PERSISTENT),
                region: self.flushes_region(),
            }
        } else {
            Access::Atomic
        }
    }

    #[inline]
    fn write_payload(&self) -> MemoryOp {
        let length = self.packet.payload_length;
        match self.message {
            Message::Write {
                r_key,
                virtual_address,
                ..
            } => MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length,
                srqn: self.srqn,
            },
            Message::Send { received } => MemoryOp::WriteReceive {
                receive: self.receive.map_or(0, |receive| receive.id),
                offset: received,
                length,
            },
            Message::None => MemoryOp::WriteReceive {
                receive: self.receive.map_or(0, |receive| receive.id),
                offset: 0,
                length,
            },
        }
    }
}

/// Execution.
impl Responder {
    /// Opens the message if the packet starts one, and passes on the payload.
    #[inline]
    fn execute(&mut self, ctx: &mut Context) -> Next {
        if self.packet.is_read() {
            self.accept_read(ctx)
        } else if self.packet.is_send() {
            self.execute_send()
        } else if self.packet.is_atomic() {
            Next::Ask(Asked::Atomic)
        } else if self.packet.is_atomic_write() {
            Next::Ask(Asked::AtomicWrite)
        } else if self.packet.is_flush() {
            self.execute_flush(ctx)
        } else {
            self.execute_write(ctx)
        }
    }

    /// Executes a FLUSH. One of no bytes has nothing to do.
    fn execute_flush(&mut self, ctx: &mut Context) -> Next {
        if self.packet.reth.dma_length == 0 && !self.flushes_region() {
            self.accept_executed(ctx)
        } else {
            Next::Ask(Asked::Flush)
        }
    }

    /// Records an executed FLUSH or ATOMIC WRITE. It is never executed again: duplicates get the
    /// same answer (IBTA annex A19, oA19-14, oA19-15).
    fn accept_executed(&mut self, ctx: &mut Context) -> Next {
        let limit = ctx.attributes.max_dest_rd_atomic;
        self.resources.push_executed(&self.packet, limit);
        self.pass_fetch(ctx);
        Next::Done
    }

    /// Advances past a request whose response is one packet and acknowledges all before it.
    fn pass_fetch(&mut self, ctx: &mut Context) {
        self.expected = self.expected.next();
        self.msn = self.msn.next();
        self.acknowledger.cover(ctx);
    }

    /// Records an executed atomic. It is never executed again: duplicates get the same answer.
    fn accept_atomic(&mut self, ctx: &mut Context, original: u64) -> Next {
        let limit = ctx.attributes.max_dest_rd_atomic;
        self.resources.push_atomic(&self.packet, original, limit);
        self.pass_fetch(ctx);
        Next::Done
    }

    fn accept_read(&mut self, ctx: &mut Context) -> Next {
        let packets = ctx.attributes.path_mtu.packets(self.packet.reth.dma_length);
        self.resources
            .push_read(&self.packet, packets, ctx.attributes.max_dest_rd_atomic);
        self.expected = self.expected.add(packets);
        self.msn = self.msn.next();
        // The response acknowledges everything before it.
        self.acknowledger.cover(ctx);
        Next::Done
    }

    #[inline]
    fn execute_send(&mut self) -> Next {
        let offset = match self.message {
            Message::Send { received } => received,
            _ => 0,
        };
        self.message = Message::Send { received: offset };
        if self.packet.payload_length > 0 {
            Next::Ask(Asked::Payload)
        } else {
            Next::Invalidate
        }
    }

    #[inline]
    fn execute_write(&mut self, ctx: &mut Context) -> Next {
        if self.packet.position.starts_message() {
            let reth = &self.packet.reth;
            self.message = Message::Write {
                r_key: reth.r_key,
                virtual_address: reth.virtual_address,
                remaining: reth.dma_length,
                total: reth.dma_length,
            };
        } else if self.packet.position.ends_message() {
            ctx.statistics.write_requests += 1;
        }
        if self.packet.payload_length > 0 {
            Next::Ask(Asked::Payload)
        } else {
            Next::Complete
        }
    }

    /// Invalidates the key of a SEND with invalidate once its payload is written.
    #[inline]
    fn invalidate(&mut self) -> Next {
        match self.packet.invalidate {
            Some(_) => Next::Ask(Asked::Invalidate),
            None => Next::Complete,
        }
    }

    /// Fails a SEND whose key cannot be invalidated: a fault of class J (IBTA vol 1, 9.9.3), which
    /// is reported only to the responder. The receive WQE completes in error, with the status of
    /// soft-RoCE, and the queue pair goes to ERR. The requester gets neither an ACK nor a NAK of
    /// this packet and finds out by timeouts; earlier requests are acknowledged.
    fn fail_invalidate(&mut self, ctx: &mut Context) -> Next {
        let status = CompletionStatus::RemoteInvalidRequest;
        if let Some(receive) = self.receive.take() {
            let failed = Completion::failed_receive(receive.id, status, self.srqn);
            ctx.complete(failed);
        }
        self.message = Message::None;
        ctx.fault = true;
        Next::Done
    }

    /// Advances past an executed packet, and ends the message if it was the last.
    #[inline]
    fn complete(&mut self, ctx: &mut Context) -> Next {
        self.expected = self.expected.next();
        let total = self.message.advance(self.packet.payload_length);
        if self.packet.more {
            self.pass_part(ctx);
        } else if self.packet.position.ends_message() {
            self.end_message(ctx, total);
        }
        self.pass_train(ctx);
        Next::Acknowledge
    }

    #[inline]
    fn end_message(&mut self, ctx: &mut Context, mut byte_length: u32) {
        if let Some(recovery) = &mut ctx.recovery {
            byte_length = recovery.received.end_message(byte_length);
        }
        self.msn = self.msn.next();
        self.message = Message::None;
        if let Some(receive) = self.receive.take() {
            ctx.complete(self.packet.received(receive.id, byte_length, self.srqn));
        }
    }

    #[inline]
    fn acknowledge(&mut self, now: Instant, ctx: &mut Context) -> Next {
        let ends_message = self.packet.ends_message();
        self.acknowledger
            .note_executed(now, ctx, self.packet.ack_request, ends_message);
        Next::Done
    }

    /// Answers a duplicate without executing it again: a READ from memory, an atomic with its old
    /// result, others with an ACK of the newest packet that no unanswered READ or atomic precedes.
    fn repeat(&mut self, ctx: &mut Context) -> Next {
        ctx.statistics.duplicate_requests += 1;
        if self.packet.is_read() && ctx.is_selective() {
            self.repeat_range(ctx);
        } else if self.packet.fetches() {
            self.resources.replay(&self.packet, ctx.attributes.path_mtu);
        } else if self.packet.is_send() || self.packet.is_write() {
            match self.resources.first_after(self.packet.psn) {
                Some(read) => self.acknowledger.acknowledge_duplicate(read.sub(1)),
                None => self.acknowledger.make_due(),
            }
        }
        Next::Done
    }

    /// Refuses a request and ends the queue pair: NAK, and an error for the receive WQE in use.
    fn refuse(&mut self, ctx: &mut Context, refusal: Refusal) -> Next {
        ctx.note = self.noted(ctx, refusal).map(Box::new);
        match self.receive.take() {
            Some(receive) => {
                ctx.complete(Completion::failed_receive(
                    receive.id,
                    refusal.status(),
                    self.srqn,
                ));
            }
            None => ctx.raise(refusal.event()),
        }
        let syndrome = Syndrome::Nak(refusal.nak_code());
        self.say_last(ctx, self.packet.psn, syndrome);
        ctx.fault = true;
        Next::Done
    }

    /// Returns what explains a refusal beyond its kind.
    fn noted(&self, ctx: &Context, refusal: Refusal) -> Option<Note> {
        let limit = ctx.attributes.max_dest_rd_atomic;
        match (refusal, self.receive, self.message) {
            (Refusal::ReceiveTooShort, Some(receive), message) => Some(Note::LongMessage {
                length: message.received() + self.packet.payload_length,
                capacity: receive.capacity,
            }),
            (Refusal::InvalidRequest, ..) if self.exceeds_resources(limit) => {
                Some(Note::TooManyFetches { limit })
            }
            _ => None,
        }
    }

    fn exceeds_resources(&self, limit: u8) -> bool {
        self.packet.fetches() && !self.resources.has_room(limit)
    }

    /// Sends the last answer: after READ responses with earlier PSNs, and although the queue pair
    /// ends.
    fn say_last(&mut self, ctx: &mut Context, psn: Psn, syndrome: Syndrome) {
        let fatal = true;
        self.acknowledger.refuse(
            ctx,
            Nak {
                psn,
                syndrome,
                fatal,
            },
        );
    }

    /// Requests the packet `psn` again.
    fn ask_again(&mut self, ctx: &mut Context, psn: Psn, syndrome: Syndrome) {
        self.awaiting_retry = true;
        let fatal = false;
        self.acknowledger.refuse(
            ctx,
            Nak {
                psn,
                syndrome,
                fatal,
            },
        );
    }

    /// Handles the memory of an accepted READ that can no longer be read. The caller may have taken
    /// later responses, which fail after this one: the NAK is for the oldest PSN, because the
    /// requester waits for the packets missing before it (IBTA vol 1, 9.7.5.2.8).
    pub(crate) fn fail_read_response(&mut self, ctx: &mut Context, psn: Psn) {
        self.clear_responses(ctx);
        if self.acknowledger.has_fatal_nak_up_to(psn) {
            return;
        }
        self.say_last(ctx, psn, Syndrome::Nak(NakCode::RemoteAccessError));
        // The error of a queue pair is reported once.
        if ctx.state != QpState::Err {
            ctx.raise(Event::AccessError);
            ctx.fault = true;
        }
    }

    /// Enters ERR. Executed requests are still acknowledged, unless the acknowledge follows READ
    /// responses that will not be sent.
    pub(crate) fn enter_error(&mut self, ctx: &mut Context) {
        self.asked = Asked::Nothing;
        self.message = Message::None;
        ctx.trains.set_responder(None);
        if let Some(receive) = self.receive.take() {
            ctx.complete(Completion::failed_receive(
                receive.id,
                CompletionStatus::WrFlush,
                self.srqn,
            ));
        }
        if self.acknowledger.has_fatal_nak() {
            return;
        }
        let pending = self.acknowledger.has_waiting() && !self.resources.has_pending();
        self.acknowledger = Acknowledger::new();
        self.resources.clear();
        if pending {
            self.acknowledger.make_due();
        }
    }
}
