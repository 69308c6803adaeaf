//! Selective repeat of the requester: detects lost packets and retransmits them.
//!
//! `next` and the cursor stay where they are; lost packets are sent before new ones.

use ferroce_units::Instant;
use ferroce_wire::{Psn, REORDER_WINDOW_PACKETS};

use super::{
    Requester, atomic_packet, atomic_write_packet, data_packet, flush_packet, read_packet,
};
use crate::completion::CompletionStatus;
use crate::context::Context;
use crate::note::Note;
use crate::recovery::{Evidence, SentWindow};
use crate::request::SendOperation;
use crate::span::span;
use crate::timer::Timer;
use crate::transmit::Transmit;

/// Sending.
impl Requester {
    /// Returns the started entry to which `psn` belongs.
    pub(crate) fn entry_of(&self, psn: Psn) -> Option<usize> {
        let first = self.queue.front().filter(|_| self.started > 0)?.first_psn;
        let place = span(first, psn);
        let (mut low, mut high) = (0, self.started);
        // Find the last entry that does not begin after it.
        while high - low > 1 {
            let middle = (low + high) / 2;
            if span(first, self.queue[middle].first_psn) <= place {
                low = middle;
            } else {
                high = middle;
            }
        }
        let entry = &self.queue[low];
        (span(entry.first_psn, psn) < entry.packets).then_some(low)
    }

    /// Returns the next packet to retransmit.
    pub(super) fn next_repair(&self, ctx: &Context) -> Option<Psn> {
        let recovery = ctx.recovery.as_ref().filter(|_| self.started > 0)?;
        if !recovery.is_selective() || ctx.timers.is_set(Timer::RnrBackoff) {
            return None;
        }
        recovery.sent.first_lost(self.next)
    }

    /// Retransmits a lost packet with AckReq: its loss has delayed the acknowledge long enough.
    pub(super) fn repair(&mut self, now: Instant, ctx: &mut Context) -> Option<Transmit> {
        let psn = self.next_repair(ctx)?;
        let entry = &self.queue[self.entry_of(psn)?];
        let sent = &ctx.recovery.as_ref()?.sent;
        let (transmit, psns) = match entry.request.operation {
            SendOperation::RdmaRead { remote } => {
                // Until the responder has executed the READ, it expects all of it.
                let (psn, count) = if sent.executed().is_after(entry.first_psn) {
                    (psn, lost_run(sent, psn, entry.first_psn.add(entry.packets)))
                } else {
                    (entry.first_psn, entry.packets)
                };
                let index = span(entry.first_psn, psn);
                let request = read_packet(ctx, entry, remote, psn, (index, count));
                (request, count)
            }
            SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                let operands = (swap, Some(compare));
                (
                    atomic_packet(ctx, entry.request.id, remote, psn, operands),
                    1,
                )
            }
            SendOperation::FetchAdd { remote, add } => (
                atomic_packet(ctx, entry.request.id, remote, psn, (add, None)),
                1,
            ),
            SendOperation::Flush {
                remote,
                length,
                feth,
            } => {
                let reth = remote.reth(length);
                (flush_packet(ctx, entry.request.id, psn, feth, reth), 1)
            }
            SendOperation::AtomicWrite { remote } => {
                (atomic_write_packet(ctx, entry.request.id, psn, remote), 1)
            }
            _ => {
                let index = span(entry.first_psn, psn);
                (data_packet(ctx, entry, psn, index, true), 1)
            }
        };
        let first = transmit.headers.bth.psn;
        ctx.recovery.as_mut()?.sent.stamp(first, psns);
        ctx.statistics.packets_retransmitted += 1;
        if !ctx.timers.is_set(Timer::Retransmit) {
            self.start_timer(now, ctx);
        }
        Some(transmit)
    }

    /// Decides for a starting request whether each of its packets carries its own address.
    pub(super) fn choose_form(&mut self, ctx: &Context) {
        let is_out_of_order = ctx.recovery.as_ref().is_some_and(|r| r.is_out_of_order());
        let entry = &mut self.queue[self.cursor];
        let is_write = matches!(
            entry.request.operation,
            SendOperation::RdmaWrite { .. } | SendOperation::RdmaWriteImmediate { .. }
        );
        entry.addressed = is_out_of_order && is_write && entry.packets > 1;
    }

    /// Unmarks lost packets from `psn` on: they will be sent in order anyway.
    pub(super) fn keep_repairs_before(&self, ctx: &mut Context, psn: Psn) {
        if let Some(recovery) = &mut ctx.recovery {
            recovery.sent.advance(self.oldest);
            recovery.sent.keep_from(psn);
        }
    }
}

/// Returns the number of consecutive lost PSNs from `psn` on and before `end`.
fn lost_run(sent: &SentWindow, psn: Psn, end: Psn) -> u32 {
    let run = (0..span(psn, end)).take_while(|index| sent.is_lost(psn.add(*index)));
    run.count() as u32
}

/// Detection of losses.
impl Requester {
    /// Declares everything lost after a timeout that is not known to have arrived. The oldest
    /// packet that is not executed counts as lost, whatever the responder has reported: it may have
    /// refused the packet when it was next in order.
    pub(super) fn lose_all(&mut self, ctx: &mut Context) {
        let Some(recovery) = &mut ctx.recovery else {
            return;
        };
        let sent = &mut recovery.sent;
        sent.advance(self.oldest);
        sent.forget_arrival(sent.executed());
        let end = span(self.oldest, self.next).min(REORDER_WINDOW_PACKETS);
        for psn in (0..end).map(|index| self.oldest.add(index)) {
            let Some(index) = self.entry_of(psn) else {
                continue;
            };
            let entry = &self.queue[index];
            let is_missing = match entry.fetches() {
                true if sent.executed().is_after(entry.first_psn) => !sent.is_answered(psn),
                true => psn == entry.first_psn,
                false => !sent.executed().is_after(psn) && !sent.has_arrived(psn),
            };
            if is_missing {
                sent.lose(psn);
            }
        }
        sent.lose_before(self.next);
    }

    /// Declares requests from `missing` up to `end` lost that did not arrive although later ones
    /// did. Returns true if there are any.
    pub(crate) fn lose_requests(&self, ctx: &mut Context, missing: Psn, end: Psn) -> bool {
        let Some(recovery) = &mut ctx.recovery else {
            return false;
        };
        let sent = &mut recovery.sent;
        let evidence = sent.latest_arrival();
        let mut any = false;
        for psn in (0..span(missing, end)).map(|index| missing.add(index)) {
            let is_request = self.entry_of(psn).is_some_and(|index| {
                let entry = &self.queue[index];
                !entry.fetches() || psn == entry.first_psn
            });
            let is_missing = is_request && !sent.has_arrived(psn);
            if is_missing && evidence.is_after(&sent.transmission(psn, psn)) {
                any |= sent.lose(psn);
            }
        }
        any
    }

    /// Finds responses that did not arrive although later ones did, according to `evidence`.
    /// Returns true if there are any; they are retransmitted if `lose` is true.
    fn lose_responses(&self, ctx: &mut Context, evidence: &Evidence, lose: bool) -> bool {
        let Some(recovery) = &mut ctx.recovery else {
            return false;
        };
        let sent = &mut recovery.sent;
        let end = span(self.oldest, self.next).min(REORDER_WINDOW_PACKETS);
        let mut any = false;
        let mut index = 0;
        while self.fetches_in_flight > 0 && index < end {
            let psn = self.oldest.add(index);
            let Some(entry) = self.entry_of(psn).map(|found| &self.queue[found]) else {
                break;
            };
            if !sent.executed().is_after(entry.first_psn) {
                break;
            }
            if !entry.fetches() {
                index += span(psn, entry.first_psn.add(entry.packets));
                continue;
            }
            let is_missing = !sent.is_answered(psn);
            if is_missing && evidence.is_after(&sent.transmission(psn, entry.first_psn)) {
                any |= !lose || sent.lose(psn);
            }
            index += 1;
        }
        any
    }

    /// Handles a response or an acknowledge: earlier responses are missing, immediately or when the
    /// gap is older than the reorder time.
    pub(crate) fn judge_responses(&mut self, now: Instant, ctx: &mut Context) {
        let Some(recovery) = &mut ctx.recovery else {
            return;
        };
        let evidence = recovery.sent.latest_answer();
        let reorder_time = recovery.reorder_time;
        if reorder_time.is_zero() {
            let any = self.lose_responses(ctx, &evidence, true);
            self.note_lost(now, ctx, any);
            return;
        }
        let any = self.lose_responses(ctx, &evidence, false);
        if let Some(recovery) = &mut ctx.recovery {
            if any {
                recovery.sent.measure_gap(now + reorder_time);
            } else {
                recovery.sent.close_gap();
            }
        }
    }

    /// Handles a gap in responses that may be older than the reorder time.
    pub(crate) fn gap_time_out(&mut self, now: Instant, ctx: &mut Context) {
        let old = ctx.recovery.as_mut().and_then(|r| r.sent.take_old_gap(now));
        if let Some(gap) = old {
            let any = self.lose_responses(ctx, &gap.seen, true);
            self.note_lost(now, ctx, any);
            self.judge_responses(now, ctx);
        }
    }

    /// Records that packets must be retransmitted. This uses up no retry: later packets arrive, and
    /// on a network that reorders the oldest packet may be overtaken repeatedly.
    pub(crate) fn note_lost(&mut self, now: Instant, ctx: &mut Context, any: bool) {
        if !any || ctx.fault {
            return;
        }
        ctx.statistics.sequence_naks_received += 1;
        let entry = self.entry_of(self.oldest);
        let request = entry.map_or(self.oldest, |found| self.queue[found].first_psn);
        let goes_on = match &mut ctx.recovery {
            Some(recovery) => recovery.sent.count_loss_of(self.oldest, request),
            None => true,
        };
        if goes_on {
            self.start_timer(now, ctx);
        } else {
            self.fail_front(ctx, CompletionStatus::RetryExceeded);
        }
    }

    /// Retransmits the last packet to request an acknowledge of everything.
    pub(super) fn solicit_with_last(&mut self, ctx: &mut Context) {
        let last = self.next.sub(1);
        self.ack_requested = self.next;
        if let Some(recovery) = &mut ctx.recovery {
            recovery.sent.advance(self.oldest);
            if span(self.oldest, last) < REORDER_WINDOW_PACKETS {
                recovery.sent.lose(last);
            } else {
                recovery.sent.lose_before(self.next);
            }
        }
    }
}

/// Progress.
impl Requester {
    /// Completes everything that is executed and whose data has arrived.
    pub(crate) fn pass(&mut self, now: Instant, ctx: &mut Context) {
        let begin = self.oldest;
        let sent = span(self.oldest, self.next);
        while self.started > 0 && !ctx.fault {
            let Some(recovery) = &mut ctx.recovery else {
                return;
            };
            let front = &self.queue[0];
            let (fetches, end) = (front.fetches(), front.first_psn.add(front.packets));
            let reached = reach(&recovery.sent, self.oldest, end, fetches);
            if !fetches {
                let passed = span(self.oldest, reached);
                self.in_flight = self.in_flight.saturating_sub(passed);
            }
            let is_stuck = reached == self.oldest;
            self.oldest = reached;
            recovery.sent.advance(reached);
            if reached == end {
                if fetches {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    self.fetches_in_flight = self.fetches_in_flight.saturating_sub(1);
                }
                self.retire_front(ctx);
            } else if is_stuck || !fetches {
                break;
            }
        }
        if self.oldest != begin {
            self.progress_selectively(now, ctx, span(begin, self.oldest) > sent);
        }
    }

    /// Records progress of the peer. Unlike in go-back-N, it does not end an RNR wait, because it
    /// may be the response to an earlier request.
    fn progress_selectively(&mut self, now: Instant, ctx: &mut Context, overtaken: bool) {
        if overtaken {
            self.go_back(ctx);
        }
        self.note_progress(ctx);
        if self.next == self.oldest {
            ctx.timers.stop(Timer::Retransmit);
        } else {
            self.start_timer(now, ctx);
        }
        self.settle_failure(ctx);
    }

    /// Backs off because the responder has no receive WQE for `psn`; the responder keeps later
    /// packets.
    pub(crate) fn back_off_from(&mut self, ctx: &mut Context, psn: Psn, until: Instant) {
        let Some(recovery) = &mut ctx.recovery else {
            return;
        };
        recovery.sent.forget_arrival(psn);
        if !self.ask_later(ctx, psn, until) {
            return; // a repetition
        }
        ctx.statistics.rnr_naks_received += 1;
        ctx.notice(Note::PeerNotReady);
        if !self.retry.spend_rnr(&ctx.attributes) {
            self.fail_front(ctx, CompletionStatus::RnrRetryExceeded);
        }
    }

    /// Sends the request of `psn` again, not before `until`. Returns false if this is known.
    pub(crate) fn ask_later(&mut self, ctx: &mut Context, psn: Psn, until: Instant) -> bool {
        let is_new = ctx.recovery.as_mut().is_some_and(|r| r.sent.lose(psn));
        if is_new {
            ctx.timers.set(Timer::RnrBackoff, until);
            self.start_timer(until, ctx);
        }
        is_new
    }
}

/// Returns the first PSN from `oldest` on, and at most `end`, that is not executed or whose
/// response has not arrived.
fn reach(sent: &SentWindow, oldest: Psn, end: Psn, fetches: bool) -> Psn {
    if fetches {
        let left = span(oldest, end);
        let answered = (0..left).find(|index| !sent.is_answered(oldest.add(*index)));
        return oldest.add(answered.unwrap_or(left));
    }
    if sent.executed().is_before(end) {
        sent.executed()
    } else {
        end
    }
}
