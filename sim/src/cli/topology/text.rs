//! A machine as text.

use std::fmt::Write as _;

use ferroce_lab::report::machine::{children, summary};
use ferroce_model::pcie::machine::PartName;
use ferroce_model::preset::Preset;
use ferroce_model::preset::topology::distance::Reach;
use ferroce_model::preset::topology::{ElementId, Kind, Topology};
use ferroce_perf::json::parameter_value;
use ferroce_perf::utilisation::machine_label;
use serde_json::{Value, json};

/// Draws the machine as a tree.
pub fn tree(topology: &Topology) -> String {
    let mut text = String::new();
    let sockets = topology.elements().into_iter();
    for socket in sockets.filter(|id| id.kind == Kind::Socket) {
        branch(topology, socket, &Indent::default(), &mut text);
    }
    let link = topology.socket_link_values();
    if let [ns, gbps] = &link[..] {
        let (ns, gbps) = (ns.value, gbps.value);
        let _ = writeln!(text, "socket_link  {ns} ns, {gbps} Gb/s each way");
    }
    text
}

/// What stands before the lines of a branch.
#[derive(Default)]
struct Indent {
    /// Before its first line.
    first: String,
    /// Before the others.
    others: String,
}

/// Draws an element, and below it what is on it.
fn branch(topology: &Topology, id: ElementId, indent: &Indent, text: &mut String) {
    let line = format!("{}{id}  {}", indent.first, summary(topology, id));
    let _ = writeln!(text, "{}", line.trim_end());
    let children = children(topology, id);
    for (index, child) in children.iter().enumerate() {
        let (corner, trunk) = if index + 1 == children.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let indent = Indent {
            first: format!("{}{corner}", indent.others),
            others: format!("{}{trunk}", indent.others),
        };
        branch(topology, *child, &indent, text);
    }
}

/// Returns the distances from each card to each memory as a table.
pub fn distances(topology: &Topology, preset: &Preset) -> String {
    let mut text = format!(
        "{:8} {:8} {:4} {:>26} {:>26} {:>26}\n",
        "card", "memory", "", "read", "write", "strictly ordered write"
    );
    for card in 0..topology.cards.len() {
        for (target, distance) in topology.distances(card, &preset.pcie) {
            let (card, target) = (format!("card.{card}"), target.to_string());
            let between = distance.between.name();
            let _ = write!(text, "{card:8} {target:8} {between:4}");
            for reach in [distance.read, distance.write, distance.strict_write] {
                let cell = reach.map_or_else(|| "refused".to_owned(), |reach| cell(&reach));
                let _ = write!(text, " {cell:>26}");
            }
            let limit = distance.strict_write.or(distance.write).or(distance.read);
            if let Some(limit) = limit.and_then(|reach| reach.limit) {
                let _ = write!(text, "  {}", label(limit));
            }
            text.push('\n');
        }
    }
    text
}

fn cell(reach: &Reach) -> String {
    format!("{:.0} ns, {:.0} Gb/s", reach.latency_ns, reach.gbps)
}

fn label((name, number): PartName) -> String {
    machine_label(name, number).unwrap_or_else(|| name.to_owned())
}

/// Returns elements and distances as JSON.
pub fn json(topology: &Topology, preset: &Preset) -> Value {
    let elements = topology.elements().into_iter().map(|id| {
        let values = topology.values(id);
        let values = values.iter().map(|one| {
            json!({
                "name": one.declaration.name,
                "value": parameter_value(one.value),
                "origin": one.origin.to_string(),
                "source": one.source,
            })
        });
        json!({
            "name": id.to_string(),
            "on": topology.above(id).map(|on| on.to_string()),
            "values": values.collect::<Vec<_>>(),
        })
    });
    let reach = |reach: Option<Reach>| {
        reach.map(|reach| {
            json!({
                "latency_ns": reach.latency_ns,
                "gbps": reach.gbps,
                "limit": reach.limit.map(label),
            })
        })
    };
    let mut distances = Vec::new();
    for card in 0..topology.cards.len() {
        for (target, distance) in topology.distances(card, &preset.pcie) {
            distances.push(json!({
                "card": card,
                "memory": target.to_string(),
                "between": distance.between.name(),
                "read": reach(distance.read),
                "write": reach(distance.write),
                "strict_write": reach(distance.strict_write),
            }));
        }
    }
    json!({ "elements": elements.collect::<Vec<_>>(), "distances": distances })
}
