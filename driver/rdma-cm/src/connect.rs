//! Commands on connections and on resolutions of services.

use ferroce_cm::{Accept, Connect, Ece, Reject, SidrRequest, SidrResponse};
use ferroce_units::Instant;
use ferroce_wire::cm::{IpCmHeader, RejectReason, ServiceId, SidrStatus};
use ferroce_wire::{QKey, Qpn};

use crate::abi;
use crate::body::Body;
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::id::{Id, QpType, State};
use crate::rdma_cm::RdmaCm;

/// Q_Key of datagrams between IP addresses (`RDMA_UDP_QKEY`).
pub(crate) const UDP_Q_KEY: u32 = 0x0123_4567;
/// Retry counts have three bits.
const RETRY_COUNT_MAX: u8 = 7;
/// `IBV_EVENT_COMM_EST`
const EVENT_COMM_EST: u32 = 4;
/// Sizes of CONNECT and ACCEPT before they had fields for ECE.
const CONNECT_BASE_LENGTH: usize = 280;
const ACCEPT_BASE_LENGTH: usize = 288;

impl RdmaCm {
    /// CONNECT: a REQ, or a SIDR_REQ.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::Connect = body.parse_from(CONNECT_BASE_LENGTH)?;
        let param = &command.conn_param;
        if param.valid == 0 {
            return Err(Errno::EINVAL);
        }
        let (id, attachment) = self.attached_id(channel, command.id)?;
        id.expect_state(State::RouteResolved)?;
        let (service_id, ip) = addresses(id).ok_or(Errno::EINVAL)?;
        let path = id.path.ok_or(Errno::EINVAL)?;
        let communication = if id.is_ud() {
            let request = SidrRequest {
                service_id,
                path,
                ip,
                private_data: private_data(param),
            };
            self.cm.resolve_service(now, &request)?
        } else {
            let request = Connect {
                service_id,
                path,
                transport: id.qp_type.transport().ok_or(Errno::EINVAL)?,
                local_ca_guid: attachment.node_guid,
                qpn: Qpn::new(param.qp_num),
                starting_psn: id.starting_psn,
                responder_resources: param.responder_resources,
                initiator_depth: param.initiator_depth,
                retry_count: param.retry_count.min(RETRY_COUNT_MAX),
                rnr_retry_count: param.rnr_retry_count.min(RETRY_COUNT_MAX),
                flow_control: param.flow_control != 0,
                srq: param.srq != 0,
                ece: ece(command.ece),
                is_peer: false,
                ip,
                private_data: private_data(param),
            };
            self.cm.connect(now, &request)?
        };
        self.by_communication.insert(communication, command.id);
        let (id, _) = self.attached_id(channel, command.id)?;
        id.communication = Some(communication);
        id.state = State::Connect;
        Ok(())
    }

    /// ACCEPT: sends a REP or SIDR_REP; without parameters the RTU. If accepting fails, the request
    /// is rejected.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::Accept = body.parse_from(ACCEPT_BASE_LENGTH)?;
        let (id, _) = self.attached_id(channel, command.id)?;
        id.expect_state(State::Connect)?;
        let is_answer = command.conn_param.valid != 0;
        let accepted = match (id.is_ud(), is_answer) {
            (true, _) => self.accept_service(now, &command),
            (false, true) => self.accept_connection(now, &command),
            (false, false) => self.establish(&command),
        };
        if accepted.is_err() {
            // The rejection may fail too, in some states. The program gets the error of the
            // acceptance.
            let _ = self.refuse_request(now, command.id, RejectReason::CONSUMER, &[]);
        }
        if let (Ok(()), true, Some(id)) = (accepted, is_answer, self.ids.get_mut(&command.id)) {
            id.uid = command.uid;
        }
        accepted
    }

    fn accept_connection(&mut self, now: Instant, command: &abi::Accept) -> Result<(), Errno> {
        let id = self.ids.get(&command.id).ok_or(Errno::ENOENT)?;
        let communication = id.communication.ok_or(Errno::EINVAL)?;
        let param = &command.conn_param;
        let accept = Accept {
            local_ca_guid: id.attached()?.node_guid,
            qpn: Qpn::new(param.qp_num),
            starting_psn: id.starting_psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            rnr_retry_count: param.rnr_retry_count.min(RETRY_COUNT_MAX),
            flow_control: param.flow_control != 0,
            // An XRC target receives through shared receive queues only.
            srq: param.srq != 0 || id.qp_type == QpType::XRC_RECV,
            ece: ece(command.ece),
            private_data: private_data(param),
        };
        Ok(self.cm.accept(now, communication, &accept)?)
    }

    /// The active side has brought its queue pair to RTS.
    fn establish(&mut self, command: &abi::Accept) -> Result<(), Errno> {
        let id = self.ids.get(&command.id).ok_or(Errno::ENOENT)?;
        let communication = id.communication.ok_or(Errno::EINVAL)?;
        Ok(self.cm.establish(communication, &[])?)
    }

    fn accept_service(&mut self, now: Instant, command: &abi::Accept) -> Result<(), Errno> {
        let param = &command.conn_param;
        let id = self.ids.get_mut(&command.id).ok_or(Errno::ENOENT)?;
        // The Q_Key of the command is ignored, as for every id with IP addresses.
        let q_key = *id.q_key.get_or_insert(UDP_Q_KEY);
        let is_answer = param.valid != 0;
        let response = SidrResponse {
            status: SidrStatus::SUCCESS,
            qpn: Qpn::new(if is_answer { param.qp_num } else { 0 }),
            q_key: QKey(q_key),
            ece: ece(command.ece),
            private_data: if is_answer {
                private_data(param)
            } else {
                Vec::new()
            },
        };
        self.respond(now, command.id, &response)
    }

    /// Answers a SIDR_REQ. The state machine of messages does the rest.
    fn respond(&mut self, now: Instant, handle: u32, response: &SidrResponse) -> Result<(), Errno> {
        let id = self.ids.get(&handle).ok_or(Errno::ENOENT)?;
        let communication = id.communication.ok_or(Errno::EINVAL)?;
        self.cm.respond(now, communication, response)?;
        self.forget_communication(handle);
        Ok(())
    }

    /// REJECT
    pub(crate) fn reject(
        &mut self,
        now: Instant,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::Reject = body.parse()?;
        let reason = match RejectReason(command.reason.into()) {
            // Older programs do not set a reason: it is zero.
            RejectReason(0) | RejectReason::CONSUMER => RejectReason::CONSUMER,
            RejectReason::VENDOR_OPTION_NOT_SUPPORTED => RejectReason::VENDOR_OPTION_NOT_SUPPORTED,
            _ => return Err(Errno::EINVAL),
        };
        self.attached_id(channel, command.id)?;
        let data = &command.private_data[..usize::from(command.private_data_len)];
        self.refuse_request(now, command.id, reason, data)
    }

    /// Sends a REJ, or a SIDR_REP that refuses.
    fn refuse_request(
        &mut self,
        now: Instant,
        handle: u32,
        reason: RejectReason,
        private_data: &[u8],
    ) -> Result<(), Errno> {
        let id = self.ids.get(&handle).ok_or(Errno::ENOENT)?;
        let communication = id.communication.ok_or(Errno::EINVAL)?;
        if id.is_ud() {
            let response = SidrResponse {
                status: SidrStatus::REJECT,
                qpn: Qpn::new(0),
                q_key: QKey(0),
                ece: Ece::default(),
                private_data: private_data.to_vec(),
            };
            return self.respond(now, handle, &response);
        }
        let reject = Reject {
            reason,
            additional_information: Vec::new(),
            private_data: private_data.to_vec(),
        };
        Ok(self.cm.reject(now, communication, &reject)?)
    }

    /// DISCONNECT: sends a DREQ if the connection is established. Otherwise does nothing: the peer
    /// may have disconnected first.
    pub(crate) fn disconnect(
        &mut self,
        now: Instant,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::Disconnect = body.parse()?;
        let (id, _) = self.attached_id(channel, command.id)?;
        if !matches!(id.state, State::Connect | State::Disconnect | State::Listen) {
            return Err(Errno::EINVAL);
        }
        if let Some(communication) = id.communication {
            // Refused unless it is established.
            let _ = self.cm.disconnect(now, communication, &[]);
        }
        Ok(())
    }

    /// NOTIFY: the queue pair has received a packet before the RTU.
    pub(crate) fn notify(&mut self, channel: ChannelId, body: &Body) -> Result<(), Errno> {
        let command: abi::Notify = body.parse()?;
        let (id, _) = self.attached_id(channel, command.id)?;
        let communication = id.communication.ok_or(Errno::EINVAL)?;
        if command.event != EVENT_COMM_EST {
            return Err(Errno::EINVAL);
        }
        if self.cm.state(communication) == Some(ferroce_cm::State::Established) {
            return Err(Errno::EISCONN);
        }
        Ok(self.cm.notify_established(communication)?)
    }
}

/// Returns the service of the destination, and the header with both addresses.
fn addresses(id: &Id) -> Option<(ServiceId, Option<IpCmHeader>)> {
    let (source, destination) = (id.source?, id.destination?);
    let service_id = id.port_space.service_id(destination.port());
    // Only IP port spaces have this header: IPOIB has no addresses in its private data.
    let is_ip = service_id.to_ip().is_some();
    let header = || IpCmHeader::new(source.ip(), source.port(), destination.ip());
    Some((service_id, is_ip.then(header)))
}

fn private_data(param: &abi::ConnParam) -> Vec<u8> {
    param.private_data[..usize::from(param.private_data_len)].to_vec()
}

fn ece(param: abi::EceParam) -> Ece {
    Ece {
        // 24 bits in each message.
        vendor_id: param.vendor_id & 0x00ff_ffff,
        attr_mod: param.attr_mod,
    }
}
