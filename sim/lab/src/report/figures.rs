//! The list of plots.
//!
//! - [`tables`]: perftest's tables: bandwidth, message rate and latency against size.
//! - [`scaling`]: rates against QPs, regions, threads and depth.
//! - [`pcie`]: DMA against size and window. [`loss`]: goodput under loss, and retransmission.
//!   [`congestion`]: several hosts that send to one. [`node`]: a machine with GPUs. [`fpga`]:
//!   datagrams of an FPGA card.
//! - [`real`]: the real perftest, if installed. [`blind`]: tables of a folder outside of the
//!   project. [`against`]: one card compared with another. [`runs`]: two runs of `ferroce perf`.

pub mod against;
pub mod blind;
pub mod congestion;
pub mod fpga;
pub mod loss;
pub mod node;
pub mod pcie;
pub mod real;
pub mod runs;
pub mod scaling;
pub mod tables;

use ferroce_model::preset::Preset;

use super::figure::{Figure, Kind, Series};
use crate::reference::experiment::{SEED, Simulator};

/// A plot that can be made.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// Name of its files.
    pub id: &'static str,
    /// Heading of its chapter on the page.
    pub chapter: &'static str,
    /// Cards that it shows.
    pub cards: &'static [&'static str],
    /// Its contents, as data.
    pub content: Content,
}

/// Contents of a plot.
#[derive(Clone, Copy)]
pub enum Content {
    /// Tables of perftest and the model.
    Tables(tables::Content),
    /// The rate against one number.
    Scaling(scaling::Content),
    /// DMA.
    Pcie(pcie::Content),
    /// The real perftest.
    Real(real::Content),
    /// A plot that a function makes with the harness.
    Simulated(fn(&dyn Simulator) -> Result<Figure, String>),
    /// A plot that a function makes without the harness.
    Alone(fn() -> Result<Figure, String>),
}

impl Recipe {
    /// Makes the plot. `real` runs the real perftest.
    pub fn make(
        &self,
        simulator: &dyn Simulator,
        real: Option<&dyn Simulator>,
    ) -> Result<Figure, String> {
        let figure = match &self.content {
            Content::Tables(content) => tables::make(simulator, content),
            Content::Scaling(content) => scaling::make(simulator, content),
            Content::Pcie(content) => pcie::make(content),
            Content::Real(content) => match real {
                Some(real) => real::make(simulator, real, content),
                None => Err("needs the real perftest".to_owned()),
            },
            Content::Simulated(make) => make(simulator),
            Content::Alone(make) => make(),
        };
        // The first line only: a dump of all waiting threads is useless on a page.
        let first = |error: String| error.lines().next().unwrap_or("").to_owned();
        let figure = figure.map_err(|error| format!("{}: {}", self.id, first(error)));
        let mut figure = figure?;
        self.id.clone_into(&mut figure.id);
        figure.commands.insert(0, self.command());
        Ok(figure)
    }

    /// Returns the command that makes the plot alone.
    fn command(&self) -> String {
        let real = match self.content {
            Content::Real(_) => " --perftest",
            _ => "",
        };
        format!("ferroce report --plot {}{real} --out report", self.id)
    }

    /// Returns true if it is about one of the `presets`, or if there are none.
    pub fn is_about(&self, presets: &[String]) -> bool {
        let card = |preset: &String| preset.split('@').next().unwrap_or("").to_owned();
        presets.is_empty()
            || presets
                .iter()
                .any(|preset| self.cards.contains(&card(preset).as_str()))
    }
}

/// Returns the plots of the real perftest.
pub fn of_real_perftest() -> &'static [Recipe] {
    real::RECIPES
}

/// Returns every other plot, in the order of the page.
pub fn all() -> Vec<Recipe> {
    let parts = [
        tables::RECIPES,
        scaling::RECIPES,
        pcie::RECIPES,
        loss::RECIPES,
        congestion::RECIPES,
        node::RECIPES,
        fpga::RECIPES,
    ];
    parts.concat()
}

/// Returns the drawing at the head of a chapter, as an element of a page.
pub fn drawing_of(chapter: &str) -> Option<String> {
    (chapter == node::CHAPTER).then(node::drawing).flatten()
}

/// Returns a preset by name.
fn load(name: &str) -> Result<Preset, String> {
    Preset::load(name).map_err(|error| error.to_string())
}

/// Returns the conditions of a plot: presets with hash, version, seed.
fn stamp(presets: &[&Preset]) -> String {
    let mut names: Vec<String> = Vec::new();
    for preset in presets {
        let name = format!("{} ({:08x})", preset.name(), preset.hash() >> 32);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    format!("{} · ferroce {version} · seed {SEED}", names.join(", "))
}

fn series(label: &str, color: usize, kind: Kind, points: Vec<(f64, f64)>) -> Series {
    Series {
        label: label.to_owned(),
        color,
        kind,
        points,
    }
}
