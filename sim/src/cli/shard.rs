//! `--shard I/N`: a part of the work of a long command, for one of several machines.
//!
//! A command with this option numbers the pieces of its work from 0. Shard I of N computes every
//! N-th piece, beginning with number I - 1, and writes a [`document`] with a JSON value for each.
//! `ferroce merge` reads the documents of all shards and executes the same command line with these
//! values in place of the computation: what it prints comes from the code that prints it without
//! shards.
//!
//! [`document`]: mod@document

pub mod document;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;

use super::json::{JsonOption, write_file};
use document::{Document, Run};

/// Maximum number of shards of a run. It bounds the work for messages about missing ones.
const COUNT_MAX: usize = 100_000;

/// A shard: its number, from 1, and the number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    count: usize,
}

impl Shard {
    /// The only shard of a run that is not divided.
    pub const WHOLE: Self = Self {
        number: 1,
        count: 1,
    };

    /// Returns the shard if the numbers are possible.
    pub fn new(number: usize, count: usize) -> Option<Self> {
        let is_possible = (1..=COUNT_MAX).contains(&count) && (1..=count).contains(&number);
        is_possible.then_some(Self { number, count })
    }

    /// Returns its number, from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the number of shards.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns the indices of its pieces, if the run has this number of pieces.
    pub fn indices(self, pieces: usize) -> impl Iterator<Item = usize> {
        (self.number - 1..pieces).step_by(self.count)
    }

    /// Returns its pieces of `all`.
    pub fn choose<T: Clone>(self, all: &[T]) -> Vec<T> {
        let chosen = self.indices(all.len()).map(|index| all[index].clone());
        chosen.collect()
    }

    /// Writes the document with the results of its pieces to standard output.
    ///
    /// # Errors
    /// It cannot be written, or an argument is not UTF-8.
    pub fn write(self, work: &Work<'_>, results: Vec<Value>) -> Result<(), String> {
        let document = Document {
            run: Run::of_process(work)?,
            shard: self,
            results,
        };
        write_file(Path::new("-"), &document.text(work.command))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers = numbers
            .and_then(|(number, count)| Some((number.parse().ok()?, count.parse::<usize>().ok()?)));
        match numbers {
            None => Err("write I/N, such as 1/8".to_owned()),
            Some((_, count)) if !(1..=COUNT_MAX).contains(&count) => {
                Err(format!("N is 1 to {COUNT_MAX}, such as 1/8"))
            }
            Some((number, count)) => Self::new(number, count)
                .ok_or_else(|| format!("shards are counted from 1: 1/{count} to {count}/{count}")),
        }
    }
}

/// The work of a command.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The command, without `ferroce`.
    pub command: &'static str,
    /// Number of its pieces.
    pub pieces: usize,
    /// All that determines their results. Its debug text is the same on every machine.
    pub inputs: &'a dyn fmt::Debug,
}

/// Source of the results of a command.
pub enum Source<'a> {
    /// All pieces are computed.
    Here,
    /// The pieces of a shard are computed.
    Shard(Shard),
    /// `ferroce merge` has read the results of all pieces.
    Merged(&'a [Value]),
}

/// Option `--shard`.
#[derive(Debug, Clone, Default, Args)]
pub struct ShardOption {
    /// Compute only part I of N, 1/N to N/N, and write its results as JSON to standard output, in
    /// place of everything that the command prints and writes; `ferroce merge` then does that
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// The results of all shards.
    #[arg(skip)]
    merged: Option<Arc<Document>>,
}

impl ShardOption {
    /// Returns true if the option is given.
    pub fn is_given(&self) -> bool {
        self.shard.is_some()
    }

    /// Fails if the option is given, with the reason why it has no effect.
    ///
    /// # Errors
    /// The option, the reason.
    pub fn refuse(&self, reason: &str) -> Result<(), String> {
        match self.shard {
            Some(shard) => Err(format!("--shard {shard}: {reason}")),
            None => Ok(()),
        }
    }

    /// Takes the results from `document`, which has all pieces.
    pub fn take_from(&mut self, document: Document) {
        self.merged = Some(Arc::new(document));
    }

    /// Prepares the file of `--json`, except in a shard, which does not write it. Returns true if
    /// text is printed.
    ///
    /// # Errors
    /// The file, and the reason why it cannot be written.
    pub fn prepare(&self, json: &JsonOption) -> Result<bool, String> {
        match self.shard {
            Some(_) => Ok(false),
            None => json.prepare(),
        }
    }

    /// Returns the source of the results of `work`.
    ///
    /// # Errors
    /// The shards were computed from other inputs.
    pub fn source(&self, work: &Work<'_>) -> Result<Source<'_>, String> {
        match (&self.merged, self.shard) {
            (Some(merged), _) => merged.results_of(work).map(Source::Merged),
            (None, Some(shard)) => Ok(Source::Shard(shard)),
            (None, None) => Ok(Source::Here),
        }
    }

    /// Returns the results of all pieces; `None` in a shard, whose document is then written.
    /// `compute` returns the results of the pieces with these indices.
    ///
    /// # Errors
    /// The error of `compute`, of the document, or of the shards.
    pub fn results(
        &self,
        work: &Work<'_>,
        compute: impl FnOnce(&[usize]) -> Result<Vec<Value>, String>,
    ) -> Result<Option<Vec<Value>>, String> {
        match self.source(work)? {
            Source::Merged(results) => Ok(Some(results.to_vec())),
            Source::Here => compute(&Vec::from_iter(0..work.pieces)).map(Some),
            Source::Shard(shard) => {
                let results = compute(&Vec::from_iter(shard.indices(work.pieces)))?;
                shard.write(work, results).map(|()| None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_in_one_shard() {
        let shard = |text: &str| text.parse::<Shard>().expect("a shard");
        let indices = |text, pieces| Vec::from_iter(shard(text).indices(pieces));
        assert_eq!(indices("1/3", 8), [0, 3, 6]);
        assert_eq!(indices("3/3", 8), [2, 5]);
        assert_eq!(indices("3/3", 2), [0; 0]);
        assert_eq!(shard("2/2").choose(&['a', 'b', 'c', 'd']), ['b', 'd']);
        for count in 1..9 {
            let all = (1..=count).filter_map(|number| Shard::new(number, count));
            let mut indices: Vec<_> = all.flat_map(|shard| shard.indices(20)).collect();
            indices.sort_unstable();
            assert_eq!(indices, Vec::from_iter(0..20), "{count}");
        }
    }

    #[test]
    fn impossible_shards_are_refused_with_what_is_right() {
        for (text, right) in [
            ("", "write I/N"),
            ("3", "write I/N"),
            ("-1/4", "write I/N"),
            ("0/0", "N is 1 to 100000"),
            ("1/100001", "N is 1 to 100000"),
            ("0/4", "1/4 to 4/4"),
            ("5/4", "1/4 to 4/4"),
        ] {
            let error = text.parse::<Shard>().expect_err(text);
            assert!(error.contains(right), "{text}: {error}");
        }
    }
}
