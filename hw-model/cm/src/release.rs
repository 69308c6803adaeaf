//! The end of connections: REJ, DREQ, DREP, TIMEWAIT (IBTA vol 1, 12.9.8, 12.9.9), and answers to
//! messages without a connection.

use ferroce_units::Instant;
use ferroce_wire::Gid;
use ferroce_wire::cm::{
    Apr, CommunicationId, Drep, Dreq, Lap, Mad, Message, MessageKind, Rej, RejectReason, SidrStatus,
};

use crate::active::{data, refusal};
use crate::cm::{Cm, Disposition, bytes, tag};
use crate::command::{CommandError, Reject};
use crate::connection::MadBytes;
use crate::event::Event;
use crate::state::State;

impl Cm {
    /// Refuses a REQ, or a REP. [`Event::TimewaitExit`] is the last event of the connection.
    ///
    /// # Errors
    ///
    /// [`CommandError::State`] unless one waits for an answer,
    /// [`CommandError::UnknownConnection`], [`CommandError::PrivateData`]
    pub fn reject(
        &mut self,
        now: Instant,
        id: CommunicationId,
        reject: &Reject,
    ) -> Result<(), CommandError> {
        data::<148>(&reject.private_data)?;
        data::<72>(&reject.additional_information)?;
        let state = self.connection(id)?.state;
        if !matches!(
            state,
            State::ReqReceived | State::RepReceived | State::RepSent
        ) {
            return Err(CommandError::State(state));
        }
        self.send_rej(id, reject);
        self.end(now, id, None);
        Ok(())
    }

    /// Sends a DREQ. [`Event::Disconnected`] follows.
    ///
    /// # Errors
    ///
    /// [`CommandError::State`] unless the connection is established,
    /// [`CommandError::UnknownConnection`], [`CommandError::PrivateData`]
    pub fn disconnect(
        &mut self,
        now: Instant,
        id: CommunicationId,
        private_data: &[u8],
    ) -> Result<(), CommandError> {
        data::<220>(private_data)?;
        let state = self.connection(id)?.state;
        if state != State::Established {
            return Err(CommandError::State(state));
        }
        self.send_dreq(now, id, private_data);
        Ok(())
    }

    /// Ends a connection or resolution in any state, without further events: refuses or disconnects
    /// the peer in the background. Events that are not yet polled remain.
    pub fn destroy(&mut self, now: Instant, id: CommunicationId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.is_orphan = true;
        match connection.state {
            State::ReqSent => {
                self.send_timeout_rej(id);
                self.end(now, id, None);
            }
            State::ReqReceived | State::RepReceived | State::RepSent => {
                self.send_rej(id, &refusal(RejectReason::CONSUMER));
                self.end(now, id, None);
            }
            State::Established => self.send_dreq(now, id, &[]),
            State::DreqSent | State::Timewait | State::SidrRepSent => {}
            State::SidrReqReceived => self.refuse_service(now, id, SidrStatus::REJECT),
            State::SidrReqSent => {
                self.remove(id);
            }
        }
    }

    pub(crate) fn send_dreq(&mut self, now: Instant, id: CommunicationId, private_data: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.state = State::DreqSent;
        let parameters = connection.parameters.as_ref();
        let dreq = Dreq {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            remote_qpn_eecn: parameters.map_or_else(Default::default, |it| it.remote_qpn),
            private_data: data(private_data).unwrap_or_default(),
            ..Dreq::default()
        };
        self.send_and_await(now, id, dreq, 0);
    }

    /// Handles a DREQ: answered immediately, whether or not it is the first one (12.9.8.7).
    pub(crate) fn handle_dreq(&mut self, now: Instant, id: CommunicationId, dreq: &Dreq) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let parameters = connection.parameters.as_ref();
        if parameters.is_none_or(|it| it.local_qpn != dreq.remote_qpn_eecn) {
            return self.statistics.unexpected += 1;
        }
        let drep = Drep {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            ..Drep::default()
        };
        match connection.state {
            State::Timewait => {
                self.statistics.duplicates += 1;
                self.send_message(id, drep);
            }
            State::RepReceived | State::RepSent | State::Established | State::DreqSent => {
                self.send_message(id, drep);
                let event = Event::Disconnected {
                    id,
                    is_timeout: false,
                    private_data: dreq.private_data.0.to_vec(),
                };
                self.forget_answer(id);
                self.end(now, id, Some(event));
            }
            _ => self.statistics.unexpected += 1,
        }
    }

    /// Handles a DREP: the answer to our DREQ, or a duplicate.
    pub(crate) fn handle_drep(&mut self, now: Instant, id: CommunicationId, drep: &Drep) {
        if self.state(id) != Some(State::DreqSent) {
            return self.statistics.duplicates += 1;
        }
        let event = Event::Disconnected {
            id,
            is_timeout: false,
            private_data: drep.private_data.0.to_vec(),
        };
        self.forget_answer(id);
        self.end(now, id, Some(event));
    }

    /// Handles a REJ. It names its receiver by the receiver's identifier, or, after a timeout of a
    /// sender that does not know it, by the sender's own.
    pub(crate) fn handle_rej(&mut self, now: Instant, from: Gid, reject: &Rej) -> Disposition {
        let sender = reject.local_communication_id;
        let id = match reject.remote_communication_id {
            CommunicationId::NONE => self.by_remote_id.get(&(from, sender)).copied(),
            id => Some(id),
        };
        let Some(id) = id else {
            return Disposition::NotOurs(tag(CommunicationId::NONE));
        };
        let Some(connection) = self.connections.get(&id) else {
            return match tag(id) {
                tag if tag == self.config.tag => Disposition::Taken,
                tag => Disposition::NotOurs(tag),
            };
        };
        let known = connection.remote_id;
        // A sender without an identifier refuses the first message that it received.
        let is_peer = match (sender, connection.state) {
            (CommunicationId::NONE, State::ReqSent) => reject.message_rejected == Rej::REQ,
            (CommunicationId::NONE, State::RepSent) => reject.message_rejected == Rej::REP,
            _ => sender == known || known == CommunicationId::NONE,
        };
        if is_peer {
            self.take_rej(now, id, reject);
        }
        Disposition::Taken
    }

    /// Ends connections to processes that have ended without a message, as if their kernel had
    /// refused them. `has_ended` is called with a peer's address and tag.
    pub fn end_lost(&mut self, now: Instant, has_ended: impl Fn(Gid, u8) -> bool) {
        let rej = Rej {
            reason: RejectReason::CONSUMER,
            ..Rej::default()
        };
        let connections = self.connections.iter();
        let lost = connections.filter(|(_, connection)| {
            let peer = connection.remote_id;
            peer != CommunicationId::NONE && has_ended(connection.remote_gid, tag(peer))
        });
        let lost: Vec<_> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            self.take_rej(now, id, &rej);
        }
    }

    fn take_rej(&mut self, now: Instant, id: CommunicationId, reject: &Rej) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        match connection.state {
            State::ReqSent | State::ReqReceived | State::RepReceived | State::RepSent => {
                let length = usize::from(reject.reject_info_length).min(72);
                let event = Event::Rejected {
                    id,
                    reason: reject.reason,
                    additional_information: reject.additional_reject_information.0[..length]
                        .to_vec(),
                    private_data: reject.private_data.0.to_vec(),
                };
                self.end(now, id, Some(event));
            }
            // The peer has given up a connection that this side considers established.
            State::Established | State::DreqSent => {
                let event = Event::Disconnected {
                    id,
                    is_timeout: false,
                    private_data: reject.private_data.0.to_vec(),
                };
                self.forget_answer(id);
                self.end(now, id, Some(event));
            }
            _ => self.statistics.duplicates += 1,
        }
    }

    /// Handles a LAP: alternate paths are not supported.
    pub(crate) fn handle_lap(&mut self, id: CommunicationId, mad: &Mad, lap: &Lap) {
        let apr = Apr {
            local_communication_id: id,
            remote_communication_id: lap.local_communication_id,
            ar_status: Apr::NOT_SUPPORTED,
            ..Apr::default()
        };
        self.send(id, bytes(mad.header.transaction_id, apr));
    }

    /// Enters TIMEWAIT, and reports the event with the reason.
    pub(crate) fn end(&mut self, now: Instant, id: CommunicationId, event: Option<Event>) {
        self.stop_awaiting(id);
        self.release_backlog(id);
        self.forget_remote_qpn(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.state = State::Timewait;
        let until = now + connection.timewait;
        self.set_deadline(id, Some(until));
        if let Some(event) = event {
            self.report(id, event);
        }
    }

    fn forget_answer(&mut self, id: CommunicationId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer = None;
        }
    }

    /// Answers a message that no process of the host has taken, on behalf of the host. REQ and
    /// SIDR_REQ are refused because the service has no listener.
    pub fn refuse(&mut self, from: Gid, to: Gid, bytes: &[u8]) {
        if let Ok(mad) = Mad::parse(bytes) {
            self.refuse_message(from, to, &mad);
        }
    }

    /// Answers a message without a connection (12.9.8).
    pub(crate) fn refuse_message(&mut self, from: Gid, to: Gid, mad: &Mad) {
        match &mad.message {
            Message::Req(request) => {
                self.refuse_req(from, to, mad, request, RejectReason::INVALID_SERVICE_ID);
            }
            Message::SidrReq(request) => {
                self.refuse_sidr_req(from, to, mad, request, SidrStatus::UNSUPPORTED);
            }
            Message::Rep(response) => {
                let rej = Rej {
                    remote_communication_id: response.local_communication_id,
                    message_rejected: Rej::REP,
                    reason: RejectReason::INVALID_COMMUNICATION_ID,
                    ..Rej::default()
                };
                self.send_stateless_rej(from, to, mad, rej);
            }
            Message::Dreq(dreq) => {
                let drep = Drep {
                    local_communication_id: dreq.remote_communication_id,
                    remote_communication_id: dreq.local_communication_id,
                    ..Drep::default()
                };
                self.transmit(to, from, bytes(mad.header.transaction_id, drep));
            }
            Message::Lap(lap) => {
                let apr = Apr {
                    local_communication_id: lap.remote_communication_id,
                    remote_communication_id: lap.local_communication_id,
                    ar_status: Apr::INVALID_COMMUNICATION_ID,
                    ..Apr::default()
                };
                self.transmit(to, from, bytes(mad.header.transaction_id, apr));
            }
            _ => self.statistics.unexpected += 1,
        }
    }

    /// Sends a REJ without a connection, for the message `mad`.
    pub(crate) fn send_stateless_rej(&mut self, from: Gid, to: Gid, mad: &Mad, rej: Rej) {
        self.statistics.rejects_sent += 1;
        self.transmit(to, from, bytes(mad.header.transaction_id, rej));
    }

    /// Keeps an answer for duplicates.
    pub(crate) fn keep_answer(&mut self, id: CommunicationId, kind: MessageKind, mad: MadBytes) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer = Some((kind, mad));
        }
    }
}
