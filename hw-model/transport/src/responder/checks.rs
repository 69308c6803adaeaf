//! The checks of an inbound request. Each one returns the next step.

use std::num::NonZeroU8;

use ferroce_qp::QpState;
use ferroce_wire::{Feth, FlushRange, Msn, NakCode, Position, Syndrome};

use super::{Asked, FirstAhead, Message, Next, Receive, Refusal, Responder};
use crate::attributes::RemoteAccess;
use crate::context::Context;
use crate::event::Event;
use crate::note::Note;
use crate::request::{ATOMIC_LENGTH, MAX_MESSAGE_LENGTH};

/// A first packet that is so much later than the expected one is no later packet of a window.
const FAR_AHEAD: i32 = 1 << 16;
/// A first packet that is later than the expected one and comes so often begins each pass of the
/// requester: none before it is lost.
const TIMES_AHEAD: u8 = 3;

impl Responder {
    /// Checks the PSN: in order, duplicate (the half of the circle before the expected PSN), or
    /// after a gap.
    #[inline]
    pub(super) fn check_psn(&mut self, ctx: &mut Context) -> Next {
        let ahead = self.packet.psn.distance_from(self.expected);
        if ahead != 0 && self.has_accepted_nothing() {
            self.note_first_psn(ctx, ahead);
        }
        if ahead < 0 {
            return Next::Duplicate;
        }
        if ahead > 0 && ctx.is_selective() {
            return self.behind_a_gap(ctx);
        }
        if ahead > 0 {
            if !self.awaiting_retry {
                let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
                self.ask_again(ctx, self.expected, syndrome);
            }
            return Next::Done;
        }
        if self.awaiting_retry {
            self.awaiting_retry = false;
            self.acknowledger.withdraw_nak();
        }
        if ctx.state == QpState::Rtr && !self.established {
            self.established = true;
            ctx.raise(Event::CommunicationEstablished);
        }
        Next::CheckOpcodeSequence
    }

    /// Returns true if no packet with an expected PSN has come.
    fn has_accepted_nothing(&self) -> bool {
        let is_first = self.msn == Msn::new(0) && matches!(self.message, Message::None);
        is_first && !self.was_refused_for_now
    }

    /// Notes that the peer begins with another PSN than the queue pair expects. A packet after the
    /// expected one may also come because those before it are lost; then it does not come again and
    /// again.
    #[cold]
    fn note_first_psn(&mut self, ctx: &mut Context, ahead: i32) {
        let came = self.packet.psn;
        let times = match &mut self.first_ahead {
            Some(first) if first.psn == came => {
                first.times = first.times.saturating_add(1);
                first.times.get()
            }
            Some(first) => first.times.get(),
            none => {
                let times = NonZeroU8::MIN;
                *none = Some(FirstAhead { psn: came, times });
                times.get()
            }
        };
        if !(0..=FAR_AHEAD).contains(&ahead) || times >= TIMES_AHEAD {
            let expected = self.expected;
            ctx.notice(Note::FirstPsn { came, expected });
        }
    }

    /// Checks the sequence: First or Only if no message is open; otherwise Middle or Last of the
    /// same operation.
    #[inline]
    pub(super) fn check_opcode_sequence(&mut self) -> Next {
        let starts = self.packet.position.starts_message();
        let in_sequence = match self.message {
            Message::None => starts,
            Message::Send { .. } => !starts && self.packet.is_send(),
            Message::Write { .. } => !starts && self.packet.is_write(),
        };
        if in_sequence {
            if starts {
                self.srqn = self.packet.srqn;
            }
            Next::CheckOpcodeValid
        } else {
            Next::Refuse(Refusal::InvalidRequest)
        }
    }

    /// Checks that this responder and the access rights of the queue pair support the operation.
    /// (Like soft-RoCE, it also answers missing rights with "invalid request".)
    #[inline]
    pub(super) fn check_opcode_valid(&self, ctx: &Context) -> Next {
        let access = &ctx.attributes.access;
        let valid = self.packet.is_send()
            || self.packet.is_write() && access.write
            || self.packet.is_read() && access.read
            || self.packet.is_atomic() && access.atomic
            || self.packet.is_atomic_write() && access.write
            || self.packet.is_flush() && self.may_flush(access);
        if valid {
            Next::CheckResource
        } else {
            Next::Refuse(Refusal::InvalidRequest)
        }
    }

    /// Returns true if a FLUSH is well formed, and the queue pair has the rights for it.
    fn may_flush(&self, access: &RemoteAccess) -> bool {
        let feth = self.packet.feth;
        feth.range().is_some()
            && (access.flush_global || !feth.has(Feth::GLOBAL))
            && (access.flush_persistent || !feth.has(Feth::PERSISTENT))
    }

    /// Checks resources: a receive WQE for the first packet of a SEND and the last of a WRITE with
    /// immediate, a responder resource for a READ or atomic.
    #[inline]
    pub(super) fn check_resource(&self, ctx: &Context) -> Next {
        let takes_receive = if self.packet.is_send() {
            self.packet.position.starts_message()
        } else {
            self.packet.immediate.is_some()
        };
        if takes_receive && self.receive.is_none() {
            Next::Ask(Asked::Receive)
        } else if self.packet.fetches()
            && !self.resources.has_room(ctx.attributes.max_dest_rd_atomic)
        {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::CheckLength
        }
    }

    /// Returns true if the FLUSH is about a whole region.
    pub(super) fn flushes_region(&self) -> bool {
        self.packet.feth.range() == Some(FlushRange::Region)
    }

    pub(super) fn take_receive(&mut self, id: u32, capacity: u32) -> Next {
        self.receive = Some(Receive { id, capacity });
        Next::CheckLength
    }

    /// Sends an RNR NAK because a page of the memory is not present, as ConnectX does for on-demand
    /// regions. The packet comes again; its message keeps the receive WQE.
    pub(super) fn await_page(&mut self, ctx: &mut Context) -> Next {
        if self.packet.position.starts_message() {
            self.message = Message::None;
        }
        let next = self.refuse_for_now(ctx);
        ctx.note = None;
        next
    }

    /// Sends an RNR NAK because there is no receive WQE. The packet will be retransmitted.
    pub(super) fn refuse_for_now(&mut self, ctx: &mut Context) -> Next {
        let timer = ctx.attributes.min_rnr_timer;
        self.was_refused_for_now = true;
        ctx.notice(Note::NotReady);
        self.ask_again(ctx, self.expected, Syndrome::RnrNak { timer });
        if let Some(recovery) = &mut ctx.recovery {
            recovery.received.refuse_for_now();
        }
        Next::Done
    }

    /// Checks the payload against path MTU, position, announced length and receive buffers.
    #[inline]
    pub(super) fn check_length(&self, ctx: &Context) -> Next {
        let mtu = ctx.attributes.path_mtu.bytes();
        let payload = self.packet.payload_length;
        let fits_position = match self.packet.position {
            Position::First | Position::Middle => payload == mtu,
            Position::Last => 1 <= payload && payload <= mtu,
            Position::Only => payload <= mtu,
        };
        if !fits_position || self.packet.more && !self.fits_part(ctx) {
            return Next::Refuse(Refusal::InvalidRequest);
        }
        if self.packet.is_send() {
            self.check_send_length(payload)
        } else if self.packet.is_read() {
            self.check_read_length(payload)
        } else if self.packet.is_atomic() {
            self.check_atomic_length(payload)
        } else if self.packet.is_flush() {
            self.check_flush_length(payload)
        } else if self.packet.is_atomic_write() {
            self.check_atomic_write_length(payload)
        } else {
            self.check_write_length(payload)
        }
    }

    #[inline]
    pub(super) fn check_send_length(&self, payload: u32) -> Next {
        let received = match self.message {
            Message::Send { received } => received,
            _ => 0,
        };
        // Neither sum overflows: both parts are bounded by the longest message.
        let total = received + payload;
        let capacity = self.receive.map_or(0, |receive| receive.capacity);
        if total > capacity {
            Next::Refuse(Refusal::ReceiveTooShort)
        } else if total > MAX_MESSAGE_LENGTH {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::Execute
        }
    }

    pub(super) fn check_read_length(&self, payload: u32) -> Next {
        if payload != 0 || self.packet.reth.dma_length > MAX_MESSAGE_LENGTH {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::CheckRemoteAccess
        }
    }

    /// Checks that an atomic has no payload and that its eight bytes are naturally aligned.
    pub(super) fn check_atomic_length(&self, payload: u32) -> Next {
        let address = self.packet.reth.virtual_address;
        if payload != 0 || address % u64::from(ATOMIC_LENGTH) != 0 {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::CheckRemoteAccess
        }
    }

    /// Checks that a FLUSH has no payload (IBTA annex A19, oA19-2).
    fn check_flush_length(&self, payload: u32) -> Next {
        if payload != 0 {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::CheckRemoteAccess
        }
    }

    /// Checks that an ATOMIC WRITE has eight bytes (IBTA annex A19, oA19-28), naturally aligned.
    fn check_atomic_write_length(&self, payload: u32) -> Next {
        let reth = &self.packet.reth;
        let is_aligned = reth.virtual_address % u64::from(ATOMIC_LENGTH) == 0;
        if payload != ATOMIC_LENGTH || reth.dma_length != ATOMIC_LENGTH || !is_aligned {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::CheckRemoteAccess
        }
    }

    #[inline]
    pub(super) fn check_write_length(&self, payload: u32) -> Next {
        let remaining = match self.message {
            Message::Write { remaining, .. } => remaining,
            _ => self.packet.reth.dma_length,
        };
        let fits = if self.packet.position.ends_message() {
            payload == remaining
        } else {
            payload < remaining
        };
        if !fits || remaining > MAX_MESSAGE_LENGTH {
            Next::Refuse(Refusal::InvalidRequest)
        } else {
            Next::CheckRemoteAccess
        }
    }

    /// Checks key, bounds, protection domain and rights, once per message. For a WRITE or READ of
    /// zero bytes the key is not checked (IBTA C9-88). That rule is about these two: a FLUSH of
    /// zero bytes is checked, as by soft-RoCE.
    #[inline]
    pub(super) fn check_remote_access(&self) -> Next {
        let is_empty = self.packet.reth.dma_length == 0 && !self.packet.is_flush();
        if !self.packet.position.starts_message() || is_empty {
            return Next::Execute;
        }
        Next::Ask(Asked::RemoteAccess)
    }
}
