//! Queue pairs: what may be asked of them, what they are, and the builder behind `ibv_wr_*`.

use crate::adapter::Adapter;
use crate::address;
use crate::convert::{self, Surroundings};
use crate::errno::Errno;
use crate::event::{EventQueue, Source};
use crate::ffi::abi::*;
use ferroce_driver::{
    Capabilities, CompletionQueue, ProtectionDomain, QpAccess, QueuePair, QueuePairAttributes,
    QueuePairConfig, Service,
};
use libc::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// A queue pair with what ties it to its context.
pub struct Qp {
    pub adapter: Arc<Adapter>,
    pub pair: Arc<QueuePair>,
    pub source: Arc<Source>,
    /// State that the program last asked for; `EINVAL` is the device's answer when it has moved on
    /// by itself.
    state: AtomicI32,
}

/// Operations that `send_ops_flags` may ask for on an RC QP.
const SEND_OPERATIONS: u64 = IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_IMM
    | IBV_QP_EX_WITH_RDMA_READ;

/// Checks what `ibv_create_qp_ex` has and `ibv_create_qp` has not. The result says whether
/// `ibv_wr_*` is wanted.
///
/// # Errors `EINVAL` without a PD, `EOPNOTSUPP` for any attribute, flag or operation that this
/// device lacks: a program that got such a QP would call an empty entry of its table.
pub fn check_extended(attr: &ibv_qp_init_attr_ex) -> Result<bool, Errno> {
    const KNOWN: u32 =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if attr.comp_mask & !KNOWN != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
        return Err(Errno::INVALID);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && attr.create_flags != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    let extended = attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    if extended && attr.send_ops_flags & !SEND_OPERATIONS != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    Ok(extended)
}

/// Parses `enum ibv_qp_type`.
fn service(qp_type: c_int) -> Result<Service, Errno> {
    match qp_type {
        IBV_QPT_RC => Ok(Service::ReliableConnected),
        IBV_QPT_UC | IBV_QPT_UD | IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV
        | IBV_QPT_DRIVER => Err(Errno::NOT_SUPPORTED),
        _ => Err(Errno::INVALID),
    }
}

fn check_capacity(cap: &ibv_qp_cap, limits: &Capabilities) -> Result<(), Errno> {
    let fits = cap.max_send_wr <= limits.max_qp_wr
        && cap.max_recv_wr <= limits.max_qp_wr
        && cap.max_send_sge <= limits.max_sge
        && cap.max_recv_sge <= limits.max_sge
        && cap.max_inline_data <= limits.max_inline_data;
    if fits { Ok(()) } else { Err(Errno::INVALID) }
}

impl Qp {
    /// Creates a QP in RESET. `cap` becomes what was really given.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for services other than RC, `EINVAL` for capacities beyond the device's.
    pub fn create(
        adapter: &Arc<Adapter>,
        domain: &Arc<ProtectionDomain>,
        events: &Arc<EventQueue>,
        queues: [&Arc<CompletionQueue>; 2],
        attr: &mut ibv_qp_init_attr,
    ) -> Result<Self, Errno> {
        let limits = adapter.device()?.capabilities();
        let service = service(attr.qp_type)?;
        check_capacity(&attr.cap, limits)?;
        let [send_cq, receive_cq] = queues.map(Arc::clone);
        let config = QueuePairConfig {
            service,
            send_cq,
            receive_cq,
            max_send_wr: attr.cap.max_send_wr,
            max_recv_wr: attr.cap.max_recv_wr,
            max_send_sge: attr.cap.max_send_sge,
            max_recv_sge: attr.cap.max_recv_sge,
            max_inline_data: attr.cap.max_inline_data,
            signal_all: attr.sq_sig_all != 0,
        };
        let pair = QueuePair::create(domain, &config)?;
        attr.cap = capacity(&pair);
        let source = Arc::new(Source::default());
        adapter.add_queue_pair(pair.number(), events, &source);
        let state = AtomicI32::new(IBV_QPS_RESET);
        Ok(Self {
            adapter: adapter.clone(),
            pair,
            source,
            state,
        })
    }

    /// `ibv_modify_qp`; the result is the state that the QP is in now.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: c_int) -> Result<c_int, Errno> {
        let limits = self.adapter.device()?.capabilities();
        let around = Surroundings {
            state: self.state.load(Ordering::Acquire),
            qpn: self.pair.number().0,
            max_rd_atomic: limits.max_rd_atomic,
            max_dest_rd_atomic: limits.max_dest_rd_atomic,
            host: &*self.adapter,
        };
        let (state, transition) = convert::modify_qp(attr, mask, &around)?;
        self.pair.modify(&transition)?;
        self.state.store(state, Ordering::Release);
        Ok(state)
    }

    /// `ibv_query_qp`: everything, whatever the mask asks for.
    pub fn query(&self) -> Result<ibv_qp_attr, Errno> {
        self.adapter.check()?;
        let now = self.pair.query()?;
        self.state.store(now.state as c_int, Ordering::Release);
        Ok(describe(&now, capacity(&self.pair)))
    }

    /// Destroys the QP and purges the events that nobody has read.
    pub fn destroy(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        self.pair.destroy()?;
        self.adapter.remove_queue_pair(self.pair.number());
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

/// `enum ibv_access_flags` of a QP's rights.
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
