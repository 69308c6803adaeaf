//! Trains of a queue pair: packets of one message that are sent and received in one step.
//!
//! Middle packets of a long message differ only in PSN and payload. A caller that need not see each
//! of them takes [`Qp::next_train`] of the sender, or its [`Train::head`]; it then
//!
//! 1. copies the payload from [`Train::payload`] to [`Qp::train_target`] of the receiver,
//! 2. lets the sender count the packets as sent: [`Qp::send_train`],
//! 3. and lets the receiver count them as received: [`Qp::receive_train`].
//!
//! The PSN window, the byte counts of the message and the bookkeeping of ACKs are then the same as
//! if the packets had been sent and received one by one. Packets that left before the train may
//! still be in flight: the receiver passes the train when they have arrived. The packets of a train
//! are not in flight; the ACK of a later packet covers them, and after the loss of an earlier
//! packet they are sent one by one. All other packets are unchanged: PSNs, opcodes, and which of
//! them request an ACK.

use ferroce_wire::TransportHeaders;

use super::Qp;
use crate::step::MemoryOp;
use crate::train::Train;

/// Trains: packets of long messages in one step. Only the reliable services have them.
impl Qp {
    /// Returns the packets that this queue pair sends next, up to the last packet of the message.
    /// `None` if it is not in the middle of a message, has two in progress (a request and a
    /// response), retransmits, or has a recovery mode. The train may be empty.
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

    /// Counts a train as sent: the packet after it is next. Returns false and changes nothing if
    /// the train is not from [`Qp::next_train`], or if the peer has not passed another train.
    pub fn send_train(&mut self, train: &Train) -> bool {
        let Some((rc, ctx)) = self.reliable_mut() else {
            return false;
        };
        if train.is_response() {
            rc.responder.send_train(train)
        } else {
            rc.requester.send_train(ctx, train)
        }
    }

    /// Returns the number of packets before a train that this queue pair, its receiver, has not
    /// received. `None`: it has not received the first packet of the message, or is past the train.
    #[must_use]
    pub fn packets_before(&self, train: &Train) -> Option<u32> {
        let (rc, _) = self.reliable()?;
        train.packets_from(if train.is_response() {
            rc.requester.oldest
        } else {
            rc.responder.expected
        })
    }

    /// Returns the memory operation that writes all bytes from the next expected one to the end of
    /// a train. `None`: this queue pair is not receiving that message, or cannot receive the train.
    #[must_use]
    pub fn train_target(&self, train: &Train) -> Option<MemoryOp> {
        let (rc, ctx) = self.reliable()?;
        match train.is_response() {
            _ if !rc.is_idle() => None,
            false => rc.responder.train_target(ctx, train),
            true => rc.requester.train_target(ctx, train),
        }
    }

    /// Counts a train as received when all packets before it have arrived. The train must have a
    /// [`Qp::train_target`].
    pub fn receive_train(&mut self, train: &Train) {
        if let Some((rc, ctx)) = self.reliable_mut() {
            if train.is_response() {
                rc.requester.receive_train(ctx, train);
            } else {
                rc.responder.receive_train(ctx, train);
            }
        }
    }

    /// Returns how many packets of `packet`'s message have been received; `packet` was handled
    /// last. `None`: the message has ended.
    #[inline]
    #[must_use]
    pub fn packets_received(&self, packet: &TransportHeaders) -> Option<u32> {
        let (rc, ctx) = self.reliable()?;
        let opcode = packet.bth.opcode.parse();
        if opcode.is_some_and(|opcode| opcode.is_response()) {
            rc.requester.packets_received()
        } else {
            rc.responder.packets_received(ctx)
        }
    }

    /// Returns true if this queue pair, apart from ACKs, only has to send one message and to
    /// receive another, the messages of these trains.
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
