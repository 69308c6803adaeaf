//! Messages that are on their way out, or whose READ responses come in, with packets left out.

use ferroce_wire::Psn;

use super::{Requester, span};
use crate::context::Context;
use crate::step::MemoryOp;
use crate::stream::{Gap, GapSource, GapTarget, Stream, StreamKind};
use crate::timer::Timer;
use crate::transmit::Payload;

impl Requester {
    /// The SEND or WRITE that is being sent for the first time, once its first packet has left.
    pub(crate) fn stream(&self, ctx: &Context) -> Option<Stream> {
        let entry = self.queue.get(self.cursor)?;
        let flows = self.position > 0
            && self.next == self.newest
            && ctx.gaps.requester().is_none()
            && entry.failure.is_none()
            && !entry.fetches()
            && !ctx.timers.is_set(Timer::RnrBackoff);
        flows.then(|| Stream {
            kind: StreamKind::Request,
            first: entry.first_psn,
            next: self.next,
            left: entry.packets - self.position,
        })
    }

    /// Returns whether requests with data are to be sent or not all acknowledged, and whether READs
    /// or atomics are not all answered.
    pub(crate) fn activity(&self, ctx: &Context) -> (bool, bool) {
        let sends = self.in_flight > self.fetches_in_flight || self.has_transmit(ctx);
        (sends, self.fetches_in_flight > 0)
    }

    /// The bytes of the next packets.
    pub(crate) fn gap_source(&self, ctx: &Context) -> Option<GapSource> {
        let entry = self.queue.get(self.cursor)?;
        Some(GapSource(Payload::Request {
            request: entry.request.id,
            offset: self.position << ctx.attributes.path_mtu.shift(),
            length: 0,
        }))
    }

    /// Leaves the next packets of the stream out; its last one is not among them.
    pub(crate) fn skip(&mut self, ctx: &mut Context, packets: u32) -> bool {
        let left = self.queue.get(self.cursor);
        let left = left.map_or(0, |entry| entry.packets - self.position);
        let fits = span(self.oldest, self.next) + packets <= Psn::HALF;
        if packets >= left || !fits || ctx.gaps.requester().is_some() {
            return false;
        }
        ctx.gaps.set_requester(Some((self.next, packets)));
        self.position += packets;
        self.next = self.next.add(packets);
        self.newest = self.next;
        true
    }

    /// `count` PSNs from `oldest` on were acknowledged: how many of them were left out.
    #[inline]
    pub(super) fn cross_gap(ctx: &mut Context, oldest: Psn, count: u32) -> u32 {
        match ctx.gaps.requester() {
            Some((first, packets)) if span(oldest, first) < count => {
                ctx.gaps.set_requester(None);
                packets
            }
            _ => 0,
        }
    }

    /// Packets of the READ response at the front that have come.
    pub(crate) fn packets_received(&self) -> Option<u32> {
        let front = self.queue.front().filter(|_| self.started > 0)?;
        let is_read = front.request.operation.is_read();
        is_read.then(|| span(front.first_psn, self.oldest))
    }

    /// Returns the place for the data of a gap of the READ response that is being received; `None`:
    /// it is not that response, or is past the gap.
    pub(crate) fn gap_target(&self, ctx: &Context, gap: &Gap) -> Option<GapTarget> {
        let front = self.queue.front()?;
        let is_it = front.request.operation.is_read() && front.first_psn == gap.message;
        let end = span(front.first_psn, gap.first) + gap.packets;
        if !is_it || ctx.gaps.requester().is_some() || end >= front.packets {
            return None;
        }
        let shift = ctx.attributes.path_mtu.shift();
        Some(GapTarget {
            next: MemoryOp::WriteReadResponse {
                request: front.request.id,
                offset: span(front.first_psn, self.oldest) << shift,
                length: 0,
            },
            under_way: gap.packets_from(self.oldest)? << shift,
        })
    }

    /// The responder leaves packets of the READ response out.
    pub(crate) fn skip_receive(&mut self, ctx: &mut Context, gap: &Gap) {
        ctx.gaps.set_requester(Some((gap.first, gap.packets)));
        self.pass_response_gap(ctx);
    }

    /// Accepts the skipped packets of a READ response when those in front of them have been
    /// received.
    #[inline]
    pub(super) fn pass_response_gap(&mut self, ctx: &mut Context) {
        if let Some((first, packets)) = ctx.gaps.requester()
            && first == self.oldest
        {
            ctx.gaps.set_requester(None);
            self.oldest = self.oldest.add(packets);
        }
    }
}
