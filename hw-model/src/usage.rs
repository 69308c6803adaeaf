//! How long each part of the card and of its slot was in use: what limits a rate.
//!
//! Two kinds are told apart. A *server* works on one item at a time: a block, a wire, a walker of
//! page tables. It limits the rate when it is always busy. Of a *pool* there are several at once,
//! each held until something else is done: tags, registers for misses. All of it is also held when
//! items wait for a slower part behind it, so that a pool limits the rate only if no server does.

use ferroce_units::Duration;

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
