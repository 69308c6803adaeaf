//! The transitions of a QP, and the required and optional attributes of each (IBTA vol 1, table
//! 91).

use libc::c_int;

use crate::errno::Errno;
use crate::ffi::abi::*;

/// Attributes of one transition of one service: required ones and optional ones.
type Masks = (c_int, c_int);

/// A transition with its attributes by service. `None`: the service does not have it.
struct Row {
    from: c_int,
    to: c_int,
    datagram: Option<Masks>,
    unreliable: Option<Masks>,
    reliable: Option<Masks>,
    xrc_initiator: Option<Masks>,
    xrc_target: Option<Masks>,
}

const PARTITION_AND_PORT: c_int = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
const CONNECTED: c_int = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RESPONDER: c_int = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const REQUESTER: c_int =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
const MIGRATION: c_int = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
const CONNECTING: c_int = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
/// Attributes that may change whenever a QP is at work.
const DATAGRAM_AT_WORK: c_int = IBV_QP_CUR_STATE | IBV_QP_QKEY;
const AT_WORK: c_int = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | MIGRATION;
const RESPONDER_AT_WORK: c_int = AT_WORK | IBV_QP_MIN_RNR_TIMER;
/// Attributes that may change while the send queue is drained.
const DRAINED: c_int = IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | MIGRATION;

const fn needs(mask: c_int) -> Option<Masks> {
    Some((mask, 0))
}

const fn allows(mask: c_int) -> Option<Masks> {
    Some((0, mask))
}

/// Returns a transition with the same attributes for each service but UD.
const fn connected(from: c_int, to: c_int, datagram: Option<Masks>, others: Option<Masks>) -> Row {
    Row {
        from,
        to,
        datagram,
        unreliable: others,
        reliable: others,
        xrc_initiator: others,
        xrc_target: others,
    }
}

/// Returns a transition of a QP at work.
const fn at_work(from: c_int) -> Row {
    Row {
        from,
        to: IBV_QPS_RTS,
        datagram: allows(DATAGRAM_AT_WORK),
        unreliable: allows(AT_WORK),
        reliable: allows(RESPONDER_AT_WORK),
        xrc_initiator: allows(AT_WORK),
        xrc_target: allows(RESPONDER_AT_WORK),
    }
}

/// All transitions but those to RESET and ERR.
const TABLE: &[Row] = &[
    connected(
        IBV_QPS_RESET,
        IBV_QPS_INIT,
        needs(PARTITION_AND_PORT | IBV_QP_QKEY),
        needs(PARTITION_AND_PORT | IBV_QP_ACCESS_FLAGS),
    ),
    connected(
        IBV_QPS_INIT,
        IBV_QPS_INIT,
        allows(PARTITION_AND_PORT | IBV_QP_QKEY),
        allows(PARTITION_AND_PORT | IBV_QP_ACCESS_FLAGS),
    ),
    Row {
        from: IBV_QPS_INIT,
        to: IBV_QPS_RTR,
        datagram: allows(IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        unreliable: Some((CONNECTED, CONNECTING)),
        reliable: Some((CONNECTED | RESPONDER, CONNECTING)),
        xrc_initiator: Some((CONNECTED, CONNECTING)),
        xrc_target: Some((CONNECTED | RESPONDER, CONNECTING)),
    },
    Row {
        from: IBV_QPS_RTR,
        to: IBV_QPS_RTS,
        datagram: Some((IBV_QP_SQ_PSN, DATAGRAM_AT_WORK)),
        unreliable: Some((IBV_QP_SQ_PSN, AT_WORK)),
        reliable: Some((IBV_QP_SQ_PSN | REQUESTER, RESPONDER_AT_WORK)),
        xrc_initiator: Some((IBV_QP_SQ_PSN | REQUESTER, AT_WORK)),
        xrc_target: Some((IBV_QP_SQ_PSN | IBV_QP_TIMEOUT, RESPONDER_AT_WORK)),
    },
    at_work(IBV_QPS_RTS),
    connected(
        IBV_QPS_RTS,
        IBV_QPS_SQD,
        allows(IBV_QP_EN_SQD_ASYNC_NOTIFY),
        allows(IBV_QP_EN_SQD_ASYNC_NOTIFY),
    ),
    Row {
        from: IBV_QPS_SQD,
        to: IBV_QPS_SQD,
        datagram: allows(IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        unreliable: allows(DRAINED),
        reliable: allows(DRAINED | IBV_QP_PORT | REQUESTER | RESPONDER),
        xrc_initiator: allows(DRAINED | IBV_QP_PORT | REQUESTER),
        xrc_target: allows(DRAINED | IBV_QP_PORT | IBV_QP_TIMEOUT | RESPONDER),
    },
    at_work(IBV_QPS_SQD),
    Row {
        from: IBV_QPS_SQE,
        to: IBV_QPS_RTS,
        datagram: allows(DATAGRAM_AT_WORK),
        unreliable: allows(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS),
        // Send queue errors of reliable services lead to ERR.
        reliable: None,
        xrc_initiator: None,
        xrc_target: None,
    },
];

/// Checks that a QP of this type has the transition, and that the mask has all required attributes
/// and only required or optional ones.
///
/// # Errors
/// `EINVAL`.
pub fn check(qp_type: c_int, from: c_int, to: c_int, mask: c_int) -> Result<(), Errno> {
    let given = mask & !IBV_QP_STATE;
    let (required, optional) = match to {
        IBV_QPS_RESET => (0, 0),
        IBV_QPS_ERR if from != IBV_QPS_RESET => (0, 0),
        _ => row(qp_type, from, to).ok_or(Errno::INVALID)?,
    };
    if given & required != required || given & !(required | optional) != 0 {
        return Err(Errno::INVALID);
    }
    Ok(())
}

/// Returns the attributes of the other half of an XRC connection. Programs set both halves'
/// attributes like those of an RC QP, and Linux allows it.
pub fn ignored(qp_type: c_int) -> c_int {
    match qp_type {
        IBV_QPT_XRC_SEND => RESPONDER,
        IBV_QPT_XRC_RECV => IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
        _ => 0,
    }
}

fn row(qp_type: c_int, from: c_int, to: c_int) -> Option<Masks> {
    let row = TABLE.iter().find(|row| row.from == from && row.to == to)?;
    match qp_type {
        IBV_QPT_UD => row.datagram,
        IBV_QPT_UC => row.unreliable,
        IBV_QPT_RC => row.reliable,
        IBV_QPT_XRC_SEND => row.xrc_initiator,
        IBV_QPT_XRC_RECV => row.xrc_target,
        _ => None,
    }
}
