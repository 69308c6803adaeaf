//! `ferroce preset`: the parameters of a card and its surroundings, and the source of each value.

use clap::{Args, Subcommand};
use ferroce_model::preset::{Group, Parameter, Preset};
use ferroce_perf::json::parameter_value;
use ferroce_perf::options::preset as load;
use serde_json::json;

use super::json::JsonOption;

/// Show the presets: every parameter of a card, with the source of its value.
#[derive(Debug, Subcommand)]
pub enum PresetCommand {
    List(List),
    Show(Show),
    Diff(Diff),
}

/// List the presets, the host profiles that can be put behind one, as in cx6-200g@epyc-hdr, and the
/// groups of parameters.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce preset list
  ferroce preset list --json")]
pub struct List {
    #[command(flatten)]
    json: JsonOption,
}

/// Print the parameters of a preset: value, unit, origin and source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce preset show cx5-100g
  ferroce preset show cx5-100g pcie")]
pub struct Show {
    /// A preset, or the path of a TOML file; with host profiles behind an @.
    preset: String,
    /// Print only parameters whose name begins with this: `pcie`, `cache.mtt`.
    #[arg(default_value = "", hide_default_value = true)]
    section: String,
    /// Print only parameters of this group, by what the designer of a card decides with them:
    /// `clocking`, `memory`, `units`, `pipelines`, `pcie`, `mac`, `protocol`, `software`, `host`
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<Group>,
    /// Change a parameter first; can be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the meaning of each parameter, instead of the source of its value.
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    json: JsonOption,
}

/// Print the parameters in which two presets differ.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce preset diff cx5-100g cx6-200g")]
pub struct Diff {
    /// A preset, or the path of a TOML file; with host profiles behind an @.
    left: String,
    /// Another.
    right: String,

    #[command(flatten)]
    json: JsonOption,
}

impl PresetCommand {
    /// Prints the requested list.
    pub fn execute(self) -> Result<(), String> {
        match self {
            PresetCommand::List(list) => list.execute(),
            PresetCommand::Show(show) => show.execute(),
            PresetCommand::Diff(diff) => diff.execute(),
        }
    }
}

impl List {
    fn execute(self) -> Result<(), String> {
        let mut presets = Vec::new();
        for name in Preset::names() {
            presets.push([name.to_owned(), load(name, &[])?.about().to_owned()]);
        }
        let hosts = Preset::hosts().map(|name| {
            let about = Preset::about_host(name).unwrap_or_default();
            [name.to_owned(), about]
        });
        let hosts: Vec<_> = hosts.collect();
        let groups = Group::all().map(|group| [group.to_string(), group.about().to_owned()]);
        let groups: Vec<_> = groups.collect();
        if self.json.prepare()? {
            println!("presets");
            print_indented(&presets);
            println!("\nhost profiles, to be put behind a preset: cx6-200g@epyc-hdr");
            print_indented(&hosts);
            println!("\ngroups of parameters, for ferroce preset show --group");
            print_indented(&groups);
        }
        let result = || {
            json!({
                "presets": named(&presets),
                "hosts": named(&hosts),
                "groups": named(&groups),
            })
        };
        self.json.write("preset list", result)
    }
}

/// Returns names with their descriptions, as JSON.
fn named(rows: &[[String; 2]]) -> serde_json::Value {
    let rows = rows.iter();
    rows.map(|[name, about]| json!({ "name": name, "about": about }))
        .collect()
}

fn print_indented(rows: &[[String; 2]]) {
    let rows = rows.iter();
    let rows = rows.map(|[name, about]| [format!("  {name}"), about.clone()]);
    print_aligned(&rows.collect::<Vec<_>>());
}

/// Parses the name of a group.
fn group(name: &str) -> Result<Group, String> {
    let names: Vec<String> = Group::all().map(|group| group.to_string()).collect();
    Group::from_name(name).ok_or_else(|| format!("the groups are {}", names.join(", ")))
}

impl Show {
    fn execute(self) -> Result<(), String> {
        let preset = load(&self.preset, &self.set)?;
        let row = |parameter: &Parameter<'_>| {
            let [key, value, unit] = value_columns(parameter);
            let (origin, source) = if self.explain {
                (String::new(), parameter.declaration.doc.to_owned())
            } else {
                (parameter.origin.to_string(), source(parameter, &preset))
            };
            [key, value, unit, origin, source]
        };
        let chosen = |parameter: &Parameter<'_>| {
            let group = self.group.unwrap_or(parameter.group());
            is_below(&parameter.key, &self.section) && parameter.group() == group
        };
        let parameters: Vec<_> = preset.parameters().filter(chosen).collect();
        if parameters.is_empty() {
            let section = &self.section;
            let of = self
                .group
                .map_or(String::new(), |group| format!("{group} of "));
            return Err(format!(
                "no parameter of {of}{} begins with {section}",
                self.preset
            ));
        }
        let result = || {
            json!({
                "name": preset.name(),
                "about": preset.about(),
                "hash": format!("{:016x}", preset.hash()),
                "parameters": parameters.iter().map(described).collect::<serde_json::Value>(),
            })
        };
        if self.json.prepare()? {
            println!("{}: {}", preset.name(), preset.about());
            println!("hash {:016x}\n", preset.hash());
            let rows = parameters.iter().map(row);
            print_aligned(&rows.collect::<Vec<_>>());
        }
        self.json.write("preset show", result)
    }
}

/// Returns a parameter as JSON.
fn described(parameter: &Parameter<'_>) -> serde_json::Value {
    json!({
        "key": parameter.key,
        "value": parameter_value(parameter.value),
        "unit": parameter.declaration.unit,
        "group": parameter.group().to_string(),
        "origin": parameter.origin.to_string(),
        "source": parameter.source,
        "stated_by": parameter.stated_by,
        "about": parameter.declaration.doc,
    })
}

impl Diff {
    fn execute(self) -> Result<(), String> {
        let (left, right) = (load(&self.left, &[])?, load(&self.right, &[])?);
        // All presets have the same parameters, in the same order.
        let both = left.parameters().zip(right.parameters());
        let different: Vec<_> = both
            .filter(|(left, right)| left.value != right.value)
            .collect();
        if self.json.prepare()? {
            print_different([left.name(), right.name()], &different);
        }
        let differences = different.iter().map(|(left, right)| {
            json!({
                "key": left.key,
                "left": parameter_value(left.value),
                "right": parameter_value(right.value),
                "unit": left.declaration.unit,
            })
        });
        let result = || {
            json!({
                "left": left.name(),
                "right": right.name(),
                "differences": differences.collect::<serde_json::Value>(),
            })
        };
        self.json.write("preset diff", result)
    }
}

fn print_different(names: [&str; 2], different: &[(Parameter<'_>, Parameter<'_>)]) {
    let [left, right] = names;
    let mut rows = vec![["parameter", left, right, "unit"].map(str::to_owned)];
    rows.extend(different.iter().map(|(left, right)| {
        let [key, value, unit] = value_columns(left);
        [key, value, right.value.to_string(), unit]
    }));
    match rows.len() {
        1 => println!("{left} and {right} are the same"),
        _ => print_aligned(&rows),
    }
}

fn value_columns(parameter: &Parameter<'_>) -> [String; 3] {
    [
        parameter.key.clone(),
        parameter.value.to_string(),
        parameter.declaration.unit.to_owned(),
    ]
}

/// Returns the source of a value, with the preset or host profile that states it if it is not this
/// one.
fn source(parameter: &Parameter<'_>, preset: &Preset) -> String {
    let stated_by = parameter.stated_by;
    match preset.name().split('@').next() {
        Some(name) if name == stated_by => parameter.source.to_owned(),
        _ => format!("{stated_by}: {}", parameter.source),
    }
}

/// Returns true if `key` is `section` or below it.
fn is_below(key: &str, section: &str) -> bool {
    let rest = key.strip_prefix(section);
    section.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Prints rows with aligned columns.
fn print_aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    for row in rows {
        let columns = row.iter().zip(widths);
        let columns = columns.filter(|(_, width)| *width > 0);
        let cells: Vec<String> = columns
            .map(|(text, width)| format!("{text:width$}"))
            .collect();
        println!("{}", cells.join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_a_whole_part_of_the_name() {
        assert!(is_below("cache.mtt.ways", ""));
        assert!(is_below("cache.mtt.ways", "cache"));
        assert!(is_below("cache.mtt.ways", "cache.mtt.ways"));
        assert!(!is_below("cache.mtt.ways", "cache.m"));
        assert!(!is_below("cache.mtt.ways", "pcie"));
    }

    #[test]
    fn a_source_names_the_file_that_states_it() {
        let preset = load("cx6-200g@epyc-hdr", &["pcie.lanes=8".to_owned()]).expect("built in");
        let find = |key: &str| {
            let mut parameters = preset.parameters();
            let found = parameters.find(|parameter| parameter.key == key);
            source(&found.expect("it is a parameter"), &preset)
        };
        assert_eq!(find("pcie.lanes"), "user: given for this run");
        assert!(find("pcie.rcb_bytes").starts_with("cx5-100g: "));
        assert!(find("pcie.read_latency_ns").starts_with("epyc-hdr: "));
        assert!(find("mac.rate_gbps").starts_with("ConnectX-6"));
    }

    #[test]
    fn a_group_is_named() {
        assert_eq!(group("units"), Ok(Group::Units));
        let refused = group("unit").expect_err("no group");
        assert!(refused.contains("clocking, memory, units"), "{refused}");
    }
}
