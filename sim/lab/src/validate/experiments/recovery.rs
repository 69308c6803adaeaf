//! Targets of loss, reordering and retransmission.

use Expected::{AtLeast, AtMost, Band, Near, Value};
use faulty_link::Figure::{Goodput, OverGoBackN, Retransmissions};
use faulty_link::Recovery::{AdaptiveRouting, GoBackN, SelectiveRepeat};
use resends::Figure::{Interval, LongestFirst, ShortestFirst, Transmissions};

use super::point;
use crate::dead_peer::{DeadPeer, Limit};
use crate::faulty_link::{self, FaultyLink};
use crate::resends::{self, Profile, Range, Resends, Silence};
use crate::validate::plan::{Expected, Plan, Point, Run};

/// perftest's local ACK timeout (`DEF_QP_TIME`): 67 ms.
const DEFAULT_TIMEOUT: u8 = 14;
/// Upper limit for "about zero".
const ABOUT_ZERO: f64 = 0.05;
/// Longest difference of path delays where packets are sprayed, and a reorder time above it.
const SPREAD_NS: u32 = 3000;
const PATIENT_NS: u32 = 8000;

/// Two ranges, and a first timeout in neither of them.
const RANGES: Profile = Profile {
    base_us: 4,
    first: (5, 1),
    ranges: &[
        Range {
            low_bound: 6,
            size: 2,
            retries: 2,
        },
        Range {
            low_bound: 9,
            size: 1,
            retries: 3,
        },
    ],
};
/// Several first timeouts: 128, 256, 512 and 1024 us.
const RANDOM: Profile = Profile {
    base_us: 4,
    first: (5, 4),
    ..RANGES
};
/// A base below the minimum of 4 us.
const SHORT_BASE: Profile = Profile {
    base_us: 2,
    ..RANGES
};

/// Returns the run of READs over 40 ms with ConnectX's own timeouts.
const fn delayed(local_ack_timeout: u8, figure: resends::Figure) -> Run {
    let resends = Resends {
        profile: None,
        local_ack_timeout,
        silence: Silence::Delay,
        qps: 1,
    };
    Run::Resends(resends, figure)
}

/// Returns the run of WRITEs that are all lost, with a profile.
const fn silent(
    profile: &'static Profile,
    local_ack_timeout: u8,
    qps: u32,
    figure: resends::Figure,
) -> Run {
    let resends = Resends {
        profile: Some(profile),
        local_ack_timeout,
        silence: Silence::Loss,
        qps,
    };
    Run::Resends(resends, figure)
}

/// Returns the run for the `number`th interval of [`RANGES`].
const fn interval(number: usize) -> Run {
    silent(&RANGES, DEFAULT_TIMEOUT, 1, Interval(number))
}

const fn link(recovery: faulty_link::Recovery, loss: f64) -> FaultyLink {
    FaultyLink::new(recovery).losing(loss)
}

/// Returns the run for goodput at this loss with a short timeout.
const fn goodput(recovery: faulty_link::Recovery, loss: f64) -> Run {
    Run::Faulty(link(recovery, loss), Goodput)
}

/// Returns the run for goodput at this loss as in the abstract: 40 Gb/s; perftest's timeout.
const fn commodity(recovery: faulty_link::Recovery, loss: f64) -> Run {
    let link = link(recovery, loss).rate(40);
    Run::Faulty(link.local_ack_timeout(DEFAULT_TIMEOUT), Goodput)
}

/// Returns the same with a short timeout.
const fn brisk(recovery: faulty_link::Recovery, loss: f64) -> Run {
    Run::Faulty(link(recovery, loss).rate(40), Goodput)
}

/// Returns the run that compares selective repeat with go-back-N at this loss.
const fn gain(loss: f64) -> Run {
    Run::Faulty(link(SelectiveRepeat, loss), OverGoBackN)
}

/// Returns the run without loss over paths that differ.
const fn sprayed(recovery: faulty_link::Recovery, reorder_ns: u32) -> Run {
    let link = FaultyLink::new(recovery).spraying(SPREAD_NS);
    Run::Faulty(link.reorder_time(reorder_ns), Retransmissions)
}

/// Returns a point of `cx6_ack_timeout.csv`; `index` is the number of the row.
const fn dead_peer(
    label: &'static str,
    limit: Limit,
    local_ack_timeout: u8,
    retry_count: u8,
    index: usize,
) -> Point {
    let run = Run::DeadPeer(DeadPeer {
        local_ack_timeout,
        retry_count,
        limit,
    });
    point(label, run, Near(index, 5.0))
}

const fn target(id: &'static str, points: &'static [Point]) -> Plan {
    Plan { id, points }
}

pub(super) const PLANS: &[Plan] = &[
    target(
        "V21",
        &[
            point("go-back-N, 1e-6", goodput(GoBackN, 1e-6), AtLeast(0.99)),
            point("go-back-N, 1e-2", goodput(GoBackN, 1e-2), AtMost(0.5)),
            point("SR / go-back-N, 1e-4", gain(1e-4), AtLeast(1.0)),
            point("SR / go-back-N, 1e-2", gain(1e-2), AtLeast(1.0)),
            point("2e-2, -u 14", commodity(GoBackN, 2e-2), AtMost(ABOUT_ZERO)),
        ],
    ),
    target(
        "L1",
        &[
            point("-u 14, 1st", delayed(14, Interval(1)), Near(0, 5.0)),
            point("-u 14, 2nd", delayed(14, Interval(2)), Near(1, 5.0)),
            point("-u 14, 3rd", delayed(14, Interval(3)), Near(2, 5.0)),
            point("-u 14, 4th", delayed(14, Interval(4)), Near(3, 5.0)),
            point("-u 18, 1st", delayed(18, Interval(1)), Near(0, 5.0)),
            point("-u 18, 2nd", delayed(18, Interval(2)), Near(1, 5.0)),
            point("-u 18, 3rd", delayed(18, Interval(3)), Near(2, 5.0)),
            point("-u 18, 4th", delayed(18, Interval(4)), Near(3, 5.0)),
            point(
                "-u 18, requests",
                delayed(18, Transmissions),
                Value(5.0, 0.0),
            ),
        ],
    ),
    target(
        "L3",
        &[
            point("first, once", interval(1), Near(0, 1.0)),
            point("range 0: 2nd", interval(2), Near(1, 1.0)),
            point("3rd", interval(3), Near(1, 1.0)),
            point("4th, doubled", interval(4), Near(2, 1.0)),
            point("5th", interval(5), Near(2, 1.0)),
            point("range 1: 6th", interval(6), Near(3, 1.0)),
            point("8th", interval(8), Near(3, 1.0)),
            point(
                "random, shortest",
                silent(&RANDOM, DEFAULT_TIMEOUT, 32, ShortestFirst),
                Value(128.0, 1.0),
            ),
            point(
                "random, longest",
                silent(&RANDOM, DEFAULT_TIMEOUT, 32, LongestFirst),
                Value(1024.0, 1.0),
            ),
            point(
                "-u 4 caps it",
                silent(&RANGES, 4, 1, Interval(1)),
                Value(65.536, 1.0),
            ),
            point(
                "base 2 us: built-in",
                silent(&SHORT_BASE, DEFAULT_TIMEOUT, 1, Interval(1)),
                Value(2048.0, 1.0),
            ),
        ],
    ),
    target(
        "L5",
        &[
            point(
                "go-back-N, 2 %",
                commodity(GoBackN, 2e-2),
                AtMost(ABOUT_ZERO),
            ),
            point("5 %", commodity(GoBackN, 5e-2), AtMost(ABOUT_ZERO)),
            point("1 %", commodity(GoBackN, 1e-2), AtMost(0.6)),
            point("1 %, -u 2", brisk(GoBackN, 1e-2), AtMost(0.6)),
            point("SR, 1 %, -u 2", brisk(SelectiveRepeat, 1e-2), AtLeast(0.6)),
        ],
    ),
    target(
        "L6",
        &[
            point(
                "go-back-N, 1e-4",
                goodput(GoBackN, 1e-4),
                Band(0.49437, 0.98873),
            ),
            point("1e-2", goodput(GoBackN, 1e-2), Band(0.23240, 0.46479)),
            point("SR / go-back-N, 1e-6", gain(1e-6), AtLeast(0.999)),
            point("1e-5", gain(1e-5), AtLeast(1.0)),
            point("1e-4", gain(1e-4), AtLeast(1.0)),
            point("1e-3", gain(1e-3), AtLeast(1.0)),
            point("1e-2", gain(1e-2), AtLeast(1.0)),
            point("1e-1", gain(1e-1), AtLeast(1.0)),
        ],
    ),
    target(
        "L8",
        &[
            point(
                "selective repeat",
                sprayed(SelectiveRepeat, 0),
                Band(0.5, 1.0),
            ),
            point(
                "reorder time 0",
                sprayed(AdaptiveRouting, 0),
                Band(0.5, 1.0),
            ),
            point("8 us", sprayed(AdaptiveRouting, PATIENT_NS), AtMost(0.001)),
        ],
    ),
    target(
        "L16",
        &[
            dead_peer("limit on, T 14, R 7", Limit::On, 14, 7, 0),
            dead_peer("limit on, T 16, R 7", Limit::On, 16, 7, 1),
            dead_peer("limit on, T 18, R 7", Limit::On, 18, 7, 2),
            dead_peer("limit on, T 20, R 7", Limit::On, 20, 7, 3),
            dead_peer("limit on, T 14, R 1", Limit::On, 14, 1, 4),
            dead_peer("limit on, T 14, R 3", Limit::On, 14, 3, 5),
            dead_peer("limit on, T 14, R 5", Limit::On, 14, 5, 6),
            dead_peer("limit off, T 8, R 7", Limit::Off, 8, 7, 7),
            dead_peer("limit off, T 8, R 3", Limit::Off, 8, 3, 8),
            dead_peer("limit off, T 12, R 7", Limit::Off, 12, 7, 9),
            dead_peer("limit off, T 14, R 7", Limit::Off, 14, 7, 10),
            dead_peer("limit off, T 14, R 0", Limit::Off, 14, 0, 11),
            dead_peer("limit off, T 18, R 7", Limit::Off, 18, 7, 12),
        ],
    ),
];
