//! Acknowledgements of the responder: ACKs, delayed or not, and NAKs. READ responses are elsewhere.

use ferroce_units::Instant;
use ferroce_wire::{Psn, Syndrome};

use crate::context::Context;
use crate::timer::Timer;

/// A negative acknowledge, RNR NAK included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nak {
    pub(crate) psn: Psn,
    pub(crate) syndrome: Syndrome,
    /// The queue pair ends after it.
    pub(crate) fatal: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Acknowledger {
    /// Packets executed since the last acknowledge.
    waiting: u32,
    /// An ACK of all executed packets is due now.
    due: bool,
    /// Duplicates are acknowledged up to this PSN, before READ responses that follow it.
    duplicate: Option<Psn>,
    nak: Option<Nak>,
}

impl Acknowledger {
    pub(crate) const fn new() -> Acknowledger {
        Acknowledger {
            waiting: 0,
            due: false,
            duplicate: None,
            nak: None,
        }
    }

    #[inline]
    pub(crate) const fn is_due(&self) -> bool {
        self.due || self.nak.is_some() || self.duplicate.is_some()
    }

    /// Records that a packet was executed in order.
    #[inline]
    pub(crate) fn note_executed(
        &mut self,
        now: Instant,
        ctx: &mut Context,
        ack_request: bool,
        ends_message: bool,
    ) {
        self.waiting += 1;
        if self.waiting >= ctx.config.ack_coalesce {
            self.due |= ack_request || ends_message;
        } else if ack_request && !self.due {
            if ctx.config.ack_delay.is_zero() {
                self.due = true;
            } else if !ctx.timers.is_set(Timer::Acknowledge) {
                ctx.timers
                    .set(Timer::Acknowledge, now + ctx.config.ack_delay);
            }
        }
    }

    /// Records that another response acknowledges everything executed so far.
    #[inline]
    pub(crate) fn cover(&mut self, ctx: &mut Context) {
        self.waiting = 0;
        self.due = false;
        ctx.timers.stop(Timer::Acknowledge);
    }

    /// Makes a delayed ACK due now.
    #[inline]
    pub(crate) fn flush(&mut self, ctx: &mut Context) {
        if ctx.timers.is_set(Timer::Acknowledge) {
            ctx.timers.stop(Timer::Acknowledge);
            self.due = true;
        }
    }

    /// Makes an ACK of everything executed so far due now, even if none was requested.
    pub(crate) fn make_due(&mut self) {
        self.due = true;
    }

    /// Returns true if executed packets have not been acknowledged.
    pub(crate) const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    pub(crate) fn acknowledge_duplicate(&mut self, through: Psn) {
        self.duplicate.get_or_insert(through);
    }

    pub(crate) fn take_duplicate(&mut self) -> Option<Psn> {
        self.duplicate.take()
    }

    /// Makes a NAK due; it also acknowledges the packets executed before it.
    pub(crate) fn refuse(&mut self, ctx: &mut Context, nak: Nak) {
        self.cover(ctx);
        self.nak = Some(nak);
    }

    pub(crate) fn take_nak(&mut self) -> Option<Nak> {
        self.nak.take()
    }

    /// Withdraws the NAK because the missing packet arrived before the NAK could leave.
    #[inline]
    pub(crate) fn withdraw_nak(&mut self) {
        self.nak = None;
    }

    pub(crate) fn has_fatal_nak(&self) -> bool {
        self.nak.is_some_and(|nak| nak.fatal)
    }

    /// Returns true if the NAK that ends the queue pair is for `psn` or an earlier one.
    pub(crate) fn has_fatal_nak_up_to(&self, psn: Psn) -> bool {
        self.nak
            .is_some_and(|nak| nak.fatal && !nak.psn.is_after(psn))
    }

    /// Takes the ACK of all executed packets if it is due.
    #[inline]
    pub(crate) fn take_due(&mut self, ctx: &mut Context) -> bool {
        let due = self.due;
        if due {
            self.cover(ctx);
        }
        due
    }
}
