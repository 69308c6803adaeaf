//! The driver with devices of older versions of the contract, and with devices without optional
//! features.

use crate::support::verbs::{connect, cq_of, qp_config, setup, setup_of};
use crate::support::{self, HonestDevice, QPN_BASE};
use ferroce_driver::{Error, QueuePair};
use ferroce_spec::command::{CommandOpcode, CommandStatus, DeviceFeatures, PRIVATE_ALIGNMENT};

fn without_resize() -> DeviceFeatures {
    let mut lacks = DeviceFeatures::default();
    lacks.set_cq_resize(true);
    lacks
}

/// Goal: a device of contract 1.5 gets the short MODIFY_QP with the same content, and resizes CQs
/// although it does not report that feature. Method: the device checks the length of each input.
#[test]
fn a_device_of_version_1_5_gets_what_it_knows() {
    let old = setup_of(HonestDevice::of_version(5, without_resize()));
    let new = setup();
    connect(&old.qp);
    connect(&new.qp);
    let transitions =
        |s: &support::verbs::Setup| s.fake.with_state(|state| state.transitions.clone());
    assert_eq!(transitions(&old).len(), 3);
    for (old, new) in transitions(&old).iter().zip(transitions(&new)) {
        assert_eq!((old.state, old.mask), (new.state, new.mask));
        assert_eq!(old.context.dest_qpn, new.context.dest_qpn);
        assert_eq!(old.context.path, new.context.path);
    }
    assert_eq!(old.cq.resize(64), Ok(()));
}

#[test]
fn a_device_without_resize_gets_no_such_command() {
    let s = setup_of(HonestDevice::without(without_resize()));
    let what = "resizing a CQ";
    assert_eq!(s.cq.resize(64), Err(Error::NotSupported { what }));
    let commands = s.fake.with_state(|state| state.commands.clone());
    assert!(!commands.contains(&CommandOpcode::MODIFY_CQ));
    assert_eq!(setup().cq.resize(64), Ok(()));
}

/// Goal: a device that requests a private area gets one for each QP, zeroed, aligned, and outside
/// of the tables; other devices get none.
#[test]
fn a_device_gets_its_private_area() {
    let log_bytes = 9;
    let s = setup_of(HonestDevice::with_private_area(log_bytes));
    let tables = s.fake.with_state(|state| state.tables).expect("installed");
    let length = 1u64 << (log_bytes + tables.log_qps);
    let base = tables.private_base;
    assert!(base != 0 && base % PRIVATE_ALIGNMENT == 0);
    for place in [0, length / 2, length - 8] {
        assert_eq!(
            s.fake.memory.load(base + place),
            Some(0),
            "{place:#x} is mapped"
        );
    }
    let others = [
        tables.qpc_base,
        tables.cqc_base,
        tables.srqc_base,
        tables.mpt_base,
    ];
    assert!(
        others
            .iter()
            .all(|other| !(base..base + length).contains(other))
    );
    let without = setup()
        .fake
        .with_state(|state| state.tables)
        .expect("installed");
    assert_eq!(without.private_base, 0);
}

/// Goal: a device that requests a larger area than the contract allows is not opened.
#[test]
fn a_private_area_has_a_limit() {
    let device = ferroce_driver::Device::open(HonestDevice::with_private_area(13));
    assert!(matches!(device, Err(Error::BadAnswer { .. })));
}

/// Goal: if the driver may choose numbers, their order is the same on every device: freed QPNs are
/// reused as late as possible, other freed numbers immediately.
#[test]
fn the_driver_chooses_numbers_where_it_may() {
    let s = setup_of(HonestDevice::with_chosen_numbers());
    // Entries 0 and 1 of the QP context table are reserved on this device.
    assert_eq!((s.cq.number().0, s.qp.number().0), (0, QPN_BASE + 2));
    let cq = cq_of(&s.device, 16);
    let qp = || QueuePair::create(&s.pd, &qp_config(&s.cq, &cq)).expect("small QP");
    assert_eq!(cq.number().0, 1);
    let first = qp();
    assert_eq!(first.number().0, QPN_BASE + 3);
    first.destroy().expect("unused");
    assert_eq!(qp().number().0, QPN_BASE + 4);
    drop(first);
    cq.destroy().expect("unused");
    assert_eq!(cq_of(&s.device, 16).number().0, 1);
}

/// Goal: a number that the device reports as in use is skipped; its command fails like any other.
#[test]
fn a_number_that_is_taken_is_passed_over() {
    let s = setup_of(HonestDevice::with_chosen_numbers());
    *s.fake.refuse.lock() = Some(CommandStatus::BUSY);
    let config = qp_config(&s.cq, &s.cq);
    let error = QueuePair::create(&s.pd, &config).err().expect("taken");
    assert_eq!(error.errno(), libc::EBUSY);
    let qp = QueuePair::create(&s.pd, &config).expect("small QP");
    assert_eq!(qp.number().0, QPN_BASE + 4);
}

/// Goal: a device without the feature gets no numbers. Method: the strict device panics if a create
/// has an argument.
#[test]
fn a_device_that_chooses_gets_no_numbers() {
    let s = setup_of(HonestDevice::of_version(8, DeviceFeatures::default()));
    assert_eq!((s.cq.number().0, s.qp.number().0), (1, QPN_BASE));
}
