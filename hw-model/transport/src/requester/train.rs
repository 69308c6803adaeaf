//! Trains of outgoing requests, or of incoming READ responses.

use ferroce_wire::Psn;

use super::Requester;
use crate::context::Context;
use crate::span::span;
use crate::step::MemoryOp;
use crate::timer::Timer;
use crate::train::Train;
use crate::transmit::Payload;

impl Requester {
    /// Returns the next train of the SEND or WRITE that is being sent for the first time, once its
    /// first packet has left.
    pub(crate) fn next_train(&self, ctx: &Context) -> Option<Train> {
        let entry = self.queue.get(self.cursor)?;
        let flows = self.position > 0
            && self.next == self.newest
            && ctx.trains.requester().is_none()
            && entry.failure.is_none()
            && !entry.fetches()
            && !ctx.timers.is_set(Timer::RnrBackoff);
        if !flows {
            return None;
        }
        let mtu = ctx.attributes.path_mtu;
        // The last packet is not included.
        let packets = entry.packets - self.position - 1;
        Some(Train {
            message: entry.first_psn,
            first: self.next,
            packets,
            mtu,
            payload: Payload::Request {
                request: entry.request.id,
                offset: self.position << mtu.shift(),
                length: packets << mtu.shift(),
            },
        })
    }

    /// Returns true if requests with data are not all sent and acknowledged.
    pub(crate) fn sends(&self, ctx: &Context) -> bool {
        self.in_flight > self.fetches_in_flight || self.has_transmit(ctx)
    }

    /// Returns true if READs or atomics are not all answered.
    pub(crate) const fn fetches(&self) -> bool {
        self.fetches_in_flight > 0
    }

    pub(crate) fn send_train(&mut self, ctx: &mut Context, train: &Train) -> bool {
        let left = self.queue.get(self.cursor);
        let left = left.map_or(0, |entry| entry.packets - self.position);
        let packets = train.packets;
        let fits = span(self.oldest, self.next) + packets <= Psn::HALF;
        let is_next = train.first == self.next && packets < left;
        if !is_next || !fits || ctx.trains.requester().is_some() {
            return false;
        }
        ctx.trains.set_requester(Some((self.next, packets)));
        self.position += packets;
        self.next = self.next.add(packets);
        self.newest = self.next;
        true
    }

    /// Returns how many of the `count` acknowledged PSNs from `oldest` on belong to a train and
    /// were therefore never in flight.
    #[inline]
    pub(super) fn cross_train(ctx: &mut Context, oldest: Psn, count: u32) -> u32 {
        match ctx.trains.requester() {
            Some((first, packets)) if span(oldest, first) < count => {
                ctx.trains.set_requester(None);
                packets
            }
            _ => 0,
        }
    }

    /// Returns the number of received packets of the READ response at the front.
    pub(crate) fn packets_received(&self) -> Option<u32> {
        let front = self.queue.front().filter(|_| self.started > 0)?;
        let is_read = front.request.operation.is_read();
        is_read.then(|| span(front.first_psn, self.oldest))
    }

    /// Returns the target of a train of the READ response that is being received.
    pub(crate) fn train_target(&self, ctx: &Context, train: &Train) -> Option<MemoryOp> {
        let front = self.queue.front()?;
        let is_it = front.request.operation.is_read() && front.first_psn == train.message;
        let end = span(front.first_psn, train.first) + train.packets;
        if !is_it || ctx.trains.requester().is_some() || end >= front.packets {
            return None;
        }
        let packets = train.packets_from(self.oldest)? + train.packets;
        let shift = ctx.attributes.path_mtu.shift();
        Some(MemoryOp::WriteReadResponse {
            request: front.request.id,
            offset: span(front.first_psn, self.oldest) << shift,
            length: packets << shift,
        })
    }

    pub(crate) fn receive_train(&mut self, ctx: &mut Context, train: &Train) {
        ctx.trains.set_requester(Some((train.first, train.packets)));
        self.pass_train(ctx);
    }

    /// Accepts the packets of a train when all packets before it have been received.
    #[inline]
    pub(super) fn pass_train(&mut self, ctx: &mut Context) {
        if let Some((first, packets)) = ctx.trains.requester()
            && first == self.oldest
        {
            ctx.trains.set_requester(None);
            self.oldest = self.oldest.add(packets);
        }
    }
}
