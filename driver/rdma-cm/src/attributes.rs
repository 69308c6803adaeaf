//! INIT_QP_ATTR: the attributes with which a program moves its queue pair to the next state.

use ferroce_cm::{Path, QpParameters, State as CmState};
use ferroce_wire::Gid;

use crate::abi;
use crate::body::{Body, Reply};
use crate::channel::ChannelId;
use crate::connect::UDP_Q_KEY;
use crate::errno::Errno;
use crate::id::{Attachment, Id, QpType, State};
use crate::rdma_cm::RdmaCm;

// `enum ibv_qp_state`
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

// `enum ibv_qp_attr_mask`
const MASK_STATE: u32 = 1 << 0;
const MASK_ACCESS_FLAGS: u32 = 1 << 3;
const MASK_PKEY_INDEX: u32 = 1 << 4;
const MASK_PORT: u32 = 1 << 5;
const MASK_QKEY: u32 = 1 << 6;
const MASK_AV: u32 = 1 << 7;
const MASK_PATH_MTU: u32 = 1 << 8;
const MASK_TIMEOUT: u32 = 1 << 9;
const MASK_RETRY_CNT: u32 = 1 << 10;
const MASK_RNR_RETRY: u32 = 1 << 11;
const MASK_RQ_PSN: u32 = 1 << 12;
const MASK_MAX_QP_RD_ATOMIC: u32 = 1 << 13;
const MASK_MIN_RNR_TIMER: u32 = 1 << 15;
const MASK_SQ_PSN: u32 = 1 << 16;
const MASK_MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
const MASK_DEST_QPN: u32 = 1 << 20;

// `enum ibv_access_flags`
const REMOTE_WRITE: u32 = 1 << 1;
const REMOTE_READ: u32 = 1 << 2;
const REMOTE_ATOMIC: u32 = 1 << 3;
const FLUSH_GLOBAL: u32 = 1 << 8;
const FLUSH_PERSISTENT: u32 = 1 << 9;

impl RdmaCm {
    /// INIT_QP_ATTR
    pub(crate) fn init_qp_attr(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(size_of::<abi::QpAttr>())?;
        let command: abi::InitQpAttr = body.parse()?;
        if command.qp_state > ERR {
            return Err(Errno::EINVAL);
        }
        let (id, attachment) = self.attached_id(channel, command.id)?;
        let has_messages = matches!(id.state, State::Connect | State::Disconnect);
        let mut attr: abi::QpAttr = abi::zeroed();
        attr.qp_state = command.qp_state;
        if id.is_ud() {
            attr.qkey = *id.q_key.get_or_insert(UDP_Q_KEY);
            attr.port_num = attachment.port_num;
            attr.qp_attr_mask = MASK_STATE | MASK_PKEY_INDEX | MASK_PORT | MASK_QKEY;
        } else if !has_messages {
            attr.port_num = attachment.port_num;
            attr.qp_attr_mask = MASK_STATE | MASK_PKEY_INDEX | MASK_PORT | MASK_ACCESS_FLAGS;
        } else {
            let id = self.ids.get(&command.id).ok_or(Errno::ENOENT)?;
            self.fill(&mut attr, id, &attachment)?;
        }
        Ok(body.reply(command.response, &attr))
    }

    /// Fills in the attributes that the connection's messages have determined.
    ///
    /// # Errors
    ///
    /// EINVAL if attributes of the state are not known yet, or if the connection has ended.
    fn fill(&self, attr: &mut abi::QpAttr, id: &Id, at: &Attachment) -> Result<(), Errno> {
        let communication = id.communication.ok_or(Errno::EINVAL)?;
        let parameters = self.cm.qp_parameters(communication);
        let parameters = parameters.ok_or(Errno::EINVAL)?;
        let (_, remote_gid) = self.cm.addresses(communication).ok_or(Errno::EINVAL)?;
        let is_peer_known = match self.cm.state(communication) {
            Some(CmState::ReqSent) => false,
            Some(
                CmState::ReqReceived
                | CmState::RepReceived
                | CmState::RepSent
                | CmState::Established,
            ) => true,
            _ => return Err(Errno::EINVAL),
        };
        match attr.qp_state {
            INIT => fill_init(attr, &parameters, at),
            RTR if is_peer_known => fill_rtr(attr, id, &parameters, at, remote_gid),
            RTS if is_peer_known => fill_rts(attr, id, &parameters),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

fn fill_init(attr: &mut abi::QpAttr, parameters: &QpParameters, at: &Attachment) {
    attr.port_num = at.port_num;
    attr.qp_access_flags = REMOTE_WRITE;
    if parameters.responder_resources > 0 {
        attr.qp_access_flags |= REMOTE_READ | REMOTE_ATOMIC;
        if at.has_flush {
            // Linux sets both for a device that has one of them.
            attr.qp_access_flags |= FLUSH_GLOBAL | FLUSH_PERSISTENT;
        }
    }
    attr.qp_attr_mask = MASK_STATE | MASK_ACCESS_FLAGS | MASK_PKEY_INDEX | MASK_PORT;
}

fn fill_rtr(
    attr: &mut abi::QpAttr,
    id: &Id,
    parameters: &QpParameters,
    at: &Attachment,
    remote_gid: Gid,
) {
    let path = Path {
        flow_label: parameters.flow_label,
        traffic_class: parameters.traffic_class,
        hop_limit: parameters.hop_limit,
        sl: parameters.sl,
        packet_rate: parameters.packet_rate,
        ..Path::new(at.gid, remote_gid)
    };
    attr.ah_attr = address_handle(at, &path);
    attr.path_mtu = parameters.path_mtu.into();
    attr.dest_qp_num = parameters.remote_qpn.value();
    // Known before the REP that carries it is sent: the passive side first moves its queue pair to
    // RTR, and then accepts.
    attr.rq_psn = id.starting_psn.value();
    attr.qp_attr_mask = MASK_STATE | MASK_AV | MASK_PATH_MTU | MASK_DEST_QPN | MASK_RQ_PSN;
    if matches!(id.qp_type, QpType::RC | QpType::XRC_RECV) {
        attr.max_dest_rd_atomic = parameters.responder_resources;
        attr.min_rnr_timer = 0;
        attr.qp_attr_mask |= MASK_MAX_DEST_RD_ATOMIC | MASK_MIN_RNR_TIMER;
    }
}

fn fill_rts(attr: &mut abi::QpAttr, id: &Id, parameters: &QpParameters) {
    attr.sq_psn = parameters.sq_psn.value();
    attr.qp_attr_mask = MASK_STATE | MASK_SQ_PSN;
    if matches!(id.qp_type, QpType::RC | QpType::XRC_SEND) {
        attr.retry_cnt = parameters.retry_count;
        attr.rnr_retry = parameters.rnr_retry_count;
        attr.max_rd_atomic = parameters.initiator_depth;
        attr.qp_attr_mask |= MASK_RETRY_CNT | MASK_RNR_RETRY | MASK_MAX_QP_RD_ATOMIC;
    }
    if matches!(id.qp_type, QpType::RC | QpType::XRC_SEND | QpType::XRC_RECV) {
        let timeout = parameters.local_ack_timeout.code();
        attr.timeout = id.options.ack_timeout.unwrap_or(timeout);
        attr.qp_attr_mask |= MASK_TIMEOUT;
    }
}

/// Returns the address handle of a path.
pub(crate) fn address_handle(at: &Attachment, path: &Path) -> abi::AhAttr {
    let mut attr: abi::AhAttr = abi::zeroed();
    attr.dgid = path.remote_gid.0;
    attr.flow_label = path.flow_label;
    attr.sgid_index = at.gid_index;
    attr.hop_limit = path.hop_limit;
    attr.traffic_class = path.traffic_class;
    attr.sl = path.sl;
    attr.static_rate = path.packet_rate;
    attr.is_global = 1;
    attr.port_num = at.port_num;
    attr
}
