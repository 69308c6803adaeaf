//! Queue pairs: creation, states, queries, multicast.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::address::{PORT, path_to};
use crate::context::Context;
use crate::cq::Cq;
use crate::memory::{Pd, extended};
use crate::object::{Object, Outcome, Parent, check, check_pointer, handle, operation};
use crate::srq::{Srq, Xrcd};
use crate::sys::*;

handle! {
    /// A queue pair.
    Qp, ibv_qp
}

/// Q_Key of the UD QPs of the tests.
pub const Q_KEY: u32 = 0x1111_1111;
/// First PSN of each direction: close to the end, so that it wraps.
pub const PSN: u32 = 0xff_fffe;

/// Configuration of a QP.
#[derive(Clone)]
pub struct QpConfig<'a> {
    /// `IBV_QPT_*`.
    pub qp_type: ibv_qp_type,
    /// Protection domain; none for an XRC target.
    pub pd: Option<&'a Pd>,
    /// CQ of the send queue.
    pub send_cq: Option<&'a Cq>,
    /// CQ of the receive queue.
    pub receive_cq: Option<&'a Cq>,
    /// Source of receives.
    pub srq: Option<&'a Srq>,
    /// Domain of an XRC target.
    pub xrcd: Option<&'a Xrcd>,
    /// Sizes.
    pub cap: ibv_qp_cap,
    /// Every send completes.
    pub sq_sig_all: bool,
    /// Operations of the new send API, if it is wanted.
    pub send_ops: Option<u64>,
    /// `IBV_QP_CREATE_*` flags, if any.
    pub create_flags: Option<u32>,
}

/// Sizes that suffice for the tests.
pub const CAP: ibv_qp_cap = ibv_qp_cap {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 3,
    max_recv_sge: 3,
    max_inline_data: 64,
};

impl<'a> QpConfig<'a> {
    /// Returns a configuration with both queues on one CQ.
    pub fn new(qp_type: ibv_qp_type, pd: &'a Pd, cq: &'a Cq) -> Self {
        Self {
            qp_type,
            pd: Some(pd),
            send_cq: Some(cq),
            receive_cq: Some(cq),
            srq: None,
            xrcd: None,
            cap: CAP,
            sq_sig_all: false,
            send_ops: None,
            create_flags: None,
        }
    }

    fn parents(&self) -> Vec<Parent> {
        let mut parents = Vec::new();
        parents.extend(self.pd.map(Pd::parent));
        parents.extend(self.send_cq.map(Cq::parent));
        parents.extend(self.receive_cq.map(Cq::parent));
        parents.extend(self.srq.map(Srq::parent));
        parents.extend(self.xrcd.map(Xrcd::parent));
        parents
    }
}

impl Context {
    /// Calls `ibv_create_qp`, or `ibv_create_qp_ex` for more attributes. Also returns the granted
    /// capabilities.
    pub fn create_qp(&self, config: &QpConfig) -> Outcome<(Qp, ibv_qp_cap)> {
        let flags = config.create_flags;
        if config.send_ops.is_none() && config.xrcd.is_none() && flags.is_none() {
            return self.create_plain_qp(config);
        }
        let mut attr = ibv_qp_init_attr_ex {
            send_cq: config.send_cq.map_or(null_mut(), Cq::raw),
            recv_cq: config.receive_cq.map_or(null_mut(), Cq::raw),
            srq: config.srq.map_or(null_mut(), Srq::raw),
            cap: config.cap,
            qp_type: config.qp_type,
            sq_sig_all: c_int::from(config.sq_sig_all),
            pd: config.pd.map_or(null_mut(), Pd::raw),
            xrcd: config.xrcd.map_or(null_mut(), Xrcd::raw),
            send_ops_flags: config.send_ops.unwrap_or(0),
            create_flags: flags.unwrap_or(0),
            ..Default::default()
        };
        for (there, bit) in [
            (config.pd.is_some(), IBV_QP_INIT_ATTR_PD),
            (config.xrcd.is_some(), IBV_QP_INIT_ATTR_XRCD),
            (config.send_ops.is_some(), IBV_QP_INIT_ATTR_SEND_OPS_FLAGS),
            (flags.is_some(), IBV_QP_INIT_ATTR_CREATE_FLAGS),
        ] {
            attr.comp_mask |= if there { bit } else { 0 };
        }
        // SAFETY: the attributes name living objects.
        let raw = check_pointer(unsafe {
            operation!(self.extended(), create_qp_ex)(self.raw(), &mut attr)
        })?;
        let qp = Qp(Object::new(raw, ibv_destroy_qp, config.parents()));
        Ok((qp, attr.cap))
    }

    fn create_plain_qp(&self, config: &QpConfig) -> Outcome<(Qp, ibv_qp_cap)> {
        let mut attr = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: config.send_cq.map_or(null_mut(), Cq::raw),
            recv_cq: config.receive_cq.map_or(null_mut(), Cq::raw),
            srq: config.srq.map_or(null_mut(), Srq::raw),
            cap: config.cap,
            qp_type: config.qp_type,
            sq_sig_all: c_int::from(config.sq_sig_all),
        };
        let pd = config.pd.map_or(null_mut(), Pd::raw);
        // SAFETY: the attributes name living objects.
        let raw = check_pointer(unsafe { ibv_create_qp(pd, &mut attr) })?;
        let qp = Qp(Object::new(raw, ibv_destroy_qp, config.parents()));
        Ok((qp, attr.cap))
    }

    /// Calls `ibv_open_qp`.
    pub fn open_qp(&self, number: u32, qp_type: ibv_qp_type, xrcd: &Xrcd) -> Outcome<Qp> {
        let mut attr = ibv_qp_open_attr {
            comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number,
            xrcd: xrcd.raw(),
            qp_type,
            ..Default::default()
        };
        // SAFETY: the domain is alive.
        let raw =
            check_pointer(unsafe { operation!(self.extended(), open_qp)(self.raw(), &mut attr) })?;
        Ok(Qp(Object::new(raw, ibv_destroy_qp, vec![xrcd.parent()])))
    }
}

impl Qp {
    /// Returns the QP number.
    pub fn number(&self) -> u32 {
        // SAFETY: alive.
        unsafe { (*self.raw()).qp_num }
    }

    /// `IBV_QPT_*`.
    pub fn qp_type(&self) -> ibv_qp_type {
        // SAFETY: alive.
        unsafe { (*self.raw()).qp_type }
    }

    /// Calls `ibv_modify_qp`.
    pub fn modify(&self, attr: &ibv_qp_attr, mask: u32) -> Outcome<()> {
        let mut attr = *attr;
        // SAFETY: alive.
        check(unsafe { ibv_modify_qp(self.raw(), &mut attr, mask as c_int) })
    }

    /// Calls `ibv_query_qp` for all attributes.
    pub fn query(&self) -> Outcome<(ibv_qp_attr, ibv_qp_init_attr)> {
        let mut attr = ibv_qp_attr::default();
        let mut init = ibv_qp_init_attr::default();
        let mask = (1 << 21) - 1;
        // SAFETY: alive.
        check(unsafe { ibv_query_qp(self.raw(), &mut attr, mask, &mut init) })?;
        Ok((attr, init))
    }

    /// Returns the state from a query.
    pub fn state(&self) -> ibv_qp_state {
        self.query().expect("a QP can be queried").0.qp_state
    }

    /// Modifies the state alone.
    pub fn to_state(&self, state: ibv_qp_state) -> Outcome<()> {
        let attr = ibv_qp_attr {
            qp_state: state,
            ..Default::default()
        };
        self.modify(&attr, IBV_QP_STATE)
    }

    /// Moves it from RESET to INIT.
    pub fn to_init(&self) -> Outcome<()> {
        let (attr, mask) = init_attr(self.qp_type());
        self.modify(&attr, mask)
    }

    /// Moves it from INIT to RTR.
    pub fn to_rtr(&self, gid: ibv_gid, peer: u32) -> Outcome<()> {
        let (attr, mask) = rtr_attr(self.qp_type(), gid, peer);
        self.modify(&attr, mask)
    }

    /// Moves it from RTR to RTS.
    pub fn to_rts(&self) -> Outcome<()> {
        let (attr, mask) = rts_attr(self.qp_type());
        self.modify(&attr, mask)
    }

    /// Moves it from RESET to RTS, the peer being `peer` at `gid`.
    pub fn connect(&self, gid: ibv_gid, peer: u32) {
        self.to_init().expect("RESET to INIT");
        self.to_rtr(gid, peer).expect("INIT to RTR");
        self.to_rts().expect("RTR to RTS");
    }

    /// Calls `ibv_attach_mcast`.
    pub fn attach(&self, group: &ibv_gid, lid: u16) -> Outcome<()> {
        // SAFETY: alive.
        check(unsafe { ibv_attach_mcast(self.raw(), group, lid) })
    }

    /// Calls `ibv_detach_mcast`.
    pub fn detach(&self, group: &ibv_gid, lid: u16) -> Outcome<()> {
        // SAFETY: alive.
        check(unsafe { ibv_detach_mcast(self.raw(), group, lid) })
    }

    /// Calls `ibv_query_qp_data_in_order`.
    pub fn data_in_order(&self, opcode: ibv_wr_opcode, flags: u32) -> c_int {
        // SAFETY: alive.
        unsafe { ibv_query_qp_data_in_order(self.raw(), opcode, flags) }
    }

    /// Calls `ibv_query_ece`.
    pub fn query_ece(&self) -> Outcome<ibv_ece> {
        let mut ece = ibv_ece::default();
        // SAFETY: alive.
        check(unsafe { ibv_query_ece(self.raw(), &mut ece) })?;
        Ok(ece)
    }

    /// Calls `ibv_set_ece`.
    pub fn set_ece(&self, vendor_id: u32, options: u32) -> Outcome<()> {
        let mut ece = ibv_ece {
            vendor_id,
            options,
            comp_mask: 0,
        };
        // SAFETY: alive.
        check(unsafe { ibv_set_ece(self.raw(), &mut ece) })
    }

    /// Calls `ibv_modify_qp_rate_limit`.
    pub fn modify_rate_limit(&self, kbps: u32) -> Outcome<()> {
        let mut attr = ibv_qp_rate_limit_attr {
            rate_limit: kbps,
            ..Default::default()
        };
        // SAFETY: alive.
        check(unsafe {
            let table = extended((*self.raw()).context);
            operation!(table, modify_qp_rate_limit)(self.raw(), &mut attr)
        })
    }
}

/// Returns true if the service has acknowledgements: the requester waits for them, and repeats
/// requests.
fn is_reliable_requester(qp_type: ibv_qp_type) -> bool {
    [IBV_QPT_RC, IBV_QPT_XRC_SEND].contains(&qp_type)
}

fn is_reliable_responder(qp_type: ibv_qp_type) -> bool {
    [IBV_QPT_RC, IBV_QPT_XRC_RECV].contains(&qp_type)
}

/// Attributes and mask of RESET to INIT.
pub fn init_attr(qp_type: ibv_qp_type) -> (ibv_qp_attr, u32) {
    let attr = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: PORT,
        qkey: Q_KEY,
        qp_access_flags: IBV_ACCESS_LOCAL_WRITE
            | IBV_ACCESS_REMOTE_WRITE
            | if is_reliable_responder(qp_type) || is_reliable_requester(qp_type) {
                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
            } else {
                0
            },
        ..Default::default()
    };
    let fourth = if qp_type == IBV_QPT_UD {
        IBV_QP_QKEY
    } else {
        IBV_QP_ACCESS_FLAGS
    };
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | fourth;
    (attr, mask)
}

/// Attributes and mask of INIT to RTR.
pub fn rtr_attr(qp_type: ibv_qp_type, gid: ibv_gid, peer: u32) -> (ibv_qp_attr, u32) {
    let attr = ibv_qp_attr {
        qp_state: IBV_QPS_RTR,
        ah_attr: path_to(gid),
        path_mtu: IBV_MTU_1024,
        dest_qp_num: peer,
        rq_psn: PSN,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        ..Default::default()
    };
    let mut mask = IBV_QP_STATE;
    if qp_type != IBV_QPT_UD {
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if is_reliable_responder(qp_type) {
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    (attr, mask)
}

/// Attributes and mask of RTR to RTS.
pub fn rts_attr(qp_type: ibv_qp_type) -> (ibv_qp_attr, u32) {
    let attr = ibv_qp_attr {
        qp_state: IBV_QPS_RTS,
        sq_psn: PSN,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 4,
        ..Default::default()
    };
    let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if is_reliable_requester(qp_type) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    } else if qp_type == IBV_QPT_XRC_RECV {
        mask |= IBV_QP_TIMEOUT;
    }
    (attr, mask)
}
