//! `ferroce trace`: shows the record of a function, and compares two.

mod show;

use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ferroce_embed::capture::reader::for_each_frame;
use ferroce_record::Source;
use ferroce_record::compare::{Options, Report, Strict, compare};
use ferroce_record::load::Loaded;
use ferroce_record::reader::{Ending, Position};
use ferroce_record::streams::{Rule, Subject};
use serde_json::{Value, json};

use super::json::JsonOption;
use super::report_error;

/// Exit code of `ferroce trace` if a file cannot be read, as in diff(1).
const EXIT_TROUBLE: u8 = 2;
/// Number of clock cycles before a difference, and after it, in the proposed waveform.
const WAVE_BEFORE: u64 = 400;
const WAVE_BEHIND: u64 = 100;

/// Show and compare records of functions (`--record` of run, serve and selftest).
#[derive(Debug, Subcommand)]
pub enum Trace {
    Show(show::Show),
    Diff(Diff),
}

/// Compare two records: the first difference of each queue, in words.
///
/// A is what was expected, B what has happened. Compared are register writes, commands with their
/// inputs and outputs, the CQEs of each CQ, the EQEs of each event queue, the frames of each queue
/// pair in each direction, and what was written to each memory region; each for itself, in its
/// order. Objects are matched in the order of their creation; what two runs that are right choose
/// anew is compared by its meaning, or not (--strict).
///
/// Ends with code 0 if nothing differs, 1 if something does, 2 if a file cannot be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce selftest --record model.rec
  ferroce selftest --rtl --record card.rec
  ferroce trace diff model.rec card.rec --without timing    which sends for a time, not a number

A card: its record has what the driver sees; the frames come from a capture of the wire
  ferroce selftest --device vfio:0000:01:00.0 --record card.rec
  ferroce trace diff model.rec card.rec --capture-b wire.pcapng

Compared by meaning, or not compared, unless --strict names it:
  numbers          QPNs, CQNs, keys: objects by the order of their creation, those of the peer as
                   one name for another
  addresses        virtual addresses: by their distance; IOVAs: not
  psn              by their distance; the first ones: not
  path             MAC and IP addresses, UDP ports: one name for another
  time             time stamps of CQEs: not
  capabilities     of the device, doorbell slots, sizes of context tables: not
  details          vendor error, credits, identification of IPv4, processing unit: not
  acknowledges     positive acknowledges, which may be coalesced, and requests for them: not
  retransmissions  packets with a PSN that was sent before: not
  events           EQEs of CQs, doorbells of event queues, which follow from when software arms, and
                   writes to the MSI-X table, which the kernel makes on a card: not
  queries          QUERY_QP, QUERY_CQ, QUERY_SRQ, QUERY_EQ, and doorbells of the command queue,
                   which they ring too: not")]
pub struct Diff {
    /// What was expected
    #[arg(value_name = "A")]
    a: PathBuf,

    /// What has happened
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Compare these exactly, or all
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    strict: Vec<String>,

    /// Leave out these sections: stages of `ferroce selftest`
    #[arg(long, value_name = "SECTION", value_delimiter = ',')]
    without: Vec<String>,

    /// Do not compare the program's data: perftest sends random bytes
    #[arg(long)]
    without_payload: bool,

    /// The frames of A: a capture (pcap, pcapng) of its wire
    #[arg(long, value_name = "FILE")]
    capture_a: Option<PathBuf>,

    /// The frames of B: a capture (pcap, pcapng) of its wire
    #[arg(long, value_name = "FILE", visible_alias = "capture")]
    capture_b: Option<PathBuf>,

    #[command(flatten)]
    json: JsonOption,
}

impl Trace {
    /// Executes the command.
    pub fn execute(self) -> ExitCode {
        let result = match self {
            Self::Show(show) => show.execute().map(|()| true),
            Self::Diff(diff) => diff.execute(),
        };
        match result {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => report_error(&error, EXIT_TROUBLE),
        }
    }
}

impl Diff {
    /// Reads both records. If one of them has no sections, such as a record of `ferroce serve`, the
    /// sections of the other are ignored.
    fn load(&self) -> Result<(Loaded, Loaded), String> {
        let open = |path: &PathBuf| Loaded::open(path).map_err(|error| named(path, &error));
        let whole = |path: &PathBuf| Loaded::open_whole(path).map_err(|error| named(path, &error));
        let (mut a, mut b) = (open(&self.a)?, open(&self.b)?);
        match (a.streams.sections.is_empty(), b.streams.sections.is_empty()) {
            (true, false) => b = whole(&self.b)?,
            (false, true) => a = whole(&self.a)?,
            _ => {}
        }
        for (loaded, path, capture) in [
            (&mut a, &self.a, &self.capture_a),
            (&mut b, &self.b, &self.capture_b),
        ] {
            let prints_text = self.json.prints_text();
            if prints_text {
                describe(loaded, path);
            }
            let Some(capture) = capture else {
                continue;
            };
            add_capture(loaded, capture)?;
            if prints_text {
                println!("{}: {} frames", capture.display(), loaded.captured());
            }
        }
        Ok((a, b))
    }

    /// Compares. Returns true if nothing differs.
    fn execute(&self) -> Result<bool, String> {
        self.json.prepare()?;
        let mut options = Options {
            without_payload: self.without_payload,
            without_sections: self.without.clone(),
            ..Options::default()
        };
        for name in &self.strict {
            match Strict::named(name) {
                Some(strict) => drop(options.strict.insert(strict)),
                None if name == "all" => options.strict.extend(Strict::ALL.map(|(_, s)| s)),
                None => return Err(format!("--strict {name}: {}", known_names())),
            }
        }
        let (a, b) = self.load()?;
        let left_out = leave_out(&mut options, &a, &b);
        let report = compare(&a.streams, &b.streams, &options);
        if self.json.prints_text() {
            for what in &left_out {
                println!("not compared: {what}");
            }
            print(&report, &b, &self.b);
        }
        self.json
            .write("trace diff", || document(&report, &left_out))?;
        Ok(report.is_same())
    }
}

fn named(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn known_names() -> String {
    let names: Vec<_> = Strict::ALL.iter().map(|(name, _)| *name).collect();
    format!("is not one of {}, all", names.join(", "))
}

/// Prints a description of a record.
fn describe(loaded: &Loaded, path: &Path) {
    let ending = match loaded.ending {
        Ending::Closed => "",
        Ending::Full => "; it ends where the file was full",
        Ending::Cut => "; it has no end: the program was killed, or runs",
    };
    println!("{}: {}{ending}", path.display(), loaded.source.name());
}

/// Adds the capture of its wire to a record.
fn add_capture(loaded: &mut Loaded, path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| named(path, &error))?;
    let read = for_each_frame(BufReader::new(file), &mut |captured| {
        loaded.add_frame(captured.bytes);
        ControlFlow::Continue(())
    });
    read.map_err(|error| named(path, &error))
}

/// Excludes the comparisons that one of the records does not support. Returns their names.
fn leave_out(options: &mut Options, a: &Loaded, b: &Loaded) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    let lacks_memory = |loaded: &Loaded| loaded.source == Source::Driver;
    let lacks_frames = |loaded: &Loaded| lacks_memory(loaded) && loaded.captured() == 0;
    if lacks_memory(a) || lacks_memory(b) {
        options.without.insert(Subject::Memory);
        left_out.push("memory, which the driver's side does not see");
    }
    if lacks_frames(a) || lacks_frames(b) {
        options.without.extend([
            Subject::RequestsSent,
            Subject::ResponsesSent,
            Subject::RequestsReceived,
            Subject::ResponsesReceived,
        ]);
        left_out.push("frames, which need a capture of the wire (--capture-b)");
    }
    left_out
}

fn described(rule: Rule) -> &'static str {
    match rule {
        Rule::Acknowledges => "acknowledges",
        Rule::Retransmissions => "retransmissions",
        Rule::Events => "events and their doorbells",
        Rule::Queries => "queries, and doorbells of commands",
    }
}

/// Returns the result as JSON.
fn document(report: &Report, left_out: &[&str]) -> Value {
    let rules = report.left_out.iter();
    let rules = rules.map(|(rule, (a, b))| json!({ "what": described(*rule), "a": a, "b": b }));
    let sections = report.sections.iter();
    let sections = sections.map(|(section, side)| json!({ "section": section, "only": side }));
    let differences = report
        .differences
        .iter()
        .map(|found| json!({ "text": found.text, "a": position(found.a), "b": position(found.b) }));
    json!({
        "same": report.is_same(),
        "streams": report.streams,
        "entries": report.entries,
        "not_compared": left_out,
        "sections_of_one": sections.collect::<Value>(),
        "left_out": rules.collect::<Value>(),
        "differences": differences.collect::<Value>(),
        "streams_of_one": report.alone,
    })
}

fn position(at: Option<Position>) -> Value {
    at.map_or(Value::Null, |at| {
        json!({
            "number": at.sequence,
            "time_ns": at.time_ns,
            "cycle": at.cycle,
            "is_of_capture": at.is_captured,
        })
    })
}

fn print(report: &Report, b: &Loaded, path: &Path) {
    for (section, side) in &report.sections {
        println!("not compared: section {section}, which only {side} has");
    }
    for (rule, (a, b)) in &report.left_out {
        println!("left out: {}: {a} in A, {b} in B", described(*rule));
    }
    for difference in &report.differences {
        println!("\n{}", difference.text);
        for (side, at) in [("A", difference.a), ("B", difference.b)] {
            if let Some(at) = at {
                println!("    {side}: {at}");
            }
        }
    }
    if !report.alone.is_empty() {
        println!();
    }
    for text in &report.alone {
        println!("{text}");
    }
    println!(
        "\n{} streams, {} entries compared; {} streams differ",
        report.streams,
        report.entries,
        report.differences.len() + report.alone.len()
    );
    let cycle = report.differences.iter().find_map(|found| found.b?.cycle);
    if let (Some(cycle), Source::Rtl) = (cycle, b.source) {
        println!(
            "waveform of the first one in {}: the same command with --wave card.fst:{}..{}",
            path.display(),
            cycle.saturating_sub(WAVE_BEFORE),
            cycle + WAVE_BEHIND
        );
    }
}
