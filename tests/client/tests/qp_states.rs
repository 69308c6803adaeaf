//! The whole matrix of QP states (IBTA vol 1, 11.2.5.2): each pair of states of each service, with
//! each required, allowed or forbidden attribute.

use ferroce_verbs_client::bench::Bench;
use ferroce_verbs_client::qp::{Q_KEY, Qp, init_attr, rtr_attr, rts_attr};
use ferroce_verbs_client::sys::*;
use ferroce_verbs_client::verbs_tests;
use ferroce_verbs_client::work_request::SendWr;

const RC: u32 = IBV_QPT_RC;
const UC: u32 = IBV_QPT_UC;
const UD: u32 = IBV_QPT_UD;
const INI: u32 = IBV_QPT_XRC_SEND;
const TGT: u32 = IBV_QPT_XRC_RECV;

const STATES: [ibv_qp_state; 7] = [
    IBV_QPS_RESET,
    IBV_QPS_INIT,
    IBV_QPS_RTR,
    IBV_QPS_RTS,
    IBV_QPS_SQD,
    IBV_QPS_SQE,
    IBV_QPS_ERR,
];

/// Path migration is optional on RoCE: it may be refused wherever it would be legal.
const MIGRATION: u32 = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
/// The last bit of `ibv_qp_attr_mask` that the table knows.
const LAST_BIT: u32 = IBV_QP_DEST_QPN;

const ADDRESS: u32 = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RESPONDER: u32 = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const RETRIES: u32 = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

/// Returns the required and optional attributes of a transition, or `None` if it does not exist.
fn attributes(qp_type: u32, from: ibv_qp_state, to: ibv_qp_state) -> Option<(u32, u32)> {
    let access = if qp_type == UD {
        IBV_QP_QKEY
    } else {
        IBV_QP_ACCESS_FLAGS
    };
    let initial = IBV_QP_PKEY_INDEX | IBV_QP_PORT | access;
    let rnr_timer = if [RC, TGT].contains(&qp_type) {
        IBV_QP_MIN_RNR_TIMER
    } else {
        0
    };
    let migration = if qp_type == UD { 0 } else { MIGRATION };
    let running = IBV_QP_CUR_STATE | access | rnr_timer | migration;
    Some(match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) if from != IBV_QPS_RESET => (0, 0),
        (IBV_QPS_RESET, IBV_QPS_RESET) => (0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT) => (initial, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT) => (0, initial),
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            let required = match qp_type {
                UD => 0,
                RC | TGT => ADDRESS | RESPONDER,
                _ => ADDRESS,
            };
            let alternate = migration & IBV_QP_ALT_PATH;
            (required, IBV_QP_PKEY_INDEX | access | alternate)
        }
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            let required = match qp_type {
                RC | INI => RETRIES | IBV_QP_MAX_QP_RD_ATOMIC,
                TGT => IBV_QP_TIMEOUT,
                _ => 0,
            };
            (required | IBV_QP_SQ_PSN, running)
        }
        (IBV_QPS_RTS, IBV_QPS_RTS) | (IBV_QPS_SQD, IBV_QPS_RTS) => (0, running),
        (IBV_QPS_RTS, IBV_QPS_SQD) => (0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (IBV_QPS_SQD, IBV_QPS_SQD) => (0, while_drained(qp_type) | access | migration),
        (IBV_QPS_SQE, IBV_QPS_RTS) => (0, IBV_QP_CUR_STATE | access),
        _ => return None,
    })
}

fn while_drained(qp_type: u32) -> u32 {
    let path = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV;
    match qp_type {
        UD => IBV_QP_PKEY_INDEX,
        UC => IBV_QP_PKEY_INDEX | IBV_QP_AV,
        INI => path | RETRIES | IBV_QP_MAX_QP_RD_ATOMIC,
        TGT => path | RESPONDER | IBV_QP_TIMEOUT,
        _ => path | RESPONDER | RETRIES | IBV_QP_MAX_QP_RD_ATOMIC,
    }
}

/// Attributes of the other half of XRC: Linux removes them from the mask before it checks the mask.
fn ignored(qp_type: u32) -> u32 {
    match qp_type {
        INI => RESPONDER,
        TGT => IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
        _ => 0,
    }
}

/// Returns valid values for every attribute.
fn values(bench: &Bench, qp: &Qp, from: ibv_qp_state, to: ibv_qp_state) -> ibv_qp_attr {
    let (init, _) = init_attr(qp.qp_type());
    let (rtr, _) = rtr_attr(qp.qp_type(), bench.gid, qp.number());
    let (rts, _) = rts_attr(qp.qp_type());
    ibv_qp_attr {
        qp_state: to,
        cur_qp_state: from,
        qkey: Q_KEY,
        port_num: init.port_num,
        qp_access_flags: init.qp_access_flags,
        alt_ah_attr: rtr.ah_attr,
        alt_port_num: init.port_num,
        sq_psn: rts.sq_psn,
        timeout: rts.timeout,
        retry_cnt: rts.retry_cnt,
        rnr_retry: rts.rnr_retry,
        max_rd_atomic: rts.max_rd_atomic,
        cap: ferroce_verbs_client::qp::CAP,
        ..rtr
    }
}

/// Returns a new QP in a state, or `None` if its service does not have that state.
fn qp_in(bench: &Bench, qp_type: u32, state: ibv_qp_state) -> Option<Qp> {
    if state == IBV_QPS_SQE && ![UC, UD].contains(&qp_type) {
        return None;
    }
    let qp = bench.qp(qp_type).expect("a QP");
    let walk = [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS];
    let steps = match state {
        IBV_QPS_RESET => 0,
        IBV_QPS_INIT => 1,
        IBV_QPS_RTR => 2,
        _ => 3,
    };
    for step in &walk[..steps] {
        match *step {
            IBV_QPS_INIT => qp.to_init(),
            IBV_QPS_RTR => qp.to_rtr(bench.gid, qp.number()),
            _ => qp.to_rts(),
        }
        .expect("the way to a state");
    }
    match state {
        IBV_QPS_SQD | IBV_QPS_ERR => qp.to_state(state).expect("SQD or ERR"),
        IBV_QPS_SQE => fail_send_queue(bench, &qp),
        _ => {}
    }
    assert_eq!(qp.state(), state);
    Some(qp)
}

/// Stops the send queue of an unreliable QP, with a wrong L_Key.
fn fail_send_queue(bench: &Bench, qp: &Qp) {
    let mut sge = bench.sge(0, 8);
    sge.lkey ^= 0x5a5a_5a00;
    let mut wr = SendWr::new(1, IBV_WR_SEND).sge(sge);
    if qp.qp_type() == UD {
        let path = ferroce_verbs_client::address::path_to(bench.gid);
        let ah = bench.pd.create_ah(path).expect("an AH");
        wr = wr.datagram(&ah, qp.number(), Q_KEY);
    }
    qp.post_send(&wr).expect("post_send");
    bench.send_cq.expect(1, IBV_WC_LOC_PROT_ERR);
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (1..32)
        .map(|bit| 1 << bit)
        .filter(move |bit| mask & bit != 0)
}

/// Checks one pair of states.
fn check(bench: &Bench, qp_type: u32, from: ibv_qp_state, to: ibv_qp_state) {
    let Some(qp) = qp_in(bench, qp_type, from) else {
        return;
    };
    let attr = values(bench, &qp, from, to);
    let refused = |mask: u32, why: &str| {
        let result = qp.modify(&attr, IBV_QP_STATE | mask);
        let what = format!("type {qp_type}, {from} to {to}, mask {mask:#x}, {why}");
        assert_eq!(result, Err(libc::EINVAL), "{what}");
        assert_eq!(qp.state(), from, "{what}: the state");
    };
    let all = LAST_BIT * 2 - 2;
    let Some((required, optional)) = attributes(qp_type, from, to) else {
        refused(0, "no such transition");
        refused(all & !MIGRATION & !IBV_QP_CAP, "no such transition");
        return;
    };
    for bit in bits(required) {
        refused(required & !bit, "an attribute is missing");
    }
    // The capacity of the queues cannot change, so it is refused in every state.
    for bit in bits(all & !(required | optional | ignored(qp_type))) {
        refused(required | bit, "an attribute too many");
    }
    let good = bits(optional & !MIGRATION).chain([0, optional & !MIGRATION]);
    for more in good {
        let qp = qp_in(bench, qp_type, from).expect("as before");
        let attr = values(bench, &qp, from, to);
        let what = format!("type {qp_type}, {from} to {to}, {required:#x} and {more:#x}");
        assert_eq!(
            qp.modify(&attr, IBV_QP_STATE | required | more),
            Ok(()),
            "{what}"
        );
        assert_eq!(qp.state(), to, "{what}");
        qp.destroy().expect("destroy");
    }
}

fn check_all(qp_type: u32) {
    let bench = Bench::new();
    for from in STATES {
        for to in STATES {
            check(&bench, qp_type, from, to);
        }
    }
}

verbs_tests! {
    fn matrix_of_rc() { check_all(RC); }
    fn matrix_of_uc() { check_all(UC); }
    fn matrix_of_ud() { check_all(UD); }
    fn matrix_of_xrc_initiators() { check_all(INI); }
    fn matrix_of_xrc_targets() { check_all(TGT); }

    /// If the caller gives the current state, it is checked.
    fn a_wrong_current_state_is_refused() {
        let bench = Bench::new();
        let qp = qp_in(&bench, RC, IBV_QPS_RTS).expect("RC has RTS");
        let mut attr = values(&bench, &qp, IBV_QPS_RTS, IBV_QPS_RTS);
        attr.cur_qp_state = IBV_QPS_SQD;
        assert_eq!(qp.modify(&attr, IBV_QP_STATE | IBV_QP_CUR_STATE), Err(libc::EINVAL));
    }

    /// Values out of range are refused in each transition that accepts the attribute.
    fn values_out_of_range_are_refused() {
        let bench = Bench::new();
        let qp = qp_in(&bench, RC, IBV_QPS_RESET).expect("RC");
        let refuse = |what: &str, mask: u32, attr: ibv_qp_attr| {
            assert_eq!(qp.modify(&attr, mask), Err(libc::EINVAL), "{what}");
        };
        let (attr, mask) = init_attr(RC);
        refuse("port 0", mask, ibv_qp_attr { port_num: 0, ..attr });
        refuse("port 2", mask, ibv_qp_attr { port_num: 2, ..attr });
        refuse("P_Key index", mask, ibv_qp_attr { pkey_index: 1000, ..attr });
        qp.modify(&attr, mask).expect("INIT");
        let (attr, mask) = rtr_attr(RC, bench.gid, qp.number());
        refuse("MTU 0", mask, ibv_qp_attr { path_mtu: 0, ..attr });
        refuse("MTU 6", mask, ibv_qp_attr { path_mtu: 6, ..attr });
        refuse("max_dest_rd_atomic", mask, ibv_qp_attr { max_dest_rd_atomic: 255, ..attr });
        let mut path = attr;
        path.ah_attr.is_global = 0;
        refuse("no GRH", mask, path);
        path = attr;
        path.ah_attr.grh.sgid_index = 200;
        refuse("sgid_index", mask, path);
        path = attr;
        path.ah_attr.port_num = 3;
        refuse("port of the path", mask, path);
        qp.modify(&attr, mask).expect("RTR");
        let (attr, mask) = rts_attr(RC);
        refuse("timeout", mask, ibv_qp_attr { timeout: 32, ..attr });
        refuse("retry_cnt", mask, ibv_qp_attr { retry_cnt: 8, ..attr });
        refuse("rnr_retry", mask, ibv_qp_attr { rnr_retry: 8, ..attr });
        refuse("max_rd_atomic", mask, ibv_qp_attr { max_rd_atomic: 255, ..attr });
        qp.modify(&attr, mask).expect("RTS");
        refuse("state 7", IBV_QP_STATE, ibv_qp_attr { qp_state: 7, ..attr });
    }
}
