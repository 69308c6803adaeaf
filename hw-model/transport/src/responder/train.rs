//! Trains of incoming requests, or of outgoing READ responses.

use ferroce_qp::PathMtu;

use super::{Message, Responder};
use crate::context::Context;
use crate::step::MemoryOp;
use crate::train::Train;

impl Responder {
    /// Returns the next train of the READ response that is being sent, once its first packet has
    /// left.
    pub(crate) fn next_train(&self, mtu: PathMtu) -> Option<Train> {
        self.resources.next_train(mtu)
    }

    /// Returns true if responses with data are to be sent.
    pub(crate) const fn has_responses(&self) -> bool {
        self.resources.has_pending()
    }

    pub(crate) fn send_train(&mut self, train: &Train) -> bool {
        self.resources.send_train(train)
    }

    /// Returns the number of received packets of the message.
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

    /// Returns the target of a train of the message that is being received.
    pub(crate) fn train_target(&self, ctx: &Context, train: &Train) -> Option<MemoryOp> {
        if ctx.trains.responder().is_some() {
            return None;
        }
        let packets = train.packets_from(self.expected)? + train.packets;
        let length = packets << ctx.attributes.path_mtu.shift();
        match self.message {
            Message::Write {
                r_key,
                virtual_address,
                remaining,
                ..
            } if length < remaining => Some(MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length,
                srqn: self.srqn,
            }),
            Message::Send { received } => {
                let fits = |capacity| received + length <= capacity;
                let receive = self.receive.filter(|own| fits(own.capacity))?;
                Some(MemoryOp::WriteReceive {
                    receive: receive.id,
                    offset: received,
                    length,
                })
            }
            _ => None,
        }
    }

    pub(crate) fn receive_train(&mut self, ctx: &mut Context, train: &Train) {
        ctx.trains.set_responder(Some((train.first, train.packets)));
        self.pass_train(ctx);
    }

    /// Accepts the packets of a train when all packets before it have been received.
    #[inline]
    pub(super) fn pass_train(&mut self, ctx: &mut Context) {
        if let Some((first, packets)) = ctx.trains.responder()
            && first == self.expected
        {
            ctx.trains.set_responder(None);
            self.expected = self.expected.add(packets);
            self.message
                .advance(packets << ctx.attributes.path_mtu.shift());
        }
    }
}
