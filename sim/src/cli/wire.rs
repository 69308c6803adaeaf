//! `ferroce wire check`: checks captures against Ferroce's RoCEv2 formats.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ferroce_embed::capture::reader::{Captured, for_each_frame};
use ferroce_wire::check::Checker;
use serde_json::{Map, Value, json};

use super::json::JsonOption;
use super::{EXIT_FAILURE, report_error};

/// Check frames on the wire.
#[derive(Debug, Subcommand)]
pub enum Wire {
    Check(Check),
}

/// Parse each RoCEv2 frame of captures, emit it again, compare bytes and ICRC.
///
/// Reads pcap and pcapng, from any source. Prints the frames per opcode, the messages of the
/// connection manager and the first difference.
/// The exit code is 1 if there is any.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce run --capture rdma.pcapng -- ibv_rc_pingpong -g 1
  ferroce wire check rdma.pcapng
  ferroce wire check rdma.pcapng --json")]
pub struct Check {
    /// Captures
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    json: JsonOption,
}

impl Wire {
    /// Executes the command.
    pub fn execute(self) -> ExitCode {
        let Self::Check(check) = self;
        match check.execute() {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => report_error(&error, EXIT_FAILURE),
        }
    }
}

impl Check {
    /// Checks the files. Returns true if there was no difference.
    fn execute(&self) -> Result<bool, String> {
        let prints_text = self.json.prepare()?;
        let (mut is_clean, mut documents) = (true, Vec::new());
        for path in &self.files {
            let found = check(path).map_err(|error| format!("{}: {error}", path.display()))?;
            if prints_text {
                report(path, &found);
            }
            is_clean &= found.checker.is_clean();
            documents.push(document(path, &found));
        }
        let result = || json!({ "clean": is_clean, "files": documents });
        self.json.write("wire check", result)?;
        Ok(is_clean)
    }
}

/// Result of one file.
#[derive(Debug, Default)]
struct Found {
    checker: Checker,
    /// Frames that the capture holds only in part.
    cut: u64,
}

impl Found {
    fn feed(&mut self, captured: &Captured<'_>) {
        if captured.is_cut() {
            self.cut += 1;
        } else {
            self.checker.feed(captured.bytes);
        }
    }

    /// Returns true if there was no Ethernet frame.
    fn is_empty(&self) -> bool {
        self.cut == 0 && self.checker.frames() == 0
    }
}

fn check(path: &Path) -> Result<Found, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut found = Found::default();
    let mut foreign = None;
    let read = for_each_frame(BufReader::new(file), &mut |captured| {
        if captured.is_ethernet() {
            found.feed(&captured);
        } else {
            foreign = foreign.or(captured.link);
        }
        ControlFlow::Continue(())
    });
    read.map_err(|error| error.to_string())?;
    match foreign {
        Some(link) if found.is_empty() => Err(format!("frames of {link:?}, not of Ethernet")),
        _ => Ok(found),
    }
}

/// Returns the result of one file as JSON.
fn document(path: &Path, found: &Found) -> Value {
    let Found { checker, cut } = found;
    json!({
        "file": path.to_string_lossy(),
        "clean": checker.is_clean(),
        "frames": checker.frames(),
        "roce_frames": checker.roce_frames(),
        "opcodes": counts(checker.opcodes()),
        "cm_messages": counts(checker.messages()),
        "not_roce": counts(checker.others()),
        "cut": cut,
        "malformed": checker.malformed(),
        "different": checker.differences(),
        "bad_icrc": checker.icrc_failures(),
    })
}

/// Returns counts by their names, as JSON.
fn counts<N: Display>(counts: impl Iterator<Item = (N, u64)>) -> Map<String, Value> {
    counts
        .map(|(name, count)| (name.to_string(), count.into()))
        .collect()
}

/// Prints the result.
fn report(path: &Path, found: &Found) {
    let Found { checker, cut } = found;
    let (frames, roce) = (checker.frames(), checker.roce_frames());
    println!("{}: {frames} frames, {roce} of RoCEv2", path.display());
    for (opcode, count) in checker.opcodes() {
        println!("  {opcode:36} {count:>10}");
    }
    for (message, count) in checker.messages() {
        println!("  of them, CM {message:24} {count:>10}");
    }
    for (other, count) in checker.others() {
        println!("  not RoCEv2: {:24} {count:>10}", other.to_string());
    }
    if *cut > 0 {
        println!("  cut short by the capture, not checked {cut:>8}");
    }
    if let Some((frame, error)) = checker.first_malformed() {
        println!(
            "  MALFORMED: {} frames, first frame {frame}: {error}",
            checker.malformed()
        );
    }
    if let Some(first) = checker.first_difference() {
        let byte = |byte: Option<u8>| byte.map_or("nothing".to_owned(), |b| format!("{b:#04x}"));
        println!(
            "  DIFFERENT: {} frames, first frame {} at byte {}: {} in the file, {} emitted",
            checker.differences(),
            first.frame,
            first.offset,
            byte(first.expected),
            byte(first.actual),
        );
    }
    if let Some(first) = checker.first_icrc_failure() {
        println!(
            "  BAD ICRC: {} frames, first frame {}: {:#010x} in the file, {:#010x} computed",
            checker.icrc_failures(),
            first.frame,
            first.actual,
            first.expected,
        );
    }
}
