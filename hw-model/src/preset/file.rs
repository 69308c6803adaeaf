//! Presets as TOML files.
//!
//! ```toml
//! about = "My card"
//! inherits = "fpga-100g"      # else every parameter must be given
//!
//! [cache.qpc]
//! log_sets = { value = 10, origin = "design", source = "one URAM" }
//! ```

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value as Toml};

use super::near::did_you_mean;
use super::stated::Statement;
use super::topology::Topology;
use super::{LONGEST_QUOTE, Place, Preset, PresetError, Provenance, builtin, expected, prefix};

/// Maximum depth of inheritance.
const MAX_DEPTH: usize = 8;

/// Sections that a host profile may set: all surroundings of the card …
const HOST_SECTIONS: [&str; 4] = ["host", "memory", "iommu", "link"];
/// … and the parameters of the card that depend on its surroundings.
const HOST_KEYS: [&str; 16] = [
    "pcie.generation",
    "pcie.lanes",
    "pcie.mps_bytes",
    "pcie.mrrs_bytes",
    "pcie.rcb_bytes",
    "pcie.posted_header_credits",
    "pcie.posted_data_credits",
    "pcie.nonposted_header_credits",
    "pcie.read_latency_ns",
    "pcie.read_jitter_ns",
    "pcie.read_tail_probability",
    "pcie.read_tail_ns",
    "pcie.write_latency_ns",
    "pcie.mmio_write_ns",
    "mac.rate_gbps",
    "transport.path_mtu_bytes",
];

pub(super) fn load_preset(name: &str) -> Result<Preset, PresetError> {
    load_at_depth(name, None, 0)
}

pub(super) fn parse_preset(name: &str, text: &str) -> Result<Preset, PresetError> {
    parse_at_depth(name, text, None, 0)
}

/// Applies the host profile `name` to the surroundings of the card in `preset`.
pub(super) fn apply_host(preset: &mut Preset, name: &str) -> Result<(), PresetError> {
    let text: Cow<'_, str> = match builtin::find(builtin::HOSTS, name) {
        Some(text) => Cow::Borrowed(text),
        None if is_path(name) => Cow::Owned(read(Path::new(name))?),
        None => {
            return Err(PresetError::UnknownHost {
                name: quote(name),
                near: did_you_mean(name, Preset::hosts()),
                known: Preset::hosts().collect::<Vec<_>>().join(", "),
            });
        }
    };
    apply_host_text(preset, name, &text)
}

/// Applies the host profile in `text`; messages use `name` for it.
pub(super) fn apply_host_text(
    preset: &mut Preset,
    name: &str,
    text: &str,
) -> Result<(), PresetError> {
    let file = format!("host profile {name}");
    let table = parse_table(&file, text)?;
    let mut reader = Reader::new(preset, &file, name, Scope::Host);
    reader.read_file(&table)?;
    preset.name = format!("{}@{name}", preset.name);
    Ok(())
}

/// Returns the description in a built-in host profile.
pub(super) fn about_host(name: &str) -> Option<String> {
    let table: Table = builtin::find(builtin::HOSTS, name)?.parse().ok()?;
    Some(table.get("about")?.as_str()?.to_owned())
}

fn load_at_depth(name: &str, folder: Option<&Path>, depth: usize) -> Result<Preset, PresetError> {
    if depth > MAX_DEPTH {
        return Err(PresetError::TooDeep {
            file: quote(name),
            limit: MAX_DEPTH,
        });
    }
    if let Some(text) = builtin::find(builtin::PRESETS, name) {
        return parse_at_depth(name, text, None, depth);
    }
    if !is_path(name) {
        return Err(PresetError::UnknownPreset {
            name: quote(name),
            near: did_you_mean(name, Preset::names()),
            known: Preset::names().collect::<Vec<_>>().join(", "),
        });
    }
    let path = folder.map_or_else(|| name.into(), |folder| folder.join(name));
    parse_at_depth(name, &read(&path)?, path.parent(), depth)
}

/// Parses a preset. If it inherits from a file, that file is looked up in `folder`.
fn parse_at_depth(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    depth: usize,
) -> Result<Preset, PresetError> {
    let table = parse_table(name, text)?;
    let mut preset = match table.get("inherits") {
        None => Preset::blank(name),
        Some(Toml::String(parent)) => load_at_depth(parent, folder, depth + 1)?,
        Some(other) => {
            return Err(PresetError::Value {
                place: prefix(name),
                key: "inherits".to_owned(),
                value: quote(&other.to_string()),
                expected: "the name of a preset or the path of its file".to_owned(),
            });
        }
    };
    preset.name = name.to_owned();
    preset.about = match table.get("about") {
        Some(Toml::String(about)) => about.clone(),
        _ => String::new(),
    };
    Reader::new(&mut preset, name, name, Scope::All).read_file(&table)?;
    Ok(preset)
}

/// Returns true if `name` is a path: it has a separator or the ending of a file.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

fn read(path: &Path) -> Result<String, PresetError> {
    std::fs::read_to_string(path).map_err(|error| PresetError::Unreadable {
        file: path.display().to_string(),
        reason: error.to_string(),
    })
}

fn parse_table(file: &str, text: &str) -> Result<Table, PresetError> {
    text.parse()
        .map_err(|error: toml::de::Error| PresetError::Syntax {
            file: file.to_owned(),
            reason: error.to_string(),
        })
}

fn quote(text: &str) -> String {
    text.chars().take(LONGEST_QUOTE).collect()
}

/// The parameters that a file may set.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    All,
    Host,
}

/// Takes the parameters of one file into a preset.
struct Reader<'a> {
    preset: &'a mut Preset,
    file: &'a str,
    /// The name that [`super::Parameter::stated_by`] gives.
    name: &'a str,
    scope: Scope,
    /// By parameter: its provenance, once known.
    provenance: Vec<Option<Provenance>>,
}

impl<'a> Reader<'a> {
    fn new(preset: &'a mut Preset, file: &'a str, name: &'a str, scope: Scope) -> Self {
        let mut provenance: Vec<_> = preset.provenance.drain(..).map(Some).collect();
        provenance.resize(preset.places().count(), None);
        Reader {
            preset,
            file,
            name,
            scope,
            provenance,
        }
    }

    fn read_file(&mut self, table: &Table) -> Result<(), PresetError> {
        for (key, value) in table {
            match (key.as_str(), value) {
                ("about", Toml::String(_)) => {}
                ("inherits", _) if self.scope == Scope::All => {}
                ("topology", Toml::Table(topology)) if self.scope == Scope::Host => {
                    let topology = Topology::parse(self.file, topology)?;
                    self.preset.topology = Some(Arc::new(topology));
                }
                _ => self.read_entry(key, value)?,
            }
        }
        self.finish()
    }

    /// Reads an entry of the file at `key`: a parameter or a table.
    fn read_entry(&mut self, key: &str, value: &Toml) -> Result<(), PresetError> {
        if let Some(place) = self.preset.place(key) {
            return self.read_parameter(&place, value);
        }
        match value {
            Toml::Table(table) if self.is_section(key) => {
                let mut entries = table.iter();
                entries
                    .try_for_each(|(name, value)| self.read_entry(&format!("{key}.{name}"), value))
            }
            _ => Err(self.preset.unknown_key(self.file, key)),
        }
    }

    /// Returns true if there are parameters below `key`.
    fn is_section(&self, key: &str) -> bool {
        let mut sections = self.preset.sections();
        sections.any(|(path, _)| {
            let rest = path.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    fn read_parameter(&mut self, place: &Place, value: &Toml) -> Result<(), PresetError> {
        let key = place.key();
        if self.scope == Scope::Host && !is_of_host(place, &key) {
            return Err(PresetError::NotOfHost {
                file: self.file.to_owned(),
                key,
                permitted: format!("{}.*, {}", HOST_SECTIONS.join(".*, "), HOST_KEYS.join(", ")),
            });
        }
        let statement = Statement {
            file: self.file,
            stated_by: self.name,
            key: &key,
        };
        let (value, provenance) = statement.read(place.declaration, value)?;
        self.preset.store(place, value);
        self.provenance[place.index] = Some(provenance);
        Ok(())
    }

    /// Sets the provenance of the preset if every parameter has one.
    fn finish(&mut self) -> Result<(), PresetError> {
        let missing = self.provenance.iter().filter(|from| from.is_none()).count();
        if missing == 0 {
            self.preset.provenance = self.provenance.drain(..).flatten().collect();
            return Ok(());
        }
        let mut places = self.preset.places();
        let first = places.find(|place| self.provenance[place.index].is_none());
        let first = first.expect("there is a provenance for every place, and one is missing");
        Err(PresetError::Missing {
            file: self.file.to_owned(),
            key: first.key(),
            expected: expected(first.declaration),
            others: missing - 1,
        })
    }
}

fn is_of_host(place: &Place, key: &str) -> bool {
    HOST_SECTIONS.contains(&place.section) || HOST_KEYS.contains(&key)
}
