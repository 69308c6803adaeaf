//! What is permitted in a topology but will be slow, or is likely a mistake.

use ferroce_lab::report::machine::children;
use ferroce_model::pcie::tlp_gbps;
use ferroce_model::preset::Preset;
use ferroce_model::preset::topology::distance::Between;
use ferroce_model::preset::topology::{ElementId, Kind, MemoryTarget, Topology};

/// A part that is slower than this share of the card's slot is named.
const SLOW: f64 = 0.9;

/// Returns the notes about a machine, one line each.
pub fn notes(topology: &Topology, preset: &Preset) -> Vec<String> {
    let mut notes = Vec::new();
    let pcie = &preset.pcie;
    let slot = tlp_gbps(pcie.generation, pcie.lanes, pcie.mps_bytes);
    for id in topology.elements() {
        let is_empty = children(topology, id).is_empty();
        if is_empty && matches!(id.kind, Kind::RootPort | Kind::Switch) {
            notes.push(format!("{id}: nothing is on it"));
        }
        if id.kind == Kind::Switch {
            notes.extend(narrow_uplink(topology, id, slot, pcie.mps_bytes));
        }
    }
    for card in 0..topology.cards.len() {
        for (target, distance) in topology.distances(card, pcie) {
            let is_peer = !matches!(target, MemoryTarget::Dram(_));
            if is_peer && distance.read.is_none() && distance.write.is_some() {
                notes.push(format!(
                    "card.{card} can write to {target} but not read from it: sends from it fail \
                     with a protection error"
                ));
            }
            if let Some(strict) = distance
                .strict_write
                .filter(|reach| reach.gbps < SLOW * slot)
                && distance.write.is_some_and(|write| write.gbps > strict.gbps)
            {
                let gbps = strict.gbps;
                notes.push(format!(
                    "card.{card} to {target}: strictly ordered writes reach {gbps:.0} of \
                     {slot:.0} Gb/s; regions with relaxed ordering are faster"
                ));
            }
        }
    }
    notes.extend(redirected(topology, preset));
    notes
}

/// Returns a note if the cards on a switch have more bandwidth than its link to the host.
fn narrow_uplink(
    topology: &Topology,
    switch: ElementId,
    slot: f64,
    mps_bytes: u32,
) -> Option<String> {
    let cards = children(topology, switch).into_iter();
    let cards = cards.filter(|id| id.kind == Kind::Card).count();
    let values = &topology.switches[switch.number].values;
    let up = tlp_gbps(values.generation, values.lanes, mps_bytes);
    let wanted = slot * cards as f64;
    (wanted > up * 1.01).then(|| {
        format!(
            "{switch}: its link to the host carries {up:.0} Gb/s, its {cards} cards {wanted:.0}"
        )
    })
}

/// Returns notes about peers on one switch whose requests ACS sends through the root complex.
fn redirected(topology: &Topology, preset: &Preset) -> Vec<String> {
    let mut notes = Vec::new();
    for card in 0..topology.cards.len() {
        let of_card = topology.above(ElementId {
            kind: Kind::Card,
            number: card,
        });
        for (target, distance) in topology.distances(card, &preset.pcie) {
            let share = of_card == topology.above(target.element())
                && of_card.is_some_and(|on| on.kind == Kind::Switch);
            if share && !matches!(distance.between, Between::Pix | Between::Pxb) {
                notes.push(format!(
                    "card.{card} and {target} are on one switch, but ACS sends their requests \
                     through the root complex: switch it off, or give the card ATS"
                ));
            }
        }
    }
    notes
}
