//! Presets: every parameter of a card and of its surroundings, each with its origin.
//!
//! A parameter is declared once, in [`card`] or [`surroundings`]: name, type, unit, permitted
//! values and meaning. The typed fields (`preset.pcie.read_latency_ns`), the flat list
//! ([`Preset::parameters`]), the file format ([`mod@file`]) and the documents are derived from
//! that. Presets are TOML files; the project's own presets are built in. A *host profile* sets only
//! the surroundings of a card, so that one card can be combined with several measured machines:
//! `cx6-200g@xeon-6240r`.

mod builtin;
pub mod card;
mod consistency;
pub mod costs;
pub mod error;
mod file;
pub mod group;
mod near;
mod nic;
mod pcie;
mod section;
mod stated;
pub mod surroundings;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod value;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use card::{Caches, Clock, Datapath, Identity, Interrupt, Limits, Mac, Transport, Units};
pub use error::PresetError;
pub use group::Group;
pub use section::Declaration;
use section::Section;
use stated::Statement;
use surroundings::{Host, Iommu, Link, Memory, Pcie};
use topology::Topology;
pub use value::{Kind, Range, RegionTranslation, Value};

/// If more than this share of a preset's values is guessed, its first line begins with `guessed:`.
pub const MOSTLY_GUESSED: f64 = 0.6;

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was measured on a card.
    Measured,
    /// It is from a data sheet or specification.
    DataSheet,
    /// It is calculated from measured values or data sheets; the source says how.
    Derived,
    /// It is a design decision about a card of this project.
    Design,
    /// No source is known; the text says why this value was chosen.
    Guess,
    /// The user set it for this run.
    User,
}

impl Origin {
    const ALL: [(Origin, &'static str); 6] = [
        (Origin::Measured, "measured"),
        (Origin::DataSheet, "data sheet"),
        (Origin::Derived, "derived"),
        (Origin::Design, "design"),
        (Origin::Guess, "guess"),
        (Origin::User, "user"),
    ];

    fn parse(text: &str) -> Option<Origin> {
        let found = Origin::ALL.iter().find(|(_, name)| *name == text);
        found.map(|&(origin, _)| origin)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Origin::ALL.iter().find(|(origin, _)| origin == self);
        f.pad(found.map_or("", |(_, name)| name))
    }
}

/// The origin of one parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Provenance {
    origin: Origin,
    source: Cow<'static, str>,
    /// The preset or host profile that states it; another one may inherit from that.
    stated_by: Cow<'static, str>,
}

/// One parameter of a preset.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter<'a> {
    /// Section and name: `cache.mtt.log_sets`.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Its meaning, unit and permitted values.
    pub declaration: &'static Declaration,
    /// Where the value comes from.
    pub origin: Origin,
    /// Citation, calculation or reason.
    pub source: &'a str,
    /// The preset or host profile that states the value.
    pub stated_by: &'a str,
}

impl Parameter<'_> {
    /// Returns the design decision to which it belongs.
    pub fn group(&self) -> Group {
        Group::of(&self.key)
    }
}

/// Declares [`Preset`] and the order of its sections.
macro_rules! preset {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty = { $( $path:literal => $($place:ident).+ ),+ };
    )+) => {
        /// Every parameter of a card and of its surroundings.
        #[derive(Debug, Clone)]
        pub struct Preset {
            name: String,
            about: String,
            /// By parameter, in the order of declaration.
            provenance: Vec<Provenance>,
            /// The machine around the card; `None`: its own slot and one memory.
            pub topology: Option<Arc<Topology>>,
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl Preset {
            /// Returns a preset with all values zero, for a file to fill.
            fn blank(name: &str) -> Preset {
                Preset {
                    name: name.to_owned(),
                    about: String::new(),
                    provenance: Vec::new(),
                    topology: None,
                    $( $field: <$type>::default(), )+
                }
            }

            fn sections(&self) -> impl Iterator<Item = (&'static str, &dyn Section)> {
                let all: Vec<(&'static str, &dyn Section)> =
                    vec![ $( $( ($path, &self.$($place).+), )+ )+ ];
                all.into_iter()
            }

            fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
                match path {
                    $( $( $path => Some(&mut self.$($place).+), )+ )+
                    _ => None,
                }
            }
        }
    };
}

preset! {
    /// Clock domains.
    clock: Clock = { "clock" => clock };
    /// Slot, way to host memory, DMA engine.
    pcie: Pcie = { "pcie" => pcie };
    /// Host memory.
    memory: Memory = { "memory" => memory };
    /// IOMMU.
    iommu: Iommu = { "iommu" => iommu };
    /// Caches of the card.
    cache: Caches = {
        "cache.qpc" => cache.qpc,
        "cache.cqc" => cache.cqc,
        "cache.srqc" => cache.srqc,
        "cache.responder" => cache.responder,
        "cache.mpt" => cache.mpt,
        "cache.mtt" => cache.mtt,
        "cache.wqe" => cache.wqe,
        "cache.receive" => cache.receive
    };
    /// Processing units.
    units: Units = { "units" => units };
    /// Widths, latencies and queue depths of the blocks.
    datapath: Datapath = { "datapath" => datapath };
    /// Policy of the transport.
    transport: Transport = { "transport" => transport };
    /// Interrupt moderation.
    interrupt: Interrupt = { "interrupt" => interrupt };
    /// The port.
    mac: Mac = { "mac" => mac };
    /// Cable and switch.
    link: Link = { "link" => link };
    /// The application's thread.
    host: Host = { "host" => host };
    /// How many objects there can be.
    limits: Limits = { "limits" => limits };
    /// What software takes the card for.
    identity: Identity = { "identity" => identity };
}

/// Position of a parameter: index over all of them, section, index in the section.
struct Place {
    index: usize,
    section: &'static str,
    field: usize,
    declaration: &'static Declaration,
}

impl Place {
    fn key(&self) -> String {
        format!("{}.{}", self.section, self.declaration.name)
    }
}

impl Preset {
    /// Loads the preset `name`: a built-in one or the path of a TOML file. After an `@` follows a
    /// host profile, built in or a file, that sets the surroundings of the card; there may be
    /// several.
    pub fn load(name: &str) -> Result<Preset, PresetError> {
        let mut parts = name.split('@');
        let mut preset = file::load_preset(parts.next().unwrap_or_default())?;
        for host in parts {
            file::apply_host(&mut preset, host)?;
        }
        preset.check()?;
        Ok(preset)
    }

    /// Parses a preset from the text of a file; messages use `name` for it.
    pub fn parse(name: &str, text: &str) -> Result<Preset, PresetError> {
        let preset = file::parse_preset(name, text)?;
        preset.check()?;
        Ok(preset)
    }

    /// Applies the host profile in the text of a file; messages use `name` for it.
    pub fn put_host(mut self, name: &str, text: &str) -> Result<Preset, PresetError> {
        file::apply_host_text(&mut self, name, text)?;
        self.check()?;
        Ok(self)
    }

    /// Returns the names of the built-in presets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::PRESETS.iter().map(|&(name, _)| name)
    }

    /// Returns the names of the built-in host profiles.
    pub fn hosts() -> impl Iterator<Item = &'static str> {
        builtin::HOSTS.iter().map(|&(name, _)| name)
    }

    /// Returns the description of a built-in host profile, in one line.
    pub fn about_host(name: &str) -> Option<String> {
        file::about_host(name)
    }

    /// Returns the name under which it was loaded.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its description, in one line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the share of its values that are guessed.
    pub fn guessed_share(&self) -> f64 {
        let guesses = |one: &Parameter<'_>| one.origin == Origin::Guess;
        self.parameters().filter(guesses).count() as f64 / self.parameters().count() as f64
    }

    /// Returns all parameters, in the order of declaration.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter<'_>> {
        self.places()
            .zip(&self.provenance)
            .map(|(place, from)| Parameter {
                key: place.key(),
                value: self.value(&place),
                declaration: place.declaration,
                origin: from.origin,
                source: &from.source,
                stated_by: &from.stated_by,
            })
    }

    /// Sets the parameter `key`, such as `cache.mtt.log_sets`, to the value in `text`.
    /// Of a topology it is the value of an element, `topology.switch.0.acs`, or of all elements of
    /// a kind, `topology.switch.*.acs`.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), PresetError> {
        if let Some(element) = key.strip_prefix("topology.") {
            return self.set_element(element, text.trim());
        }
        let place = self.place(key).ok_or_else(|| self.unknown_key("", key))?;
        let text = text.trim();
        let statement = Statement {
            file: "",
            stated_by: "user",
            key,
        };
        let value = place.declaration.parse(text);
        let value = statement.permitted(place.declaration, text, value)?;
        self.store(&place, value);
        self.provenance[place.index] = Provenance {
            origin: Origin::User,
            source: Cow::Borrowed("given for this run"),
            stated_by: Cow::Borrowed("user"),
        };
        Ok(())
    }

    fn set_element(&mut self, key: &str, text: &str) -> Result<(), PresetError> {
        let Some(topology) = &mut self.topology else {
            return Err(PresetError::Topology {
                file: self.name.clone(),
                element: key.chars().take(LONGEST_QUOTE).collect(),
                reason: "the preset has no topology; give a host profile with one".to_owned(),
            });
        };
        Arc::make_mut(topology).set(key, text)
    }

    /// Returns a hash of all values, the same on every machine. It ignores name and provenance.
    pub fn hash(&self) -> u64 {
        // FNV-1a, 64 bit.
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = OFFSET;
        let of_card = self.places().map(|place| (place.key(), self.value(&place)));
        let topology = self.topology.as_deref();
        let of_machine = topology.map_or_else(Vec::new, Topology::keyed_values);
        for (key, value) in of_card.chain(of_machine) {
            for byte in key.bytes().chain(value.to_bits().to_le_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
            }
        }
        hash
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let all = self.sections().flat_map(|(section, parameters)| {
            let declarations = parameters.declarations().iter().enumerate();
            declarations.map(move |(field, declaration)| (section, field, declaration))
        });
        all.enumerate()
            .map(|(index, (section, field, declaration))| Place {
                index,
                section,
                field,
                declaration,
            })
    }

    fn place(&self, key: &str) -> Option<Place> {
        let (section, name) = key.rsplit_once('.')?;
        let mut places = self.places();
        places.find(|place| place.section == section && place.declaration.name == name)
    }

    fn value(&self, place: &Place) -> Value {
        let mut sections = self.sections();
        let section = sections.find(|(name, _)| *name == place.section);
        let value = section.and_then(|(_, section)| section.get(place.field));
        value.expect("a place names a section and one of its parameters")
    }

    fn store(&mut self, place: &Place, value: Value) {
        if let Some(section) = self.section_mut(place.section) {
            section.set(place.field, value);
        }
    }

    fn unknown_key(&self, file: &str, key: &str) -> PresetError {
        let keys: Vec<String> = self.places().map(|place| place.key()).collect();
        PresetError::UnknownKey {
            place: prefix(file),
            key: key.chars().take(LONGEST_QUOTE).collect(),
            near: near::did_you_mean(key, keys.iter().map(String::as_str)),
        }
    }
}

/// Maximum number of letters of a wrong word that a message repeats.
const LONGEST_QUOTE: usize = 80;

fn prefix(file: &str) -> String {
    match file {
        "" => String::new(),
        file => format!("{file}: "),
    }
}

/// Returns the permitted values of a parameter, for messages.
fn expected(declaration: &Declaration) -> String {
    let Declaration {
        kind, unit, range, ..
    } = declaration;
    match (kind, unit) {
        (Kind::Flag, _) => range.to_string(),
        (_, &"") => format!("a {kind}: {range}"),
        _ => format!("a {kind} of {unit}: {range}"),
    }
}
