//! Scenarios, from a seed or a TOML file.

use std::fmt;

use ferroce_faults::Plan;
use ferroce_model::preset::Preset;
use ferroce_units::Duration;
use ferroce_units::random::Random;
use ferroce_world::WorldConfig;
use toml::{Table, Value};

use crate::fault_plan;

/// Number of hosts of a scenario.
pub const HOSTS: std::ops::RangeInclusive<usize> = 2..=8;
/// Maximum connections of a scenario.
pub const MAX_CONNECTIONS: usize = 32;
/// Maximum operations of a scenario.
pub const MAX_OPERATIONS: usize = 512;
/// Maximum rounds of a scenario.
pub const MAX_ROUNDS: usize = 8;
/// Maximum factor of the lengths of messages.
pub const MAX_SCALE: usize = 8;
/// Maximum simulated time of a round, in milliseconds.
pub const MAX_LIMIT_MS: u64 = 100_000;
/// The preset without timing.
const FUNCTIONAL: &str = "functional";
/// The presets of random scenarios.
const PRESETS: [&str; 6] = [
    FUNCTIONAL,
    FUNCTIONAL,
    FUNCTIONAL,
    "cx5-100g",
    "fpga-100g",
    "irdma-10g",
];
/// Stream of random numbers for scenarios.
const STREAM: u64 = 1;

/// Reason why a scenario cannot be read or run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The file is not TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// The key is unknown.
    #[error("there is no key {key}")]
    Key {
        /// The key.
        key: String,
    },
    /// A value is invalid.
    #[error("{key} = {value}: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The expected value.
        expected: String,
    },
}

/// Weights of the kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// SENDs.
    pub send: u64,
    /// RDMA WRITEs.
    pub write: u64,
    /// RDMA READs.
    pub read: u64,
    /// Atomics.
    pub atomic: u64,
    /// Operations that make queue pairs fail: wrong keys, deregistration, transitions to ERR.
    pub disruption: u64,
}

impl Mix {
    /// Returns the weights by name, in the order of their use.
    pub(crate) fn weights(&self) -> [(&'static str, u64); 5] {
        [
            ("send", self.send),
            ("write", self.write),
            ("read", self.read),
            ("atomic", self.atomic),
            ("disruption", self.disruption),
        ]
    }

    fn weight(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "send" => &mut self.send,
            "write" => &mut self.write,
            "read" => &mut self.read,
            "atomic" => &mut self.atomic,
            "disruption" => &mut self.disruption,
            _ => return None,
        })
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            send: 8,
            write: 8,
            read: 5,
            atomic: 5,
            disruption: 0,
        }
    }
}

/// A random program and its world.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Determines all random choices.
    pub seed: u64,
    /// Number of hosts.
    pub hosts: usize,
    /// The card of all hosts.
    pub preset: String,
    /// Changes of its parameters, `KEY=VALUE`.
    pub set: Vec<String>,
    /// Packet faults.
    pub faults: Option<Plan>,
    /// Pairs of queue pairs.
    pub connections: usize,
    /// Total number of operations in all rounds.
    pub operations: usize,
    /// Factor of the lengths of messages, and of the memory that they use.
    pub scale: usize,
    /// Rounds; after each, memory is checked and failed queue pairs are reconnected.
    pub rounds: usize,
    /// The kinds of operations.
    pub mix: Mix,
    /// Numbers of the remaining operations; `None`: all.
    pub only: Option<Vec<usize>>,
    /// Maximum simulated time of a round.
    pub limit: Duration,
}

impl Scenario {
    /// Returns the random scenario of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let random = Random::new(seed, STREAM);
        let hosts = HOSTS.start() + skewed(&random, (HOSTS.end() - HOSTS.start()) as u64) as usize;
        let preset = random.one_of(&PRESETS);
        let is_disrupted = random.one_in(3);
        let connections = 1 + skewed(&random, 2 * hosts as u64) as usize;
        let rounds = 1 + random.below(3) as usize;
        let mut scenario = Self {
            seed,
            hosts,
            preset: preset.to_owned(),
            connections,
            operations: 8 + skewed(&random, 80) as usize,
            rounds,
            ..Self::default()
        };
        scenario.mix.disruption = u64::from(is_disrupted);
        scenario.faults = fault_plan::of_seed(seed, hosts);
        scenario
    }

    /// Parses the text of a TOML file. Missing values are taken from the scenario of its seed.
    ///
    /// # Errors
    /// [`ScenarioError`] describes the mistake.
    pub fn from_toml(text: &str, seed: Option<u64>) -> Result<Self, ScenarioError> {
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| ScenarioError::Toml(error.message().to_owned()))?;
        let seed = match (seed, table.get("seed")) {
            (Some(seed), _) => seed,
            (None, Some(value)) => number("seed", value, 0..=u64::MAX >> 1)?,
            (None, None) => 1,
        };
        let mut scenario = Self::of_seed(seed);
        for (key, value) in &table {
            scenario.set_key(key, value)?;
        }
        scenario.config()?;
        Ok(scenario)
    }

    fn set_key(&mut self, key: &str, value: &Value) -> Result<(), ScenarioError> {
        let count = |range: std::ops::RangeInclusive<usize>| {
            let range = *range.start() as u64..=*range.end() as u64;
            number(key, value, range).map(|number| number as usize)
        };
        match key {
            "seed" => {}
            "hosts" => self.hosts = count(HOSTS)?,
            "preset" => self.preset = text(key, value)?.to_owned(),
            "set" => self.set = list(key, value, |value| text(key, value).map(str::to_owned))?,
            "faults" => self.faults = plan(key, value)?,
            "connections" => self.connections = count(1..=MAX_CONNECTIONS)?,
            "operations" => self.operations = count(1..=MAX_OPERATIONS)?,
            "scale" => self.scale = count(1..=MAX_SCALE)?,
            "rounds" => self.rounds = count(1..=MAX_ROUNDS)?,
            "limit_ms" => self.limit = Duration::from_ms(number(key, value, 1..=MAX_LIMIT_MS)?),
            "only" => {
                let last = MAX_OPERATIONS as u64;
                let index = |value: &Value| number(key, value, 0..=last).map(|n| n as usize);
                self.only = Some(list(key, value, index)?);
            }
            "mix" => {
                let table = value.as_table();
                let table = table.ok_or_else(|| wrong(key, value, "a table of weights"))?;
                for (name, value) in table {
                    let weight = self.mix.weight(name).ok_or_else(|| ScenarioError::Key {
                        key: format!("mix.{name}"),
                    })?;
                    *weight = number(name, value, 0..=1000)?;
                }
            }
            _ => {
                let key = key.to_owned();
                return Err(ScenarioError::Key { key });
            }
        }
        Ok(())
    }

    /// Returns the configuration of its world.
    ///
    /// # Errors
    /// [`ScenarioError::Value`] for a preset or a parameter that does not exist.
    pub fn config(&self) -> Result<WorldConfig, ScenarioError> {
        let refused = |key: &str, value: &str, error: String| ScenarioError::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            expected: error,
        };
        let base = if self.preset == FUNCTIONAL && self.set.is_empty() {
            WorldConfig::functional(self.hosts)
        } else {
            let mut preset = Preset::load(&self.preset)
                .map_err(|error| refused("preset", &self.preset, error.to_string()))?;
            for change in &self.set {
                let (key, value) = change
                    .split_once('=')
                    .ok_or_else(|| refused("set", change, "KEY=VALUE".to_owned()))?;
                let changed = preset.set(key.trim(), value);
                changed.map_err(|error| refused("set", change, error.to_string()))?;
            }
            WorldConfig::timed(preset, self.hosts)
        };
        Ok(WorldConfig {
            seed: self.seed,
            faults: self.faults.clone(),
            ..base
        })
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            hosts: *HOSTS.start(),
            preset: FUNCTIONAL.to_owned(),
            set: Vec::new(),
            faults: None,
            connections: 1,
            operations: 16,
            scale: 1,
            rounds: 1,
            mix: Mix::default(),
            only: None,
            // A ConnectX reports a dead peer after 3.7 s, and a round may meet several.
            limit: Duration::from_ms(30_000),
        }
    }
}

/// Returns a number up to `most`, small ones more often.
fn skewed(random: &Random, most: u64) -> u64 {
    random.below(random.below(most + 1) + 1)
}

fn wrong(key: &str, value: &Value, expected: &str) -> ScenarioError {
    ScenarioError::Value {
        key: key.to_owned(),
        value: value.to_string(),
        expected: expected.to_owned(),
    }
}

fn number(
    key: &str,
    value: &Value,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ScenarioError> {
    let number = value.as_integer().and_then(|n| u64::try_from(n).ok());
    number.filter(|n| range.contains(n)).ok_or_else(|| {
        let (first, last) = range.into_inner();
        wrong(key, value, &format!("a number from {first} to {last}"))
    })
}

fn text<'a>(key: &str, value: &'a Value) -> Result<&'a str, ScenarioError> {
    value.as_str().ok_or_else(|| wrong(key, value, "a string"))
}

fn list<T>(
    key: &str,
    value: &Value,
    read: impl Fn(&Value) -> Result<T, ScenarioError>,
) -> Result<Vec<T>, ScenarioError> {
    let values = value
        .as_array()
        .ok_or_else(|| wrong(key, value, "a list"))?;
    values.iter().map(read).collect()
}

/// Parses a plan of faults; an empty string means none.
fn plan(key: &str, value: &Value) -> Result<Option<Plan>, ScenarioError> {
    let expression = text(key, value)?;
    if expression.is_empty() {
        return Ok(None);
    }
    let plan = expression.parse::<Plan>();
    plan.map(Some)
        .map_err(|error| wrong(key, value, &error.to_string()))
}

impl fmt::Display for Scenario {
    /// Prints the scenario as a TOML file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.as_ref().map(Plan::to_string);
        writeln!(f, "seed = {}", self.seed)?;
        writeln!(f, "hosts = {}", self.hosts)?;
        writeln!(f, "preset = {:?}", self.preset)?;
        if !self.set.is_empty() {
            writeln!(f, "set = {:?}", self.set)?;
        }
        writeln!(f, "faults = {:?}", faults.unwrap_or_default())?;
        writeln!(f, "connections = {}", self.connections)?;
        writeln!(f, "operations = {}", self.operations)?;
        writeln!(f, "scale = {}", self.scale)?;
        writeln!(f, "rounds = {}", self.rounds)?;
        writeln!(f, "limit_ms = {}", self.limit.as_ns() / 1_000_000)?;
        if let Some(only) = &self.only {
            writeln!(f, "only = {only:?}")?;
        }
        writeln!(f, "[mix]")?;
        for (name, weight) in self.mix.weights() {
            writeln!(f, "{name} = {weight}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_as_it_was_printed() {
        for seed in 0..200 {
            let mut scenario = Scenario::of_seed(seed);
            scenario.only = (seed % 2 == 0).then(|| vec![1, 5]);
            scenario.set = match seed % 3 {
                0 => vec!["units.count=2".to_owned()],
                _ => Vec::new(),
            };
            let read = Scenario::from_toml(&scenario.to_string(), None);
            assert_eq!(read.as_ref(), Ok(&scenario), "{scenario}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_key() {
        for (text, key) in [
            ("hosts = 1", "hosts"),
            ("hosts = \"two\"", "hosts"),
            ("host = 2", "host"),
            ("faults = \"los=1\"", "faults"),
            ("preset = \"none\"", "preset"),
            ("set = [\"units.count\"]", "set"),
            ("[mix]\nsends = 1", "mix.sends"),
            ("only = 3", "only"),
        ] {
            match Scenario::from_toml(text, None) {
                Err(
                    ScenarioError::Key { key: found } | ScenarioError::Value { key: found, .. },
                ) => {
                    assert_eq!(found, key, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
