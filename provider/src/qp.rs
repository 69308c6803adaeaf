//! Queue pairs: checks of their attributes, their state, and the builder for `ibv_wr_*`.

use std::sync::Arc;

use ferroce_driver::{
    Addressing, Capabilities, Lease, QpAccess, QpState, QueuePair, QueuePairAttributes,
    QueuePairConfig, ReceiveQueue, ReceiveSource, SendOpcode, SendQueue, Service,
};
use ferroce_embed::fabric::shown_qps::QpChange;
use ferroce_wire::{Psn, Qpn};
use libc::c_int;

use crate::abi::*;
use crate::adapter::{Adapter, Object};
use crate::address;
use crate::convert::{self, Surroundings};
use crate::cq::Cq;
use crate::domain::Domain;
use crate::errno::{Errno, Right, Shown, at_most, within};
use crate::event::{EventQueue, Source};
use crate::identity;
use crate::srq::Srq;
use crate::watch;
use crate::xrc::Xrcd;
use crate::xrc_domains::SharedXrcd;

/// A queue pair with its context. An XRC target QP may have several.
pub struct Qp {
    pub adapter: Arc<Adapter>,
    pub pair: Arc<QueuePair>,
    pub source: Arc<Source>,
    pub addressing: Addressing,
    /// XRC target: its domain.
    xrcd: Option<Arc<SharedXrcd>>,
    /// Lease of its PD, or of the handle of its XRC domain.
    _lease: Lease,
}

/// Flags of `send_ops_flags`, and the operation that each requests.
const SEND_OPS_FLAGS: [(u64, SendOpcode); 12] = [
    (IBV_QP_EX_WITH_SEND, SendOpcode::SEND),
    (IBV_QP_EX_WITH_SEND_WITH_IMM, SendOpcode::SEND_IMMEDIATE),
    (IBV_QP_EX_WITH_SEND_WITH_INV, SendOpcode::SEND_INVALIDATE),
    (IBV_QP_EX_WITH_RDMA_WRITE, SendOpcode::RDMA_WRITE),
    (
        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
        SendOpcode::RDMA_WRITE_IMMEDIATE,
    ),
    (IBV_QP_EX_WITH_RDMA_READ, SendOpcode::RDMA_READ),
    (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, SendOpcode::COMPARE_SWAP),
    (IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, SendOpcode::FETCH_ADD),
    (IBV_QP_EX_WITH_FLUSH, SendOpcode::FLUSH),
    (IBV_QP_EX_WITH_ATOMIC_WRITE, SendOpcode::ATOMIC_WRITE),
    (IBV_QP_EX_WITH_BIND_MW, SendOpcode::BIND_WINDOW),
    (IBV_QP_EX_WITH_LOCAL_INV, SendOpcode::LOCAL_INVALIDATE),
];

/// Returns the operations that `send_ops_flags` may request for a type of queue pair.
fn send_operations(qp_type: c_int, limits: &Capabilities) -> u64 {
    let Ok(service) = service(qp_type) else {
        return 0;
    };
    let operations = limits.send_operations(service);
    let flags = SEND_OPS_FLAGS.iter();
    let possible = flags.filter(|(_, opcode)| operations.contains(*opcode));
    possible.fold(0, |flags, (flag, _)| flags | flag)
}

/// What a program asks for with attributes that only `ibv_create_qp_ex` has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras {
    /// `send_ops_flags`, if it also posts by `ibv_wr_*`.
    pub send_operations: Option<u64>,
    /// `IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`: the QP does not receive its own multicast datagrams.
    pub blocks_own_multicast: bool,
}

/// Checks the attributes that only `ibv_create_qp_ex` has.
///
/// # Errors
/// `EINVAL` without a PD, or for an XRC target without a domain, `EOPNOTSUPP` for any attribute,
/// flag or operation that this device lacks: a program with such a QP would call an empty entry of
/// its table.
pub fn check_extended(attr: &ibv_qp_init_attr_ex, limits: &Capabilities) -> Result<Extras, Errno> {
    const KNOWN: u32 = IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let has = |bit: u32| attr.comp_mask & bit != 0;
    let refusal = Errno::NOT_SUPPORTED;
    within(refusal, "attr->comp_mask", attr.comp_mask, KNOWN)?;
    let is_target = attr.qp_type == IBV_QPT_XRC_RECV;
    if has(IBV_QP_INIT_ATTR_XRCD) != is_target || !is_target && !has(IBV_QP_INIT_ATTR_PD) {
        let right = "IBV_QP_INIT_ATTR_PD, or of an XRC target IBV_QP_INIT_ATTR_XRCD instead";
        let mask = Shown::Bits(attr.comp_mask.into());
        return Err(Errno::wrong("attr->comp_mask", mask, right));
    }
    let mut create_flags = 0;
    if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) {
        create_flags = attr.create_flags;
        let allowed = match attr.qp_type {
            IBV_QPT_UD if limits.own_multicast => IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
            _ => 0,
        };
        within(refusal, "attr->create_flags", create_flags, allowed)?;
    }
    let requested = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(attr.send_ops_flags);
    if let Some(operations) = requested {
        let possible = send_operations(attr.qp_type, limits);
        within(refusal, "attr->send_ops_flags", operations, possible)?;
    }
    Ok(Extras {
        send_operations: requested,
        blocks_own_multicast: create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0,
    })
}

/// Checks that `ibv_open_qp` names a target QP of a domain.
///
/// # Errors
/// `EINVAL` when an attribute is missing or another type is requested.
pub fn check_open(attr: &ibv_qp_open_attr) -> Result<(), Errno> {
    const REQUIRED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    let known = REQUIRED | IBV_QP_OPEN_ATTR_CONTEXT;
    let complete = attr.comp_mask & REQUIRED == REQUIRED && attr.comp_mask & !known == 0;
    if !complete {
        let mask = Shown::Bits(attr.comp_mask.into());
        let right = "IBV_QP_OPEN_ATTR_NUM, _XRCD and _TYPE, and no unknown flag";
        return Err(Errno::wrong("attr->comp_mask", mask, right));
    }
    if attr.qp_type != IBV_QPT_XRC_RECV {
        let right = "IBV_QPT_XRC_RECV";
        return Err(Errno::wrong("attr->qp_type", attr.qp_type, right));
    }
    Ok(())
}

/// Parses `enum ibv_qp_type`.
fn service(qp_type: c_int) -> Result<Service, Errno> {
    const NAME: &str = "attr->qp_type";
    const TYPES: &str = "IBV_QPT_RC (2), _UC (3), _UD (4) or _XRC_SEND (9)";
    match qp_type {
        IBV_QPT_RC => Ok(Service::ReliableConnected),
        IBV_QPT_UC => Ok(Service::UnreliableConnected),
        IBV_QPT_UD => Ok(Service::UnreliableDatagram),
        IBV_QPT_XRC_SEND => Ok(Service::XrcInitiator),
        IBV_QPT_RAW_PACKET | IBV_QPT_DRIVER => {
            Err(Errno::NOT_SUPPORTED.argument(NAME, qp_type, Right::Text(TYPES)))
        }
        // A target has no PD, so only `ibv_create_qp_ex` creates it.
        _ => Err(Errno::wrong(NAME, qp_type, TYPES)),
    }
}

/// Checks the sizes of the queues. With an SRQ the receive sizes are ignored: ibv_create_qp(3).
fn check_capacity(cap: &ibv_qp_cap, has_srq: bool, limits: &Capabilities) -> Result<(), Errno> {
    let (wr, sge) = (limits.max_qp_wr, limits.max_sge);
    at_most("attr->cap.max_send_wr", cap.max_send_wr, wr)?;
    at_most("attr->cap.max_send_sge", cap.max_send_sge, sge)?;
    if !has_srq {
        at_most("attr->cap.max_recv_wr", cap.max_recv_wr, wr)?;
        at_most("attr->cap.max_recv_sge", cap.max_recv_sge, sge)?;
    }
    let inline = limits.max_inline_data;
    at_most("attr->cap.max_inline_data", cap.max_inline_data, inline)
}

/// The queues of a new QP.
pub struct Queues<'a> {
    pub send_cq: &'a Cq,
    /// `None` for an XRC initiator.
    pub receive_cq: Option<&'a Cq>,
    pub srq: Option<&'a Srq>,
}

impl Queues<'_> {
    fn receive_source(&self, cap: &ibv_qp_cap) -> Result<ReceiveSource, Errno> {
        let cq = self
            .receive_cq
            .ok_or_else(|| Errno::null("attr->recv_cq"))?;
        let cq = cq.queue.clone();
        Ok(match self.srq {
            Some(srq) if srq.is_xrc => {
                return Err(Errno::INVALID.because("attr->srq is one for XRC"));
            }
            Some(srq) => ReceiveSource::Shared {
                cq,
                queue: srq.queue.clone(),
            },
            None => ReceiveSource::Own {
                cq,
                max_wr: cap.max_recv_wr,
                max_sge: cap.max_recv_sge,
            },
        })
    }
}

/// Objects that a QP belongs to.
struct Owner<'a> {
    adapter: &'a Arc<Adapter>,
    /// The async queue for its events.
    events: &'a Arc<EventQueue>,
    lease: Lease,
    /// XRC target: its domain.
    xrcd: Option<&'a Xrcd>,
}

impl Qp {
    /// Creates a QP in RESET. Sets `cap` to its actual capacity.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for raw packets, `EINVAL` for capacities above the device's limits and for
    /// queues that the service does not allow.
    pub fn create(
        domain: &Domain,
        queues: &Queues<'_>,
        attr: &mut ibv_qp_init_attr,
        extras: Extras,
    ) -> Result<Self, Errno> {
        let limits = domain.adapter.device()?.capabilities();
        let service = service(attr.qp_type)?;
        check_capacity(&attr.cap, queues.srq.is_some(), limits)?;
        let receive = match service {
            Service::XrcInitiator => ReceiveSource::None,
            _ => queues.receive_source(&attr.cap)?,
        };
        let config = QueuePairConfig {
            service,
            send_cq: queues.send_cq.queue.clone(),
            receive,
            max_send_wr: attr.cap.max_send_wr,
            max_send_sge: attr.cap.max_send_sge,
            max_inline_data: attr.cap.max_inline_data,
            signal_all: attr.sq_sig_all != 0,
            blocks_own_multicast: extras.blocks_own_multicast,
        };
        let pair = QueuePair::create(&domain.protection, &config)?;
        attr.cap = capacity(&pair);
        let owner = Owner {
            adapter: &domain.adapter,
            events: &domain.events,
            lease: domain.lease(),
            xrcd: None,
        };
        Ok(Self::new(owner, pair).shown())
    }

    /// Creates an XRC target QP in RESET, which has neither PD nor queues.
    pub fn create_target(xrcd: &Xrcd, events: &Arc<EventQueue>) -> Result<Self, Errno> {
        xrcd.adapter.check()?;
        let pair = QueuePair::create_xrc_target(&xrcd.shared.domain)?;
        xrcd.shared.add_target(&pair);
        Ok(Self::of_target(xrcd, events, pair).shown())
    }

    /// `ibv_open_qp`: another handle of a target QP. Each handle gets its events.
    ///
    /// # Errors
    /// `EINVAL` when the domain has no such QP.
    pub fn open_target(xrcd: &Xrcd, events: &Arc<EventQueue>, number: u32) -> Result<Self, Errno> {
        xrcd.adapter.check()?;
        Ok(Self::of_target(xrcd, events, xrcd.target(number)?))
    }

    fn of_target(xrcd: &Xrcd, events: &Arc<EventQueue>, pair: Arc<QueuePair>) -> Self {
        let owner = Owner {
            adapter: &xrcd.adapter,
            events,
            lease: xrcd.lease(),
            xrcd: Some(xrcd),
        };
        Self::new(owner, pair)
    }

    fn new(owner: Owner<'_>, pair: Arc<QueuePair>) -> Self {
        let source = Arc::new(Source::default());
        let object = Object::QueuePair(pair.number());
        owner.adapter.add(object, owner.events, &source);
        Self {
            adapter: owner.adapter.clone(),
            addressing: Addressing::of(pair.service()),
            pair,
            source,
            xrcd: owner.xrcd.map(|xrcd| xrcd.shared.clone()),
            _lease: owner.lease,
        }
    }

    /// Shows a new QP in `ferroce top`.
    fn shown(self) -> Self {
        if let Some(shown) = &self.adapter.shown_qps {
            shown.add(self.pair.number().0, self.pair.service());
        }
        watch::add_pair(&self.adapter, &self.pair);
        self
    }

    /// Returns the send queue.
    ///
    /// # Errors
    /// `EINVAL`: an XRC target has none.
    #[inline]
    pub fn send_queue(&self) -> Result<&SendQueue, Errno> {
        let queue = self.pair.send_queue();
        queue.ok_or(Errno::INVALID.because("an XRC target has no send queue"))
    }

    /// Returns the receive queue.
    ///
    /// # Errors
    /// `EINVAL`: the receives come from an SRQ, or the QP has none.
    #[inline]
    pub fn receive_queue(&self) -> Result<&ReceiveQueue, Errno> {
        let text = "the QP takes its receives from an SRQ, or has none";
        self.pair
            .receive_queue()
            .ok_or(Errno::INVALID.because(text))
    }

    /// `ibv_modify_qp`; returns the new state of the QP.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: c_int) -> Result<QpState, Errno> {
        let changed = self.change(attr, mask);
        changed.map_err(|errno| errno.of_qp(self.pair.number().0))
    }

    fn change(&self, attr: &ibv_qp_attr, mask: c_int) -> Result<QpState, Errno> {
        let limits = self.adapter.device()?.capabilities();
        let around = Surroundings {
            service: self.pair.service(),
            // The device may have moved on by itself, to SQE or ERR.
            state: self.pair.query()?.state,
            qpn: self.pair.number().0,
            max_rd_atomic: limits.max_rd_atomic,
            max_dest_rd_atomic: limits.max_dest_rd_atomic,
            max_path_mtu: limits.max_path_mtu,
            host: &*self.adapter,
        };
        let (state, transition) = convert::modify_qp(attr, mask, &around)?;
        self.pair.modify(&transition)?;
        if let Some(shown) = &self.adapter.shown_qps {
            let given = |flag, value: u32| (mask & flag != 0).then_some(value);
            let change = QpChange {
                peer: given(IBV_QP_DEST_QPN, attr.dest_qp_num).map(Qpn::new),
                sq_psn: given(IBV_QP_SQ_PSN, attr.sq_psn).map(Psn::new),
                rq_psn: given(IBV_QP_RQ_PSN, attr.rq_psn).map(Psn::new),
            };
            shown.change(self.pair.number().0, state, change);
        }
        Ok(state)
    }

    /// `ibv_query_qp`: returns all attributes, for any mask.
    pub fn query(&self) -> Result<ibv_qp_attr, Errno> {
        self.adapter.check()?;
        Ok(describe(&self.pair.query()?, capacity(&self.pair)))
    }

    /// `ibv_attach_mcast`.
    ///
    /// # Errors
    /// `EINVAL` for QPs other than UD, and for an address that is not a group; `ENOMEM` when the
    /// group is full.
    pub fn attach_multicast(&self, group: [u8; 16]) -> Result<(), Errno> {
        self.check_multicast(&group)?;
        Ok(self.pair.attach_multicast(group)?)
    }

    /// `ibv_detach_mcast`.
    ///
    /// # Errors
    /// `EINVAL` for QPs other than UD, for an address that is not a group, and for a group that the
    /// QP is not in.
    pub fn detach_multicast(&self, group: [u8; 16]) -> Result<(), Errno> {
        self.check_multicast(&group)?;
        Ok(self.pair.detach_multicast(group)?)
    }

    fn check_multicast(&self, group: &[u8; 16]) -> Result<(), Errno> {
        self.adapter.check()?;
        if self.pair.service() != Service::UnreliableDatagram {
            return Err(Errno::INVALID.because("the QP is not of type IBV_QPT_UD"));
        }
        if !address::is_multicast(group) {
            return Err(Errno::INVALID.because("gid is no multicast address"));
        }
        Ok(())
    }

    /// `ibv_query_ece`: the vendor of the options, and that there are none.
    pub fn enhancements(&self) -> Result<ibv_ece, Errno> {
        self.adapter.check()?;
        Ok(ibv_ece {
            vendor_id: identity::VENDOR_ID,
            options: 0,
            comp_mask: 0,
        })
    }

    /// `ibv_set_ece`: accepts none of the peer's options, because the device has none.
    ///
    /// # Errors
    /// `EINVAL` for another vendor's options, and for unknown attributes.
    pub fn set_enhancements(&self, ece: &ibv_ece) -> Result<(), Errno> {
        self.adapter.check()?;
        let ours = ece.vendor_id == identity::VENDOR_ID;
        within(Errno::INVALID, "ece->comp_mask", ece.comp_mask, 0_u64)?;
        if ece.options != 0 && !ours {
            let vendor = Shown::Bits(ece.vendor_id.into());
            let right = "the vendor of ibv_query_ece, or no options";
            return Err(Errno::wrong("ece->vendor_id", vendor, right));
        }
        Ok(())
    }

    /// Destroys the QP, or releases a target that has other handles, and purges unread events.
    pub fn destroy(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        let is_last = match &self.xrcd {
            Some(xrcd) => xrcd.release_target(&self.pair)?,
            None => self.pair.destroy().map(|()| true)?,
        };
        if let (true, Some(shown)) = (is_last, &self.adapter.shown_qps) {
            shown.remove(self.pair.number().0);
        }
        let object = Object::QueuePair(self.pair.number());
        self.adapter.remove(object, &self.source);
        Ok(())
    }
}

fn capacity(pair: &QueuePair) -> ibv_qp_cap {
    let given = pair.capacity();
    ibv_qp_cap {
        max_send_wr: given.max_send_wr,
        max_recv_wr: given.max_recv_wr,
        max_send_sge: given.max_send_sge,
        max_recv_sge: given.max_recv_sge,
        max_inline_data: given.max_inline_data,
    }
}

/// Returns the `enum ibv_access_flags` of a QP's rights.
fn access_flags(access: QpAccess) -> u32 {
    let mut flags = 0;
    for (given, bit) in [
        (access.remote_write, IBV_ACCESS_REMOTE_WRITE),
        (access.remote_read, IBV_ACCESS_REMOTE_READ),
        (access.remote_atomic, IBV_ACCESS_REMOTE_ATOMIC),
    ] {
        if given {
            flags |= bit;
        }
    }
    flags
}

fn describe(now: &QueuePairAttributes, cap: ibv_qp_cap) -> ibv_qp_attr {
    let mut attr = zeroed_qp_attr();
    attr.qp_state = now.state as c_int;
    attr.cur_qp_state = attr.qp_state;
    attr.path_mtu = now.path_mtu.map_or(0, |mtu| mtu as c_int);
    attr.path_mig_state = IBV_MIG_MIGRATED;
    attr.qkey = now.q_key;
    attr.rq_psn = now.rq_psn;
    attr.sq_psn = now.sq_psn;
    attr.dest_qp_num = now.dest_qpn.0;
    attr.qp_access_flags = access_flags(now.access);
    attr.cap = cap;
    attr.ah_attr = address::describe(&now.path, now.port);
    attr.pkey_index = now.p_key_index;
    attr.sq_draining = u8::from(now.draining);
    attr.max_rd_atomic = now.max_rd_atomic;
    attr.max_dest_rd_atomic = now.max_dest_rd_atomic;
    attr.min_rnr_timer = now.min_rnr_timer;
    attr.port_num = now.port;
    attr.timeout = now.timeout;
    attr.retry_cnt = now.retry_count;
    attr.rnr_retry = now.rnr_retry;
    attr
}
