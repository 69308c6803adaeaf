//! Machines with several cards: what the cards of a machine share.

use std::collections::BTreeMap;

use ferroce_model::pcie::machine::{Attachment, Machine};
use ferroce_model::time::timing::Timing;

use super::config::WorldConfig;
use super::node::Node;

/// Attaches the cards of each machine to what they share. A host of the world is a card; the cards
/// of a machine are consecutive.
pub(super) fn attach<T: Timing>(config: &WorldConfig, nodes: &mut [Node<T>]) {
    let mut machines = BTreeMap::new();
    for (host, node) in nodes.iter_mut().enumerate() {
        let Some(preset) = config.preset_of(host) else {
            continue;
        };
        let (Some(topology), Some(pcie)) = (&preset.topology, &mut node.host.pcie) else {
            continue;
        };
        let parameters = topology.machine(&preset.pcie);
        let (machine, card) = config.card_of(host);
        let shared = machines
            .entry(machine)
            .or_insert_with(|| Machine::new(&parameters));
        pcie.attach(Attachment::new(shared.clone(), &parameters, card));
    }
}
