//! The document of a shard: the run that it belongs to, and the results of its pieces.

use std::fmt::{self, Write as _};

use ferroce_perf::options::quoted;
use serde_json::{Value, json};

use super::super::VERSION;
use super::super::json::document;
use super::{Shard, Work};

/// A run of a command: all shards of it have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Words of the command line after `ferroce`, without `--shard`.
    pub arguments: Vec<String>,
    /// Version of Ferroce, with its revision.
    pub build: String,
    /// Number of pieces.
    pub pieces: usize,
    /// Fingerprint of all that determines the results: files that the arguments name may change.
    pub inputs: String,
}

impl Run {
    /// Returns the run of this process.
    ///
    /// # Errors
    /// An argument is not UTF-8.
    pub fn of_process(work: &Work<'_>) -> Result<Self, String> {
        let words = std::env::args_os().skip(1).map(|word| {
            word.into_string()
                .map_err(|word| format!("--shard: {} is not UTF-8", word.display()))
        });
        Ok(Self {
            arguments: without_shard(words.collect::<Result<_, _>>()?),
            build: VERSION.to_owned(),
            pieces: work.pieces,
            inputs: fingerprint(work.inputs),
        })
    }

    /// Returns the command line.
    pub fn line(&self) -> String {
        let words = self.arguments.iter().map(|word| quoted(word));
        format!("ferroce {}", words.collect::<Vec<_>>().join(" "))
    }
}

/// The results of a shard, or of all shards of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The run.
    pub run: Run,
    /// The shard; 1/1 has all pieces.
    pub shard: Shard,
    /// Results of its pieces, in the order of their indices.
    pub results: Vec<Value>,
}

impl Document {
    /// Returns the text of the file.
    pub fn text(&self, command: &str) -> String {
        let indices = self.shard.indices(self.run.pieces);
        let pieces = indices.zip(&self.results);
        let pieces = pieces.map(|(index, result)| json!({ "index": index, "result": result }));
        let result = json!({
            "build": self.run.build,
            "arguments": self.run.arguments,
            "shard": { "number": self.shard.number, "of": self.shard.count },
            "work": { "pieces": self.run.pieces, "inputs": self.run.inputs },
            "pieces": pieces.collect::<Value>(),
        });
        // Not by `json_text`, which rounds: what is merged has to have all digits.
        format!("{}\n", document(command, result))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The reason why it is not a document of a shard.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("it is empty: its shard has not ended".to_owned());
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| format!("it is not JSON, or not all of it: {error}"))?;
        Self::of(&value).ok_or_else(|| "it is not a document of --shard".to_owned())
    }

    fn of(value: &Value) -> Option<Self> {
        let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let (shard, work) = (&value["shard"], &value["work"]);
        let arguments = value["arguments"].as_array()?.iter().map(text);
        let run = Run {
            arguments: arguments.collect::<Option<_>>()?,
            build: text(&value["build"])?,
            pieces: number(&work["pieces"])?,
            inputs: text(&work["inputs"])?,
        };
        let shard = Shard::new(number(&shard["number"])?, number(&shard["of"])?)?;
        let pieces = value["pieces"].as_array()?;
        let indices: Option<Vec<_>> = pieces.iter().map(|piece| number(&piece["index"])).collect();
        // The number of pieces may be anything: as many indices as there are pieces are compared.
        shard.indices(run.pieces).eq(indices?).then_some(())?;
        let results = pieces.iter().map(|piece| piece.get("result").cloned());
        Some(Self {
            run,
            shard,
            results: results.collect::<Option<_>>()?,
        })
    }

    /// Returns the results if they belong to `work`.
    ///
    /// # Errors
    /// They were computed from other inputs.
    pub fn results_of(&self, work: &Work<'_>) -> Result<&[Value], String> {
        let Run { pieces, inputs, .. } = &self.run;
        if (*pieces, inputs) == (work.pieces, &fingerprint(work.inputs)) {
            return Ok(&self.results);
        }
        Err(format!(
            "the shards were computed from other inputs than there are now: a file that {} names \
             has changed; run all shards again, or merge where they have run",
            self.run.line()
        ))
    }
}

/// Returns the words of a command line without `--shard`.
fn without_shard(words: Vec<String>) -> Vec<String> {
    let mut rest = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--shard" {
            // Its value.
            words.next();
        } else if !word.starts_with("--shard=") {
            rest.push(word);
        }
    }
    rest
}

/// FNV-1a of 64 bits over what is written.
struct Fingerprint(u64);

impl fmt::Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

/// Returns the fingerprint of a value's debug text.
fn fingerprint(inputs: &dyn fmt::Debug) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    let mut fingerprint = Fingerprint(OFFSET);
    // The writer never fails.
    let _ = write!(fingerprint, "{inputs:?}");
    format!("{:016x}", fingerprint.0)
}

#[cfg(test)]
pub(in crate::cli) mod tests {
    use super::*;

    /// Returns shard `number` of `count` of a run of four pieces.
    pub(in crate::cli) fn shard(number: usize, count: usize) -> Document {
        let shard = Shard::new(number, count).expect("a shard");
        Document {
            run: Run {
                arguments: ["sim", "--seeds", "4"].map(str::to_owned).to_vec(),
                build: VERSION.to_owned(),
                pieces: 4,
                inputs: "00".to_owned(),
            },
            shard,
            results: shard.indices(4).map(Value::from).collect(),
        }
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let mut document = shard(2, 2);
        // A third has no end in decimal, the second one needs exact parsing, and 2.0 is no integer.
        document.results = vec![json!([1.0 / 3.0, 8.533e-23, 2.0, -0.0]), json!(u64::MAX)];
        let text = document.text("sim");
        assert_eq!(Document::parse(&text), Ok(document));
        assert!(text.starts_with("{\"program\":\"ferroce sim\","), "{text}");
    }

    #[test]
    fn what_is_no_document_has_its_reason() {
        let text = shard(1, 2).text("sim");
        for (bad, reason) in [
            ("\n", "is empty"),
            (&text[..text.len() / 2], "not all of it"),
            ("{}", "not a document of --shard"),
            (
                &text.replace("\"index\":2", "\"index\":3"),
                "not a document",
            ),
            (&text.replace("\"of\":2", "\"of\":0"), "not a document"),
            (
                &text.replace("\"pieces\":4", &format!("\"pieces\":{}", usize::MAX)),
                "not a document",
            ),
        ] {
            let error = Document::parse(bad).expect_err(bad);
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }

    #[test]
    fn the_shard_is_no_part_of_the_command_line() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["sim --shard 1/2 --seeds 4", "sim --shard=1/2 --seeds 4"] {
            assert_eq!(without_shard(words(line)), words("sim --seeds 4"));
        }
        let mut run = shard(1, 1).run;
        run.arguments.push("a b".to_owned());
        assert_eq!(run.line(), "ferroce sim --seeds 4 'a b'");
    }

    #[test]
    fn other_inputs_are_found() {
        let work = |inputs| Work {
            command: "sim",
            pieces: 4,
            inputs,
        };
        let mut document = shard(1, 1);
        document.run.inputs = fingerprint(&"before");
        assert!(document.results_of(&work(&"before")).is_ok());
        let error = document.results_of(&work(&"after")).expect_err("changed");
        assert!(error.contains("other inputs"), "{error}");
    }
}
