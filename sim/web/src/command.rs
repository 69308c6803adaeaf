//! The command line and the preset file that give the same figures as the page.

use std::fmt::Write as _;

use ferroce_model::preset::{Parameter, Preset, Value as ParameterValue};
use ferroce_perf::options::{self, quoted};
use serde_json::{Value, json};

use crate::request::Request;

/// Name of the preset file in the command line.
pub const FILE: &str = "lab.toml";

/// Returns the command line that makes the same curve, and a preset file with the changes, with the
/// command line that uses it.
pub fn answer(request: &Request) -> Result<Value, String> {
    let file = File::new(request)?;
    Ok(json!({
        "command": line(&request.words()?),
        "toml": file.text,
        "toml_command": line(&file.request.words()?),
    }))
}

/// A preset file with the changes of a request.
struct File {
    text: String,
    /// The request that uses the file.
    request: Request,
}

impl File {
    fn new(request: &Request) -> Result<Self, String> {
        let (card, hosts) = match request.preset.split_once('@') {
            Some((card, hosts)) => (card, hosts),
            None => (request.preset.as_str(), ""),
        };
        let is_of_host = |name: &str| hosts.split('@').any(|host| host == name);
        let unchanged = options::preset(&request.preset, &[])?;
        let changed = options::preset(&request.preset, &request.set)?;
        let of_card = Preset::load(card).map_err(|error| error.to_string())?;
        let about = of_card.about().replace('"', "'");
        let mut text = format!("about = \"{about}, changed in the lab\"\ninherits = \"{card}\"\n");
        let (mut section, mut left) = (String::new(), request.set.clone());
        for (before, after) in unchanged.parameters().zip(changed.parameters()) {
            let is_set = |change: &String| key(change) == after.key;
            // The host profile is applied after the file, so what it states cannot be in the file.
            if left.iter().any(is_set) && !is_of_host(before.stated_by) {
                left.retain(|change| !is_set(change));
                entry(&mut text, &mut section, &after);
            }
        }
        let request = Request {
            preset: request.preset.replacen(card, FILE, 1),
            set: left,
            ..request.clone()
        };
        Ok(Self { text, request })
    }
}

/// Writes a parameter into the file, with the heading of its section if it is another one.
fn entry(text: &mut String, section: &mut String, parameter: &Parameter<'_>) {
    let (of, name) = parameter.key.rsplit_once('.').unwrap_or_default();
    // Writing to a string does not fail.
    if section != of {
        of.clone_into(section);
        let _ = writeln!(text, "\n[{of}]");
    }
    let value = match parameter.value {
        ParameterValue::Name(name) => format!("\"{name}\""),
        other => other.to_string(),
    };
    let source = "chosen in the lab";
    let _ = writeln!(
        text,
        "{name} = {{ value = {value}, origin = \"design\", source = \"{source}\" }}"
    );
}

/// Returns the key of a change.
fn key(change: &str) -> &str {
    change.split('=').next().unwrap_or_default().trim()
}

/// Returns a command line.
fn line(words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word));
    format!("ferroce perf {}", words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(preset: &str, set: &[&str]) -> Request {
        Request {
            test: "write_bw".into(),
            preset: preset.into(),
            set: set.iter().map(|change| (*change).to_owned()).collect(),
            all: true,
            ..Request::default()
        }
    }

    #[test]
    fn changes_of_the_card_go_into_the_file_and_those_of_the_host_do_not() {
        let changes = [
            "units.count=4",
            "cache.qpc.log_sets=3",
            "pcie.read_latency_ns=700",
        ];
        let file = File::new(&request("cx6-200g@epyc-hdr", &changes)).expect("legal");
        let expected = "about = \"ConnectX-6, 200 Gb/s, PCIe gen4 x16, changed in the lab\"\n\
            inherits = \"cx6-200g\"\n\n\
            [cache.qpc]\n\
            log_sets = { value = 3, origin = \"design\", source = \"chosen in the lab\" }\n\n\
            [units]\n\
            count = { value = 4, origin = \"design\", source = \"chosen in the lab\" }\n";
        assert_eq!(file.text, expected);
        assert_eq!(
            line(&file.request.words().expect("legal")),
            "ferroce perf write_bw --preset lab.toml@epyc-hdr --set pcie.read_latency_ns=700 --all"
        );
        let own = Preset::parse(FILE, &file.text).expect("a preset");
        assert_eq!((own.units.count, own.cache.qpc.log_sets), (4, 3));
    }

    #[test]
    fn a_shell_reads_words_as_they_are() {
        assert_eq!(quoted("pcie.lanes=8"), "pcie.lanes=8");
        assert_eq!(
            quoted("topology.switch.*.acs=true"),
            "'topology.switch.*.acs=true'"
        );
    }
}
