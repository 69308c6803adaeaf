//! Packets that arrive after a gap: held by the caller or placed immediately; and NAKs that report
//! the missing ones.

use ferroce_units::Instant;
use ferroce_wire::{Bth, NakCode, RecoveryBits, Syndrome};

use super::{Access, Asked, MemoryOp, Message, Next, Refusal, Responder};
use crate::context::Context;
use crate::request::MAX_MESSAGE_LENGTH;

impl Responder {
    /// Reads the fields of a packet beyond IBTA, if the peer is known to use them.
    pub(crate) fn read_recovery(&mut self, ctx: &Context, bth: &Bth) {
        let is_out_of_order = ctx.recovery.as_ref().is_some_and(|r| r.is_out_of_order());
        let more = RecoveryBits::of(bth).more;
        self.packet.more = is_out_of_order && more && self.packet.is_placeable();
    }

    /// Handles a packet that arrives before the expected one: it is placed or held.
    #[inline(never)]
    pub(super) fn behind_a_gap(&mut self, ctx: &mut Context) -> Next {
        let Some(recovery) = &mut ctx.recovery else {
            return Next::Done;
        };
        if !recovery.received.arrive(self.packet.psn) {
            return Next::Done;
        }
        let is_out_of_order = recovery.is_out_of_order();
        if !(is_out_of_order && self.may_place(ctx)) {
            return self.hold(ctx);
        }
        match self.packet.payload_length {
            0 => self.placed(ctx),
            _ => Next::Ask(Asked::EarlyAccess),
        }
    }

    /// Returns true if the packet is a WRITE that can be placed now. Other errors are found when
    /// the packet is processed in order, in the sequence of the IBTA.
    fn may_place(&self, ctx: &Context) -> bool {
        let packet = &self.packet;
        let mtu = ctx.attributes.path_mtu.bytes();
        let fits = if packet.more {
            packet.payload_length == mtu
        } else {
            packet.payload_length <= mtu
        };
        packet.is_placeable()
            && ctx.attributes.access.write
            && fits
            && packet.reth.dma_length == packet.payload_length
    }

    /// Records that the caller holds the packet.
    pub(super) fn hold(&mut self, ctx: &mut Context) -> Next {
        if let Some(recovery) = &mut ctx.recovery {
            recovery.received.hold(self.packet.psn);
        }
        Next::Hold
    }

    /// Records that the payload is placed; the rest of the processing follows in order.
    pub(super) fn placed(&mut self, ctx: &mut Context) -> Next {
        let packet = &self.packet;
        if let Some(recovery) = &mut ctx.recovery {
            let (ends, asks) = (packet.ends_message(), packet.ack_request);
            recovery.received.place(packet.psn, ends, asks);
        }
        Next::Done
    }

    /// Returns the memory operation of a packet that is placed early. It may belong to a message
    /// other than the open one.
    pub(super) fn early_operation(&self, asked: Asked) -> MemoryOp {
        let (reth, srqn) = (&self.packet.reth, self.packet.srqn);
        let (r_key, virtual_address) = (reth.r_key, reth.virtual_address);
        let length = self.packet.payload_length;
        match asked {
            Asked::EarlyAccess => MemoryOp::Validate {
                r_key,
                virtual_address,
                length,
                access: Access::Write,
                srqn,
            },
            _ => MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length,
                srqn,
            },
        }
    }

    /// Returns true if a packet with its own address can be part of a longer message.
    pub(super) fn fits_part(&self, ctx: &Context) -> bool {
        let before = ctx
            .recovery
            .as_ref()
            .map_or(0, |r| r.received.message_bytes());
        self.packet.payload_length == ctx.attributes.path_mtu.bytes() && before < MAX_MESSAGE_LENGTH
    }

    /// Passes such a packet, which was executed in order.
    pub(super) fn pass_part(&mut self, ctx: &mut Context) {
        self.message = Message::None;
        if let Some(recovery) = &mut ctx.recovery {
            recovery.received.pass_part(self.packet.payload_length);
        }
    }

    /// Runs after a packet: passes placed packets that are now in order, and reports the packets
    /// missing before later ones.
    #[inline(never)]
    pub(crate) fn settle_gap(&mut self, now: Instant, ctx: &mut Context) {
        if !ctx.is_selective() || ctx.fault || !ctx.state.accepts_requests() {
            return;
        }
        self.pass_placed(now, ctx);
        let expected = self.expected;
        let Some(recovery) = ctx.recovery.as_mut().filter(|_| !ctx.fault) else {
            return;
        };
        let reorder_time = recovery.reorder_time;
        let received = &mut recovery.received;
        if received.is_held(expected) {
            return; // the caller takes it next
        }
        if !received.has_gap() {
            received.close_gap();
        } else if reorder_time.is_zero() {
            received.report_all();
            self.ask_again(ctx, expected, Syndrome::Nak(NakCode::PsnSequenceError));
        } else {
            received.measure_gap(now + reorder_time);
        }
    }

    fn pass_placed(&mut self, now: Instant, ctx: &mut Context) {
        let mtu = ctx.attributes.path_mtu.bytes();
        loop {
            let Some(recovery) = &mut ctx.recovery else {
                return;
            };
            let received = &mut recovery.received;
            received.advance(self.expected);
            let Some((ends, asks)) = received.take_placed(self.expected) else {
                return;
            };
            if !matches!(self.message, Message::None) {
                self.packet.psn = self.expected;
                let _ = self.refuse(ctx, Refusal::InvalidRequest);
                return;
            }
            if ends {
                received.end_message(0);
                self.msn = self.msn.next();
            } else {
                received.pass_part(mtu);
            }
            if std::mem::take(&mut self.awaiting_retry) {
                self.acknowledger.withdraw_nak();
            }
            self.expected = self.expected.next();
            self.acknowledger.note_executed(now, ctx, asks, ends);
        }
    }

    /// Handles a gap that may be older than the reorder time: packets missing since then are lost.
    pub(crate) fn gap_time_out(&mut self, now: Instant, ctx: &mut Context) {
        let expected = self.expected;
        let Some(recovery) = &mut ctx.recovery else {
            return;
        };
        let reorder_time = recovery.reorder_time;
        let received = &mut recovery.received;
        let Some(gap) = received.take_old_gap(now) else {
            return;
        };
        if !received.has_gap() || ctx.fault {
            return;
        }
        // If nothing more arrives, the peer's timer acts next.
        if received.has_more_than(gap.seen) {
            received.measure_gap(now + reorder_time);
        }
        if gap.seen.is_after(expected) {
            received.report_to(gap.seen);
            self.ask_again(ctx, expected, Syndrome::Nak(NakCode::PsnSequenceError));
        }
    }

    /// Handles a duplicate READ request for a part of the response.
    pub(super) fn repeat_range(&mut self, ctx: &mut Context) {
        let mtu = ctx.attributes.path_mtu;
        let packets = self.resources.repeated_packets(&self.packet, mtu);
        if let (Some(packets), Some(recovery)) = (packets, &mut ctx.recovery) {
            recovery.received.push_range(self.packet.psn, packets);
        }
    }

    /// Drops all pending READ responses.
    pub(super) fn clear_responses(&mut self, ctx: &mut Context) {
        self.resources.clear();
        if let Some(recovery) = &mut ctx.recovery {
            recovery.received.clear_ranges();
        }
    }
}
