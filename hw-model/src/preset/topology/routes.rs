//! The routes of a topology: what each access of each card crosses.

use std::collections::BTreeMap;

use ferroce_units::Duration;

use super::super::surroundings::Pcie;
use super::super::value::nanoseconds;
use super::{ElementId, Kind, Peer, Topology};
use crate::pcie::machine::{
    LaneParameters, MachineParameters, PartName, PlacesParameters, Route, Strict, Way,
};
use crate::pcie::tlp_gbps;

impl Topology {
    /// Returns the parts that its cards share, and their routes. `pcie`: the slot of each card.
    pub fn machine(&self, pcie: &Pcie) -> MachineParameters {
        let mut compiler = Compiler {
            topology: self,
            pcie,
            machine: MachineParameters::default(),
            lanes: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        let routes = (0..self.cards.len()).map(|card| compiler.routes_of(card));
        let routes = routes.collect();
        MachineParameters {
            routes,
            ..compiler.machine
        }
    }
}

/// A link of the tree, by the element below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hop {
    Up(ElementId),
    Down(ElementId),
}

/// The way of requests from a card to memory.
#[derive(Debug, Default)]
struct Path {
    /// Links, without the card's own.
    hops: Vec<Hop>,
    /// Sockets between which it crosses.
    crossed: Option<(usize, usize)>,
    /// The root port of the card, if the root complex passes requests on to a peer.
    root_port: Option<usize>,
    /// From the card to the target, one way, on idle links.
    one_way_ns: f64,
}

struct Compiler<'a> {
    topology: &'a Topology,
    pcie: &'a Pcie,
    machine: MachineParameters,
    /// Indices of lanes and places that exist.
    lanes: BTreeMap<PartName, usize>,
    places: BTreeMap<PartName, usize>,
}

impl Compiler<'_> {
    /// Returns the routes of a card: to the near memory, then to all targets.
    fn routes_of(&mut self, number: usize) -> Vec<Route> {
        let kind = Kind::Card;
        let card = ElementId { kind, number };
        let near = self.dram_route(card, self.socket_of(card));
        let mut routes = vec![near];
        for target in self.topology.targets() {
            let id = target.element();
            routes.push(match self.topology.peer(target) {
                None => self.dram_route(card, id.number),
                Some(peer) => self.peer_route(card, id, peer),
            });
        }
        routes
    }

    /// Returns the route to the memory of a socket.
    fn dram_route(&mut self, card: ElementId, socket: usize) -> Route {
        let topology = self.topology;
        let own = self.socket_of(card);
        let up = self.switches_above(card).into_iter().map(Hop::Up);
        let crossed = (own != socket).then_some((own, socket));
        let distance = self.distance_ns(crossed);
        let memory = self.lane(
            ("dram", socket as u8),
            topology.sockets[socket].values.dram_gbps,
        );
        let mut way = self.links(&Path {
            hops: up.collect(),
            crossed,
            ..Path::default()
        });
        way.payload.push(memory);
        // A read goes there and back; a write is visible when it is there.
        let read = Way {
            longer: nanoseconds(2.0 * distance),
            ..way.clone()
        };
        let write = Way {
            longer: nanoseconds(distance),
            ..way
        };
        let port = self.root_port_of(card);
        let values = topology.root_ports[port].values;
        let strict = (values.strict_writes > 0).then(|| Strict {
            places: self.places(
                ("root_port_strict_writes", port as u8),
                values.strict_writes,
            ),
            // The owner of the line answers before the next one may be visible.
            commit: nanoseconds(values.commit_ns + 2.0 * distance),
        });
        Route {
            has_llc: true,
            crosses_root_port: true,
            read: Some(read),
            write: Some(write),
            strict,
        }
    }

    /// Returns the route to the memory of a GPU or another peer.
    fn peer_route(&mut self, card: ElementId, id: ElementId, peer: &Peer) -> Route {
        let path = self.path(card, id, peer);
        let names = peer_parts(id.kind);
        let number = id.number as u8;
        let mut way = self.links(&path);
        let served = self.places((names.requests, number), peer.read_requests);
        way.accepts = Some((served, nanoseconds(peer.read_ns)));
        let write_ns = path.one_way_ns + peer.write_ns - self.pcie.write_latency_ns;
        let read_ns = 2.0 * path.one_way_ns + peer.read_ns - self.pcie.read_latency_ns;
        let reads = self.lane((names.reads, number), peer.read_gbps);
        let writes = self.lane((names.writes, number), peer.write_gbps);
        let mut read = different(&way, read_ns);
        let mut write = different(&way, write_ns);
        read.payload.push(reads);
        write.payload.push(writes);
        let (mut allows_read, mut allows_write) = (true, true);
        if let Some(port) = path.root_port {
            let values = self.topology.root_ports[port].values;
            (allows_read, allows_write) = (values.p2p_read_gbps > 0.0, values.p2p_write_gbps > 0.0);
            let port = port as u8;
            let reads = self.lane(("root_complex_p2p_reads", port), values.p2p_read_gbps);
            let writes = self.lane(("root_complex_p2p_writes", port), values.p2p_write_gbps);
            read.payload.push(reads);
            write.payload.push(writes);
        }
        Route {
            has_llc: false,
            crosses_root_port: path.root_port.is_some(),
            read: allows_read.then_some(read),
            write: allows_write.then_some(write),
            strict: None,
        }
    }

    /// Returns the path to a peer: through the lowest switch above both, if that lets requests
    /// between peers pass; otherwise through the root complex.
    fn path(&self, card: ElementId, id: ElementId, peer: &Peer) -> Path {
        let (above_card, above_peer) = (self.switches_above(card), self.switches_above(id));
        let has_ats = self.topology.cards[card.number].values.ats;
        let common = above_card.iter().find(|one| above_peer.contains(one));
        let passes = |switch: &ElementId| {
            let values = &self.topology.switches[switch.number].values;
            !values.acs || has_ats
        };
        let below = |switches: &[ElementId], top: Option<&ElementId>| -> Vec<ElementId> {
            let lower = switches.iter().take_while(|one| Some(*one) != top);
            lower.copied().collect()
        };
        let top = common.filter(|switch| passes(switch));
        let (up, mut down) = (below(&above_card, top), below(&above_peer, top));
        down.reverse();
        let hops = up.iter().map(|one| Hop::Up(*one));
        let hops = hops.chain(down.iter().map(|one| Hop::Down(*one)));
        let hops = hops.chain([Hop::Down(id)]).collect();
        let (crossing_ns, links_ns) = (self.crossing_ns(&down), self.links_ns(&down));
        let down_ns = crossing_ns + links_ns + peer.link_ns;
        let Some(top) = top else {
            let (from, to) = (self.socket_of(card), self.socket_of(id));
            let crossed = (from != to).then_some((from, to));
            let port = self.root_port_of(card);
            let root_complex = self.topology.root_ports[port].values.p2p_ns;
            return Path {
                hops,
                crossed,
                root_port: Some(port),
                // As far as the root complex, a request takes as long as a store does back.
                one_way_ns: self.pcie.mmio_write_ns
                    + root_complex
                    + self.distance_ns(crossed)
                    + down_ns,
            };
        };
        let own = self.topology.cards[card.number].values.link_ns;
        let up_ns = self.crossing_ns(&up) + self.links_ns(&up) + own;
        Path {
            hops,
            one_way_ns: up_ns + self.crossing_ns(&[*top]) + down_ns,
            ..Path::default()
        }
    }

    /// Returns the links that requests cross towards the target, and completions back.
    fn links(&mut self, path: &Path) -> Way {
        let mut way = Way::default();
        for hop in &path.hops {
            let (id, is_up) = match hop {
                Hop::Up(id) => (*id, true),
                Hop::Down(id) => (*id, false),
            };
            let gbps = self.link_gbps(id);
            let names = link_parts(id.kind);
            let (there, back) = if is_up { names } else { (names.1, names.0) };
            let number = id.number as u8;
            way.there.push(self.lane((there, number), gbps));
            way.back.push(self.lane((back, number), gbps));
        }
        if let (Some((from, to)), Some(link)) = (path.crossed, &self.topology.socket_link) {
            let gbps = link.values.gbps;
            let count = self.topology.sockets.len();
            let pair = |from: usize, to: usize| ("socket_link", (from * count + to) as u8);
            way.there.push(self.lane(pair(from, to), gbps));
            way.back.push(self.lane(pair(to, from), gbps));
        }
        way
    }

    /// Returns the index of a lane, which exists from its first use on.
    fn lane(&mut self, name: PartName, gbps: f64) -> usize {
        let lanes = &mut self.machine.lanes;
        *self.lanes.entry(name).or_insert_with(|| {
            lanes.push(LaneParameters { name, gbps });
            lanes.len() - 1
        })
    }

    /// Returns the index of places, which exist from their first use on.
    fn places(&mut self, name: PartName, places: u32) -> usize {
        let all = &mut self.machine.places;
        *self.places.entry(name).or_insert_with(|| {
            all.push(PlacesParameters { name, places });
            all.len() - 1
        })
    }

    /// Returns the rate of the link above a switch or peer.
    fn link_gbps(&self, id: ElementId) -> f64 {
        let (generation, lanes) = match id.kind {
            Kind::Switch => {
                let values = &self.topology.switches[id.number].values;
                (values.generation, values.lanes)
            }
            Kind::Nvm => {
                let values = &self.topology.nvms[id.number].values;
                (values.generation, values.lanes)
            }
            _ => {
                let values = &self.topology.gpus[id.number].values;
                (values.generation, values.lanes)
            }
        };
        tlp_gbps(generation, lanes, self.pcie.mps_bytes)
    }

    fn crossing_ns(&self, switches: &[ElementId]) -> f64 {
        let one = |id: &ElementId| self.topology.switches[id.number].values.ns;
        switches.iter().map(one).sum()
    }

    fn links_ns(&self, switches: &[ElementId]) -> f64 {
        let one = |id: &ElementId| self.topology.switches[id.number].values.link_ns;
        switches.iter().map(one).sum()
    }

    fn distance_ns(&self, crossed: Option<(usize, usize)>) -> f64 {
        let link = self.topology.socket_link.as_ref();
        match (crossed, link) {
            (Some(_), Some(link)) => link.values.ns,
            _ => 0.0,
        }
    }

    /// Returns the switches above an element, the nearest first.
    fn switches_above(&self, id: ElementId) -> Vec<ElementId> {
        let chain = self.topology.chain(id).into_iter();
        chain.filter(|one| one.kind == Kind::Switch).collect()
    }

    fn root_port_of(&self, id: ElementId) -> usize {
        self.number_above(id, Kind::RootPort)
    }

    fn socket_of(&self, id: ElementId) -> usize {
        self.number_above(id, Kind::Socket)
    }

    /// Returns the number of the element of this kind above `id`; `check` has found one.
    fn number_above(&self, id: ElementId, kind: Kind) -> usize {
        let chain = self.topology.chain(id);
        let found = chain.iter().find(|one| one.kind == kind);
        found.map_or(0, |one| one.number)
    }
}

/// The parts of a peer.
struct PeerParts {
    requests: &'static str,
    reads: &'static str,
    writes: &'static str,
}

fn peer_parts(kind: Kind) -> PeerParts {
    if kind == Kind::Nvm {
        return PeerParts {
            requests: "nvm_read_requests",
            reads: "nvm_reads",
            writes: "nvm_writes",
        };
    }
    PeerParts {
        requests: "gpu_read_requests",
        reads: "gpu_reads",
        writes: "gpu_writes",
    }
}

/// Returns the names of the two directions of the link above an element: up and down.
fn link_parts(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Switch => ("switch_up", "switch_down"),
        Kind::Nvm => ("nvm_link_up", "nvm_link_down"),
        _ => ("gpu_link_up", "gpu_link_down"),
    }
}

/// Returns a way whose latency differs by `ns` from that of the near LLC.
fn different(way: &Way, ns: f64) -> Way {
    let [longer, shorter] = [ns, -ns].map(|ns| {
        if ns > 0.0 {
            nanoseconds(ns)
        } else {
            Duration::ZERO
        }
    });
    Way {
        longer,
        shorter,
        ..way.clone()
    }
}
