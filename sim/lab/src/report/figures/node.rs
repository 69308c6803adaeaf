//! Plots of a node with eight cards and eight GPUs: where payload lies, ACS, ATS and order.

use ferroce_model::preset::Preset;
use ferroce_model::preset::topology::Topology as Machine;
use ferroce_perf::pattern::Pattern;
use ferroce_perf::{Iterations, Location, Operation, PerfRow, PerfSpec, Placement, Test, Topology};

use super::{Content, Recipe, load, series, stamp};
use crate::reference::experiment::Simulator;
use crate::report::figure::{Axis, Figure, Kind, Series, Sizes};
use crate::report::machine;

/// Heading of the chapter.
pub const CHAPTER: &str = "A node with eight cards and eight GPUs";
const CARD: &str = "cx7-400g";
const NODE: &str = "cx7-400g@dgx-h100";
/// The machine whose root complex takes few strictly ordered writes.
const STRICT: &str = "cx7-400g@epyc-2socket";
/// Cards in use on the x axis of the first plot.
const CARDS: &[u32] = &[1, 2, 4, 8];
/// Cards in use in the other plots: all.
const ALL_CARDS: u32 = 8;
const SIZES: &[u32] = &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Size of the messages in the first plot.
const MESSAGE_BYTES: u32 = 256 << 10;
/// Bytes that each card sends: some 300 us at the rate of its cable.
const FLOW_BYTES: u32 = 16 << 20;
/// Messages of each card at least: several send queues.
const LEAST_MESSAGES: u32 = 64;

const NO_CHANGE: &[(&str, &str)] = &[];
const ACS: &[(&str, &str)] = &[("topology.switch.*.acs", "true")];
const ACS_AND_ATS: &[(&str, &str)] = &[
    ("topology.switch.*.acs", "true"),
    ("topology.card.*.ats", "true"),
];

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    recipe("node-cards", cards),
    recipe("node-sizes", sizes),
    recipe("node-order", order),
];

const fn recipe(id: &'static str, make: fn(&dyn Simulator) -> Result<Figure, String>) -> Recipe {
    Recipe {
        id,
        chapter: CHAPTER,
        cards: &[CARD],
        content: Content::Simulated(make),
    }
}

/// Returns the drawing of the node as an element of a page.
pub fn drawing() -> Option<String> {
    let node = load(NODE).ok()?;
    node.topology.as_deref().map(machine::element)
}

/// One line of a plot: a variant of the node, and where payload lies in it.
struct Variant {
    label: &'static str,
    /// Values that differ from the profile.
    changes: &'static [(&'static str, &'static str)],
    /// The memory of all buffers.
    memory: &'static str,
    root: Root,
    order: Order,
}

/// The root complex of a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The profile's root complex.
    Own,
    /// Of [`STRICT`].
    Strict,
}

/// The right of all regions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Strict,
    Relaxed,
}

impl Variant {
    const fn new(
        label: &'static str,
        memory: &'static str,
        changes: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            label,
            changes,
            memory,
            root: Root::Own,
            order: Order::Strict,
        }
    }

    const fn with_strict_root(self, order: Order) -> Self {
        Self {
            root: Root::Strict,
            order,
            ..self
        }
    }

    /// Returns the card in this variant of the node.
    fn preset(&self) -> Result<Preset, String> {
        let mut preset = load(NODE)?;
        let mut changes: Vec<(String, String)> = Vec::new();
        if self.root == Root::Strict {
            let other = load(STRICT)?;
            let values = other.topology.as_deref().and_then(order_of_root_port);
            changes.extend(values.ok_or("the other machine has no root port")?);
        }
        let own = self.changes.iter();
        changes.extend(own.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        for (key, value) in changes {
            preset
                .set(&key, &value)
                .map_err(|error| error.to_string())?;
        }
        Ok(preset)
    }

    /// Measures WRITEs of `bytes` from `cards` cards of one node to as many of another, and back.
    fn run(&self, simulator: &dyn Simulator, cards: u32, bytes: u32) -> Result<PerfRow, String> {
        let preset = self.preset()?;
        let location = Location::new(preset.topology.as_deref(), self.memory, cards)?;
        let mut spec = PerfSpec::new(preset, Operation::Write, Test::Bandwidth);
        spec.placement = Placement {
            local: location.clone(),
            remote: location,
            relaxed_order: self.order == Order::Relaxed,
            cards: if cards > 1 { cards } else { 0 },
            ..Placement::default()
        };
        spec.sizes = vec![bytes];
        let messages = (FLOW_BYTES / bytes).max(LEAST_MESSAGES);
        spec.iterations = Iterations::Exactly(u64::from(messages));
        spec.topology = Topology::Flows {
            hosts: 2 * cards,
            pattern: Pattern::Permutation,
        };
        let row = simulator.run(&spec)?.rows.into_iter().next();
        row.ok_or_else(|| "the run has no row".to_owned())
    }
}

/// Returns the keys and values of a machine's first root port that decide about order.
fn order_of_root_port(machine: &Machine) -> Option<Vec<(String, String)>> {
    let id = machine.elements().into_iter();
    let id = id.clone().find(|id| id.kind.name() == "root_port")?;
    let values = machine.values(id);
    let own = values
        .iter()
        .filter(|value| ["strict_writes", "commit_ns"].contains(&value.declaration.name));
    Some(
        own.map(|value| {
            let key = format!("topology.root_port.*.{}", value.declaration.name);
            (key, value.value.to_string())
        })
        .collect(),
    )
}

/// Returns the mean rate of the flows in Gb/s, from the first post to the last completion.
fn mean_gbps(row: &PerfRow) -> Result<f64, String> {
    let traffic = row.traffic.as_ref().ok_or("the run has no flows")?;
    let flows = traffic.flows.len() as f64;
    let bits = row.iterations as f64 / flows * f64::from(row.size) * 8.0;
    let rates = traffic.flows.iter();
    let rates = rates.map(|flow| bits * 1000.0 / flow.completion_ps.max(1) as f64);
    Ok(rates.sum::<f64>() / flows)
}

/// Lines of a plot, and a sentence about the bottleneck of each one's last point.
struct Lines {
    series: Vec<Series>,
    limits: String,
}

/// Measures each variant at each x; `point` returns cards and bytes.
fn lines(
    simulator: &dyn Simulator,
    variants: &[Variant],
    xs: &[u32],
    point: impl Fn(u32) -> (u32, u32),
) -> Result<Lines, String> {
    let mut all = Vec::new();
    let mut limits = Vec::new();
    for (color, variant) in variants.iter().enumerate() {
        let mut points = Vec::new();
        let mut limit = None;
        for x in xs {
            let (cards, bytes) = point(*x);
            let row = variant.run(simulator, cards, bytes)?;
            points.push((f64::from(*x), mean_gbps(&row)?));
            limit = row.utilisation.map(|it| it.bottleneck.to_string());
        }
        limits.extend(limit.map(|limit| format!("{}: {limit}", variant.label)));
        all.push(series(variant.label, color, Kind::Model, points));
    }
    Ok(Lines {
        series: all,
        limits: limits.join("; "),
    })
}

/// Texts of a plot.
struct Texts {
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
}

fn figure(texts: &Texts, x: Axis, lines: Lines) -> Result<Figure, String> {
    Ok(Figure {
        id: String::new(),
        title: texts.title.to_owned(),
        subtitle: texts.subtitle.to_owned(),
        caption: format!(
            "{} Limit at the right end: {}.",
            texts.caption, lines.limits
        ),
        x,
        y: Axis::linear("Gb/s of each card, each way"),
        series: lines.series,
        sizes: Sizes::None,
        commands: vec!["ferroce topology show dgx-h100".to_owned()],
        compared: None,
        stamp: stamp(&[&load(NODE)?]),
    })
}

/// Payload in the GPU of each card's switch, in the ways that ACS and ATS leave.
const OWN_GPU: [Variant; 3] = [
    Variant::new("own GPU", "gpu", NO_CHANGE),
    Variant::new("own GPU, ACS", "gpu", ACS),
    Variant::new("own GPU, ACS and ATS", "gpu", ACS_AND_ATS),
];

fn cards(simulator: &dyn Simulator) -> Result<Figure, String> {
    let [own, acs, ats] = OWN_GPU;
    let others = [
        Variant::new("memory of socket 0", "dram0", NO_CHANGE),
        Variant::new("GPU 0 for all cards", "gpu0", NO_CHANGE),
    ];
    let [memory, one] = others;
    let variants = [own, acs, ats, memory, one];
    let texts = Texts {
        title: "Two nodes that write to each other: cards in use",
        subtitle: "WRITE 256 KiB, both ways, 16 MiB of each card of 400 Gb/s; the model only",
        caption: "With ACS the packets between a card and its GPU go up to the root complex, which \
            reads slowly between its ports; translated requests (ATS) turn at the switch again. \
            Cards 4 to 7 are on socket 1, so they reach the memory of socket 0 over the link.",
    };
    let lines = lines(simulator, &variants, CARDS, |cards| (cards, MESSAGE_BYTES))?;
    figure(&texts, Axis::count("cards in use of each node"), lines)
}

fn sizes(simulator: &dyn Simulator) -> Result<Figure, String> {
    let texts = Texts {
        title: "Two nodes that write to each other: message size",
        subtitle: "all eight cards, both ways, payload in each card's own GPU; the model only",
        caption: "The switch decides, not the size of messages.",
    };
    let lines = lines(simulator, &OWN_GPU, SIZES, |bytes| (ALL_CARDS, bytes))?;
    figure(&texts, Axis::bytes("message"), lines)
}

fn order(simulator: &dyn Simulator) -> Result<Figure, String> {
    use Order::{Relaxed, Strict};
    let memory = |label| Variant::new(label, "dram0", NO_CHANGE);
    let gpu = |label| Variant::new(label, "gpu", ACS);
    let variants = [
        memory("memory of socket 0, strict").with_strict_root(Strict),
        memory("memory of socket 0, relaxed").with_strict_root(Relaxed),
        gpu("own GPU, ACS, strict").with_strict_root(Strict),
        gpu("own GPU, ACS, relaxed").with_strict_root(Relaxed),
    ];
    let texts = Texts {
        title: "The same node with the root complex of an EPYC: order of writes",
        subtitle: "all eight cards, both ways, strict or relaxed order of regions; the model only",
        caption: "This root complex has few strictly ordered writes under way. Regions with the \
            right to relaxed order have no such limit. The root complex of the profile has none \
            for either.",
    };
    let lines = lines(simulator, &variants, SIZES, |bytes| (ALL_CARDS, bytes))?;
    figure(&texts, Axis::bytes("message"), lines)
}
