//! The topology of a machine: sockets, root ports, switches, cards, GPUs, persistent memory.
//!
//! A host profile may have a `[topology]`; without one, a card has its own slot and one memory.
//!
//! ```toml
//! [topology.socket.0]
//! cores = { value = 64, origin = "data sheet", source = "…" }
//! …
//! [topology.root_port.0]
//! on = "socket.0"
//! …
//! [topology.card.0]
//! on = "root_port.0"
//! …
//! [topology.gpu.1]
//! on = "switch.0"
//! like = "gpu.0"              # its values, unless given here
//! ```

mod check;
pub mod distance;
mod elements;
mod file;
mod routes;
mod set;
#[cfg(test)]
mod tests;

use std::fmt;

pub use elements::{Card, Peer, RootPort, Socket, SocketLink, Switch};

use super::section::{Declaration, Section};
use super::{Origin, Provenance, Value};

/// Most elements of one kind.
pub const MAX_ELEMENTS: usize = 64;
/// Most sockets; NUMA nodes of a socket count as sockets.
pub const MAX_SOCKETS: usize = 16;

/// The kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Processor, memory controller and root complex: a NUMA node.
    Socket,
    /// A root port of a socket.
    RootPort,
    /// A PCIe switch.
    Switch,
    /// A slot with one of our cards.
    Card,
    /// A GPU whose memory cards can access.
    Gpu,
    /// Persistent memory behind PCIe.
    Nvm,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Socket,
        Self::RootPort,
        Self::Switch,
        Self::Card,
        Self::Gpu,
        Self::Nvm,
    ];

    /// Returns its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::RootPort => "root_port",
            Self::Switch => "switch",
            Self::Card => "card",
            Self::Gpu => "gpu",
            Self::Nvm => "nvm",
        }
    }

    /// Returns the kinds on which it can be.
    const fn permitted(self) -> &'static [Self] {
        match self {
            Self::Socket => &[],
            Self::RootPort => &[Self::Socket],
            Self::Switch | Self::Card | Self::Gpu | Self::Nvm => &[Self::RootPort, Self::Switch],
        }
    }
}

/// Names an element: `switch.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElementId {
    /// Its kind.
    pub kind: Kind,
    /// Its number within its kind.
    pub number: usize,
}

impl ElementId {
    /// Parses `switch.0`.
    fn parse(text: &str) -> Option<Self> {
        let (kind, number) = text.split_once('.')?;
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
        let number = number.parse().ok().filter(|n| *n < MAX_ELEMENTS)?;
        Some(Self { kind, number })
    }
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.name(), self.number)
    }
}

/// An element: its values, and the element on which it is.
#[derive(Debug, Clone)]
pub struct Element<S> {
    /// Its values.
    pub values: S,
    /// The socket of a root port, the root port or switch above the others; `None`: a socket.
    pub on: Option<ElementId>,
    provenance: Vec<Provenance>,
}

/// One value of an element.
#[derive(Debug, Clone, Copy)]
pub struct ElementValue<'a> {
    /// Its name, meaning and unit.
    pub declaration: &'static Declaration,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
    /// Citation, calculation or reason.
    pub source: &'a str,
}

/// A machine.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// The host profile that describes it.
    pub stated_by: String,
    /// NUMA nodes.
    pub sockets: Vec<Element<Socket>>,
    /// The link between each two sockets; `None`: there is only one socket.
    pub socket_link: Option<Element<SocketLink>>,
    /// Root ports.
    pub root_ports: Vec<Element<RootPort>>,
    /// Switches.
    pub switches: Vec<Element<Switch>>,
    /// Slots with cards of ours; the preset's `[pcie]` describes card and slot.
    pub cards: Vec<Element<Card>>,
    /// GPUs.
    pub gpus: Vec<Element<Peer>>,
    /// Persistent memories.
    pub nvms: Vec<Element<Peer>>,
}

/// Memory that a card can access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryTarget {
    /// The memory of a socket: `dram0`.
    Dram(usize),
    /// `gpu0`.
    Gpu(usize),
    /// `nvm0`.
    Nvm(usize),
}

impl MemoryTarget {
    /// Returns the element that has it.
    pub const fn element(self) -> ElementId {
        let (kind, number) = match self {
            Self::Dram(number) => (Kind::Socket, number),
            Self::Gpu(number) => (Kind::Gpu, number),
            Self::Nvm(number) => (Kind::Nvm, number),
        };
        ElementId { kind, number }
    }
}

impl fmt::Display for MemoryTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dram(number) => write!(f, "dram{number}"),
            Self::Gpu(number) => write!(f, "gpu{number}"),
            Self::Nvm(number) => write!(f, "nvm{number}"),
        }
    }
}

impl Topology {
    /// Returns all memories that cards can access, in the order of their numbers as targets: the
    /// first one is number 1, as number 0 is the memory near the card.
    pub fn targets(&self) -> impl Iterator<Item = MemoryTarget> + use<> {
        let (sockets, gpus, nvms) = (self.sockets.len(), self.gpus.len(), self.nvms.len());
        (0..sockets)
            .map(MemoryTarget::Dram)
            .chain((0..gpus).map(MemoryTarget::Gpu))
            .chain((0..nvms).map(MemoryTarget::Nvm))
    }

    /// Returns the memory with this name, and its number as a target.
    pub fn target(&self, name: &str) -> Option<(MemoryTarget, u8)> {
        let mut numbered = self.targets().zip(1..);
        numbered.find(|(target, _)| target.to_string() == name)
    }

    /// Returns the bytes of a memory that cards can reach; `None`: all of a socket's memory.
    pub fn reachable_bytes(&self, target: MemoryTarget) -> Option<u64> {
        let peer = self.peer(target)?;
        Some((peer.bar_gib * f64::from(1 << 30)) as u64)
    }

    /// Returns the values of a GPU or NVM; `None`: the memory of a socket.
    fn peer(&self, target: MemoryTarget) -> Option<&Peer> {
        match target {
            MemoryTarget::Dram(_) => None,
            MemoryTarget::Gpu(number) => Some(&self.gpus[number].values),
            MemoryTarget::Nvm(number) => Some(&self.nvms[number].values),
        }
    }

    /// Returns the element on which an element is.
    pub fn above(&self, id: ElementId) -> Option<ElementId> {
        fn on<S>(elements: &[Element<S>], number: usize) -> Option<ElementId> {
            elements.get(number)?.on
        }
        match id.kind {
            Kind::Socket => None,
            Kind::RootPort => on(&self.root_ports, id.number),
            Kind::Switch => on(&self.switches, id.number),
            Kind::Card => on(&self.cards, id.number),
            Kind::Gpu => on(&self.gpus, id.number),
            Kind::Nvm => on(&self.nvms, id.number),
        }
    }

    /// Returns the elements from the one above `id` up to its socket. The number of switches bounds
    /// it.
    fn chain(&self, id: ElementId) -> Vec<ElementId> {
        let first = self.above(id);
        std::iter::successors(first, |id| self.above(*id))
            .take(self.switches.len() + 2)
            .collect()
    }

    /// Returns all elements, kind by kind.
    pub fn elements(&self) -> Vec<ElementId> {
        let counts = [
            self.sockets.len(),
            self.root_ports.len(),
            self.switches.len(),
            self.cards.len(),
            self.gpus.len(),
            self.nvms.len(),
        ];
        let of_kind = |(kind, count)| (0..count).map(move |number| ElementId { kind, number });
        Kind::ALL
            .into_iter()
            .zip(counts)
            .flat_map(of_kind)
            .collect()
    }

    /// Returns the values of an element, in the order of declaration.
    pub fn values(&self, id: ElementId) -> Vec<ElementValue<'_>> {
        fn of<S: Section>(elements: &[Element<S>], number: usize) -> Vec<ElementValue<'_>> {
            elements.get(number).map_or_else(Vec::new, list)
        }
        match id.kind {
            Kind::Socket => of(&self.sockets, id.number),
            Kind::RootPort => of(&self.root_ports, id.number),
            Kind::Switch => of(&self.switches, id.number),
            Kind::Card => of(&self.cards, id.number),
            Kind::Gpu => of(&self.gpus, id.number),
            Kind::Nvm => of(&self.nvms, id.number),
        }
    }

    /// Returns the values of the link between sockets.
    pub fn socket_link_values(&self) -> Vec<ElementValue<'_>> {
        self.socket_link.as_ref().map_or_else(Vec::new, list)
    }

    /// Returns the declared values of all kinds of elements, each with the name of its kind; GPU
    /// and NVM have the same.
    pub fn declarations() -> impl Iterator<Item = (&'static str, &'static Declaration)> {
        let of = |name, declarations: &'static [Declaration]| {
            declarations.iter().map(move |one| (name, one))
        };
        of("socket", Socket::default().declarations())
            .chain(of("socket_link", SocketLink::default().declarations()))
            .chain(of("root_port", RootPort::default().declarations()))
            .chain(of("switch", Switch::default().declarations()))
            .chain(of("card", Card::default().declarations()))
            .chain(of("gpu, nvm", Peer::default().declarations()))
    }

    /// Returns how many elements of each kind there are, in one line.
    pub fn summary(&self) -> String {
        let all = self.elements();
        let count = |kind: Kind| all.iter().filter(|id| id.kind == kind).count();
        let parts = Kind::ALL.map(|kind| (count(kind), kind.name()));
        let some = parts.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<_> = some
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        texts.join(", ")
    }

    /// Returns all values with their keys, for a hash.
    pub(super) fn keyed_values(&self) -> Vec<(String, Value)> {
        let link = self.socket_link_values().into_iter();
        let link = link.map(|one| (format!("socket_link.{}", one.declaration.name), one.value));
        let mut all: Vec<_> = link.collect();
        for id in self.elements() {
            let on = self.above(id).map_or_else(String::new, |on| on.to_string());
            for one in self.values(id) {
                all.push((format!("{id}@{on}.{}", one.declaration.name), one.value));
            }
        }
        all
    }
}

/// Lists the values of an element.
fn list<S: Section>(element: &Element<S>) -> Vec<ElementValue<'_>> {
    let declarations = element.values.declarations().iter();
    let numbered = declarations.zip(&element.provenance).enumerate();
    let one = |(index, (declaration, from))| {
        let from: &Provenance = from;
        Some(ElementValue {
            declaration,
            value: element.values.get(index)?,
            origin: from.origin,
            source: &from.source,
        })
    };
    numbered.filter_map(one).collect()
}
