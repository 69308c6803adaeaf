//! Random binds and invalidations, also over a memory protection table that software overwrites.

use crate::common::memory_unit::*;
use crate::common::place;
use ferroce_model::translation::mpt::index_of;
use ferroce_spec::context::AccessRights;
use ferroce_spec::wqe::BindSegment;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Action {
    Bind {
        qp: bool,
        window: usize,
        variant: u8,
        region: usize,
        address: u64,
        length: u64,
    },
    Invalidate {
        qp: bool,
        window: usize,
        variant: u8,
        remote: bool,
    },
    Release {
        qp: bool,
    },
    Scramble {
        at: u64,
        value: u64,
    },
}

fn action(scramble: bool) -> impl Strategy<Value = Action> {
    let address = prop_oneof![any::<u64>(), START - 2..START + LENGTH + 2];
    let length = prop_oneof![any::<u64>(), 0..LENGTH + 2, Just(0)];
    let bind = (any::<bool>(), 0..4usize, 0..3u8, 0..2usize, address, length);
    let invalidate = (any::<bool>(), 0..4usize, 0..3u8, any::<bool>());
    let weight = u32::from(scramble);
    prop_oneof![
        4 => bind.prop_map(|(qp, window, variant, region, address, length)| {
            Action::Bind { qp, window, variant, region, address, length }
        }),
        3 => invalidate.prop_map(|(qp, window, variant, remote)| {
            Action::Invalidate { qp, window, variant, remote }
        }),
        1 => any::<bool>().prop_map(|qp| Action::Release { qp }),
        weight => (0..7 * 8u64, any::<u64>()).prop_map(|(word, value)| {
            Action::Scramble { at: place::MPT + 64 + word * 8, value }
        }),
    ]
}

fn run(unit: &mut Unit, regions: &[u32; 2], windows: &[u32; 4], action: Action) {
    let binder = |other: bool| if other { OTHER_QP } else { OWN };
    let key = |window: usize, variant: u8| windows[window] + u32::from(variant);
    // Whatever is refused or done, the invariants below hold.
    match action {
        Action::Bind {
            qp,
            window,
            variant,
            region,
            address,
            length,
        } => {
            let segment = BindSegment {
                r_key: key(window, variant),
                l_key: regions[region],
                address,
                length,
                access: rights(&[AccessRights::set_remote_write]),
                reserved: 0,
            };
            let _ = unit.bind(binder(qp), segment);
        }
        Action::Invalidate {
            qp,
            window,
            variant,
            remote,
        } => {
            let (binder, key) = (binder(qp), key(window, variant));
            let _ = on!(unit, |memory, dma| if remote {
                memory.invalidate_remotely(binder, key, dma)
            } else {
                memory.invalidate(binder, key, dma)
            });
        }
        Action::Release { qp } => {
            let qpn = binder(qp).qpn;
            on!(unit, |memory, dma| memory.release_windows(qpn, dma));
        }
        Action::Scramble { at, value } => {
            unit.host.write(at, &value.to_le_bytes()).expect("mapped");
        }
    }
}

fn scene() -> (Unit, [u32; 2], [u32; 4]) {
    let mut unit = Unit::new();
    let regions = [unit.region(bindable()), unit.region(bindable())];
    let windows = [false, true, false, true].map(|type_2| unit.window(type_2));
    (unit, regions, windows)
}

proptest! {
    #[test]
    fn regions_count_their_windows(actions in prop::collection::vec(action(false), 1..60)) {
        let (mut unit, regions, windows) = scene();
        for action in actions {
            run(&mut unit, &regions, &windows, action);
            let bound = windows.map(|key| unit.entry(key)).map(|w| (w.word.bound(), w));
            for region in regions {
                let count = bound.iter().filter(|(b, w)| *b && w.region_key == region).count();
                prop_assert_eq!(unit.entry(region).windows as usize, count);
            }
            let of_type_2 = bound.iter().filter(|(b, w)| *b && w.word.window_type_2());
            let mut listed: Vec<_> = of_type_2.map(|(_, w)| (w.qpn, index_of(w.key))).collect();
            listed.sort_unstable();
            prop_assert!(unit.memory.bound_windows().eq(listed));
        }
    }

    #[test]
    fn table_that_software_overwrites_is_survived(
        actions in prop::collection::vec(action(true), 1..60),
        addresses in prop::collection::vec(any::<u64>(), 4),
    ) {
        let (mut unit, regions, windows) = scene();
        for action in actions {
            run(&mut unit, &regions, &windows, action);
            for (window, address) in windows.iter().zip(&addresses) {
                let _ = unit.write(QPN, *window, *address, 1);
                let _ = unit.write(QPN, *window, START + 0x900, 1);
            }
            let access = remote_write(regions[0], START, 8);
            let _ = on!(unit, |memory, dma| memory.validate(&access, dma));
        }
    }
}
