use super::*;
use crate::abi::zeroed_qp_attr;

struct Host;

impl Neighbours for Host {
    fn gid_count(&self) -> usize {
        2
    }

    fn has_gid(&self, index: usize) -> bool {
        index < self.gid_count()
    }

    fn resolve_mac(&self, gid: [u8; 16]) -> Option<[u8; 6]> {
        (gid[15] != 9).then_some([2, 0, 0, 0, 0, gid[15]])
    }
}

const INIT: c_int = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
const RTR: c_int = IBV_QP_STATE
    | IBV_QP_AV
    | IBV_QP_PATH_MTU
    | IBV_QP_DEST_QPN
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;

fn parse(state: QpState, attr: &ibv_qp_attr, mask: c_int) -> Result<(QpState, ModifyQp), Errno> {
    parse_as(Service::ReliableConnected, state, attr, mask)
}

fn parse_as(
    service: Service,
    state: QpState,
    attr: &ibv_qp_attr,
    mask: c_int,
) -> Result<(QpState, ModifyQp), Errno> {
    modify_qp(
        attr,
        mask,
        &Surroundings {
            service,
            state,
            qpn: 0x11,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            max_path_mtu: 5,
            host: &Host,
        },
    )
}

fn rtr_attr() -> ibv_qp_attr {
    let mut attr = zeroed_qp_attr();
    attr.qp_state = QpState::Rtr as c_int;
    attr.path_mtu = 3;
    attr.dest_qp_num = 0x22;
    attr.rq_psn = 0x1ff_ffff;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid.raw[15] = 1;
    attr.ah_attr.grh.sgid_index = 1;
    attr
}

#[test]
fn reset_to_init_needs_exactly_its_attributes() {
    let mut attr = zeroed_qp_attr();
    attr.qp_state = QpState::Init as c_int;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    let Ok((to, ModifyQp::ToInit(init))) = parse(QpState::Reset, &attr, INIT) else {
        panic!("legal")
    };
    assert_eq!(
        (to, init.port, init.access.remote_write),
        (QpState::Init, 1, true)
    );
    for missing in [IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS] {
        assert_eq!(
            parse(QpState::Reset, &attr, INIT & !missing).err(),
            Some(Errno::INVALID)
        );
    }
    for illegal in [
        IBV_QP_QKEY,
        IBV_QP_AV,
        IBV_QP_TIMEOUT,
        IBV_QP_CAP,
        IBV_QP_RATE_LIMIT,
    ] {
        assert_eq!(
            parse(QpState::Reset, &attr, INIT | illegal).err(),
            Some(Errno::INVALID)
        );
    }
    attr.port_num = 2;
    assert_eq!(
        parse(QpState::Reset, &attr, INIT).err(),
        Some(Errno::INVALID)
    );
}

#[test]
fn init_to_rtr_parses_the_path() {
    let attr = rtr_attr();
    let Ok((_, ModifyQp::ToRtr(rtr))) = parse(QpState::Init, &attr, RTR) else {
        panic!("legal")
    };
    assert_eq!(rtr.path_mtu, PathMtu::Mtu1024);
    assert_eq!(rtr.rq_psn, 0xff_ffff, "PSNs have 24 bits");
    assert_eq!(rtr.path.dest_mac, [2, 0, 0, 0, 0, 1]);
    assert_eq!(rtr.path.hop_limit, 64);
    assert_eq!(rtr.access, None);
}

/// Goal: timer values that mlx5 and rxe accept are accepted (DLSlime sets 32).
#[test]
fn an_rnr_timer_has_five_bits() {
    let attr = ibv_qp_attr {
        min_rnr_timer: 32 + 12,
        ..rtr_attr()
    };
    let Ok((_, ModifyQp::ToRtr(rtr))) = parse(QpState::Init, &attr, RTR) else {
        panic!("legal")
    };
    assert_eq!(rtr.min_rnr_timer, 12);
}

#[test]
fn values_out_of_range_are_refused() {
    let wrong: &[fn(&mut ibv_qp_attr)] = &[
        |attr| attr.path_mtu = 6,
        |attr| attr.path_mtu = 0,
        |attr| attr.dest_qp_num = 0x100_0000,
        |attr| attr.max_dest_rd_atomic = 17,
        |attr| attr.ah_attr.is_global = 0,
        |attr| attr.ah_attr.port_num = 0,
        |attr| attr.ah_attr.grh.sgid_index = 2,
        |attr| attr.ah_attr.grh.dgid.raw[15] = 0,
    ];
    for change in wrong {
        let mut attr = rtr_attr();
        change(&mut attr);
        assert_eq!(parse(QpState::Init, &attr, RTR).err(), Some(Errno::INVALID));
    }
    let mut attr = rtr_attr();
    attr.ah_attr.grh.dgid.raw[15] = 9;
    assert_eq!(
        parse(QpState::Init, &attr, RTR).err(),
        Some(Errno::HOST_UNREACHABLE)
    );
}

#[test]
fn transitions_outside_of_the_table_are_refused() {
    let mut attr = rtr_attr();
    for state in [QpState::Reset, QpState::Rts, QpState::Sqd, QpState::Err] {
        assert_eq!(parse(state, &attr, RTR).err(), Some(Errno::INVALID));
    }
    attr.qp_state = QpState::Sqe as c_int;
    assert_eq!(
        parse(QpState::Rts, &attr, IBV_QP_STATE).err(),
        Some(Errno::INVALID)
    );
    attr.qp_state = 77;
    assert_eq!(
        parse(QpState::Rts, &attr, IBV_QP_STATE).err(),
        Some(Errno::INVALID)
    );
}

#[test]
fn every_state_can_be_left_for_reset_and_err() {
    let mut attr = zeroed_qp_attr();
    for state in QpState::ALL {
        attr.qp_state = QpState::Reset as c_int;
        assert_eq!(
            parse(state, &attr, IBV_QP_STATE),
            Ok((QpState::Reset, ModifyQp::ToReset))
        );
        attr.qp_state = QpState::Err as c_int;
        let to_err = parse(state, &attr, IBV_QP_STATE);
        if state == QpState::Reset {
            assert_eq!(to_err, Err(Errno::INVALID));
        } else {
            assert_eq!(to_err, Ok((QpState::Err, ModifyQp::ToErr)));
        }
    }
    assert_eq!(
        parse(QpState::Rts, &attr, IBV_QP_STATE | IBV_QP_PORT),
        Err(Errno::INVALID)
    );
}

#[test]
fn a_mask_without_a_state_updates_in_place() {
    let mut attr = zeroed_qp_attr();
    attr.min_rnr_timer = 3;
    let expected = ModifyQp::UpdateRts(RtsUpdate {
        min_rnr_timer: Some(3),
        ..RtsUpdate::default()
    });
    assert_eq!(
        parse(QpState::Rts, &attr, IBV_QP_MIN_RNR_TIMER),
        Ok((QpState::Rts, expected))
    );
    attr.cur_qp_state = QpState::Sqd as c_int;
    attr.qp_state = QpState::Rts as c_int;
    let mask = IBV_QP_STATE | IBV_QP_CUR_STATE;
    let expected = ModifyQp::SqdToRts(RtsUpdate::default());
    assert_eq!(
        parse(QpState::Sqd, &attr, mask),
        Ok((QpState::Rts, expected))
    );
    assert_eq!(
        parse(QpState::Rts, &attr, mask),
        Err(Errno::INVALID),
        "the QP is in another state than the program asserts"
    );
    attr.cur_qp_state = QpState::Init as c_int;
    assert_eq!(parse(QpState::Init, &attr, mask), Err(Errno::INVALID));
}

#[test]
fn path_migration_is_not_supported() {
    let mut attr = zeroed_qp_attr();
    assert_eq!(
        parse(QpState::Rts, &attr, IBV_QP_ALT_PATH),
        Err(Errno::NOT_SUPPORTED)
    );
    assert!(
        parse(QpState::Rts, &attr, IBV_QP_PATH_MIG_STATE).is_ok(),
        "MIGRATED is what it is"
    );
    attr.path_mig_state = 2;
    assert_eq!(
        parse(QpState::Rts, &attr, IBV_QP_PATH_MIG_STATE),
        Err(Errno::NOT_SUPPORTED)
    );
}

#[test]
fn both_halves_of_an_xrc_connection_take_the_attributes_of_rc() {
    let mut attr = rtr_attr();
    for service in [Service::XrcInitiator, Service::XrcTarget] {
        assert!(parse_as(service, QpState::Init, &attr, RTR).is_ok());
    }
    attr.qp_state = QpState::Rts as c_int;
    for service in [Service::XrcInitiator, Service::XrcTarget] {
        let mask = RTS | IBV_QP_STATE;
        assert!(parse_as(service, QpState::Rtr, &attr, mask).is_ok());
    }
}

/// Every service with the masks of its transitions to RTS.
const WAYS: [(Service, [c_int; 3]); 5] = [
    (
        Service::UnreliableDatagram,
        [
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
            0,
            IBV_QP_SQ_PSN,
        ],
    ),
    (Service::UnreliableConnected, [INIT, UC_RTR, IBV_QP_SQ_PSN]),
    (Service::ReliableConnected, [INIT, RTR, RTS]),
    (Service::XrcInitiator, [INIT, UC_RTR, RTS]),
    (
        Service::XrcTarget,
        [INIT, RTR, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT],
    ),
];
const UC_RTR: c_int = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RTS: c_int =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

#[test]
fn each_service_needs_exactly_its_attributes_on_its_way() {
    let mut attr = rtr_attr();
    attr.port_num = 1;
    for (service, masks) in WAYS {
        for (from, mask) in QpState::ALL.into_iter().zip(masks) {
            attr.qp_state = from as c_int + 1;
            let mask = mask | IBV_QP_STATE;
            let parsed = parse_as(service, from, &attr, mask);
            assert!(parsed.is_ok(), "{service:?} from {from}: {parsed:?}");
            let bits = (0..26).map(|bit| 1 << bit);
            for missing in bits.filter(|bit| mask & bit != 0 && *bit != IBV_QP_STATE) {
                let parsed = parse_as(service, from, &attr, mask & !missing);
                assert_eq!(
                    parsed,
                    Err(Errno::INVALID),
                    "{service:?} from {from} without {missing:#x}"
                );
            }
        }
    }
}

#[test]
fn services_refuse_what_they_have_not() {
    let mut attr = zeroed_qp_attr();
    attr.qp_state = QpState::Rts as c_int;
    let refused = [
        (
            Service::UnreliableDatagram,
            QpState::Rts,
            IBV_QP_ACCESS_FLAGS,
        ),
        (
            Service::UnreliableConnected,
            QpState::Rts,
            IBV_QP_MIN_RNR_TIMER,
        ),
        (Service::XrcInitiator, QpState::Rts, IBV_QP_QKEY),
        (Service::ReliableConnected, QpState::Rts, IBV_QP_QKEY),
        (Service::ReliableConnected, QpState::Sqe, 0),
        (Service::XrcInitiator, QpState::Sqe, 0),
        (Service::XrcTarget, QpState::Sqe, 0),
    ];
    for (service, from, mask) in refused {
        let parsed = parse_as(service, from, &attr, mask | IBV_QP_STATE);
        assert_eq!(parsed, Err(Errno::INVALID), "{service:?} from {from}");
    }
    let allowed = [
        (Service::UnreliableDatagram, QpState::Rts, IBV_QP_QKEY),
        (Service::UnreliableDatagram, QpState::Sqe, IBV_QP_QKEY),
        (
            Service::UnreliableConnected,
            QpState::Sqe,
            IBV_QP_ACCESS_FLAGS,
        ),
        (
            Service::UnreliableConnected,
            QpState::Sqd,
            IBV_QP_ACCESS_FLAGS,
        ),
        (Service::XrcTarget, QpState::Rts, IBV_QP_MIN_RNR_TIMER),
    ];
    for (service, from, mask) in allowed {
        let parsed = parse_as(service, from, &attr, mask | IBV_QP_STATE);
        assert!(parsed.is_ok(), "{service:?} from {from}: {parsed:?}");
    }
}
