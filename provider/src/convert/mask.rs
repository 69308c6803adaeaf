//! `enum ibv_qp_attr_mask` and the attributes that its bits name.

use ferroce_driver::{Attribute, AttributeSet, Service};
use libc::c_int;

use crate::abi::*;
use crate::errno::{Errno, within};

/// IBTA's attributes and their bits. Missing here: `IBV_QP_STATE` is the transition itself, and the
/// device cannot change `IBV_QP_CAP` and `IBV_QP_RATE_LIMIT`.
const BITS: [(c_int, Attribute, &str); 19] = [
    (
        IBV_QP_CUR_STATE,
        Attribute::CurrentState,
        "IBV_QP_CUR_STATE",
    ),
    (
        IBV_QP_EN_SQD_ASYNC_NOTIFY,
        Attribute::DrainNotification,
        "IBV_QP_EN_SQD_ASYNC_NOTIFY",
    ),
    (
        IBV_QP_ACCESS_FLAGS,
        Attribute::Access,
        "IBV_QP_ACCESS_FLAGS",
    ),
    (IBV_QP_PKEY_INDEX, Attribute::PKey, "IBV_QP_PKEY_INDEX"),
    (IBV_QP_PORT, Attribute::Port, "IBV_QP_PORT"),
    (IBV_QP_QKEY, Attribute::QKey, "IBV_QP_QKEY"),
    (IBV_QP_AV, Attribute::Path, "IBV_QP_AV"),
    (IBV_QP_PATH_MTU, Attribute::PathMtu, "IBV_QP_PATH_MTU"),
    (IBV_QP_TIMEOUT, Attribute::Timeout, "IBV_QP_TIMEOUT"),
    (IBV_QP_RETRY_CNT, Attribute::RetryCount, "IBV_QP_RETRY_CNT"),
    (IBV_QP_RNR_RETRY, Attribute::RnrRetry, "IBV_QP_RNR_RETRY"),
    (IBV_QP_RQ_PSN, Attribute::ReceivePsn, "IBV_QP_RQ_PSN"),
    (
        IBV_QP_MAX_QP_RD_ATOMIC,
        Attribute::MaxRdAtomic,
        "IBV_QP_MAX_QP_RD_ATOMIC",
    ),
    (IBV_QP_ALT_PATH, Attribute::AlternatePath, "IBV_QP_ALT_PATH"),
    (
        IBV_QP_MIN_RNR_TIMER,
        Attribute::MinRnrTimer,
        "IBV_QP_MIN_RNR_TIMER",
    ),
    (IBV_QP_SQ_PSN, Attribute::SendPsn, "IBV_QP_SQ_PSN"),
    (
        IBV_QP_MAX_DEST_RD_ATOMIC,
        Attribute::MaxDestRdAtomic,
        "IBV_QP_MAX_DEST_RD_ATOMIC",
    ),
    (
        IBV_QP_PATH_MIG_STATE,
        Attribute::MigrationState,
        "IBV_QP_PATH_MIG_STATE",
    ),
    (IBV_QP_DEST_QPN, Attribute::DestQp, "IBV_QP_DEST_QPN"),
];

/// Returns the attributes that a mask names.
///
/// # Errors
/// `EINVAL` for a bit that names none.
pub fn attributes(mask: c_int) -> Result<AttributeSet, Errno> {
    let known = BITS
        .iter()
        .fold(IBV_QP_STATE, |known, (bit, ..)| known | bit);
    within(Errno::INVALID, "attr_mask", mask as u32, known as u32)?;
    let given = BITS.iter().filter(|(bit, ..)| mask & bit != 0);
    Ok(given.map(|(_, attribute, _)| *attribute).collect())
}

/// Returns the flag that names an attribute.
pub fn flag_name(attribute: Attribute) -> &'static str {
    let named = BITS.iter().find(|(_, other, _)| *other == attribute);
    named.map_or("an attribute", |(.., name)| name)
}

/// Returns the attributes that belong to the other half of an XRC connection. They are ignored:
/// programs set all attributes, as for an RC QP, and Linux allows it.
pub fn ignored(service: Service) -> c_int {
    match service {
        Service::XrcInitiator => IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        Service::XrcTarget => IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
        _ => 0,
    }
}
