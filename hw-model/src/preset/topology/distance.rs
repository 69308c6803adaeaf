//! How far a memory is from a card: what lies between, latency, and the slowest part.

use ferroce_units::Duration;

use super::super::surroundings::Pcie;
use super::{ElementId, Kind, MemoryTarget, Topology};
use crate::pcie::machine::{LINE_BYTES, MachineParameters, PartName, Route, Way};
use crate::pcie::tlp_gbps;

/// What lies between a card and a memory, in the words of `nvidia-smi topo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// One switch.
    Pix,
    /// Several switches, and no root complex.
    Pxb,
    /// The root complex of their socket.
    Phb,
    /// The link between sockets.
    Sys,
}

impl Between {
    /// Returns its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}

/// What limits accesses, and how fast they are alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// 64 B on idle links.
    pub latency_ns: f64,
    /// Rate of large accesses of one card alone.
    pub gbps: f64,
    /// The part that limits it; `None`: the card's own slot.
    pub limit: Option<PartName>,
}

/// The way from a card to a memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// What lies between.
    pub between: Between,
    /// Reads; `None`: the root complex refuses them.
    pub read: Option<Reach>,
    /// Relaxed writes; `None`: the root complex drops them.
    pub write: Option<Reach>,
    /// Strictly ordered writes.
    pub strict_write: Option<Reach>,
}

impl Topology {
    /// Returns the distance from a card to each memory. `pcie`: its slot.
    pub fn distances(&self, card: usize, pcie: &Pcie) -> Vec<(MemoryTarget, Distance)> {
        let machine = self.machine(pcie);
        let routes = machine.routes.get(card).into_iter().flatten();
        // The first route is to the near memory, which has a name, too.
        let routes = routes.skip(1);
        let one = |(target, route): (MemoryTarget, &Route)| {
            let measure = Measure {
                machine: &machine,
                pcie,
            };
            let distance = Distance {
                between: self.between(card, target, route, &machine),
                read: route.read.as_ref().map(|way| measure.read(way)),
                write: route.write.as_ref().map(|way| measure.write(way)),
                strict_write: route.write.as_ref().map(|way| measure.strict(way, route)),
            };
            (target, distance)
        };
        self.targets().zip(routes).map(one).collect()
    }

    fn between(
        &self,
        card: usize,
        target: MemoryTarget,
        route: &Route,
        machine: &MachineParameters,
    ) -> Between {
        let card = ElementId {
            kind: Kind::Card,
            number: card,
        };
        let socket_of = |id: ElementId| {
            let top = self.chain(id).last().copied();
            top.unwrap_or(id).number
        };
        if socket_of(card) != socket_of(target.element()) {
            return Between::Sys;
        }
        let way = route.read.as_ref().or(route.write.as_ref());
        let crosses_root = self.peer(target).is_none()
            || way.is_none_or(|way| {
                let names = way.payload.iter().map(|part| machine.lanes[*part].name.0);
                names
                    .into_iter()
                    .any(|name| name.starts_with("root_complex"))
            });
        match way {
            Some(way) if !crosses_root && way.there.len() <= 1 => Between::Pix,
            Some(_) if !crosses_root => Between::Pxb,
            _ => Between::Phb,
        }
    }
}

struct Measure<'a> {
    machine: &'a MachineParameters,
    pcie: &'a Pcie,
}

impl Measure<'_> {
    fn read(&self, way: &Way) -> Reach {
        let slowest = self.slowest(way.back.iter().chain(&way.payload));
        let accepted = way.accepts.map(|(places, time)| {
            let places = self.machine.places[places];
            let bits = f64::from(places.places) * f64::from(self.pcie.mrrs_bytes) * 8.0;
            (Some(places.name), bits / ns(time))
        });
        let (limit, gbps) = least(slowest, accepted);
        Reach {
            latency_ns: different(self.pcie.read_latency_ns, way),
            gbps,
            limit,
        }
    }

    fn write(&self, way: &Way) -> Reach {
        let (limit, gbps) = self.slowest(way.there.iter().chain(&way.payload));
        Reach {
            latency_ns: different(self.pcie.write_latency_ns, way),
            gbps,
            limit,
        }
    }

    fn strict(&self, way: &Way, route: &Route) -> Reach {
        let write = self.write(way);
        let places = route.strict.map(|strict| {
            let places = self.machine.places[strict.places];
            let bits = f64::from(places.places) * LINE_BYTES as f64 * 8.0;
            (Some(places.name), bits / ns(strict.commit))
        });
        let (limit, gbps) = least((write.limit, write.gbps), places);
        Reach {
            gbps,
            limit,
            ..write
        }
    }

    /// Returns the slowest of the card's slot and these lanes.
    fn slowest<'a>(&self, lanes: impl Iterator<Item = &'a usize>) -> (Option<PartName>, f64) {
        let Pcie {
            generation,
            lanes: width,
            mps_bytes,
            ..
        } = *self.pcie;
        let slot = (None, tlp_gbps(generation, width, mps_bytes));
        lanes.fold(slot, |slowest, lane| {
            let lane = self.machine.lanes[*lane];
            least(slowest, Some((Some(lane.name), lane.gbps)))
        })
    }
}

type Limited = (Option<PartName>, f64);

fn least(one: Limited, other: Option<Limited>) -> Limited {
    match other {
        Some(other) if other.1 < one.1 => other,
        _ => one,
    }
}

fn ns(time: Duration) -> f64 {
    (time.as_ps() as f64 / 1000.0).max(0.001)
}

fn different(near_ns: f64, way: &Way) -> f64 {
    let difference = way.longer.as_ps() as f64 - way.shorter.as_ps() as f64;
    (near_ns + difference / 1000.0).max(0.0)
}
