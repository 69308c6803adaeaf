//! Messages that come in, or READ responses that go out, with packets left out.

use super::{Message, Responder};
use crate::context::Context;
use crate::step::MemoryOp;
use crate::stream::{Gap, GapSource, GapTarget, Stream};

impl Responder {
    /// The READ response that is being sent, once its first packet has left.
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.resources.stream()
    }

    /// Returns true if responses with data are to be sent.
    pub(crate) fn has_responses(&self) -> bool {
        self.resources.has_pending()
    }

    /// The bytes of its next packets.
    pub(crate) fn gap_source(&self, ctx: &Context) -> Option<GapSource> {
        self.resources.gap_source(ctx.attributes.path_mtu)
    }

    /// Leaves the next packets of it out; its last one is not among them.
    pub(crate) fn skip(&mut self, packets: u32) -> bool {
        self.resources.skip(packets)
    }

    /// Packets of the message that have come.
    #[inline]
    pub(crate) fn packets_received(&self, ctx: &Context) -> Option<u32> {
        let bytes = match self.message {
            Message::Write {
                remaining, total, ..
            } => total - remaining,
            Message::Send { received } => received,
            Message::None => return None,
        };
        Some(bytes >> ctx.attributes.path_mtu.shift())
    }

    /// Returns the place for the data of a gap of the message that is being received; `None`: it is
    /// not that message, or is past the gap.
    pub(crate) fn gap_target(&self, ctx: &Context, gap: &Gap) -> Option<GapTarget> {
        if ctx.gaps.responder().is_some() {
            return None;
        }
        let shift = ctx.attributes.path_mtu.shift();
        let under_way = gap.packets_from(self.expected)? << shift;
        let end = under_way + (gap.packets << shift);
        let next = match self.message {
            Message::Write {
                r_key,
                virtual_address,
                remaining,
                ..
            } if end < remaining => MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length: 0,
                srqn: self.srqn,
            },
            Message::Send { received } => {
                let receive = self.receive.filter(|own| received + end <= own.capacity)?;
                MemoryOp::WriteReceive {
                    receive: receive.id,
                    offset: received,
                    length: 0,
                }
            }
            _ => return None,
        };
        Some(GapTarget { next, under_way })
    }

    /// The requester leaves packets of the message out.
    pub(crate) fn skip_receive(&mut self, ctx: &mut Context, gap: &Gap) {
        ctx.gaps.set_responder(Some((gap.first, gap.packets)));
        self.pass_gap(ctx);
    }

    /// Accepts the skipped packets when those in front of them have been received.
    #[inline]
    pub(super) fn pass_gap(&mut self, ctx: &mut Context) {
        if let Some((first, packets)) = ctx.gaps.responder()
            && first == self.expected
        {
            ctx.gaps.set_responder(None);
            self.expected = self.expected.add(packets);
            self.message
                .advance(packets << ctx.attributes.path_mtu.shift());
        }
    }
}
