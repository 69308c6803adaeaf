//! Acknowledging, and going back: the fate of sent requests.

use ferroce_units::Instant;
use ferroce_wire::Msn;

use super::Requester;
use crate::completion::{Completion, CompletionStatus};
use crate::context::Context;
use crate::recovery::expiry::Outcome;
use crate::request::SendRequest;
use crate::span::span;
use crate::timer::Timer;

impl Requester {
    /// Acknowledges `count` PSNs from the oldest on. Returns false if it stops at a READ or atomic
    /// whose data is missing.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: Instant, ctx: &mut Context, count: u32) -> bool {
        let sent = span(self.oldest, self.next);
        let oldest = self.oldest;
        let mut acknowledged = 0;
        while acknowledged < count && self.started > 0 {
            let front = &self.queue[0];
            if front.fetches() {
                break;
            }
            let left = span(self.oldest, front.first_psn.add(front.packets));
            let step = left.min(count - acknowledged);
            acknowledged += step;
            self.oldest = self.oldest.add(step);
            if step == left {
                self.retire_front(ctx);
            }
        }
        if acknowledged > 0 {
            let sent_packets =
                acknowledged.saturating_sub(Self::cross_train(ctx, oldest, acknowledged));
            self.in_flight = self.in_flight.saturating_sub(sent_packets);
            self.progress(now, ctx, acknowledged > sent);
        }
        acknowledged == count
    }

    /// Acknowledges one packet of the response to the READ or atomic at the front.
    pub(crate) fn acknowledge_response(&mut self, now: Instant, ctx: &mut Context) {
        let overtaken = self.next == self.oldest;
        self.oldest = self.oldest.next();
        self.pass_train(ctx);
        let front = &self.queue[0];
        if self.oldest == front.first_psn.add(front.packets) {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.fetches_in_flight = self.fetches_in_flight.saturating_sub(1);
            self.retire_front(ctx);
        }
        self.progress(now, ctx, overtaken);
    }

    /// Records progress of the peer. `overtaken`: the peer is further than this pass, thanks to
    /// packets of an earlier pass; this pass then continues from there.
    #[inline]
    fn progress(&mut self, now: Instant, ctx: &mut Context, overtaken: bool) {
        if overtaken {
            self.go_back(ctx);
        }
        self.note_progress(ctx);
        ctx.timers.stop(Timer::RnrBackoff);
        if self.next == self.oldest {
            ctx.timers.stop(Timer::Retransmit);
        } else {
            self.start_timer(now, ctx);
        }
        self.settle_failure(ctx);
    }

    /// Completes the front entry with success.
    #[inline]
    pub(super) fn retire_front(&mut self, ctx: &mut Context) {
        let Some(entry) = self.queue.pop_front() else {
            return;
        };
        self.started -= 1;
        self.cursor = self.cursor.saturating_sub(1);
        if entry.request.signaled {
            Self::complete(ctx, &entry.request, CompletionStatus::Success);
        }
        self.retire_locals(ctx);
    }

    /// Fails the front entry and with it the queue pair.
    pub(crate) fn fail_front(&mut self, ctx: &mut Context, status: CompletionStatus) {
        if let Some(entry) = self.queue.pop_front() {
            Self::complete(ctx, &entry.request, status);
        }
        ctx.fault = true;
    }

    /// Starts a new pass at the oldest PSN.
    pub(super) fn go_back(&mut self, ctx: &mut Context) {
        self.cursor = 0;
        self.position = match self.queue.front() {
            Some(front) if self.started > 0 => span(front.first_psn, self.oldest),
            _ => 0,
        };
        self.next = self.oldest;
        self.ack_requested = self.oldest;
        self.in_flight = 0;
        self.fetches_in_flight = 0;
        self.since_ack_request = 0;
        // The packets of a train are now sent one by one.
        ctx.trains.set_requester(None);
    }

    /// Resets all retry counts.
    #[inline]
    pub(super) fn note_progress(&mut self, ctx: &mut Context) {
        self.retry.reset(&ctx.attributes);
        ctx.ack_timer.progress();
    }

    /// Goes back after a sequence error if retries are left.
    pub(crate) fn retry(&mut self, now: Instant, ctx: &mut Context) {
        if self.retry.spend() {
            self.send_again(now, ctx);
        } else {
            self.fail_front(ctx, CompletionStatus::RetryExceeded);
        }
    }

    /// Retransmits unacknowledged packets.
    fn send_again(&mut self, now: Instant, ctx: &mut Context) {
        if ctx.is_selective() {
            self.lose_all(ctx);
            self.start_timer(now, ctx);
        } else {
            self.go_back(ctx);
            ctx.timers.stop(Timer::Retransmit);
        }
    }

    /// Goes back after an RNR NAK of the peer.
    pub(crate) fn back_off(&mut self, ctx: &mut Context, until: Instant) {
        if self.retry.spend_rnr(&ctx.attributes) {
            self.pause(ctx, until);
        } else {
            self.fail_front(ctx, CompletionStatus::RnrRetryExceeded);
        }
    }

    /// Goes back, and sends nothing until then.
    pub(crate) fn pause(&mut self, ctx: &mut Context, until: Instant) {
        self.go_back(ctx);
        ctx.timers.stop(Timer::Retransmit);
        ctx.timers.set(Timer::RnrBackoff, until);
    }

    /// Handles the expiry of the timer of unacknowledged packets.
    pub(crate) fn time_out(&mut self, now: Instant, ctx: &mut Context) {
        if self.oldest == self.next {
            return;
        }
        self.retry.rearm_implied_nak();
        let expiry = ctx.ack_timer.expire(&ctx.attributes, &mut self.retry);
        if expiry.is_adaptive {
            ctx.statistics.adaptive_retransmissions += 1;
        } else {
            ctx.statistics.local_ack_timeouts += 1;
        }
        match expiry.outcome {
            Outcome::Wait => self.start_timer(now, ctx),
            Outcome::Retransmit => self.send_again(now, ctx),
            Outcome::GiveUp => self.fail_front(ctx, CompletionStatus::RetryExceeded),
        }
        // The first packet of the new pass requests an acknowledge. The silence may mean that no
        // packet has requested one, because a later request was to do so and cannot start.
        self.since_ack_request = ctx.config.ack_request_interval;
    }

    /// Makes the peer acknowledge the packets in flight although nothing follows them: they are
    /// retransmitted if the last packet did not request an acknowledge.
    pub(super) fn solicit_acknowledge(&mut self, ctx: &mut Context) {
        if self.next == self.oldest || self.ack_requested == self.next {
            return;
        }
        if ctx.is_selective() {
            self.solicit_with_last(ctx);
        } else {
            self.go_back(ctx);
            ctx.timers.stop(Timer::Retransmit);
        }
    }

    /// Records that the responder has `credits` receive WQEs beyond message `msn`; `None`: no
    /// limit.
    #[inline]
    pub(crate) fn update_credits(&mut self, ctx: &mut Context, msn: Msn, credits: Option<u32>) {
        let Some(credits) = credits else {
            self.credit_limit = None;
            return;
        };
        let limit = Msn::new(msn.value().wrapping_add(credits));
        match self.credit_limit {
            // Credits are never taken back: this is an older ACK that arrived late.
            Some(old) if limit.distance_from(old) < 0 => {}
            Some(_) => self.credit_limit = Some(limit),
            None => {
                self.credit_limit = Some(limit);
                // The packets sent so far may not have requested an acknowledge.
                if self
                    .queue
                    .get(self.cursor)
                    .is_some_and(|entry| self.is_credit_limited(entry))
                {
                    self.solicit_acknowledge(ctx);
                }
            }
        }
    }

    #[inline]
    pub(super) fn complete(ctx: &mut Context, request: &SendRequest, status: CompletionStatus) {
        ctx.complete(Completion::Send {
            id: request.id,
            status,
            operation: request.operation.kind(),
            byte_length: request.length,
        });
    }
}
