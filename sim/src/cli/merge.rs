//! `ferroce merge`: prints what a command prints, from the results of its shards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};

use super::json::JsonOption;
use super::shard::Shard;
use super::shard::document::{Document, Run};
use super::{Cli, Command, EXIT_FAILURE, VERSION, report_error};

/// Maximum number of missing shards that a message names.
const NAMED_MAX: usize = 20;

/// Print what a command prints, from the documents of all its shards (--shard I/N).
///
/// Prints the same bytes as the command without --shard, and ends with the same exit code. All
/// files must be of one run: the same arguments, version and inputs. A shard that is missing is
/// named with the command that runs it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce sim --seeds 1000 --shard 1/2 > one.json
  ferroce sim --seeds 1000 --shard 2/2 > two.json
  ferroce merge one.json two.json
  ferroce merge one.json two.json --json

The chapter \"A night's sweep on a cluster\" has recipes for GNU parallel and Slurm.")]
pub struct Merge {
    /// The documents of all shards
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    json: JsonOption,
}

impl Merge {
    /// Reads the files and executes their command.
    pub fn execute(self) -> ExitCode {
        match self.command() {
            Ok(command) => command.execute(),
            Err(error) => report_error(&error, EXIT_FAILURE),
        }
    }

    /// Returns the command of the files with its results.
    fn command(&self) -> Result<Cli, String> {
        let mut read = Vec::new();
        let mut unread = Vec::new();
        for path in &self.files {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| error.to_string());
            match text.and_then(|text| Document::parse(&text)) {
                Ok(document) => read.push((name, document)),
                Err(reason) => unread.push(format!("{name}: {reason}")),
            }
        }
        let whole = whole(read, &unread)?;
        let arguments = whole.run.arguments.iter().map(OsString::from);
        let words = [OsString::from("ferroce")].into_iter().chain(arguments);
        let words = words.chain(self.json.words());
        let cli = Cli::try_parse_from(words).unwrap_or_else(|error| error.exit());
        with_results(cli, whole)
    }
}

/// Returns the command with its results.
fn with_results(mut cli: Cli, whole: Document) -> Result<Cli, String> {
    let shard = match &mut cli.command {
        Command::Perf(perf) => &mut perf.shard,
        Command::Compare(compare) => &mut compare.shard,
        Command::Validate(validate) => &mut validate.shard,
        Command::Sim(sim) => &mut sim.shard,
        _ => return Err(format!("{} has no shards", whole.run.line())),
    };
    shard.take_from(whole);
    Ok(cli)
}

/// Joins the documents of all shards of a run. `unread` has files that are none, with the reason.
fn whole(read: Vec<(String, Document)>, unread: &[String]) -> Result<Document, String> {
    let Some((first, reference)) = read.first().cloned() else {
        return Err(unread.join("\n"));
    };
    if reference.run.build != VERSION {
        return Err(format!(
            "{first} is of ferroce {}, and this is {VERSION}: run and merge all shards with one \
             version",
            reference.run.build
        ));
    }
    let mut shards: BTreeMap<usize, (String, Document)> = BTreeMap::new();
    for (name, document) in read {
        check_same(&first, &reference, &name, &document)?;
        let (number, count) = (document.shard.number(), document.shard.count());
        match shards.get(&number) {
            Some((other, same)) if *same != document => {
                return Err(format!(
                    "{other} and {name} are both shard {number}/{count}, with different results; \
                     the same shard has the same results each time, so one of them is damaged"
                ));
            }
            _ => drop(shards.insert(number, (name, document))),
        }
    }
    let Document { run, shard, .. } = reference;
    check_complete(&run, shard.count(), &shards, unread)?;
    let mut parts: Vec<_> = shards
        .into_values()
        .map(|(_, document)| document.results.into_iter())
        .collect();
    // Piece i is the next one of shard i modulo N, so the parts are taken by turns.
    let count = parts.len();
    let results = (0..run.pieces).map_while(|index| parts[index % count].next());
    let results = results.collect();
    let shard = Shard::WHOLE;
    Ok(Document {
        run,
        shard,
        results,
    })
}

/// Fails if `document`, of the file `name`, is not of the run of `reference`, of the file `first`.
fn check_same(
    first: &str,
    reference: &Document,
    name: &str,
    document: &Document,
) -> Result<(), String> {
    let (run, other) = (&reference.run, &document.run);
    if other.arguments != run.arguments {
        return Err(format!(
            "{first} and {name} are of different runs:\n  {}\n  {}",
            run.line(),
            other.line()
        ));
    }
    if other.build != run.build {
        return Err(format!(
            "{first} is of ferroce {}, and {name} of {}: run all shards with one version",
            run.build, other.build
        ));
    }
    if other != run {
        return Err(format!(
            "{first} and {name} were computed from different inputs: a file that {} names has \
             changed between them, or differs between machines",
            run.line()
        ));
    }
    if document.shard.count() != reference.shard.count() {
        return Err(format!(
            "{first} is shard {}, and {name} is shard {}: shards of one run have the same N",
            reference.shard, document.shard
        ));
    }
    Ok(())
}

/// Fails if a shard is missing, with the command that runs it.
fn check_complete(
    run: &Run,
    count: usize,
    shards: &BTreeMap<usize, (String, Document)>,
    unread: &[String],
) -> Result<(), String> {
    let missing: Vec<_> = (1..=count)
        .filter(|number| !shards.contains_key(number))
        .collect();
    if missing.is_empty() && unread.is_empty() {
        return Ok(());
    }
    let mut lines = unread.to_vec();
    for number in missing.iter().take(NAMED_MAX) {
        lines.push(format!(
            "shard {number}/{count} is missing; this runs it:\n  {} --shard {number}/{count}",
            run.line()
        ));
    }
    if missing.len() > NAMED_MAX {
        lines.push(format!("{} more are missing", missing.len() - NAMED_MAX));
    }
    Err(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::shard::document::tests::shard;
    use super::*;

    fn named(documents: Vec<Document>) -> Vec<(String, Document)> {
        let names = ["a", "b", "c", "d"].map(str::to_owned).into_iter();
        names.zip(documents).collect()
    }

    fn refusal(documents: Vec<Document>) -> String {
        whole(named(documents), &[]).expect_err("refused")
    }

    #[test]
    fn pieces_stand_in_their_order() {
        for documents in [
            vec![shard(1, 1)],
            vec![shard(3, 3), shard(1, 3), shard(2, 3)],
            vec![shard(2, 2), shard(1, 2), shard(2, 2)],
        ] {
            let whole = whole(named(documents), &[]).expect("complete");
            assert_eq!(whole, shard(1, 1));
        }
    }

    #[test]
    fn a_missing_shard_is_named_with_its_command() {
        let error = refusal(vec![shard(1, 3), shard(3, 3)]);
        let expected = "shard 2/3 is missing; this runs it:\n  ferroce sim --seeds 4 --shard 2/3";
        assert_eq!(error, expected);
        let many = refusal(vec![shard(1, 100)]);
        assert!(many.ends_with("79 more are missing"), "{many}");
        let unread = ["x: it is empty".to_owned()];
        let error = whole(named(vec![shard(1, 1)]), &unread).expect_err("refused");
        assert_eq!(error, "x: it is empty");
    }

    #[test]
    fn shards_of_other_runs_are_refused() {
        let changed = |change: fn(&mut Document)| {
            let mut document = shard(2, 2);
            change(&mut document);
            refusal(vec![shard(1, 2), document])
        };
        for (error, words) in [
            (
                changed(|it| it.run.arguments[2] = "5".to_owned()),
                "different runs:\n  ferroce sim --seeds 4\n  ferroce sim --seeds 5",
            ),
            (
                changed(|it| it.run.build = "0".to_owned()),
                "b of 0: run all shards with one version",
            ),
            (
                changed(|it| it.run.inputs = "1".to_owned()),
                "from different inputs",
            ),
            (changed(|it| it.shard = shard(2, 3).shard), "the same N"),
        ] {
            assert!(error.contains(words), "{error}");
        }
        let mut other = shard(1, 2);
        other.results[0] = 7.into();
        let error = refusal(vec![shard(1, 2), other]);
        assert!(error.contains("both shard 1/2"), "{error}");
    }
}
