//! Trains of a queue pair: packets of one message that are sent, and received, in one step.
//!
//! Middle packets of a long message differ only in PSN and payload. A caller that need not see each
//! of them takes [`Qp::next_train`] of the sender, or the [`Train::head`] of it, and then
//!
//! 1. copies the payload from [`Train::payload`] to [`Qp::train_target`] of the receiver,
//! 2. lets the sender count the packets as sent: [`Qp::send_train`],
//! 3. and the receiver count them as received: [`Qp::receive_train`].
//!
//! The PSN window, the byte counts of the message and the bookkeeping of ACKs are then as if the
//! packets had been sent and received one by one. Packets that left in front of the train may still
//! be on their way: the receiver passes the train when they have come. The packets of a train are
//! not in flight, the ACK of a later packet covers them; after a loss in front of them they are
//! sent one by one. All other packets stay the same: PSNs, opcodes, which of them request an ACK.

use ferroce_wire::TransportHeaders;

use super::Qp;
use crate::step::MemoryOp;
use crate::train::Train;

/// Trains: packets of long messages in one step. Only the reliable services have them.
impl Qp {
    /// Returns the packets that this queue pair sends next, up to the last packet of the message.
    /// `None` if it is not in the middle of a message, of two (a request and a response), sends
    /// packets again, or has a mode of recovery. The train may be empty.
    #[must_use]
    pub fn next_train(&self) -> Option<Train> {
        let (rc, ctx) = self.reliable()?;
        if ctx.recovery.is_some() {
            return None;
        }
        let mtu = ctx.attributes.path_mtu;
        match (rc.requester.next_train(ctx), rc.responder.next_train(mtu)) {
            (Some(_), Some(_)) => None,
            (request, response) => request.or(response),
        }
    }

    /// Counts a train as sent: the next packet is the one behind it. Returns false, and changes
    /// nothing, if it is not of [`Qp::next_train`], or if the peer has not passed another train.
    pub fn send_train(&mut self, train: &Train) -> bool {
        let Some((rc, ctx)) = self.reliable_mut() else {
            return false;
        };
        match train.is_response() {
            false => rc.requester.send_train(ctx, train),
            true => rc.responder.send_train(train),
        }
    }

    /// Returns the number of packets in front of a train that this queue pair, its receiver, has
    /// not received. `None`: it has not received the first packet of the message, or is past the
    /// train.
    #[must_use]
    pub fn packets_before(&self, train: &Train) -> Option<u32> {
        let (rc, _) = self.reliable()?;
        train.packets_from(match train.is_response() {
            false => rc.responder.expected,
            true => rc.requester.oldest,
        })
    }

    /// Returns the memory operation that writes all bytes from the next one that this queue pair
    /// receives to the end of a train. `None`: it is not receiving that message, or cannot receive
    /// the train.
    #[must_use]
    pub fn train_target(&self, train: &Train) -> Option<MemoryOp> {
        let (rc, ctx) = self.reliable()?;
        match train.is_response() {
            _ if !rc.is_idle() => None,
            false => rc.responder.train_target(ctx, train),
            true => rc.requester.train_target(ctx, train),
        }
    }

    /// Counts a train as received when all packets in front of it have come. Only for a train for
    /// which there is a [`Qp::train_target`].
    pub fn receive_train(&mut self, train: &Train) {
        if let Some((rc, ctx)) = self.reliable_mut() {
            match train.is_response() {
                false => rc.responder.receive_train(ctx, train),
                true => rc.requester.receive_train(ctx, train),
            }
        }
    }

    /// Returns how many packets have come of the message to which `packet` belongs, which was
    /// handled last. `None`: the message has ended.
    #[inline]
    #[must_use]
    pub fn packets_received(&self, packet: &TransportHeaders) -> Option<u32> {
        let (rc, ctx) = self.reliable()?;
        let opcode = packet.bth.opcode.parse();
        match opcode.is_some_and(|opcode| opcode.is_response()) {
            false => rc.responder.packets_received(ctx),
            true => rc.requester.packets_received(),
        }
    }

    /// Returns true if all that this queue pair has to do, apart from ACKs, is to send one message
    /// and to receive another: those of these trains.
    #[must_use]
    pub fn is_idle_but_for(&self, sent: Option<&Train>, received: Option<&Train>) -> bool {
        let Some((rc, ctx)) = self.reliable() else {
            return !self.has_transmit() && self.outstanding_sends() == 0;
        };
        let is_request = |train: &Train| !train.is_response();
        (!rc.requester.sends(ctx) || sent.is_some_and(is_request))
            && (!rc.responder.has_responses() || sent.is_some_and(Train::is_response))
            && (!rc.requester.fetches() || received.is_some_and(Train::is_response))
    }
}
