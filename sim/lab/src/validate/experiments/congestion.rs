//! Targets of congestion: incast through a switch.

use Expected::{AtLeast, AtMost, Band};
use incast::Figure::{Drops, QueueKilobytes, Unfairness, Utilisation};
use incast::Source::{ConnectX, Hpcc, Paper};

use super::point;
use crate::incast::{self, Incast};
use crate::validate::plan::{Expected, Plan, Run};

const fn run(senders: u32, source: incast::Source, figure: incast::Figure) -> Run {
    Run::Incast(Incast { senders, source }, figure)
}

/// Largest relative distance from the fair share.
const FAIR: Expected = AtMost(0.1);
const FULL: Expected = AtLeast(0.95);
const NONE: Expected = AtMost(0.0);

/// Plans of the targets.
pub const PLANS: &[Plan] = &[
    Plan {
        id: "L11",
        points: &[
            point("2:1 share", run(2, ConnectX, Unfairness), FAIR),
            point("2:1 utilisation", run(2, ConnectX, Utilisation), FULL),
            point("2:1 drops", run(2, ConnectX, Drops), NONE),
            point("8:1 share", run(8, ConnectX, Unfairness), FAIR),
            point("8:1 utilisation", run(8, ConnectX, Utilisation), FULL),
        ],
    },
    Plan {
        id: "L12",
        points: &[
            point(
                "8:1 queue",
                run(8, Hpcc, QueueKilobytes),
                Band(400.0, 1600.0),
            ),
            point("8:1 drops", run(8, Hpcc, Drops), NONE),
            point("8:1 share", run(8, Hpcc, Unfairness), FAIR),
            point("8:1 utilisation", run(8, Hpcc, Utilisation), FULL),
        ],
    },
    Plan {
        id: "L13",
        points: &[
            point("2:1 share", run(2, Paper, Unfairness), FAIR),
            point(
                "2:1 queue",
                run(2, Paper, QueueKilobytes),
                Band(10.0, 100.0),
            ),
            point("8:1 share", run(8, Paper, Unfairness), FAIR),
            point("8:1 utilisation", run(8, Paper, Utilisation), FULL),
            point(
                "8:1 queue",
                run(8, Paper, QueueKilobytes),
                Band(10.0, 100.0),
            ),
            point("8:1 drops", run(8, Paper, Drops), NONE),
        ],
    },
];
