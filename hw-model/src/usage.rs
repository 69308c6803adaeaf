//! Utilisation of each part of the card and of its slot: what limits a rate.
//!
//! There are two kinds. A *server* works on one item at a time: a block, a wire, a page table
//! walker. It limits the rate when it is always busy. A *pool* has several items, each held until
//! something else is done: tags, miss registers. Its items are also held while they wait for a
//! slower part, so a pool limits the rate only if no server does.

use ferroce_units::Duration;

/// Concurrent WQE fetches: at most one for each queue pair.
pub const FETCHES: &str = "fetches";

/// The kind of a part.
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
    /// Number of parts: their times are added up.
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

    /// Returns several servers, which were in use for `busy` in total.
    pub(crate) const fn servers(name: &'static str, (count, busy): (usize, Duration)) -> Self {
        Self {
            name,
            unit: None,
            kind: Kind::Server,
            count: count as u32,
            busy,
        }
    }

    /// Returns a pool of `count` items, which were in use for `busy` in total.
    pub(crate) const fn pool(name: &'static str, (count, busy): (usize, Duration)) -> Self {
        Self {
            name,
            unit: None,
            kind: Kind::Pool,
            count: count as u32,
            busy,
        }
    }

    /// Returns a pool whose total use equals the use of all of it for `busy`.
    pub(crate) const fn whole_pool(name: &'static str, busy: Duration) -> Self {
        Self::pool(name, (1, busy))
    }
}
