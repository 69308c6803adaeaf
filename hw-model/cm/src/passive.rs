//! The passive side: REQ received, REP, RTU (IBTA vol 1, 12.9.7.2), and connecting peers (12.10.4).

use ferroce_units::Instant;
use ferroce_wire::Gid;
use ferroce_wire::cm::{
    CommunicationId, IpCmHeader, Mad, MessageKind, Rej, RejectReason, Rep, Req, Rtu, ServiceId,
    TransportService,
};

use crate::active::{data, rejected};
use crate::cm::{Cm, Disposition, duration};
use crate::command::{Accept, CommandError, Ece, ListenerId};
use crate::connection::Connection;
use crate::event::Event;
use crate::parameters::QpParameters;
use crate::state::State;

impl Cm {
    /// Handles a REQ: a duplicate, the request of a peer that is being connected, or a new one.
    pub(crate) fn handle_req(
        &mut self,
        now: Instant,
        from: Gid,
        to: Gid,
        mad: &Mad,
        request: &Req,
    ) -> Disposition {
        let key = (from, request.local_communication_id);
        if let Some(id) = self.by_remote_id.get(&key).copied() {
            if self.is_duplicate(id, mad, request) {
                self.answer_duplicate_req(id);
            } else if self.connections.get(&id).is_some_and(|it| it.is_peer) {
                // The peer's own REQ, which has lost to ours.
                self.statistics.duplicates += 1;
            } else {
                // The peer has restarted with the same identifier.
                self.refuse_req(from, to, mad, request, RejectReason::STALE_CONNECTION);
                self.disconnect_stale(now, id);
            }
            return Disposition::Taken;
        }
        let Some((ip, consumer)) = addresses(request.service_id, &request.private_data.0) else {
            self.refuse_req(from, to, mad, request, RejectReason::UNSUPPORTED_REQUEST);
            return Disposition::Taken;
        };
        let peer = self.connecting_peer(from, request);
        let destination = destination(ip.as_ref(), to);
        let listener = self.listener(request.service_id, destination);
        if peer.is_none() && listener.is_none() {
            return Disposition::NoListener(request.service_id);
        }
        let Some(transport) = request.transport_service() else {
            let reason = RejectReason::INVALID_TRANSPORT_SERVICE_TYPE;
            self.refuse_req(from, to, mad, request, reason);
            return Disposition::Taken;
        };
        if let Some(old) = self.by_remote_qpn.get(&(from, request.local_qpn)).copied() {
            // The peer's queue pair belongs to an older connection (12.9.8.3.1).
            self.refuse_req(from, to, mad, request, RejectReason::STALE_CONNECTION);
            self.disconnect_stale(now, old);
            return Disposition::Taken;
        }
        let id = match (peer, listener) {
            (Some(peer), _) => self.yield_to_peer(peer, request),
            (None, Some(listener)) => self.new_request(listener, from, to),
            (None, None) => None,
        };
        let Some(id) = id else {
            return Disposition::Taken;
        };
        self.take_request(id, from, mad, request, transport);
        let listener = listener.filter(|_| peer.is_none());
        let event = Event::ConnectRequest {
            listener,
            id,
            from,
            to,
            request: Box::new(*request),
            ece: Ece {
                vendor_id: request.vendor_id,
                attr_mod: mad.header.attribute_modifier,
            },
            ip,
            private_data: consumer.to_vec(),
        };
        self.report(id, event);
        Disposition::Taken
    }

    /// Returns true if a REQ with a known identifier repeats the known REQ.
    fn is_duplicate(&self, id: CommunicationId, mad: &Mad, request: &Req) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        let is_same = |parameters: &QpParameters| {
            parameters.remote_qpn == request.local_qpn && parameters.sq_psn == request.starting_psn
        };
        connection.transaction_id == mad.header.transaction_id
            && connection.parameters.as_ref().is_some_and(is_same)
    }

    /// Handles a duplicate REQ: the REP or REJ was lost, or the caller has not decided yet
    /// (12.9.8.1).
    fn answer_duplicate_req(&mut self, id: CommunicationId) {
        self.statistics.duplicates += 1;
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let answer = match connection.state {
            State::RepSent => connection.pending.as_ref().map(|rep| rep.mad.clone()),
            State::Timewait => connection.answer(MessageKind::Rej),
            _ => None,
        };
        if let Some(mad) = answer {
            self.send(id, mad);
        }
    }

    /// Returns the local connection attempt to the sender of a REQ, for the same service.
    fn connecting_peer(&self, from: Gid, request: &Req) -> Option<CommunicationId> {
        let is_it = |id: &&CommunicationId| {
            let connection = self.connections.get(id);
            connection.is_some_and(|connection| {
                connection.state == State::ReqSent
                    && connection.remote_gid == from
                    && connection.service_id == request.service_id
            })
        };
        self.peers.iter().find(is_it).copied()
    }

    /// Decides between two sides that have both sent a REQ: the side with the greater GUID, then
    /// QPN, stays active and ignores the other's REQ (12.10.4). Returns the connection if it
    /// becomes the passive one.
    fn yield_to_peer(&mut self, id: CommunicationId, request: &Req) -> Option<CommunicationId> {
        let connection = self.connections.get(&id)?;
        let local_qpn = connection.parameters.as_ref()?.local_qpn;
        let local = (connection.local_ca_guid, local_qpn);
        if local > (request.local_ca_guid, request.local_qpn) {
            return None;
        }
        self.stop_awaiting(id);
        Some(id)
    }

    fn new_request(&mut self, listener: ListenerId, from: Gid, to: Gid) -> Option<CommunicationId> {
        if !self.hold_request(listener) {
            return None;
        }
        let mut connection = Connection::new(State::ReqReceived, to, from);
        connection.backlog_of = Some(listener);
        // There is room: `hold_request` has checked.
        self.add(connection).ok()
    }

    /// Stores the fields of a REQ that the connection needs.
    fn take_request(
        &mut self,
        id: CommunicationId,
        from: Gid,
        mad: &Mad,
        request: &Req,
        transport: TransportService,
    ) {
        let timewait = self.timewait(request.primary.local_ack_timeout);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.state = State::ReqReceived;
        connection.service_id = request.service_id;
        connection.remote_id = request.local_communication_id;
        connection.transaction_id = mad.header.transaction_id;
        connection.parameters = Some(QpParameters::of_request(request, transport));
        // The peer's local ACK timeout includes the round trip.
        connection.response_time = duration(request.local_cm_response_timeout)
            + duration(request.primary.local_ack_timeout);
        connection.max_cm_retries = request.max_cm_retries;
        connection.timewait = timewait;
        self.by_remote_id
            .insert((from, request.local_communication_id), id);
        if request.local_qpn.value() != 0 {
            self.by_remote_qpn.insert((from, request.local_qpn), id);
        }
    }

    /// Answers a REQ with a REP. The next event of the connection is [`Event::Established`],
    /// [`Event::Rejected`], [`Event::Disconnected`] or [`Event::Unreachable`].
    ///
    /// # Errors
    ///
    /// [`CommandError::State`] unless a REQ waits for an answer,
    /// [`CommandError::UnknownConnection`], [`CommandError::PrivateData`]
    pub fn accept(
        &mut self,
        now: Instant,
        id: CommunicationId,
        accept: &Accept,
    ) -> Result<(), CommandError> {
        let private_data = data(&accept.private_data)?;
        let target_ack_delay = self.config.target_ack_delay;
        let connection = self.connection(id)?;
        if connection.state != State::ReqReceived {
            return Err(CommandError::State(connection.state));
        }
        connection.state = State::RepSent;
        connection.local_ca_guid = accept.local_ca_guid;
        let [_, high, middle, low] = accept.ece.vendor_id.to_be_bytes();
        let mut response = Rep {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            local_qpn: accept.qpn,
            vendor_id_high: high,
            vendor_id_middle: middle,
            starting_psn: accept.starting_psn,
            vendor_id_low: low,
            responder_resources: accept.responder_resources,
            initiator_depth: accept.initiator_depth,
            target_ack_delay,
            end_to_end_flow_control: accept.flow_control,
            rnr_retry_count: accept.rnr_retry_count,
            srq: accept.srq,
            local_ca_guid: accept.local_ca_guid,
            private_data,
            ..Rep::default()
        };
        if let Some(parameters) = connection.parameters.as_mut() {
            parameters.accept(accept);
            if parameters.transport == TransportService::Xrc {
                response.local_ee_context_number = accept.qpn.value();
            }
        }
        self.release_backlog(id);
        self.send_and_await(now, id, response, accept.ece.attr_mod);
        Ok(())
    }

    /// Establishes the connection without the RTU because a packet of the peer has arrived on the
    /// queue pair (12.9.8.8).
    ///
    /// # Errors
    ///
    /// [`CommandError::State`] unless a REP waits for its answer,
    /// [`CommandError::UnknownConnection`]
    pub fn notify_established(&mut self, id: CommunicationId) -> Result<(), CommandError> {
        let connection = self.connection(id)?;
        if connection.state != State::RepSent {
            return Err(CommandError::State(connection.state));
        }
        self.become_established(id, Vec::new());
        Ok(())
    }

    /// Handles an RTU; a duplicate has no effect.
    pub(crate) fn handle_rtu(&mut self, id: CommunicationId, rtu: &Rtu) {
        match self.state(id) {
            Some(State::RepSent) => self.become_established(id, rtu.private_data.0.to_vec()),
            _ => self.statistics.duplicates += 1,
        }
    }

    fn become_established(&mut self, id: CommunicationId, private_data: Vec<u8>) {
        self.stop_awaiting(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = State::Established;
        }
        self.report(id, Event::Established { id, private_data });
    }

    /// Ends the rest of an older connection because the peer has restarted.
    pub(crate) fn disconnect_stale(&mut self, now: Instant, id: CommunicationId) {
        match self.state(id) {
            Some(State::Established) => self.send_dreq(now, id, &[]),
            Some(State::ReqReceived | State::RepReceived | State::RepSent) => {
                let event = rejected(id, RejectReason::STALE_CONNECTION);
                self.end(now, id, Some(event));
            }
            _ => {}
        }
    }

    /// Refuses a REQ for which there is no connection.
    pub(crate) fn refuse_req(
        &mut self,
        from: Gid,
        to: Gid,
        mad: &Mad,
        request: &Req,
        reason: RejectReason,
    ) {
        let rej = Rej {
            remote_communication_id: request.local_communication_id,
            message_rejected: Rej::REQ,
            reason,
            ..Rej::default()
        };
        self.send_stateless_rej(from, to, mad, rej);
    }
}

/// Returns the destination of a request: with the RDMA IP CM service, the address in its header.
pub(crate) fn destination(ip: Option<&IpCmHeader>, to: Gid) -> Gid {
    let addresses = ip.and_then(IpCmHeader::addresses);
    addresses.map_or(to, |(_, destination)| Gid::from_ip(destination))
}

/// Returns the header of the RDMA IP CM service, if the service uses it, and the private data after
/// it; `None` if the header has another version.
pub(crate) fn addresses(
    service: ServiceId,
    private_data: &[u8],
) -> Option<(Option<IpCmHeader>, &[u8])> {
    if service.to_ip().is_none() {
        return Some((None, private_data));
    }
    let header = IpCmHeader::parse(private_data).ok()?;
    header.addresses()?;
    Some((Some(header), &private_data[IpCmHeader::LENGTH..]))
}
