//! The active side: REQ and its responses (IBTA vol 1, 12.9.7.1).

use ferroce_units::{Duration, Instant};
use ferroce_wire::Gid;
use ferroce_wire::cm::{
    CmTimeout, CommunicationId, IpCmHeader, Mad, MessageKind, Mra, PrivateData, Rej, RejectReason,
    Rep, Req, ReqPath, Rtu,
};

use crate::cm::{Cm, bytes, duration};
use crate::command::{CommandError, Connect, Ece, Path, Reject};
use crate::connection::Connection;
use crate::event::Event;
use crate::parameters::{QpParameters, remote_qpn};
use crate::state::State;

/// The LID of a RoCE port.
const ROCE_LID: u16 = 0xffff;

impl Cm {
    /// Sends a REQ. The next event of the connection is [`Event::ConnectResponse`],
    /// [`Event::Rejected`] or [`Event::Unreachable`].
    ///
    /// # Errors
    ///
    /// [`CommandError::PrivateData`], [`CommandError::TooMany`]
    pub fn connect(
        &mut self,
        now: Instant,
        connect: &Connect,
    ) -> Result<CommunicationId, CommandError> {
        let private_data = with_addresses(connect.ip.as_ref(), &connect.private_data)?;
        let path = &connect.path;
        let mut connection = Connection::new(State::ReqSent, path.local_gid, path.remote_gid);
        connection.service_id = connect.service_id;
        connection.local_ca_guid = connect.local_ca_guid;
        connection.parameters = Some(QpParameters::of_connect(connect));
        connection.is_peer = connect.is_peer;
        connection.max_cm_retries = self.config.max_cm_retries;
        connection.timewait = self.timewait(path.local_ack_timeout);
        let lifetime = duration(path.packet_lifetime);
        connection.response_time = duration(self.config.response_timeout) + lifetime + lifetime;
        let id = self.add(connection)?;
        if connect.is_peer {
            self.peers.insert(id);
        }
        let request = self.request(id, connect, private_data);
        self.set_transaction(id);
        self.send_and_await(now, id, request, connect.ece.attr_mod);
        Ok(id)
    }

    /// Sets the transaction ID of an exchange that begins with this connection or resolution.
    pub(crate) fn set_transaction(&mut self, id: CommunicationId) {
        let tag = u64::from(self.config.tag) + 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.transaction_id = tag << 32 | u64::from(id.0);
        }
    }

    fn request(
        &self,
        id: CommunicationId,
        connect: &Connect,
        private_data: PrivateData<92>,
    ) -> Req {
        let mut request = Req {
            local_communication_id: id,
            vendor_id: connect.ece.vendor_id,
            service_id: connect.service_id,
            local_ca_guid: connect.local_ca_guid,
            local_qpn: connect.qpn,
            responder_resources: connect.responder_resources,
            initiator_depth: connect.initiator_depth,
            remote_cm_response_timeout: self.config.response_timeout,
            end_to_end_flow_control: connect.flow_control,
            starting_psn: connect.starting_psn,
            local_cm_response_timeout: self.config.response_timeout,
            retry_count: connect.retry_count,
            partition_key: connect.path.p_key,
            path_packet_payload_mtu: connect.path.mtu,
            rnr_retry_count: connect.rnr_retry_count,
            max_cm_retries: self.config.max_cm_retries,
            srq: connect.srq,
            primary: req_path(&connect.path),
            private_data,
            ..Req::default()
        };
        request.set_transport_service(connect.transport);
        request
    }

    /// Sends the RTU: the queue pair can send and receive.
    ///
    /// # Errors
    ///
    /// [`CommandError::State`] unless a REP has arrived, [`CommandError::UnknownConnection`],
    /// [`CommandError::PrivateData`]
    pub fn establish(
        &mut self,
        id: CommunicationId,
        private_data: &[u8],
    ) -> Result<(), CommandError> {
        let private_data = data(private_data)?;
        let connection = self.connection(id)?;
        if connection.state != State::RepReceived {
            return Err(CommandError::State(connection.state));
        }
        connection.state = State::Established;
        let rtu = Rtu {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            private_data,
        };
        let mad = bytes(connection.transaction_id, rtu);
        connection.answer = Some((MessageKind::Rtu, mad.clone()));
        self.send(id, mad);
        Ok(())
    }

    /// Handles a REP: the first one is reported, a duplicate is answered with the RTU (12.9.8.6).
    pub(crate) fn handle_rep(
        &mut self,
        now: Instant,
        id: CommunicationId,
        from: Gid,
        mad: &Mad,
        response: &Rep,
    ) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        match connection.state {
            State::ReqSent => self.accept_rep(now, id, from, mad, response),
            State::Established | State::Timewait => {
                let answer = match connection.state {
                    State::Established => connection.answer(MessageKind::Rtu),
                    _ => connection.answer(MessageKind::Rej),
                };
                self.statistics.duplicates += 1;
                if let Some(mad) = answer {
                    self.send(id, mad);
                }
            }
            _ => self.statistics.duplicates += 1,
        }
    }

    fn accept_rep(
        &mut self,
        now: Instant,
        id: CommunicationId,
        from: Gid,
        mad: &Mad,
        response: &Rep,
    ) {
        self.stop_awaiting(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.state = State::RepReceived;
        connection.remote_id = response.local_communication_id;
        connection.remote_gid = from;
        let Some(parameters) = connection.parameters.as_mut() else {
            return;
        };
        let qpn = remote_qpn(response, parameters.transport);
        let key = (from, qpn);
        if let Some(old) = self.by_remote_qpn.get(&key).copied() {
            // The peer's queue pair belongs to an older connection (12.9.8.3.1).
            let reason = RejectReason::STALE_CONNECTION;
            self.send_rej(id, &refusal(reason));
            self.disconnect_stale(now, old);
            return self.end(now, id, Some(rejected(id, reason)));
        }
        parameters.respond(response);
        if connection.is_peer {
            // The peer's REQ may still arrive.
            self.by_remote_id
                .insert((from, response.local_communication_id), id);
        }
        if qpn.value() != 0 {
            self.by_remote_qpn.insert(key, id);
        }
        let [high, middle, low] = [
            response.vendor_id_high,
            response.vendor_id_middle,
            response.vendor_id_low,
        ];
        let ece = Ece {
            vendor_id: u32::from_be_bytes([0, high, middle, low]),
            attr_mod: mad.header.attribute_modifier,
        };
        let response = Box::new(*response);
        self.report(id, Event::ConnectResponse { id, response, ece });
    }

    /// Handles an MRA: the peer has received the message and needs longer to answer (12.9.8.5).
    pub(crate) fn handle_mra(&mut self, now: Instant, id: CommunicationId, mra: &Mra) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let expected = match connection.state {
            State::ReqSent => Mra::REQ,
            State::RepSent => Mra::REP,
            _ => return self.statistics.unexpected += 1,
        };
        if mra.message_mraed != expected {
            return self.statistics.unexpected += 1;
        }
        let response_time = connection.response_time;
        if let Some(pending) = connection.pending.as_mut() {
            pending.interval = response_time;
        }
        let until = now + duration(mra.service_timeout) + response_time;
        self.set_deadline(id, Some(until));
    }

    /// Gives up after all retries.
    pub(crate) fn give_up(&mut self, now: Instant, id: CommunicationId) {
        let Some(state) = self.state(id) else { return };
        match state {
            State::ReqSent | State::RepSent => {
                self.send_timeout_rej(id);
                self.end(now, id, Some(Event::Unreachable { id }));
            }
            State::DreqSent => {
                let event = Event::Disconnected {
                    id,
                    is_timeout: true,
                    private_data: Vec::new(),
                };
                self.end(now, id, Some(event));
            }
            _ => {
                self.report(id, Event::Unreachable { id });
                self.remove(id);
            }
        }
    }

    /// Sends a REJ with reason "timeout". It also names the connection by the GUID of the device,
    /// because the peer may not know its identifier (12.6.7.2).
    pub(crate) fn send_timeout_rej(&mut self, id: CommunicationId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let reject = Reject {
            additional_information: connection.local_ca_guid.to_be_bytes().to_vec(),
            ..refusal(RejectReason::TIMEOUT)
        };
        self.send_rej(id, &reject);
    }

    /// Sends a REJ, and keeps it as the answer to duplicates of the refused message.
    pub(crate) fn send_rej(&mut self, id: CommunicationId, reject: &Reject) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        // As Linux: a side has no identifier before its first message (12.6.7).
        let (local_communication_id, message_rejected) = match connection.state {
            State::ReqReceived => (CommunicationId::NONE, Rej::REQ),
            State::RepReceived => (id, Rej::REP),
            _ => (id, Rej::NO_MESSAGE),
        };
        let information = &reject.additional_information;
        let rej = Rej {
            local_communication_id,
            remote_communication_id: connection.remote_id,
            message_rejected,
            reject_info_length: information.len() as u8,
            reason: reject.reason,
            additional_reject_information: cut(information),
            private_data: cut(&reject.private_data),
            ..Rej::default()
        };
        let mad = bytes(connection.transaction_id, rej);
        connection.answer = Some((MessageKind::Rej, mad.clone()));
        self.statistics.rejects_sent += 1;
        self.send(id, mad);
    }

    /// Returns the length of TIMEWAIT: about the time until the last packet and its ACK have
    /// arrived, which is the local ACK timeout (12.9.8.4), limited by the configuration.
    pub(crate) fn timewait(&self, local_ack_timeout: CmTimeout) -> Duration {
        duration(local_ack_timeout).min(self.config.timewait_max)
    }
}

fn req_path(path: &Path) -> ReqPath {
    ReqPath {
        local_port_lid: ROCE_LID,
        remote_port_lid: ROCE_LID,
        local_port_gid: path.local_gid,
        remote_port_gid: path.remote_gid,
        flow_label: path.flow_label,
        packet_rate: path.packet_rate,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        sl: path.sl,
        local_ack_timeout: path.local_ack_timeout,
        ..ReqPath::default()
    }
}

/// Returns a refusal with only a reason.
pub(crate) const fn refusal(reason: RejectReason) -> Reject {
    Reject {
        reason,
        additional_information: Vec::new(),
        private_data: Vec::new(),
    }
}

/// Returns the event of a refusal by this side.
pub(crate) const fn rejected(id: CommunicationId, reason: RejectReason) -> Event {
    Event::Rejected {
        id,
        reason,
        additional_information: Vec::new(),
        private_data: Vec::new(),
    }
}

/// Returns the private data of a command, after checking its length.
pub(crate) fn data<const LIMIT: usize>(data: &[u8]) -> Result<PrivateData<LIMIT>, CommandError> {
    PrivateData::from_slice(data).ok_or(CommandError::PrivateData {
        length: data.len(),
        limit: LIMIT,
    })
}

/// Returns private data whose length has been checked.
fn cut<const LIMIT: usize>(data: &[u8]) -> PrivateData<LIMIT> {
    let data = &data[..data.len().min(LIMIT)];
    PrivateData::from_slice(data).unwrap_or_default()
}

/// Returns private data after the header of the RDMA IP CM service, if there is one.
pub(crate) fn with_addresses<const LIMIT: usize>(
    ip: Option<&IpCmHeader>,
    private_data: &[u8],
) -> Result<PrivateData<LIMIT>, CommandError> {
    let Some(header) = ip else {
        return data(private_data);
    };
    let mut bytes = vec![0; IpCmHeader::LENGTH];
    header.emit(&mut bytes);
    bytes.extend_from_slice(private_data);
    PrivateData::from_slice(&bytes).ok_or(CommandError::PrivateData {
        length: private_data.len(),
        limit: LIMIT - IpCmHeader::LENGTH,
    })
}
