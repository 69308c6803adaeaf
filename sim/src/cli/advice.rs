//! The way out of a command line that is refused: clap says which options exclude each other, not
//! why.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Two options of `ferroce run` that exclude each other. The first may be one of several.
struct Conflict {
    options: &'static [&'static str],
    other: &'static str,
    advice: &'static str,
}

const SIMULATED: &[&str] = &["--timed", "--world"];

const CONFLICTS: &[Conflict] = &[
    Conflict {
        options: SIMULATED,
        other: "--capture",
        advice: "the network belongs to the world: `ferroce world --pcap FILE`, and `ferroce run \
                 --world SOCKET` for the programs, capture it",
    },
    Conflict {
        options: SIMULATED,
        other: "--patient",
        advice: "no time-out runs out because the machine is busy: simulated time waits for the \
                 programs; leave --patient out",
    },
    Conflict {
        options: SIMULATED,
        other: "--devices",
        advice: "a host of a world has one card; more hosts: `ferroce world --hosts N`, and --host \
                 nK chooses one",
    },
    Conflict {
        options: SIMULATED,
        other: "--functions",
        advice: "the functions of a card are part of the world: `ferroce world`, and --host nK.F \
                 chooses one",
    },
    Conflict {
        options: SIMULATED,
        other: "--port",
        advice: "a world has its own network, whose time is simulated, too; without --timed the \
                 program uses the wire",
    },
    Conflict {
        options: SIMULATED,
        other: "--icrc",
        advice: "packets of a world are whole unless a fault damages them (--faults corrupt=P); \
                 leave --icrc out",
    },
    Conflict {
        options: SIMULATED,
        other: "--address",
        advice: "hosts of a world have the addresses that `ferroce world` prints; leave --address \
                 out",
    },
    Conflict {
        options: &["--device"],
        other: "--patient",
        advice: "the time-outs are those of the card, or of the model in `ferroce serve`; longer \
                 ones are an attribute of the queue pair: `timeout` of ibv_modify_qp",
    },
    Conflict {
        options: &["--device"],
        other: "--capture",
        advice: "frames of a card are captured on the wire; of a model, `ferroce serve --capture \
                 FILE` captures them",
    },
];

/// Adds advice to an error, if there is some.
pub fn add(error: &mut Error) {
    let advice = match error.kind() {
        ErrorKind::ArgumentConflict => of_conflict(error),
        ErrorKind::MissingRequiredArgument => of_missing(error),
        _ => None,
    };
    if let Some(advice) = advice {
        let advice = StyledStr::from(advice);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![advice]),
        );
    }
}

fn of_conflict(error: &Error) -> Option<&'static str> {
    let given = [ContextKind::InvalidArg, ContextKind::PriorArg];
    let given: Vec<String> = given.iter().flat_map(|kind| names(error, *kind)).collect();
    let has = |name: &str| given.iter().any(|one| one == name);
    let is_it = |one: &&Conflict| has(one.other) && one.options.iter().any(|option| has(option));
    CONFLICTS.iter().find(is_it).map(|one| one.advice)
}

fn of_missing(error: &Error) -> Option<&'static str> {
    let missing = names(error, ContextKind::InvalidArg);
    match missing
        .iter()
        .map(String::as_str)
        .find(|name| ["--preset", "<PROGRAM>...", "<PRESET>"].contains(name))?
    {
        "<PROGRAM>..." => Some("for example: ferroce run -- ibv_devinfo"),
        _ => Some("`ferroce preset list` names the presets; for example cx5-100g"),
    }
}

/// Returns the arguments of an error, options without their values.
fn names(error: &Error, kind: ContextKind) -> Vec<String> {
    let name = |text: &String| text.split([' ', '=']).next().unwrap_or_default().to_owned();
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![name(text)],
        Some(ContextValue::Strings(texts)) => texts.iter().map(name).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let words = ["ferroce"].iter().chain(arguments);
        let mut error = crate::cli::Cli::try_parse_from(words).expect_err("refused");
        add(&mut error);
        error.to_string()
    }

    /// Goal: each conflict of the table exists, and is explained.
    #[test]
    fn conflicts_say_the_way_out() {
        for Conflict {
            options,
            other,
            advice,
        } in CONFLICTS
        {
            for option in *options {
                let value = if *other == "--patient" {
                    vec![]
                } else {
                    vec!["x"]
                };
                let icrc = if *other == "--icrc" {
                    vec!["on"]
                } else {
                    value
                };
                let words = [&["run", option, "x", other], &icrc[..], &["p"]].concat();
                let said = refused(&words);
                assert!(said.contains(advice), "{words:?}: {said}");
            }
        }
    }

    #[test]
    fn what_is_missing_has_an_example() {
        assert!(refused(&["run"]).contains("ferroce run -- ibv_devinfo"));
        assert!(refused(&["perf", "write_bw"]).contains("ferroce preset list"));
    }
}
