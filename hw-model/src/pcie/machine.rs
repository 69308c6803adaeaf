//! What the cards of one machine share: switches, links, root complexes, memory of peers.
//!
//! ```text
//!  card ── slot ──► switch ──► root port ──► socket ──► DRAM
//!                     │                        │
//!                     └──► GPU                 └── socket link ──► DRAM, root port, GPU
//! ```
//!
//! A [`Route`] is the way from one card to one target. It names the parts on the way; as in the
//! slot itself, a request reserves its share of each part at the time of its event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroce_units::{Duration, Instant};

use super::link::{Lane, Rate};
use super::pool::{Pool, Units};
use super::tlp::Tlps;
use crate::usage::Usage;

/// Bytes of a line, the unit in which a root complex writes to memory.
pub const LINE_BYTES: u64 = 64;
/// Position of the target in a physical address; below it is the address in the target.
const TARGET_SHIFT: u32 = 56;

/// A target of a card's requests. The first one is the memory of the socket next to the card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target(pub u8);

impl Target {
    /// Memory of the socket next to the card.
    pub const NEAR: Self = Self(0);

    /// Returns the bits of its physical addresses.
    #[inline]
    pub const fn bits(self) -> u64 {
        (self.0 as u64) << TARGET_SHIFT
    }

    /// Returns the target of a physical address.
    #[inline]
    pub const fn of(physical: u64) -> Self {
        Self((physical >> TARGET_SHIFT) as u8)
    }
}

/// The name of a part: its kind, and the number of the element to which it belongs.
pub type PartName = (&'static str, u8);

/// The rate of a part in one direction.
#[derive(Debug, Clone, Copy)]
pub struct LaneParameters {
    /// Its name.
    pub name: PartName,
    /// Its rate; 0: unlimited.
    pub gbps: f64,
}

/// A limited number of requests.
#[derive(Debug, Clone, Copy)]
pub struct PlacesParameters {
    /// Its name.
    pub name: PartName,
    /// How many there are.
    pub places: u32,
}

/// What a read or a write crosses, by index of lanes and places.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// Links in the direction of the target.
    pub there: Vec<usize>,
    /// Links in the direction of the card, which completions cross.
    pub back: Vec<usize>,
    /// Parts whose rate counts payload only: memory, and the root complex between peers.
    pub payload: Vec<usize>,
    /// Requests that the target accepts at once, and how long it takes for one.
    pub accepts: Option<(usize, Duration)>,
    /// What it takes longer than to the LLC of the near socket …
    pub longer: Duration,
    /// … or shorter.
    pub shorter: Duration,
}

/// Places of a root complex for strictly ordered writes on their way to memory.
#[derive(Debug, Clone, Copy)]
pub struct Strict {
    /// Index of the places.
    pub places: usize,
    /// From the arrival of a write that waits for nothing until it is globally visible.
    pub commit: Duration,
}

/// The way from one card to one target.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// Accesses may hit the LLC.
    pub has_llc: bool,
    /// Completions cross the root port's lanes, on which processors' stores wait for them.
    pub crosses_root_port: bool,
    /// `None`: the root complex forbids reads.
    pub read: Option<Way>,
    /// `None`: the root complex forbids writes.
    pub write: Option<Way>,
    /// `None`: strictly ordered writes need no place.
    pub strict: Option<Strict>,
}

/// The parts of a machine, and the routes of its cards.
#[derive(Debug, Clone, Default)]
pub struct MachineParameters {
    /// Rates.
    pub lanes: Vec<LaneParameters>,
    /// Numbers of requests.
    pub places: Vec<PlacesParameters>,
    /// By card, then by target: the near memory first.
    pub routes: Vec<Vec<Route>>,
}

/// A machine that several cards share.
pub type SharedMachine = Arc<Mutex<Machine>>;

/// The state of the parts that cards share.
#[derive(Debug)]
pub struct Machine {
    lanes: Vec<(PartName, Lane)>,
    places: Vec<(PartName, Pool)>,
}

impl Machine {
    /// Returns an idle machine.
    pub fn new(parameters: &MachineParameters) -> SharedMachine {
        let lane = |lane: &LaneParameters| {
            let idle = Lane::new(Rate::from_gbps(lane.gbps));
            (lane.name, idle)
        };
        let places = |places: &PlacesParameters| {
            let headers = places.places;
            let free = Pool::new(Units {
                headers,
                data: u32::MAX,
            });
            (places.name, free)
        };
        Arc::new(Mutex::new(Self {
            lanes: parameters.lanes.iter().map(lane).collect(),
            places: parameters.places.iter().map(places).collect(),
        }))
    }

    /// Reserves the links and rates of a way; returns when the last of them has carried the
    /// access. `tlps`: towards the target, and back.
    fn carry(&mut self, now: Instant, way: &Way, tlps: [Tlps; 2], bytes: u64) -> Instant {
        let payload = Tlps {
            count: tlps[0].count.max(tlps[1].count),
            wire_bytes: bytes,
        };
        let links = [
            (&way.there, tlps[0]),
            (&way.back, tlps[1]),
            (&way.payload, payload),
        ];
        let mut until = now;
        for (parts, tlps) in links {
            for part in parts {
                until = until.max(self.lanes[*part].1.reserve(now, tlps).1);
            }
        }
        until
    }

    /// Takes a place of the target for each of `count` requests; returns when the last one has it.
    fn accept(&mut self, now: Instant, way: &Way, count: u64) -> Instant {
        let Some((places, time)) = way.accepts else {
            return now;
        };
        let pool = &mut self.places[places].1;
        let mut start = now;
        for _ in 0..count {
            let (granted, units, _) = pool.take(now, ONE);
            start = granted;
            pool.give_back(granted + time, units);
        }
        start
    }

    /// Commits a strictly ordered write that arrives at `arrival` after `elder`, line by line;
    /// returns when its last line is visible.
    fn commit(&mut self, arrival: Instant, elder: Instant, strict: Strict, bytes: u64) -> Instant {
        let pool = &mut self.places[strict.places].1;
        let mut committed = elder;
        for _ in 0..bytes.div_ceil(LINE_BYTES) {
            let (granted, units, _) = pool.take(arrival, ONE);
            // A write that waits for its elders keeps its place.
            committed = committed.max(granted.max(arrival) + strict.commit);
            pool.give_back(committed, units);
        }
        committed
    }

    /// Returns how long each part was in use.
    fn usage(&self) -> Vec<Usage> {
        let of = |(name, unit): PartName, usage: Usage| Usage {
            name,
            unit: Some(unit),
            ..usage
        };
        let lanes = self.lanes.iter();
        let lanes = lanes.map(|(name, lane)| of(*name, Usage::server("", lane.busy())));
        let places = self.places.iter().map(|(name, pool)| {
            let [busy, _] = pool.busy();
            of(*name, Usage::whole_pool("", busy))
        });
        lanes.chain(places).collect()
    }
}

const ONE: Units = Units {
    headers: 1,
    data: 0,
};

/// What the way beyond the slot adds to an access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beyond {
    /// When the target accepts it.
    pub start: Instant,
    /// When all parts have carried it.
    pub until: Instant,
    pub longer: Duration,
    pub shorter: Duration,
    /// It may hit the LLC.
    pub has_llc: bool,
    /// Completions cross the root port's lanes.
    pub crosses_root_port: bool,
}

impl Beyond {
    /// Nothing: memory of the near socket, without a topology.
    pub const NOTHING: Self = Self {
        start: Instant::ZERO,
        until: Instant::ZERO,
        longer: Duration::ZERO,
        shorter: Duration::ZERO,
        has_llc: true,
        crosses_root_port: true,
    };
}

/// A card's place in a machine.
#[derive(Debug)]
pub struct Attachment {
    machine: SharedMachine,
    routes: Vec<Route>,
    /// True for the first card, which reports the use of the machine's parts for all.
    is_first: bool,
    /// When the newest strictly ordered write is visible, as if it had been issued at its event.
    elder: Instant,
    /// When the parts will have carried all writes and reads so far.
    until: [Instant; 2],
}

impl Attachment {
    /// Attaches `card` of the machine with these parameters; one that it does not have reaches
    /// nothing.
    pub fn new(machine: SharedMachine, parameters: &MachineParameters, card: usize) -> Self {
        let routes = parameters.routes.get(card).cloned();
        Self {
            machine,
            is_first: card == 0,
            routes: routes.unwrap_or_else(|| vec![Route::default()]),
            elder: Instant::ZERO,
            until: [Instant::ZERO; 2],
        }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A panic elsewhere leaves times that are as good as any.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn route(&self, physical: u64) -> &Route {
        let route = self.routes.get(usize::from(Target::of(physical).0));
        route.unwrap_or(&self.routes[0])
    }

    /// Returns true if the root complex lets reads, or writes, pass to this target.
    pub(super) fn allows(&self, physical: u64, access: Direction) -> bool {
        let route = self.route(physical);
        match access {
            Direction::Read => route.read.is_some(),
            Direction::Write => route.write.is_some(),
        }
    }

    /// Reserves the way of a read; `tlps`: requests and completions.
    pub(super) fn read(
        &mut self,
        now: Instant,
        physical: u64,
        tlps: [Tlps; 2],
        bytes: u64,
    ) -> Beyond {
        let route = self.route(physical);
        let Some(way) = &route.read else {
            return Beyond::NOTHING;
        };
        let mut machine = self.machine();
        let start = machine.accept(now, way, tlps[0].count);
        let until = machine.carry(now, way, tlps, bytes);
        drop(machine);
        let beyond = beyond(route, way, start, until);
        self.until[1] = self.until[1].max(start).max(until);
        beyond
    }

    /// Reserves the way of a posted write.
    pub(super) fn write(&mut self, now: Instant, physical: u64, tlps: Tlps, bytes: u64) -> Beyond {
        let route = self.route(physical);
        let Some(way) = &route.write else {
            return Beyond::NOTHING;
        };
        let none = Tlps {
            count: 0,
            wire_bytes: 0,
        };
        let until = self.machine().carry(now, way, [tlps, none], bytes);
        let beyond = beyond(route, way, now, until);
        self.until[0] = self.until[0].max(until);
        beyond
    }

    /// Commits a strictly ordered write that arrives at the root complex at `arrival`; returns by
    /// how much its elders and the lack of places delay it.
    pub(super) fn commit(
        &mut self,
        arrival: Instant,
        physical: u64,
        more: Duration,
        bytes: u64,
    ) -> Duration {
        let Some(strict) = self.route(physical).strict else {
            return Duration::ZERO;
        };
        let commit = strict.commit + more;
        let strict = Strict { commit, ..strict };
        let elder = self.elder;
        let committed = self.machine().commit(arrival, elder, strict, bytes);
        self.elder = committed;
        self.elder - (arrival + commit)
    }

    /// Returns when the parts will have carried all writes, and all reads.
    pub(super) fn until(&self) -> [Instant; 2] {
        self.until
    }

    /// Returns how long each part of the machine was in use; the first card reports them.
    pub(super) fn usage(&self) -> Vec<Usage> {
        if self.is_first {
            self.machine().usage()
        } else {
            Vec::new()
        }
    }
}

fn beyond(route: &Route, way: &Way, start: Instant, until: Instant) -> Beyond {
    Beyond {
        start,
        until,
        longer: way.longer,
        shorter: way.shorter,
        has_llc: route.has_llc,
        crosses_root_port: route.crosses_root_port,
    }
}

/// The direction of an access, from the card's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It reads memory.
    Read,
    /// It writes memory.
    Write,
}
