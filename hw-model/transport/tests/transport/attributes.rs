//! The transitions of every service, and the attributes that each may change. The table itself is
//! tested in `ferroce-qp`.

use ferroce_transport::{
    AttributeUpdate, Config, InitAttributes, Qp, QpState, RtrAttributes, RtsAttributes, Service,
    Transition,
};
use ferroce_units::Instant;
use ferroce_wire::{PKey, QKey, Qpn};

/// The way to RTS, and everything that can be done with the values of a service.
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
    for service in Service::ALL {
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
        assert!(go(rtr).is_err(), "{service:?}: not from RESET");
        for transition in [Transition::Init(init), rtr, rts] {
            assert_eq!(go(transition), Ok(()), "{service:?}");
        }
        let is_datagram = service.is_datagram();
        assert_eq!(go(Transition::Update(q_key)).is_ok(), is_datagram);
        assert_eq!(go(Transition::Update(access)).is_ok(), !is_datagram);
        for transition in [
            Transition::Drain { notify: false },
            Transition::Update(update),
            Transition::Resume(update),
            Transition::Err,
            Transition::Reset,
        ] {
            assert_eq!(go(transition), Ok(()), "{service:?}");
        }
        assert_eq!(qp.state(), QpState::Reset);
    }
}
