//! Service ID resolution: finds the queue pair of a service for datagrams (IBTA vol 1, 12.11).

use ferroce_units::Instant;
use ferroce_wire::Gid;
use ferroce_wire::cm::{CommunicationId, Mad, MessageKind, SidrRep, SidrReq, SidrStatus};

use crate::active::{data, with_addresses};
use crate::cm::{Cm, Disposition, bytes, duration};
use crate::command::{CommandError, Ece, SidrRequest, SidrResponse};
use crate::connection::Connection;
use crate::event::Event;
use crate::passive::{addresses, destination};
use crate::state::State;

impl Cm {
    /// Sends a SIDR_REQ. The only event is [`Event::SidrResponse`] or [`Event::Unreachable`].
    ///
    /// # Errors
    ///
    /// [`CommandError::PrivateData`], [`CommandError::TooMany`]
    pub fn resolve_service(
        &mut self,
        now: Instant,
        request: &SidrRequest,
    ) -> Result<CommunicationId, CommandError> {
        let private_data = with_addresses(request.ip.as_ref(), &request.private_data)?;
        let path = &request.path;
        let mut connection = Connection::new(State::SidrReqSent, path.local_gid, path.remote_gid);
        connection.service_id = request.service_id;
        connection.max_cm_retries = self.config.max_cm_retries;
        let lifetime = duration(path.packet_lifetime);
        connection.response_time = duration(self.config.response_timeout) + lifetime + lifetime;
        let id = self.add(connection)?;
        let message = SidrReq {
            request_id: id,
            partition_key: path.p_key,
            service_id: request.service_id,
            private_data,
            ..SidrReq::default()
        };
        self.set_transaction(id);
        self.send_and_await(now, id, message, 0);
        Ok(id)
    }

    /// Handles a SIDR_REQ: a duplicate, or a new one.
    pub(crate) fn handle_sidr_req(
        &mut self,
        from: Gid,
        to: Gid,
        mad: &Mad,
        request: &SidrReq,
    ) -> Disposition {
        let key = (from, request.request_id);
        if let Some(id) = self.by_remote_id.get(&key).copied() {
            self.statistics.duplicates += 1;
            let connection = self.connections.get(&id);
            let answer = connection.and_then(|it| it.answer(MessageKind::SidrRep));
            if let Some(mad) = answer {
                self.send(id, mad);
            }
            return Disposition::Taken;
        }
        let Some((ip, consumer)) = addresses(request.service_id, &request.private_data.0) else {
            self.refuse_sidr_req(from, to, mad, request, SidrStatus::UNSUPPORTED_VERSION);
            return Disposition::Taken;
        };
        let destination = destination(ip.as_ref(), to);
        let Some(listener) = self.listener(request.service_id, destination) else {
            return Disposition::NoListener(request.service_id);
        };
        if !self.hold_request(listener) {
            return Disposition::Taken;
        }
        let mut connection = Connection::new(State::SidrReqReceived, to, from);
        connection.backlog_of = Some(listener);
        connection.service_id = request.service_id;
        connection.remote_id = request.request_id;
        connection.transaction_id = mad.header.transaction_id;
        let Ok(id) = self.add(connection) else {
            return Disposition::Taken;
        };
        self.by_remote_id.insert(key, id);
        let event = Event::SidrRequest {
            listener,
            id,
            from,
            to,
            request: Box::new(*request),
            ip,
            private_data: consumer.to_vec(),
        };
        self.report(id, event);
        Disposition::Taken
    }

    /// Answers a SIDR_REQ, which ends the resolution without further events; duplicates are
    /// answered for the maximum duration of TIMEWAIT.
    ///
    /// # Errors
    ///
    /// [`CommandError::State`] unless a SIDR_REQ waits for an answer,
    /// [`CommandError::UnknownConnection`], [`CommandError::PrivateData`]
    pub fn respond(
        &mut self,
        now: Instant,
        id: CommunicationId,
        response: &SidrResponse,
    ) -> Result<(), CommandError> {
        let private_data = data(&response.private_data)?;
        let connection = self.connection(id)?;
        if connection.state != State::SidrReqReceived {
            return Err(CommandError::State(connection.state));
        }
        let message = SidrRep {
            request_id: connection.remote_id,
            status: response.status,
            vendor_id_high: (response.ece.vendor_id >> 8) as u16,
            vendor_id_low: response.ece.vendor_id as u8,
            qpn: response.qpn,
            service_id: connection.service_id,
            q_key: response.q_key,
            private_data,
            ..SidrRep::default()
        };
        connection.state = State::SidrRepSent;
        connection.is_orphan = true;
        let mut mad = Mad::new(connection.transaction_id, message);
        mad.header.attribute_modifier = response.ece.attr_mod;
        let mad = Box::new(mad.to_bytes());
        let until = now + self.config.timewait_max;
        self.keep_answer(id, MessageKind::SidrRep, mad.clone());
        self.release_backlog(id);
        self.set_deadline(id, Some(until));
        self.send(id, mad);
        Ok(())
    }

    /// Refuses a resolution that the caller has destroyed.
    pub(crate) fn refuse_service(&mut self, now: Instant, id: CommunicationId, status: SidrStatus) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_orphan = false;
        }
        let response = SidrResponse {
            status,
            qpn: ferroce_wire::Qpn::new(0),
            q_key: ferroce_wire::QKey(0),
            ece: Ece::default(),
            private_data: Vec::new(),
        };
        let sent = self.respond(now, id, &response);
        debug_assert!(sent.is_ok(), "the caller has checked the state");
    }

    /// Handles a SIDR_REP: the answer, or a duplicate.
    pub(crate) fn handle_sidr_rep(&mut self, id: CommunicationId, mad: &Mad, response: &SidrRep) {
        if self.state(id) != Some(State::SidrReqSent) {
            return self.statistics.duplicates += 1;
        }
        let high = u32::from(response.vendor_id_high) << 8;
        let ece = Ece {
            vendor_id: high | u32::from(response.vendor_id_low),
            attr_mod: mad.header.attribute_modifier,
        };
        let response = Box::new(*response);
        self.report(id, Event::SidrResponse { id, response, ece });
        self.remove(id);
    }

    /// Refuses a SIDR_REQ for which there is no listener.
    pub(crate) fn refuse_sidr_req(
        &mut self,
        from: Gid,
        to: Gid,
        mad: &Mad,
        request: &SidrReq,
        status: SidrStatus,
    ) {
        let response = SidrRep {
            request_id: request.request_id,
            status,
            service_id: request.service_id,
            ..SidrRep::default()
        };
        self.transmit(to, from, bytes(mad.header.transaction_id, response));
    }
}
