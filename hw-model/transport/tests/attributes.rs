//! The table of attributes against the one in Linux' `ib_modify_qp_is_ok`, row by row.

use ferroce_transport::{
    Attribute, AttributeRule, AttributeSet, AttributeUpdate, Config, InitAttributes, Qp, QpState,
    RtrAttributes, RtsAttributes, Service, Transition, TransitionError, check_attributes,
};
use ferroce_units::Instant;
use ferroce_wire::{PKey, QKey, Qpn};

const SERVICES: [(&str, Service); 5] = [
    ("RC", Service::ReliableConnected),
    ("UC", Service::UnreliableConnected),
    ("UD", Service::UnreliableDatagram),
    ("XRC_INI", Service::XrcInitiator),
    ("XRC_TGT", Service::XrcTarget),
];

/// Service, from, to, required, optional. Of `ibv_qp_attr_mask` without alternate path, path
/// migration and rate limit, which are not offered.
const TABLE: &str = "
RC      RESET INIT | PKEY PORT ACCESS |
RC      INIT  INIT | | PKEY PORT ACCESS
RC      INIT  RTR  | AV MTU DEST RQ_PSN MAX_DEST_RD RNR_TIMER | PKEY ACCESS
RC      RTR   RTS  | SQ_PSN TIMEOUT RETRY RNR_RETRY MAX_RD | CUR ACCESS RNR_TIMER
RC      RTS   RTS  | | CUR ACCESS RNR_TIMER
RC      RTS   SQD  | | SQD_EVENT
RC      SQD   RTS  | | CUR ACCESS RNR_TIMER
RC      SQD   SQD  | | PORT AV TIMEOUT RETRY RNR_RETRY MAX_RD MAX_DEST_RD ACCESS PKEY RNR_TIMER
RC      SQE   RTS  | |
UC      RESET INIT | PKEY PORT ACCESS |
UC      INIT  INIT | | PKEY PORT ACCESS
UC      INIT  RTR  | AV MTU DEST RQ_PSN | PKEY ACCESS
UC      RTR   RTS  | SQ_PSN | CUR ACCESS
UC      RTS   RTS  | | CUR ACCESS
UC      RTS   SQD  | | SQD_EVENT
UC      SQD   RTS  | | CUR ACCESS
UC      SQD   SQD  | | AV ACCESS PKEY
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
XRC_INI INIT  RTR  | AV MTU DEST RQ_PSN | PKEY ACCESS
XRC_INI RTR   RTS  | SQ_PSN TIMEOUT RETRY RNR_RETRY MAX_RD | CUR ACCESS
XRC_INI RTS   RTS  | | CUR ACCESS
XRC_INI RTS   SQD  | | SQD_EVENT
XRC_INI SQD   RTS  | | CUR ACCESS
XRC_INI SQD   SQD  | | PORT AV TIMEOUT RETRY RNR_RETRY MAX_RD ACCESS PKEY
XRC_INI SQE   RTS  | |
XRC_TGT RESET INIT | PKEY PORT ACCESS |
XRC_TGT INIT  INIT | | PKEY PORT ACCESS
XRC_TGT INIT  RTR  | AV MTU DEST RQ_PSN MAX_DEST_RD RNR_TIMER | PKEY ACCESS
XRC_TGT RTR   RTS  | SQ_PSN TIMEOUT | CUR ACCESS RNR_TIMER
XRC_TGT RTS   RTS  | | CUR ACCESS RNR_TIMER
XRC_TGT RTS   SQD  | | SQD_EVENT
XRC_TGT SQD   RTS  | | CUR ACCESS RNR_TIMER
XRC_TGT SQD   SQD  | | PORT AV TIMEOUT MAX_DEST_RD ACCESS PKEY RNR_TIMER
XRC_TGT SQE   RTS  | |
";

fn attribute(name: &str) -> Attribute {
    match name {
        "ACCESS" => Attribute::Access,
        "PKEY" => Attribute::PKey,
        "PORT" => Attribute::Port,
        "RNR_TIMER" => Attribute::MinRnrTimer,
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
        other => panic!("{other} is no attribute"),
    }
}

/// The rule that the text has; nothing at all if it has none.
fn rule(service: &str, from: QpState, to: QpState) -> AttributeRule {
    let key = [service, &from.to_string(), &to.to_string()];
    let row = TABLE
        .lines()
        .filter_map(|line| line.split_once('|'))
        .find(|(head, _)| head.split_whitespace().eq(key));
    let set = |names: &str| names.split_whitespace().map(attribute).collect();
    let (required, optional) = row
        .and_then(|(_, sets)| sets.split_once('|'))
        .unwrap_or_default();
    AttributeRule {
        required: set(required),
        optional: set(optional),
    }
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
            if !from.can_become(to) {
                let illegal = TransitionError::Illegal { from, to };
                assert_eq!(check(AttributeSet::NONE), Err(illegal));
                continue;
            }
            let AttributeRule { required, optional } = AttributeRule::of(service, from, to);
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

/// The way up, and everything that can be done with the values of a service.
#[test]
fn every_service_goes_its_way() {
    let update = AttributeUpdate::default();
    let access = AttributeUpdate {
        access: Some(Default::default()),
        ..update
    };
    let q_key = AttributeUpdate {
        q_key: Some(QKey(9)),
        ..update
    };
    for (name, service) in SERVICES {
        let mut qp = Qp::new(Qpn::new(3), service, Config::default());
        let init = InitAttributes {
            p_key: PKey::DEFAULT,
            access: Default::default(),
            port: 1,
            q_key: QKey(7),
        };
        let rtr = Transition::Rtr {
            attributes: RtrAttributes::default(),
            update,
        };
        let rts = Transition::Rts {
            attributes: RtsAttributes::default(),
            update,
        };
        let mut go = |transition: Transition| qp.modify(Instant::ZERO, transition);
        assert!(go(rtr).is_err(), "{name}: not from RESET");
        for transition in [Transition::Init(init), rtr, rts] {
            assert_eq!(go(transition), Ok(()), "{name}");
        }
        let is_datagram = service == Service::UnreliableDatagram;
        assert_eq!(go(Transition::Update(q_key)).is_ok(), is_datagram);
        assert_eq!(go(Transition::Update(access)).is_ok(), !is_datagram);
        for transition in [
            Transition::Drain { notify: false },
            Transition::Update(update),
            Transition::Resume(update),
            Transition::Err,
            Transition::Reset,
        ] {
            assert_eq!(go(transition), Ok(()), "{name}");
        }
        assert_eq!(qp.state(), QpState::Reset);
    }
}
