//! `ferroce topology`: the machines of host profiles.

mod notes;
mod text;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ferroce_lab::report::machine;
use ferroce_model::preset::Preset;
use ferroce_model::preset::topology::Topology;
use serde_json::{Value, json};

use super::json::JsonOption;

/// The card with which a host profile alone is shown.
const USUAL_CARD: &str = "cx7-400g";

/// Show machines: sockets, switches, cards and GPUs of a host profile, and how far memory is from
/// each card.
#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    List(List),
    Show(Show),
    Check(Check),
}

/// List the host profiles that have a topology.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce topology list")]
pub struct List {
    #[command(flatten)]
    json: JsonOption,
}

/// Draw the machine of a host profile, and print how far each memory is from each card.
///
/// PIX: one switch is between them. PXB: several. PHB: the root complex of their socket. SYS: the
/// link between sockets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce topology show dgx-h100
  ferroce topology show my-node.toml --svg my-node.svg")]
pub struct Show {
    /// A host profile or the path of a TOML file; or a preset with it, as in cx7-400g@dgx-h100
    machine: String,
    /// Write the drawing to a file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    json: JsonOption,
}

/// Check the topology of a host profile: name what is inconsistent, and what will be slow.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce topology check workstation-root-complex
  ferroce topology check my-node.toml")]
pub struct Check {
    /// A host profile or the path of a TOML file; or a preset with it, as in cx7-400g@dgx-h100
    machine: String,
}

impl TopologyCommand {
    /// Prints what is asked for.
    pub fn execute(self) -> Result<(), String> {
        match self {
            Self::List(list) => list.execute(),
            Self::Show(show) => show.execute(),
            Self::Check(check) => check.execute(),
        }
    }
}

/// Returns a card in the machine of this name.
fn load(name: &str) -> Result<(Preset, std::sync::Arc<Topology>), String> {
    let with_card = if name.contains('@') {
        name.to_owned()
    } else {
        format!("{USUAL_CARD}@{name}")
    };
    let preset = Preset::load(&with_card).map_err(|error| error.to_string())?;
    match preset.topology.clone() {
        Some(topology) => Ok((preset, topology)),
        None => Err(format!(
            "{name}: the host profile has no topology; `ferroce topology list` shows those that do"
        )),
    }
}

impl List {
    fn execute(self) -> Result<(), String> {
        let profiles = Preset::hosts().filter_map(|name| {
            let (_, topology) = load(name).ok()?;
            let about = Preset::about_host(name).unwrap_or_default();
            Some((name, about, topology.summary()))
        });
        let profiles: Vec<_> = profiles.collect();
        if self.json.prepare()? {
            for (name, about, summary) in &profiles {
                println!("{name:22} {summary}\n{:22} {about}", "");
            }
        }
        let result = || {
            let all = profiles.iter();
            let all = all.map(|(name, about, summary)| {
                json!({ "name": name, "about": about, "elements": summary })
            });
            Value::Array(all.collect())
        };
        self.json.write("topology list", result)
    }
}

impl Show {
    fn execute(self) -> Result<(), String> {
        let (preset, topology) = load(&self.machine)?;
        if let Some(file) = &self.svg {
            std::fs::write(file, machine::file(&topology))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        if self.json.prepare()? {
            print!("{}", text::tree(&topology));
            print!("\n{}", text::distances(&topology, &preset));
        }
        self.json
            .write("topology show", || text::json(&topology, &preset))
    }
}

impl Check {
    fn execute(self) -> Result<(), String> {
        let (preset, topology) = load(&self.machine)?;
        println!("{}: {}", self.machine, topology.summary());
        for note in notes::notes(&topology, &preset) {
            println!("note: {note}");
        }
        Ok(())
    }
}
