//! Memory windows as the memory unit sees them: which queue pair may bind and invalidate which
//! window, and what an access through one may do.

use crate::common::memory_unit::*;
use crate::common::place;
use ferroce_model::translation::memory_unit::window::Binder;
use ferroce_model::translation::mpt::Access;
use ferroce_model::translation::protection::ProtectionFault;
use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord};
use ferroce_spec::wqe::BindSegment;

/// The byte of the region at `address`, wherever its page lies.
fn byte(unit: &Unit, address: u64) -> u8 {
    let position = address - (START & !0xfff);
    let page = 3 - position / 4096;
    unit.host.memory[(place::DATA + page * 4096 + position % 4096) as usize]
}

#[test]
fn window_of_type_1_is_reached_through_any_queue_pair_of_its_domain() {
    let mut unit = Unit::new();
    let (region, window) = (unit.region(bindable()), unit.window(false));
    unit.write(QPN, window, START + 0x900, 1)
        .expect_err("a free window grants nothing");
    unit.bind(OWN, segment(window, region)).expect("good");
    assert_eq!(unit.entry(region).windows, 1);
    unit.write(QPN, window + 1, START + 0x900, 2)
        .expect("first byte");
    unit.write(QPN + 9, window + 1, START + 0x20ff, 3)
        .expect("last byte");
    assert_eq!(byte(&unit, START + 0x900), 2);
    assert_eq!(byte(&unit, START + 0x20ff), 3);
    for address in [START + 0x8ff, START + 0x2100, 0] {
        let fault = unit.write(QPN, window + 1, address, 4);
        assert!(matches!(fault, Err(ProtectionFault::Bounds { .. })));
    }
    unit.write(QPN, window, START + 0x900, 4)
        .expect_err("the key before the bind");
    unit.write(QPN, region, START + 0x900, 4)
        .expect_err("the region grants peers nothing");
    let read = Access {
        rights: rights(&[AccessRights::set_remote_read]),
        ..remote_write(window + 1, START + 0x900, 1)
    };
    let fault = on!(unit, |memory, dma| memory.validate(&read, dma));
    assert!(matches!(fault, Err(ProtectionFault::Rights { .. })));
    let other_domain = Access {
        pd: PD + 1,
        ..remote_write(window + 1, START + 0x900, 1)
    };
    on!(unit, |memory, dma| memory.validate(&other_domain, dma)).expect_err("its domain only");
}

#[test]
fn window_of_type_2_is_reached_through_the_queue_pair_that_bound_it() {
    let mut unit = Unit::new();
    let (region, window) = (unit.region(bindable()), unit.window(true));
    let mut zero_based = segment(window, region);
    zero_based.access.set_zero_based(true);
    unit.bind(OWN, zero_based).expect("good");
    unit.write(QPN, window + 1, 0, 5).expect("first byte");
    unit.write(QPN, window + 1, 0x17ff, 6).expect("last byte");
    assert_eq!(byte(&unit, START + 0x900), 5);
    assert_eq!(byte(&unit, START + 0x20ff), 6);
    unit.write(QPN, window + 1, 0x1800, 6)
        .expect_err("behind it");
    let fault = unit.write(QPN + 1, window + 1, 0, 7);
    assert!(matches!(fault, Err(ProtectionFault::QueuePair { .. })));
}

#[test]
fn windows_are_never_local_keys() {
    let mut unit = Unit::new();
    let (region, window) = (unit.region(bindable()), unit.window(false));
    unit.bind(OWN, segment(window, region)).expect("good");
    for local in [
        AccessRights::default(),
        rights(&[AccessRights::set_local_write]),
    ] {
        let access = Access {
            rights: local,
            ..remote_write(window + 1, START + 0x900, 1)
        };
        let fault = on!(unit, |memory, dma| memory.validate(&access, dma));
        assert!(matches!(fault, Err(ProtectionFault::InvalidKey { .. })));
    }
}

#[test]
fn binds_that_the_specification_forbids_change_nothing() {
    let mut unit = Unit::new();
    let region = unit.region(bindable());
    let no_bind = unit.region(rights(&[AccessRights::set_local_write]));
    let read_only = unit.region(rights(&[AccessRights::set_window_bind]));
    let (one, two) = (unit.window(false), unit.window(true));
    let good = segment(one, region);
    let zero_based = rights(&[AccessRights::set_zero_based]);
    let atomic = rights(&[AccessRights::set_remote_atomic]);
    let other_domain = Binder { pd: PD + 1, ..OWN };
    let bad = [
        (other_domain, good),
        (other_domain, segment(two, region)),
        (
            OWN,
            BindSegment {
                l_key: region ^ 1,
                ..good
            },
        ),
        (OWN, BindSegment { l_key: 0, ..good }),
        (OWN, BindSegment { l_key: two, ..good }),
        (OWN, BindSegment { l_key: one, ..good }),
        (
            OWN,
            BindSegment {
                l_key: no_bind,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                l_key: read_only,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                l_key: read_only,
                access: atomic,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                r_key: region,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                r_key: u32::MAX,
                ..good
            },
        ),
        (OWN, BindSegment { r_key: 0, ..good }),
        (
            OWN,
            BindSegment {
                address: START - 1,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                address: START + LENGTH,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                address: u64::MAX,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                length: LENGTH - 0x8ff,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                length: u64::MAX,
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                access: bindable(),
                ..good
            },
        ),
        (
            OWN,
            BindSegment {
                access: zero_based,
                ..good
            },
        ),
    ];
    for (index, (binder, segment)) in bad.into_iter().enumerate() {
        assert!(unit.bind(binder, segment).is_err(), "case {index}");
    }
    for key in [one, two, region, no_bind, read_only] {
        let entry = unit.entry(key);
        assert_eq!((entry.key, entry.windows), (key, 0));
        assert!(!entry.word.bound());
    }
    let to_read = rights(&[AccessRights::set_remote_read]);
    let reading = BindSegment {
        l_key: read_only,
        access: to_read,
        ..good
    };
    unit.bind(OWN, reading)
        .expect("a window to read needs no local write");
}

#[test]
fn window_of_type_1_is_bound_again_and_unbound_by_length_zero() {
    let mut unit = Unit::new();
    let (first, second) = (unit.region(bindable()), unit.region(bindable()));
    let window = unit.window(false);
    unit.bind(OWN, segment(window, first)).expect("good");
    unit.bind(OTHER_QP, segment(window + 1, second))
        .expect("any queue pair of the domain");
    assert_eq!(
        (unit.entry(first).windows, unit.entry(second).windows),
        (0, 1)
    );
    unit.write(QPN, window + 1, START + 0x900, 1)
        .expect_err("old key");
    unit.write(QPN, window + 2, START + 0x900, 1)
        .expect("new key");
    let unbind = BindSegment {
        r_key: window + 3,
        length: 0,
        ..BindSegment::default()
    };
    unit.bind(OWN, unbind).expect("the region does not matter");
    assert_eq!(unit.entry(second).windows, 0);
    for key in window..window + 4 {
        unit.write(QPN, key, START + 0x900, 1).expect_err("free");
    }
    assert_eq!(unit.entry(window).key, window + 3);
}

#[test]
fn window_of_type_2_is_invalidated_before_it_is_bound_again() {
    let mut unit = Unit::new();
    let (region, window) = (unit.region(bindable()), unit.window(true));
    unit.bind(OWN, segment(window, region)).expect("good");
    let again = segment(window + 1, region);
    let fault = unit.bind(OWN, again);
    assert!(matches!(fault, Err(ProtectionFault::Binding { .. })));
    let unbind = BindSegment { length: 0, ..again };
    for binder in [OWN, OTHER_QP] {
        let fault = unit.bind(binder, unbind);
        assert!(matches!(fault, Err(ProtectionFault::Binding { .. })));
    }
    unit.write(QPN, window + 1, START + 0x900, 1)
        .expect("still bound");
    on!(unit, |memory, dma| memory.invalidate(
        OTHER_QP,
        window + 1,
        dma
    ))
    .expect_err("not who bound it");
    on!(unit, |memory, dma| memory.invalidate(OWN, window, dma)).expect_err("old key");
    on!(unit, |memory, dma| memory.invalidate(OWN, window + 1, dma)).expect("good");
    unit.write(QPN, window + 1, START + 0x900, 1)
        .expect_err("free");
    assert_eq!(unit.entry(region).windows, 0);
    on!(unit, |memory, dma| memory.invalidate(
        OTHER_QP,
        window + 1,
        dma
    ))
    .expect("free already");
    unit.bind(OTHER_QP, again).expect("any queue pair");
    on!(unit, |memory, dma| memory.invalidate(
        OTHER_QP,
        again.r_key,
        dma
    ))
    .expect("its own now");
    unit.bind(OWN, unbind)
        .expect_err("only windows of type 1 are unbound so");
    assert_eq!(unit.entry(region).windows, 0);
}

#[test]
fn only_bound_windows_of_type_2_are_invalidated_remotely() {
    let mut unit = Unit::new();
    let (region, one, two) = (
        unit.region(bindable()),
        unit.window(false),
        unit.window(true),
    );
    unit.bind(OWN, segment(one, region)).expect("good");
    for (binder, key) in [
        (OWN, region),
        (OWN, one + 1),
        (OWN, two),
        (OWN, 0),
        (OWN, u32::MAX),
    ] {
        on!(unit, |memory, dma| memory
            .invalidate_remotely(binder, key, dma))
        .expect_err("not invalidated so");
        if key != two {
            on!(unit, |memory, dma| memory.invalidate(binder, key, dma)).expect_err("nor locally");
        }
    }
    unit.bind(OWN, segment(two, region)).expect("good");
    let other_domain = Binder { pd: PD + 1, ..OWN };
    for binder in [OTHER_QP, other_domain] {
        on!(unit, |memory, dma| memory.invalidate_remotely(
            binder,
            two + 1,
            dma
        ))
        .expect_err("not its window");
    }
    on!(unit, |memory, dma| memory.invalidate_remotely(
        OWN,
        two + 1,
        dma
    ))
    .expect("good");
    unit.write(QPN, two + 1, START + 0x900, 1)
        .expect_err("free");
    unit.write(QPN, one + 1, START + 0x900, 1)
        .expect("still bound");
}

#[test]
fn windows_of_a_destroyed_queue_pair_are_free() {
    let mut unit = Unit::new();
    let region = unit.region(bindable());
    let (one, two, three) = (unit.window(false), unit.window(true), unit.window(true));
    unit.bind(OWN, segment(one, region)).expect("good");
    unit.bind(OWN, segment(two, region)).expect("good");
    unit.bind(OTHER_QP, segment(three, region)).expect("good");
    on!(unit, |memory, dma| memory.release_windows(QPN, dma));
    assert_eq!(unit.entry(region).windows, 2);
    unit.write(QPN, two + 1, START + 0x900, 1)
        .expect_err("not for a later queue pair");
    unit.write(QPN, one + 1, START + 0x900, 1)
        .expect("belongs to no queue pair");
    unit.write(QPN + 1, three + 1, START + 0x900, 1)
        .expect("another one's");
}

#[test]
fn windows_on_direct_regions_and_device_memory_begin_where_they_say() {
    let mut unit = Unit::new();
    for device_memory in [false, true] {
        let mut word = MemoryEntryWord::default();
        word.set_direct(!device_memory);
        word.set_device_memory(device_memory);
        let region = unit.create(MemoryEntry {
            word,
            pd: PD,
            access: bindable(),
            start: START,
            length: LENGTH,
            translation: if device_memory { 0x100 } else { place::DATA },
            ..MemoryEntry::default()
        });
        let window = unit.window(false);
        unit.bind(OWN, segment(window, region)).expect("good");
        unit.write(QPN, window + 1, START + 0x901, 9)
            .expect("inside");
        let mut found = [0];
        if device_memory {
            unit.memory.read_device_memory(0x100 + 0x901, &mut found);
        } else {
            found[0] = unit.host.memory[place::DATA as usize + 0x901];
        }
        assert_eq!(found, [9]);
    }
}
