//! Brings queue pairs to RTS as perftest does.

use ferroce_driver::{
    AddressVector, Error as DriverError, InitAttributes, ModifyQp, QpAccess, Qpn, QueuePair,
    RtrAttributes, RtsAttributes, UcRtr, UcRts, UdInit, UdRtr, UdRts,
};

use crate::plan::Plan;
use crate::spec::Service;

/// Q_Key of datagrams (`DEF_QKEY`).
pub const Q_KEY: u32 = 0x1111_1111;
/// RNR NAK timer 0.64 ms, and retries after RNR NAKs.
const RNR_TIMER: u8 = 12;
const RNR_RETRIES: u8 = 7;
const PORT: u8 = 1;

const ACCESS: QpAccess = QpAccess {
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    flush_global: false,
    flush_persistent: false,
};

/// The remote end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The path to it.
    pub path: AddressVector,
    /// Its QP.
    pub qpn: Qpn,
    /// First PSN that it sends.
    pub psn: u32,
}

/// Connects `qp`, whose first PSN is `psn`, with `peer`.
///
/// # Errors
/// The error of the driver.
pub fn connect(qp: &QueuePair, psn: u32, peer: &Peer, plan: &Plan) -> Result<(), DriverError> {
    let steps = match plan.service {
        Service::Rc => reliable(psn, peer, plan),
        Service::Uc => unreliable(psn, peer, plan),
        Service::Ud => datagram(psn),
    };
    steps.iter().try_for_each(|step| qp.modify(step))
}

fn init() -> ModifyQp {
    ModifyQp::ToInit(InitAttributes {
        p_key_index: 0,
        port: PORT,
        access: ACCESS,
    })
}

fn reliable(psn: u32, peer: &Peer, plan: &Plan) -> [ModifyQp; 3] {
    let rtr = RtrAttributes {
        path_mtu: plan.mtu,
        dest_qpn: peer.qpn,
        rq_psn: peer.psn,
        max_dest_rd_atomic: plan.outstanding_reads,
        min_rnr_timer: RNR_TIMER,
        path: peer.path,
        access: None,
        p_key_index: None,
    };
    let rts = RtsAttributes {
        sq_psn: psn,
        timeout: plan.local_ack_timeout,
        retry_count: plan.retry_count,
        rnr_retry: RNR_RETRIES,
        max_rd_atomic: plan.outstanding_reads,
        access: None,
        min_rnr_timer: None,
    };
    [init(), ModifyQp::ToRtr(rtr), ModifyQp::ToRts(rts)]
}

fn unreliable(psn: u32, peer: &Peer, plan: &Plan) -> [ModifyQp; 3] {
    let access = QpAccess {
        remote_write: true,
        ..QpAccess::default()
    };
    let init = InitAttributes {
        p_key_index: 0,
        port: PORT,
        access,
    };
    let rtr = UcRtr {
        path_mtu: plan.mtu,
        dest_qpn: peer.qpn,
        rq_psn: peer.psn,
        path: peer.path,
        access: None,
        p_key_index: None,
    };
    let rts = UcRts {
        sq_psn: psn,
        access: None,
    };
    [
        ModifyQp::ToInit(init),
        ModifyQp::ToRtrUc(rtr),
        ModifyQp::ToRtsUc(rts),
    ]
}

fn datagram(psn: u32) -> [ModifyQp; 3] {
    let init = UdInit {
        p_key_index: 0,
        port: PORT,
        q_key: Q_KEY,
    };
    let rts = UdRts {
        sq_psn: psn,
        q_key: None,
    };
    [
        ModifyQp::ToInitUd(init),
        ModifyQp::ToRtrUd(UdRtr::default()),
        ModifyQp::ToRtsUd(rts),
    ]
}
