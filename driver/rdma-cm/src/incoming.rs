//! Converts messages of peers to events of ids.

use core::net::SocketAddr;

use ferroce_cm::{Ece, Event as Report, ListenerId, Path};
use ferroce_units::Instant;
use ferroce_wire::cm::{
    CmTimeout, CommunicationId, IpCmHeader, RejectReason, Rep, Req, ServiceId, SidrRep, SidrReq,
    SidrStatus,
};
use ferroce_wire::{Gid, Qpn};
use zerocopy::IntoBytes;

use crate::abi;
use crate::attributes::address_handle;
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::event::{self, Event};
use crate::host::Host;
use crate::id::{Attachment, QpType, State};
use crate::rdma_cm::{RdmaCm, Rejection};

/// The common fields of a REQ and a SIDR_REQ.
struct Request {
    listener: Option<ListenerId>,
    communication: CommunicationId,
    from: Gid,
    to: Gid,
    ip: Option<IpCmHeader>,
    service_id: ServiceId,
    /// `None`: its message is malformed.
    qp_type: Option<QpType>,
    path: Option<Path>,
    param: Vec<u8>,
    ece: abi::EceParam,
}

impl RdmaCm {
    /// Takes all reports of the state machine of messages.
    pub(crate) fn take_reports(&mut self, now: Instant, host: &impl Host) {
        while let Some(report) = self.cm.poll_event() {
            self.take_report(now, host, report);
        }
    }

    fn take_report(&mut self, now: Instant, host: &impl Host, report: Report) {
        match report {
            Report::ConnectRequest { .. } | Report::SidrRequest { .. } => {
                if let Some(request) = request(report) {
                    self.take_request(now, host, request);
                }
            }
            Report::ConnectResponse { id, response, ece } => {
                let param = response_param(&response);
                self.of_connection(id, event::CONNECT_RESPONSE, 0, param.as_bytes(), ece);
            }
            Report::Established { id, .. } => {
                self.of_connection(id, event::ESTABLISHED, 0, &[], Ece::default());
            }
            Report::Rejected {
                id,
                reason,
                private_data,
                ..
            } => {
                self.note_refused(id, reason);
                let mut param: abi::ConnParam = abi::zeroed();
                copy_private_data(&mut param.private_data, &private_data);
                param.private_data_len = private_data.len() as u8;
                let status = i32::from(reason.0);
                self.of_connection(
                    id,
                    event::REJECTED,
                    status,
                    param.as_bytes(),
                    Ece::default(),
                );
            }
            Report::Unreachable { id } => {
                let status = Errno::ETIMEDOUT.to_status();
                let handle = self.by_communication.get(&id).copied();
                self.of_connection(id, event::UNREACHABLE, status, &[], Ece::default());
                self.forget_service(handle);
            }
            Report::Disconnected { id, is_timeout, .. } => {
                self.disconnected(id, is_timeout);
            }
            Report::TimewaitExit { id } => {
                let Some(handle) = self.by_communication.get(&id).copied() else {
                    return;
                };
                self.forget_communication(handle);
                let state = self.ids.get(&handle).map(|id| id.state);
                if state == Some(State::Disconnect) {
                    self.report(handle, event::TIMEWAIT_EXIT, 0, &[], abi::zeroed());
                }
            }
            Report::SidrResponse { id, response, ece } => self.service_resolved(id, &response, ece),
        }
    }

    /// Keeps a refusal for diagnosis.
    fn note_refused(&mut self, id: CommunicationId, reason: RejectReason) {
        let service = self.cm.connections().find(|(it, ..)| *it == id);
        let (Some((from, to)), Some((_, service, _))) = (self.cm.addresses(id), service) else {
            return;
        };
        self.note_rejection(Rejection {
            from,
            to,
            service,
            reason,
        });
    }

    /// Reports an event of a connection that is being established or exists. A connection that has
    /// ended has only one more event, the end of TIMEWAIT.
    fn of_connection(
        &mut self,
        communication: CommunicationId,
        event: u32,
        status: i32,
        param: &[u8],
        ece: Ece,
    ) {
        let handle = self.by_communication.get(&communication).copied();
        let Some((handle, id)) = handle.and_then(|it| Some((it, self.ids.get(&it)?))) else {
            return;
        };
        if id.state == State::Connect {
            self.report(handle, event, status, param, ece_param(ece));
        }
    }

    fn disconnected(&mut self, communication: CommunicationId, is_timeout: bool) {
        let Some(handle) = self.by_communication.get(&communication).copied() else {
            return;
        };
        let Some(id) = self.ids.get_mut(&handle) else {
            return;
        };
        if id.state != State::Connect {
            return;
        }
        id.state = State::Disconnect;
        let status = if is_timeout {
            Errno::ETIMEDOUT.to_status()
        } else {
            0
        };
        self.report(handle, event::DISCONNECTED, status, &[], abi::zeroed());
    }

    /// A service resolution has no TIMEWAIT, so this was its last report.
    fn forget_service(&mut self, handle: Option<u32>) {
        let is_service = |handle: &u32| self.ids.get(handle).is_some_and(|id| id.is_ud());
        if let Some(handle) = handle.filter(is_service) {
            self.forget_communication(handle);
        }
    }

    fn service_resolved(&mut self, communication: CommunicationId, response: &SidrRep, ece: Ece) {
        let Some(handle) = self.by_communication.get(&communication).copied() else {
            return;
        };
        self.forget_communication(handle);
        let Some(id) = self.ids.get_mut(&handle) else {
            return;
        };
        let mut param: abi::UdParam = abi::zeroed();
        copy_private_data(&mut param.private_data, &response.private_data.0);
        param.private_data_len = response.private_data.0.len() as u8;
        let q_key = response.q_key.0;
        let (event, status) = if response.status != SidrStatus::SUCCESS {
            (event::UNREACHABLE, i32::from(response.status.0))
        } else if id.q_key.is_some_and(|known| known != q_key) {
            (event::ADDR_ERROR, Errno::EINVAL.to_status())
        } else {
            id.q_key = Some(q_key);
            param.qp_num = response.qpn.value();
            param.qkey = q_key;
            if let (Some(attachment), Some(path)) = (id.attachment, &id.path) {
                param.ah_attr = address_handle(&attachment, path);
            }
            (event::ESTABLISHED, 0)
        };
        if id.state == State::Connect {
            self.report(handle, event, status, param.as_bytes(), ece_param(ece));
        }
    }

    /// Handles a request: creates an id for it, and queues the listener's event. A request that
    /// cannot get an id is refused.
    fn take_request(&mut self, now: Instant, host: &impl Host, request: Request) {
        let communication = request.communication;
        if self.add_request(host, request).is_none() {
            self.cm.destroy(now, communication);
        }
    }

    fn add_request(&mut self, host: &impl Host, request: Request) -> Option<()> {
        let listener = self.by_listener.get(&request.listener?).copied()?;
        let parent = self.ids.get(&listener)?;
        let qp_type = request.qp_type?;
        let is_expected = parent.qp_type == qp_type || parent.qp_type == QpType::ANY;
        // A request that its peer has withdrawn still waits to be read, but has left the backlog of
        // the state machine.
        if !is_expected || parent.unread >= parent.backlog {
            return None;
        }
        let attachment = Attachment::find(host.devices(), request.to)?;
        let (uid, channel, port_space) = (parent.uid, parent.channel, parent.port_space);
        let (source, destination) = request_addresses(&request)?;
        let handle = self.add_id(channel, port_space, qp_type).ok()?;
        let id = self.ids.get_mut(&handle)?;
        id.state = State::Connect;
        id.source = Some(source);
        id.destination = Some(destination);
        id.attachment = Some(attachment);
        id.remote_gid = request.from;
        id.path = request.path;
        id.communication = Some(request.communication);
        id.unread_of = Some(listener);
        self.by_communication.insert(request.communication, handle);
        self.ids.get_mut(&listener)?.unread += 1;
        self.queue_request(listener, uid, handle, &request, channel);
        Some(())
    }

    fn queue_request(
        &mut self,
        listener: u32,
        uid: u64,
        handle: u32,
        request: &Request,
        channel: ChannelId,
    ) {
        debug_assert!(
            self.channels.contains_key(&channel),
            "ids end with channels"
        );
        let mut response: Box<abi::EventResponse> = Box::new(abi::zeroed());
        response.uid = uid;
        response.id = handle;
        response.event = event::CONNECT_REQUEST;
        response.param[..request.param.len()].copy_from_slice(&request.param);
        response.ece = request.ece;
        self.queue(Event {
            owner: listener,
            multicast: None,
            request: Some(handle),
            response,
        });
    }
}

/// Returns the common fields of both kinds of requests; `None` for another report.
fn request(report: Report) -> Option<Request> {
    match report {
        Report::ConnectRequest {
            listener,
            id,
            from,
            to,
            request,
            ece,
            ip,
            private_data,
        } => Some(Request {
            listener,
            communication: id,
            from,
            to,
            ip,
            service_id: request.service_id,
            qp_type: request.transport_service().map(QpType::of_passive),
            path: Some(request_path(&request, from, to)),
            param: request_param(&request, &private_data).as_bytes().to_vec(),
            ece: ece_param(ece),
        }),
        Report::SidrRequest {
            listener,
            id,
            from,
            to,
            request,
            ip,
            private_data,
        } => Some(Request {
            listener: Some(listener),
            communication: id,
            from,
            to,
            ip,
            service_id: request.service_id,
            qp_type: Some(QpType::UD),
            path: None,
            param: service_param(&request, &private_data).as_bytes().to_vec(),
            ece: abi::zeroed(),
        }),
        _ => None,
    }
}

/// Returns this side's address and the peer's: from the header of the RDMA IP CM service, or from
/// the datagram.
fn request_addresses(request: &Request) -> Option<(SocketAddr, SocketAddr)> {
    let port = request.service_id.0 as u16;
    match &request.ip {
        Some(header) => {
            let (peer, own) = header.addresses()?;
            let own = SocketAddr::new(own, port);
            Some((own, SocketAddr::new(peer, header.source_port)))
        }
        None => {
            let own = SocketAddr::new(request.to.to_ipv6().into(), port);
            Some((own, SocketAddr::new(request.from.to_ipv6().into(), 0)))
        }
    }
}

/// Returns the path back.
fn request_path(request: &Req, from: Gid, to: Gid) -> Path {
    let path = &request.primary;
    Path {
        p_key: request.partition_key,
        mtu: request.path_packet_payload_mtu,
        flow_label: path.flow_label,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        sl: path.sl,
        packet_rate: path.packet_rate,
        packet_lifetime: CmTimeout::new(path.local_ack_timeout.code().saturating_sub(1)),
        local_ack_timeout: path.local_ack_timeout,
        ..Path::new(to, from)
    }
}

/// Returns the parameters of a REQ as the passive side sees them: the peer's initiator depth is
/// this side's responder resources, and vice versa.
fn request_param(request: &Req, private_data: &[u8]) -> abi::ConnParam {
    let mut param: abi::ConnParam = abi::zeroed();
    copy_private_data(&mut param.private_data, private_data);
    param.private_data_len = private_data.len() as u8;
    param.qp_num = request.local_qpn.value();
    param.srq = request.srq.into();
    param.responder_resources = request.initiator_depth;
    param.initiator_depth = request.responder_resources;
    param.flow_control = request.end_to_end_flow_control.into();
    param.retry_count = request.retry_count;
    param.rnr_retry_count = request.rnr_retry_count;
    param
}

/// Returns the parameters of a REP as the active side sees them.
fn response_param(response: &Rep) -> abi::ConnParam {
    let mut param: abi::ConnParam = abi::zeroed();
    let data = &response.private_data.0;
    copy_private_data(&mut param.private_data, data);
    param.private_data_len = data.len() as u8;
    param.qp_num = match response.local_qpn {
        // An XRC target's QPN is in the field that was the EE context number.
        qpn if qpn == Qpn::new(0) => response.local_ee_context_number,
        qpn => qpn.value(),
    };
    param.srq = response.srq.into();
    param.responder_resources = response.initiator_depth;
    param.initiator_depth = response.responder_resources;
    param.flow_control = response.end_to_end_flow_control.into();
    param.rnr_retry_count = response.rnr_retry_count;
    param
}

fn service_param(_request: &SidrReq, private_data: &[u8]) -> abi::UdParam {
    let mut param: abi::UdParam = abi::zeroed();
    copy_private_data(&mut param.private_data, private_data);
    param.private_data_len = private_data.len() as u8;
    param
}

/// The field is larger than the private data of any message.
fn copy_private_data(room: &mut [u8; 256], data: &[u8]) {
    let length = data.len().min(room.len());
    room[..length].copy_from_slice(&data[..length]);
}

const fn ece_param(ece: Ece) -> abi::EceParam {
    abi::EceParam {
        vendor_id: ece.vendor_id,
        attr_mod: ece.attr_mod,
    }
}
