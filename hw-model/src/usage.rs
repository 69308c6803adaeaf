//! How long each part of the card and of its slot was in use: what limits a rate.
//!
//! Two kinds are told apart. A *server* works on one item at a time: a block, a wire, a walker of
//! page tables. It limits the rate when it is always busy. Of a *pool* there are several at once,
//! each held until something else is done: tags, registers for misses. All of it is also held when
//! items wait for a slower part behind it, so that a pool limits the rate only if no server does.

use ferroce_units::{Duration, Instant};

use crate::blocks::Blocks;
use crate::nic::Nic;
use crate::ports::port::Port;
use crate::time::timing::{Stage, Timing};

/// WQE fetches that are under way: at most one of each queue pair.
pub const FETCHES: &str = "fetches";

/// What a part does with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Works on one item at a time.
    Server,
    /// Is held until something else is done.
    Pool,
}

/// A part, and how long it was in use since power-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The part.
    pub name: &'static str,
    /// The processing unit that it belongs to.
    pub unit: Option<u8>,
    /// What it does.
    pub kind: Kind,
    /// How many of it there are: the times of all are added up.
    pub count: u32,
    /// Time in use.
    pub busy: Duration,
}

impl Kind {
    /// Returns its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Pool => "pool",
        }
    }
}

impl Usage {
    pub(crate) const fn server(name: &'static str, busy: Duration) -> Self {
        Self {
            name,
            unit: None,
            kind: Kind::Server,
            count: 1,
            busy,
        }
    }

    /// Several servers, which were in use for `busy` together.
    pub(crate) const fn servers(name: &'static str, (count, busy): (usize, Duration)) -> Self {
        Self {
            name,
            unit: None,
            kind: Kind::Server,
            count: count as u32,
            busy,
        }
    }

    /// A pool of `count`, which were in use for `busy` together.
    pub(crate) const fn pool(name: &'static str, (count, busy): (usize, Duration)) -> Self {
        Self {
            name,
            unit: None,
            kind: Kind::Pool,
            count: count as u32,
            busy,
        }
    }

    /// A pool of which so much was in use as if all of it had been for `busy`.
    pub(crate) const fn whole_pool(name: &'static str, busy: Duration) -> Self {
        Self::pool(name, (1, busy))
    }
}

/// Returns the name of a block, and its processing unit. `MacReceive` is the depacketizer, which
/// keeps the time of both: the wire has spread what the MAC receives.
const fn name(stage: Stage) -> (&'static str, Option<u8>) {
    match stage {
        Stage::Doorbell => ("doorbell", None),
        Stage::Fetch => ("fetch", None),
        Stage::Transmit(unit) => ("transmit", Some(unit)),
        Stage::Packetize => ("packetizer", None),
        Stage::MacTransmit => ("mac_transmit", None),
        Stage::MacReceive => ("depacketizer", None),
        Stage::Receive(unit) => ("receive", Some(unit)),
        Stage::Completion => ("completion", None),
        Stage::Event => ("event", None),
    }
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Returns the use of the card's parts up to `now`: blocks in the way of the data, then pools.
    pub fn usage(&self, now: Instant) -> Vec<Usage> {
        let mut parts = Vec::new();
        self.timing().visit_busy(&mut |stage, busy| {
            let (name, unit) = name(stage);
            parts.push(Usage {
                unit,
                ..Usage::server(name, busy)
            });
        });
        let blocks = &self.blocks;
        let (atomics, address) = blocks.translation.atomics_usage();
        parts.push(Usage::server("atomic_address", address));
        let (mpt, mtt) = blocks.translation.miss_registers();
        let contexts = &blocks.contexts;
        parts.extend([
            Usage::pool(FETCHES, blocks.transmit.fetch_usage()),
            Usage::pool("atomic_units", atomics),
            Usage::pool("qpc_mshrs", contexts.qps.miss_registers()),
            Usage::pool("cqc_mshrs", contexts.cqs.miss_registers()),
            Usage::pool("srqc_mshrs", contexts.srqs.miss_registers()),
            Usage::pool("responder_mshrs", contexts.responder.miss_registers()),
            Usage::pool("mpt_mshrs", mpt),
            Usage::pool("mtt_mshrs", mtt),
            Usage::pool("wqe_mshrs", contexts.wqe_records.miss_registers()),
            Usage::pool("egress_packets", blocks.mac.egress_usage(now)),
        ]);
        parts
    }
}
