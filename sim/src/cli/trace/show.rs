//! `ferroce trace show`: a record as text.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use ferroce_record::compare::summary;
use ferroce_record::follow::Follower;
use ferroce_record::reader::{Ending, Reader, Record};
use ferroce_record::streams::{Entry, Key, Sink, Subject, Value};
use ferroce_record::{Kind, fields, flags};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_wire::Pretty;
use serde_json::json;

use super::super::json::JsonOption;

/// Bytes of memory that a line shows.
const SHOWN_BYTES: usize = 32;

/// Print a record, a line for each access; below it what it means: commands, CQEs, EQEs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce run --record a.rec -- ibv_devinfo && ferroce trace show a.rec
  ferroce trace show a.rec --kind doorbell,interrupt
  ferroce trace show a.rec --json

Kinds: register-read, register-write, memory-read, memory-write, doorbell, dma-read, dma-write,
dma-atomic, interrupt, sent, received, power-off, section")]
pub struct Show {
    /// The record
    file: PathBuf,

    /// Only these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,

    /// Only frames, CQEs, EQEs and commands of this queue pair, by its number
    #[arg(long, value_name = "QPN", value_parser = number)]
    qp: Option<u32>,

    /// Only CQEs, EQEs and commands of this CQ, by its number
    #[arg(long, value_name = "CQN", value_parser = number)]
    cq: Option<u32>,

    #[command(flatten)]
    json: JsonOption,
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

/// The meanings of one access.
#[derive(Default)]
struct Meanings(Vec<(Key, u32, Entry)>);

impl Sink for Meanings {
    fn entry(&mut self, key: Key, number: u32, entry: Entry) {
        self.0.push((key, number, entry));
    }
}

/// An access of a record, as it is shown.
struct Shown {
    position: String,
    kind: &'static str,
    is_refused: bool,
    text: String,
    /// Commands, CQEs and EQEs.
    meanings: Vec<String>,
}

impl Shown {
    fn print(&self, output: &mut impl Write) -> std::io::Result<()> {
        let Self {
            position,
            kind,
            text,
            ..
        } = self;
        let failed = if self.is_refused { " REFUSED" } else { "" };
        writeln!(output, "{position:<44} {kind:<14}{failed} {text}")?;
        for meaning in &self.meanings {
            writeln!(output, "    {meaning}")?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "position": self.position,
            "kind": self.kind,
            "refused": self.is_refused,
            "text": self.text,
            "meanings": self.meanings,
        })
    }
}

impl Show {
    pub fn execute(&self) -> Result<(), String> {
        let kinds = (0..=u8::MAX).filter_map(|code| Kind(code).name());
        let known: Vec<_> = kinds.collect();
        if let Some(kind) = self
            .kind
            .iter()
            .find(|kind| !known.contains(&kind.as_str()))
        {
            return Err(format!("--kind {kind}: is not one of {}", known.join(", ")));
        }
        let prints = self.json.prepare()?;
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", self.file.display());
        let mut reader = Reader::open(&self.file).map_err(|error| named(&error))?;
        let mut output = BufWriter::new(std::io::stdout().lock());
        let failed = |error: std::io::Error| format!("standard output: {error}");
        let source = reader.source().name();
        if prints {
            writeln!(output, "{}: {source}", self.file.display()).map_err(failed)?;
        }
        let (mut follower, mut documents) = (Follower::default(), Vec::new());
        while let Some(record) = reader.next_record().map_err(|error| named(&error))? {
            let mut meanings = Meanings::default();
            follower.feed(&record, &mut meanings);
            let Some(shown) = self.shown(&record, &meanings.0) else {
                continue;
            };
            if prints {
                shown.print(&mut output).map_err(failed)?;
            }
            if self.json.is_given() {
                documents.push(shown.json());
            }
        }
        let ending = match reader.ending() {
            Some(Ending::Full) => "ends: the file was full",
            Some(Ending::Closed) => "ends: the function was closed",
            _ => "ends here: the program was killed, or runs",
        };
        if prints {
            writeln!(output, "{ending}").map_err(failed)?;
        }
        output.flush().map_err(failed)?;
        drop(output);
        self.json.write("trace show", || {
            json!({
                "file": self.file.to_string_lossy(),
                "source": source,
                "accesses": documents,
                "ending": ending,
            })
        })
    }

    /// Returns an access and what it means; `None`: it was not asked for.
    fn shown(&self, record: &Record, meanings: &[(Key, u32, Entry)]) -> Option<Shown> {
        let kind = record.kind.name().unwrap_or("unknown");
        if !self.kind.is_empty() && !self.kind.iter().any(|name| name == kind) {
            return None;
        }
        let has_filter = self.qp.is_some() || self.cq.is_some();
        let chosen: Vec<_> = meanings.iter().filter(|found| self.wants(found)).collect();
        if has_filter && chosen.is_empty() {
            return None;
        }
        let has_meaning = |subject| {
            matches!(
                subject,
                Subject::Commands | Subject::Completions | Subject::Events
            )
        };
        let chosen = chosen.iter().filter(|(key, ..)| has_meaning(key.subject));
        let meanings = chosen.map(|(key, _, entry)| {
            let name = key.subject.entry();
            let of = match key.subject.object() {
                "" => String::new(),
                _ => format!(" of {key}"),
            };
            format!("{name}{of}: {}", summary(entry))
        });
        Some(Shown {
            position: record.position.to_string(),
            kind,
            is_refused: record.flags & flags::FAILED != 0,
            text: describe(record),
            meanings: meanings.collect(),
        })
    }

    /// Returns true if the entry belongs to the requested queue.
    fn wants(&self, (key, number, entry): &(Key, u32, Entry)) -> bool {
        let is_about = |wanted: Option<u32>, object: &str, names: &[&str]| match wanted {
            None => self.qp.is_none() && self.cq.is_none(),
            Some(wanted) => {
                key.subject.object() == object && *number == wanted
                    || entry.fields.iter().any(|field| {
                        let number = match field.value {
                            Value::Number(number) | Value::Object(number, _) => number,
                            _ => return false,
                        };
                        names.contains(&field.name) && number == u64::from(wanted)
                    })
            }
        };
        is_about(self.qp, "QP", &["qpn"]) || is_about(self.cq, "CQ", &["cqn"])
    }
}

/// Returns an access in words.
fn describe(record: &Record) -> String {
    let Record { address, data, .. } = record;
    match record.kind {
        Kind::REGISTER_READ | Kind::REGISTER_WRITE => {
            let name = fields::register_name(*address as u32);
            format!("{name} {:#x}", fields::number(data))
        }
        Kind::DOORBELL => {
            let value = DoorbellValue::from_bits(fields::number(data));
            let kind = DoorbellKind(value.kind());
            let (number, index) = (value.number(), value.index());
            let blocks = match data.len() {
                8 => String::new(),
                length => format!(" with {length} bytes"),
            };
            format!("slot {address} {kind:?} {number:#x} index {index}{blocks}")
        }
        Kind::FRAME_SENT | Kind::FRAME_RECEIVED => Pretty(data).to_string(),
        Kind::INTERRUPT => format!("vector {}", record.detail),
        Kind::SECTION => String::from_utf8_lossy(data).into_owned(),
        _ => format!("{address:#x} {} bytes: {}", data.len(), bytes(data)),
    }
}

fn bytes(data: &[u8]) -> String {
    let shown = data.iter().take(SHOWN_BYTES);
    let mut text: String = shown.map(|byte| format!("{byte:02x}")).collect();
    if data.len() > SHOWN_BYTES {
        text.push('…');
    }
    text
}
