//! Reads captures with tshark and `ferroce wire check`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::{Ended, Scratch};

/// Dissectors that mistake payload for their own protocol, and then report it as malformed.
const PAYLOAD_GUESSERS: &[&str] = &[
    "rpcordma",
    "smc",
    "smb_direct",
    "nvme-rdma",
    "iser",
    "lnet",
    "infiniband_sdp",
    "eoib",
    "fcoib",
];

/// Returns the dissectors in [`PAYLOAD_GUESSERS`] that this tshark has: it refuses unknown names.
fn payload_guessers() -> &'static [&'static str] {
    static KNOWN: OnceLock<Vec<&str>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let listed = Command::new("tshark").args(["-G", "protocols"]).output();
        let listed = String::from_utf8(listed.expect("tshark runs").stdout).expect("a table");
        // Name, short name, and the name for filters of each protocol.
        let names: Vec<_> = listed
            .lines()
            .filter_map(|l| l.split('\t').nth(2))
            .collect();
        let guessers = PAYLOAD_GUESSERS.iter().copied();
        guessers.filter(|name| names.contains(name)).collect()
    })
}

/// Returns the output of tshark for a capture.
pub fn tshark(scratch: &Scratch, file: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(scratch.path(file)).args(arguments);
    for protocol in payload_guessers() {
        command.args(["--disable-protocol", protocol]);
    }
    scratch.finish(command).expect_success()
}

/// Returns the opcodes that tshark sees, with their counts.
pub fn opcodes(scratch: &Scratch, file: &str) -> BTreeMap<u8, u64> {
    let fields = ["-T", "fields", "-e", "infiniband.bth.opcode"];
    let mut counts = BTreeMap::new();
    for line in tshark(scratch, file, &fields).lines() {
        // tshark warns root on standard error.
        if let Ok(opcode) = line.trim().parse() {
            *counts.entry(opcode).or_insert(0) += 1;
        }
    }
    counts
}

/// Runs `ferroce wire check` on a capture.
pub fn wire_check(scratch: &Scratch, file: &Path) -> Ended {
    let file = file.to_str().expect("our own name");
    scratch.finish(scratch.ferroce(&["wire", "check", file]))
}

/// Frames of RoCEv2 that `ferroce wire check` has found.
fn roce_frames(report: &str) -> u64 {
    let count = report.lines().find_map(|line| {
        let before = line.strip_suffix(" of RoCEv2")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    count.unwrap_or_else(|| panic!("no count in\n{report}"))
}

/// Expects that tshark and `ferroce wire check` find no errors in frames of these opcodes.
pub fn expect_decoded(scratch: &Scratch, file: &str, seen: &BTreeMap<u8, u64>) {
    let malformed = tshark(scratch, file, &["-Y", "_ws.malformed || !infiniband"]);
    let lines: Vec<_> = malformed.lines().filter(|l| l.contains('→')).collect();
    assert!(lines.is_empty(), "{lines:#?}");
    let report = wire_check(scratch, &scratch.path(file)).expect_success();
    let frames: u64 = seen.values().sum();
    assert_eq!(roce_frames(&report), frames, "{report}");
}
