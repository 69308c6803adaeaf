//! Groups of parameters by design decision.

use std::fmt;

/// A group of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Clocks, and widths of the paths.
    Clocking,
    /// Caches, queues and buffers of the card.
    Memory,
    /// Processing units: their number, and their cost per item.
    Units,
    /// Cycles of the blocks before and after the units.
    Pipelines,
    /// The PCIe core, the slot and the DMA engine.
    Pcie,
    /// MAC, PCS and transceiver.
    Mac,
    /// Policy of the transport.
    Protocol,
    /// What software sees: interrupts, table sizes, identity.
    Software,
    /// Processor, memory, IOMMU, cable and switch: not decided by the designer.
    Host,
}

/// All groups, with their names and their decisions.
const ALL: [(Group, &str, &str); 9] = [
    (
        Group::Clocking,
        "clocking",
        "clocks, and widths of the paths: what timing closure gives",
    ),
    (
        Group::Memory,
        "memory",
        "caches, queues and buffers: block RAM and URAM",
    ),
    (
        Group::Units,
        "units",
        "processing units: how many, and what a packet costs them",
    ),
    (
        Group::Pipelines,
        "pipelines",
        "cycles of the other blocks: length, and distance between two items",
    ),
    (
        Group::Pcie,
        "pcie",
        "PCIe core, slot and DMA engine: lanes, tags, buffers",
    ),
    (Group::Mac, "mac", "MAC, PCS and transceiver"),
    (
        Group::Protocol,
        "protocol",
        "transport: MTU, windows, acknowledges, recovery",
    ),
    (
        Group::Software,
        "software",
        "what software sees: interrupts, sizes of tables, identity",
    ),
    (
        Group::Host,
        "host",
        "around the card: processor, memory, IOMMU, cable, switch",
    ),
];

/// Sections and parameters with their groups: the first match counts.
const PLACES: [(&str, Group); 33] = [
    ("clock", Group::Clocking),
    ("datapath.width_bits", Group::Clocking),
    ("datapath.cut_through", Group::Clocking),
    ("mac.width_bits", Group::Clocking),
    ("cache", Group::Memory),
    ("datapath.fetch_blocks", Group::Memory),
    ("datapath.fetch_slots", Group::Memory),
    ("datapath.egress_packets", Group::Memory),
    ("datapath.edge_items", Group::Memory),
    ("datapath.push_blocks", Group::Memory),
    ("datapath.atomic_units", Group::Memory),
    ("transport.reorder_buffer_bytes", Group::Memory),
    ("units", Group::Units),
    ("datapath.cqe_compression", Group::Software),
    ("datapath", Group::Pipelines),
    ("pcie.posted_header_credits", Group::Host),
    ("pcie.posted_data_credits", Group::Host),
    ("pcie.nonposted_header_credits", Group::Host),
    ("pcie.read_latency_ns", Group::Host),
    ("pcie.read_jitter_ns", Group::Host),
    ("pcie.read_tail_probability", Group::Host),
    ("pcie.read_tail_ns", Group::Host),
    ("pcie.rcb_bytes", Group::Host),
    ("pcie", Group::Pcie),
    ("mac", Group::Mac),
    ("transport", Group::Protocol),
    ("interrupt", Group::Software),
    ("limits", Group::Software),
    ("identity", Group::Software),
    ("memory", Group::Host),
    ("iommu", Group::Host),
    ("link", Group::Host),
    ("host", Group::Host),
];

impl Group {
    /// Returns all groups, in the order of the design process.
    pub fn all() -> impl Iterator<Item = Group> {
        ALL.iter().map(|&(group, ..)| group)
    }

    /// Returns the group of a parameter.
    pub fn of(key: &str) -> Group {
        let place = PLACES.iter().find(|(place, _)| is_at(key, place));
        place.map_or(Group::Host, |&(_, group)| group)
    }

    /// Returns the group of this name.
    pub fn from_name(name: &str) -> Option<Group> {
        let found = ALL.iter().find(|(_, other, _)| *other == name);
        found.map(|&(group, ..)| group)
    }

    /// Returns the decision of the group, in one line.
    pub fn about(self) -> &'static str {
        let found = ALL.iter().find(|(group, ..)| *group == self);
        found.map_or("", |&(_, _, about)| about)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ALL.iter().find(|(group, ..)| group == self);
        f.pad(found.map_or("", |&(_, name, _)| name))
    }
}

/// Returns true if `key` is `place` or below it.
fn is_at(key: &str, place: &str) -> bool {
    let rest = key.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    /// Goal: each parameter has an explicit group, and each entry of the table matches a parameter.
    #[test]
    fn each_parameter_has_a_group() {
        let preset = Preset::load("functional").expect("built in");
        let keys: Vec<String> = preset.parameters().map(|parameter| parameter.key).collect();
        let first = |key: &str| PLACES.iter().position(|(place, _)| is_at(key, place));
        for key in &keys {
            assert!(first(key).is_some(), "{key} has no group");
        }
        for (index, (place, _)) in PLACES.iter().enumerate() {
            let is_used = keys.iter().any(|key| first(key) == Some(index));
            assert!(is_used, "{place} is no parameter");
        }
    }

    #[test]
    fn groups_have_names_and_parameters() {
        let preset = Preset::load("functional").expect("built in");
        for group in Group::all() {
            assert_eq!(Group::from_name(&group.to_string()), Some(group));
            assert!(!group.about().is_empty());
            let mut of_group = preset.parameters();
            assert!(
                of_group.any(|parameter| parameter.group() == group),
                "{group}"
            );
        }
        assert_eq!(Group::from_name("pci"), None);
        assert_eq!(Group::of("datapath.width_bits"), Group::Clocking);
        assert_eq!(Group::of("datapath.fetch_cycles"), Group::Pipelines);
    }
}
