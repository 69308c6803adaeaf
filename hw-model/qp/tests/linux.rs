//! Compares the table of attributes with Linux' `ib_modify_qp_is_ok`, row by row.

use ferroce_qp::{
    Attribute, AttributeRule, AttributeSet, QpState, Service, TransitionError, check_attributes,
};

const SERVICES: [(&str, Service); 5] = [
    ("RC", Service::ReliableConnected),
    ("UC", Service::UnreliableConnected),
    ("UD", Service::UnreliableDatagram),
    ("XRC_INI", Service::XrcInitiator),
    ("XRC_TGT", Service::XrcTarget),
];

/// Service, from, to, required, optional. Without the rate limit, which is not an IBTA attribute,
/// and without the rows of services that are never in SQE, which have no attributes in Linux.
const TABLE: &str = "
RC      RESET INIT | PKEY PORT ACCESS |
RC      INIT  INIT | | PKEY PORT ACCESS
RC      INIT  RTR  | AV MTU DEST RQ_PSN MAX_DEST_RD RNR | PKEY ACCESS ALT
RC      RTR   RTS  | SQ_PSN TIMEOUT RETRY RNR_RETRY MAX_RD | CUR ACCESS RNR ALT MIG
RC      RTS   RTS  | | CUR ACCESS RNR ALT MIG
RC      RTS   SQD  | | SQD_EVENT
RC      SQD   RTS  | | CUR ACCESS RNR ALT MIG
RC      SQD   SQD  | | PORT AV TIMEOUT RETRY RNR_RETRY MAX_RD MAX_DEST_RD ACCESS PKEY RNR ALT MIG
UC      RESET INIT | PKEY PORT ACCESS |
UC      INIT  INIT | | PKEY PORT ACCESS
UC      INIT  RTR  | AV MTU DEST RQ_PSN | PKEY ACCESS ALT
UC      RTR   RTS  | SQ_PSN | CUR ACCESS ALT MIG
UC      RTS   RTS  | | CUR ACCESS ALT MIG
UC      RTS   SQD  | | SQD_EVENT
UC      SQD   RTS  | | CUR ACCESS ALT MIG
UC      SQD   SQD  | | AV ACCESS PKEY ALT MIG
UC      SQE   RTS  | | CUR ACCESS
UD      RESET INIT | PKEY PORT QKEY |
UD      INIT  INIT | | PKEY PORT QKEY
UD      INIT  RTR  | | PKEY QKEY
UD      RTR   RTS  | SQ_PSN | CUR QKEY
UD      RTS   RTS  | | CUR QKEY
UD      RTS   SQD  | | SQD_EVENT
UD      SQD   RTS  | | CUR QKEY
UD      SQD   SQD  | | PKEY QKEY
UD      SQE   RTS  | | CUR QKEY
XRC_INI RESET INIT | PKEY PORT ACCESS |
XRC_INI INIT  INIT | | PKEY PORT ACCESS
XRC_INI INIT  RTR  | AV MTU DEST RQ_PSN | PKEY ACCESS ALT
XRC_INI RTR   RTS  | SQ_PSN TIMEOUT RETRY RNR_RETRY MAX_RD | CUR ACCESS ALT MIG
XRC_INI RTS   RTS  | | CUR ACCESS ALT MIG
XRC_INI RTS   SQD  | | SQD_EVENT
XRC_INI SQD   RTS  | | CUR ACCESS ALT MIG
XRC_INI SQD   SQD  | | PORT AV TIMEOUT RETRY RNR_RETRY MAX_RD ACCESS PKEY ALT MIG
XRC_TGT RESET INIT | PKEY PORT ACCESS |
XRC_TGT INIT  INIT | | PKEY PORT ACCESS
XRC_TGT INIT  RTR  | AV MTU DEST RQ_PSN MAX_DEST_RD RNR | PKEY ACCESS ALT
XRC_TGT RTR   RTS  | SQ_PSN TIMEOUT | CUR ACCESS RNR ALT MIG
XRC_TGT RTS   RTS  | | CUR ACCESS RNR ALT MIG
XRC_TGT RTS   SQD  | | SQD_EVENT
XRC_TGT SQD   RTS  | | CUR ACCESS RNR ALT MIG
XRC_TGT SQD   SQD  | | PORT AV TIMEOUT MAX_DEST_RD ACCESS PKEY RNR ALT MIG
";

fn attribute(name: &str) -> Attribute {
    match name {
        "ACCESS" => Attribute::Access,
        "PKEY" => Attribute::PKey,
        "PORT" => Attribute::Port,
        "RNR" => Attribute::MinRnrTimer,
        "TIMEOUT" => Attribute::Timeout,
        "RETRY" => Attribute::RetryCount,
        "RNR_RETRY" => Attribute::RnrRetry,
        "MAX_RD" => Attribute::MaxRdAtomic,
        "MAX_DEST_RD" => Attribute::MaxDestRdAtomic,
        "QKEY" => Attribute::QKey,
        "AV" => Attribute::Path,
        "MTU" => Attribute::PathMtu,
        "DEST" => Attribute::DestQp,
        "RQ_PSN" => Attribute::ReceivePsn,
        "SQ_PSN" => Attribute::SendPsn,
        "CUR" => Attribute::CurrentState,
        "SQD_EVENT" => Attribute::DrainNotification,
        "ALT" => Attribute::AlternatePath,
        "MIG" => Attribute::MigrationState,
        other => panic!("{other} is no attribute"),
    }
}

/// Returns the rule in the text. RESET can be reached from any state, ERR from any state except
/// RESET, without attributes.
fn rule(service: &str, from: QpState, to: QpState) -> Option<AttributeRule> {
    let key = [service, &from.to_string(), &to.to_string()];
    let row = TABLE
        .lines()
        .filter_map(|line| line.split_once('|'))
        .find(|(head, _)| head.split_whitespace().eq(key));
    let set = |names: &str| names.split_whitespace().map(attribute).collect();
    let (required, optional) = match row.and_then(|(_, sets)| sets.split_once('|')) {
        Some(sets) => sets,
        None if to == QpState::Reset => ("", ""),
        None if to == QpState::Err && from != QpState::Reset => ("", ""),
        None => return None,
    };
    Some(AttributeRule {
        required: set(required),
        optional: set(optional),
    })
}

#[test]
fn every_rule_is_that_of_linux() {
    for (name, service) in SERVICES {
        for from in QpState::ALL {
            for to in QpState::ALL {
                let expected = rule(name, from, to);
                let seen = AttributeRule::of(service, from, to);
                assert_eq!(seen, expected, "{name} {from} {to}");
            }
        }
    }
}

#[test]
fn each_attribute_is_needed_allowed_or_refused() {
    for (_, service) in SERVICES {
        for (from, to) in QpState::ALL
            .into_iter()
            .flat_map(|from| QpState::ALL.map(|to| (from, to)))
        {
            let check = |given| check_attributes(service, from, to, given);
            let Some(rule) = AttributeRule::of(service, from, to) else {
                let illegal = TransitionError::Illegal { from, to };
                assert_eq!(check(AttributeSet::NONE), Err(illegal));
                continue;
            };
            let AttributeRule { required, optional } = rule;
            assert_eq!(check(required), Ok(()));
            assert_eq!(check(required.with(optional)), Ok(()));
            for attribute in Attribute::ALL {
                let one = AttributeSet::of(&[attribute]);
                let allowed = required.with(optional).contains(attribute);
                assert_eq!(check(required.with(one)).is_ok(), allowed);
                let needed = required.contains(attribute);
                assert_eq!(check(required.without(one)).is_err(), needed);
            }
        }
    }
}
