//! Transitions of each service: the commands for the device, and refused transitions.

use std::sync::Arc;

use crate::support::HonestDevice;
use crate::support::verbs::{Setup, post, qp_config, setup, setup_of};
use ferroce_driver::{
    AddressVector, Error, InitAttributes, InitUpdate, ModifyQp, PathMtu, QpAccess, QpState, Qpn,
    QueuePair, QueuePairConfig, ReceiveSource, RtrAttributes, RtsAttributes, RtsUpdate, Service,
    SqdUpdate, UcRtr, UcRts, UdInit, UdRtr, UdRts, XrcDomain, XrcTargetRts,
};
use ferroce_spec::command::{DeviceFeatures, QpAttributeMask};

const SERVICES: [Service; 6] = [
    Service::ReliableConnected,
    Service::UnreliableConnected,
    Service::UnreliableDatagram,
    Service::XrcInitiator,
    Service::XrcTarget,
    Service::Gsi,
];

fn qp_of(s: &Setup, service: Service) -> Arc<QueuePair> {
    let mut config = QueuePairConfig {
        service,
        ..qp_config(&s.cq, &s.cq)
    };
    if service == Service::XrcInitiator {
        config.receive = ReceiveSource::None;
    }
    if service == Service::XrcTarget {
        let domain = XrcDomain::alloc(&s.device).expect("the device has XRC");
        return QueuePair::create_xrc_target(&domain).expect("no sizes");
    }
    QueuePair::create(&s.pd, &config).expect("small QP")
}

const INIT: ModifyQp = ModifyQp::ToInit(InitAttributes {
    p_key_index: 0,
    port: 1,
    access: QpAccess {
        remote_write: true,
        remote_read: false,
        remote_atomic: false,
        flush_global: false,
        flush_persistent: false,
    },
});
const INIT_UD: ModifyQp = ModifyQp::ToInitUd(UdInit {
    p_key_index: 0,
    port: 1,
    q_key: 0x1111,
});
const RTR_UD: ModifyQp = ModifyQp::ToRtrUd(UdRtr {
    p_key_index: None,
    q_key: None,
});
const RTS: ModifyQp = ModifyQp::ToRts(RtsAttributes {
    sq_psn: 5,
    timeout: 14,
    retry_count: 7,
    rnr_retry: 7,
    max_rd_atomic: 1,
    access: None,
    min_rnr_timer: None,
});
const RTS_UC: ModifyQp = ModifyQp::ToRtsUc(UcRts {
    sq_psn: 5,
    access: None,
});
const RTS_UD: ModifyQp = ModifyQp::ToRtsUd(UdRts {
    sq_psn: 5,
    q_key: None,
});
const RTS_TARGET: ModifyQp = ModifyQp::ToRtsXrcTarget(XrcTargetRts {
    sq_psn: 5,
    timeout: 14,
    access: None,
    min_rnr_timer: Some(3),
});

fn rtr() -> ModifyQp {
    ModifyQp::ToRtr(RtrAttributes {
        path_mtu: PathMtu::Mtu1024,
        dest_qpn: Qpn(7),
        rq_psn: 9,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        path: AddressVector::default(),
        access: None,
        p_key_index: None,
    })
}

fn rtr_uc() -> ModifyQp {
    ModifyQp::ToRtrUc(UcRtr {
        path_mtu: PathMtu::Mtu1024,
        dest_qpn: Qpn(7),
        rq_psn: 9,
        path: AddressVector::default(),
        access: None,
        p_key_index: None,
    })
}

/// Returns the transitions from RESET to RTS.
fn way(service: Service) -> [ModifyQp; 3] {
    match service {
        Service::ReliableConnected => [INIT, rtr(), RTS],
        Service::UnreliableConnected => [INIT, rtr_uc(), RTS_UC],
        Service::UnreliableDatagram | Service::Gsi => [INIT_UD, RTR_UD, RTS_UD],
        Service::XrcInitiator => [INIT, rtr_uc(), RTS],
        Service::XrcTarget => [INIT, rtr(), RTS_TARGET],
    }
}

fn mask(set: &[fn(&mut QpAttributeMask, bool)]) -> u32 {
    let mut mask = QpAttributeMask::default();
    for set in set {
        set(&mut mask, true);
    }
    mask.bits()
}

/// Goal: a service's transitions from RESET to RTS need exactly the attributes of IBTA vol 1, table
/// 91.
#[test]
fn each_service_carries_its_attributes() {
    use QpAttributeMask as M;
    let s = setup();
    let connected = [M::set_p_key as fn(&mut M, bool), M::set_port, M::set_access];
    let datagram = [M::set_p_key as fn(&mut M, bool), M::set_port, M::set_q_key];
    let path = [
        M::set_path as fn(&mut M, bool),
        M::set_path_mtu,
        M::set_dest_qpn,
        M::set_receive_psn,
    ];
    let responder = [
        M::set_max_dest_rd_atomic as fn(&mut M, bool),
        M::set_min_rnr_timer,
    ];
    let requester = [
        M::set_timeout as fn(&mut M, bool),
        M::set_retry_count,
        M::set_rnr_retry,
        M::set_max_rd_atomic,
    ];
    let psn = mask(&[M::set_send_psn]);
    let (path, responder, requester) = (mask(&path), mask(&responder), mask(&requester));
    let expected = |service| match service {
        Service::ReliableConnected => [mask(&connected), path | responder, psn | requester],
        Service::UnreliableConnected => [mask(&connected), path, psn],
        Service::UnreliableDatagram | Service::Gsi => [mask(&datagram), 0, psn],
        Service::XrcInitiator => [mask(&connected), path, psn | requester],
        Service::XrcTarget => [
            mask(&connected),
            path | responder,
            psn | mask(&[M::set_timeout, M::set_min_rnr_timer]),
        ],
    };
    for service in SERVICES {
        let qp = qp_of(&s, service);
        s.fake.with_state(|state| state.transitions.clear());
        for transition in way(service) {
            assert_eq!(qp.modify(&transition), Ok(()), "{service:?}");
        }
        let inputs = s.fake.with_state(|state| state.transitions.clone());
        let masks: Vec<u32> = inputs.iter().map(|input| input.mask.bits()).collect();
        assert_eq!(masks, expected(service), "{service:?}");
        let states: Vec<_> = inputs
            .iter()
            .map(|input| (input.current_state, input.state))
            .collect();
        assert_eq!(states, [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(qp.software_state(), QpState::Rts);
    }
}

/// Goal: transitions of another service are refused, and no command is sent to the device.
#[test]
fn transitions_of_other_services_are_refused() {
    let s = setup();
    let all = SERVICES.map(way).concat();
    for service in SERVICES {
        let qp = qp_of(&s, service);
        let own = way(service);
        for transition in all.iter().filter(|transition| !own.contains(transition)) {
            s.fake.with_state(|state| state.transitions.clear());
            let error = qp.modify(transition).expect_err("another service's");
            assert_eq!(error.errno(), libc::EINVAL, "{service:?} {transition:?}");
            assert!(matches!(error, Error::InvalidArgument { .. }));
            assert!(s.fake.with_state(|state| state.transitions.is_empty()));
        }
    }
}

#[test]
fn attributes_of_other_services_are_refused() {
    let s = setup();
    let access = Some(QpAccess::default());
    let with_q_key = RtsUpdate {
        q_key: Some(1),
        ..RtsUpdate::default()
    };
    let with_access = RtsUpdate {
        access,
        ..RtsUpdate::default()
    };
    let with_timer = RtsUpdate {
        min_rnr_timer: Some(1),
        ..RtsUpdate::default()
    };
    let sqd = |update: SqdUpdate| ModifyQp::SqdUpdate(update);
    let refused = |service: Service, transition: ModifyQp| {
        let error = qp_of(&s, service).modify(&transition);
        assert!(
            matches!(error, Err(Error::InvalidArgument { .. })),
            "{service:?} {transition:?}"
        );
    };
    for service in SERVICES {
        if service.is_datagram() {
            refused(service, ModifyQp::UpdateRts(with_access));
            refused(service, ModifyQp::SqdToRts(with_access));
            let access = InitUpdate {
                access,
                ..InitUpdate::default()
            };
            refused(service, ModifyQp::InitToInit(access));
            let path = Some(AddressVector::default());
            refused(
                service,
                sqd(SqdUpdate {
                    path,
                    ..SqdUpdate::default()
                }),
            );
        } else {
            refused(service, ModifyQp::UpdateRts(with_q_key));
            refused(service, ModifyQp::SqdToRts(with_q_key));
            let q_key = InitUpdate {
                q_key: Some(1),
                ..InitUpdate::default()
            };
            refused(service, ModifyQp::InitToInit(q_key));
        }
    }
    refused(
        Service::UnreliableConnected,
        ModifyQp::UpdateRts(with_timer),
    );
    refused(Service::XrcInitiator, ModifyQp::UpdateRts(with_timer));
    let timeout = SqdUpdate {
        timeout: Some(1),
        ..SqdUpdate::default()
    };
    refused(Service::UnreliableConnected, sqd(timeout));
    let retries = SqdUpdate {
        retry_count: Some(1),
        ..SqdUpdate::default()
    };
    refused(Service::XrcTarget, sqd(retries));
}

#[test]
fn sqe_is_left_by_the_unreliable_services_only() {
    let s = setup();
    let resume = ModifyQp::SqeToRts(RtsUpdate::default());
    for service in SERVICES {
        let qp = qp_of(&s, service);
        for transition in way(service) {
            qp.modify(&transition).expect("its own way");
        }
        // The device moves the QP to SQE by itself.
        s.fake.with_state(|state| {
            let context = state.qps.get_mut(&qp.number().0).expect("exists");
            context.state = ferroce_spec::context::QpStateCode::SQE;
        });
        let has_sqe = service == Service::UnreliableConnected || service.is_datagram();
        assert_eq!(qp.query().map(|now| now.state), Ok(QpState::Sqe));
        assert_eq!(qp.modify(&resume).is_ok(), has_sqe, "{service:?}");
        if service == Service::UnreliableConnected {
            assert_eq!(post(&qp, 1), Ok(()));
        }
    }
}

#[test]
fn the_gsi_has_its_number_and_is_there_once() {
    let s = setup();
    let gsi = qp_of(&s, Service::Gsi);
    assert_eq!(gsi.number(), Qpn::GSI);
    let config = QueuePairConfig {
        service: Service::Gsi,
        ..qp_config(&s.cq, &s.cq)
    };
    let error = QueuePair::create(&s.pd, &config).err().expect("the second");
    assert_eq!(error.errno(), libc::ENOMEM);
    let error = gsi.attach_multicast([0xff; 16]).expect_err("not UD");
    assert_eq!(error.errno(), libc::EINVAL);
    drop(gsi);
    let again = qp_of(&s, Service::Gsi);
    assert_eq!(again.number(), Qpn::GSI);
}

/// Goal: a card of an older contract, without GSI, is not asked for one.
#[test]
fn devices_without_a_gsi() {
    let mut lacks = DeviceFeatures::default();
    lacks.set_general_service_interface(true);
    let s = setup_of(HonestDevice::without(lacks));
    let config = QueuePairConfig {
        service: Service::Gsi,
        ..qp_config(&s.cq, &s.cq)
    };
    let error = QueuePair::create(&s.pd, &config).err().expect("no GSI");
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
}

#[test]
fn queries_of_all_services() {
    let s = setup();
    let ud = qp_of(&s, Service::UnreliableDatagram);
    for transition in way(Service::UnreliableDatagram) {
        ud.modify(&transition).expect("its own way");
    }
    let update = RtsUpdate {
        q_key: Some(0x2222),
        ..RtsUpdate::default()
    };
    ud.modify(&ModifyQp::UpdateRts(update)).expect("in RTS");
    let now = ud.query().expect("exists");
    assert_eq!((now.state, now.q_key), (QpState::Rts, 0x2222));
    let target = qp_of(&s, Service::XrcTarget);
    for transition in way(Service::XrcTarget) {
        target.modify(&transition).expect("its own way");
    }
    let now = target.query().expect("exists");
    assert_eq!((now.state, now.timeout), (QpState::Rts, 14));
    let notify_drained = true;
    let drain = ModifyQp::ToSqd { notify_drained };
    ud.modify(&drain).expect("RTS to SQD");
    let resume = ModifyQp::SqdToRts(RtsUpdate::default());
    ud.modify(&resume).expect("SQD to RTS");
}

#[test]
fn multicast() {
    let s = setup();
    let group = [0xff; 16];
    let ud = qp_of(&s, Service::UnreliableDatagram);
    assert_eq!(ud.attach_multicast(group), Ok(()));
    let attached = s.fake.with_state(|state| state.multicast.clone());
    assert!(attached.contains(&(ud.number().0, group)));
    assert_eq!(ud.detach_multicast(group), Ok(()));
    let error = ud.detach_multicast(group).expect_err("not attached");
    assert_eq!(error.errno(), libc::EINVAL);
    let error = s.qp.attach_multicast(group).expect_err("RC");
    assert_eq!(error.errno(), libc::EINVAL);
    assert_eq!(ud.attach_multicast(group), Ok(()));
    assert_eq!(ud.destroy(), Err(Error::Busy));
    assert_eq!(ud.detach_multicast(group), Ok(()));
    ud.destroy().expect("exists");
    assert_eq!(ud.attach_multicast(group), Err(Error::Destroyed));
    let ud = qp_of(&s, Service::UnreliableDatagram);
    assert_eq!(ud.attach_multicast(group), Ok(()));
    drop(ud);
    assert!(s.fake.with_state(|state| state.multicast.is_empty()));
    let capabilities = s.device.capabilities();
    assert_eq!(capabilities.max_multicast_groups, 8);
    assert_eq!(capabilities.max_multicast_qps, 4);
}
