//! Storage over RDMA CM: tgt's target and libiscsi's initiator, which are both programs without a
//! kernel module, with iSER (RFC 7145). The initiator posts SENDs; the target reads and writes the
//! initiator's memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ferroce_tests::{Process, Scratch, TIMEOUT, eventually, free_port, start_rdma_cm_server};

use super::command;

/// The target and the command that configures it, in their package. They do not need root.
const TARGET: &str = "usr/sbin/tgtd";
const ADMINISTRATION: &str = "usr/sbin/tgtadm";
/// Address of the target's host in the fabric.
const ADDRESS: &str = "192.0.2.40";
const TARGET_NAME: &str = "iqn.2026-11.example:disk";
/// Name of `iscsi-test-cu`. tgtd 1.0.85 admits an initiator by iSER only if both its address and
/// its name are admitted (`iser_text.c`); by TCP one of the two suffices.
const INITIATOR_NAME: &str = "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test";

/// The smallest pool that tgtd accepts.
const POOL_MIB: u32 = 128;
/// Maximum number of runs of a test of libiscsi 1.19 on a busy machine, and its message when an
/// answer takes longer than a second: over iSER that is an error, whatever the time-out
/// (`iscsi_iser_service`).
const ATTEMPTS: usize = 10;
const LATE: &str = "revents is not POLLIN";

/// Size of the disk: some tests write only at its ends, others also at 4 MiB.
const DISK_BYTES: usize = 8 << 20;
/// Number of 512-byte blocks that `Write10.Simple` writes at either end of the disk, and their
/// content.
const WRITTEN_BYTES: usize = 256 * 512;
const WRITTEN: u8 = 0xa6;
/// A part of the disk that no test writes.
const UNTOUCHED: std::ops::Range<usize> = (1 << 20)..(2 << 20);

/// Downloads and unpacks the package `tgt`. It is not installed, because that would start a target
/// as root, on TCP port 3260 of the machine. `None`, with a message: apt cannot download it here.
fn unpack(scratch: &Scratch) -> Option<PathBuf> {
    let folder = scratch.path("tgt");
    fs::create_dir(&folder).expect("a folder in the directory of the test");
    let script = "apt-get -q download tgt && dpkg-deb --extract tgt_*.deb .";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(&folder);
    let ended = scratch.finish(command);
    if !ended.succeeded() {
        eprintln!("skipped: no package tgt: {}\n{}", ended.how(), ended.output);
        return None;
    }
    Some(folder)
}

/// A running target with one disk.
struct Target<'a> {
    scratch: &'a Scratch,
    /// The folder with its unpacked package.
    folder: PathBuf,
    process: Process,
    port: u16,
    /// The file that backs the disk.
    disk: PathBuf,
}

impl<'a> Target<'a> {
    /// Starts a target with `content` on its disk.
    fn start(scratch: &'a Scratch, folder: PathBuf, content: &[u8]) -> Self {
        let disk = scratch.path("disk");
        fs::write(&disk, content).expect("a file in the directory of the test");
        let port = free_port();
        // Without a portal it would also listen on TCP port 3260 of the machine. Without a size its
        // pool would be 1 GiB, and it would touch all of it while the first initiator waits.
        let program = folder.join(TARGET);
        let line = format!(
            "{} -f --iscsi portal=127.0.0.1:PORT --iser port=PORT,pool_sz_mb={POOL_MIB}",
            program.display()
        );
        let options = ["--host", "target", "--address", ADDRESS];
        let mut server = command(scratch, &options, &line, port);
        server.env("TGT_IPC_SOCKET", scratch.path("tgtd"));
        let target = Self {
            scratch,
            folder,
            process: start_rdma_cm_server(scratch, server),
            port,
            disk,
        };
        // When it reads commands, it already listens.
        eventually("tgtd takes commands", TIMEOUT, || {
            target.administer("--mode system --op show").is_ok()
        });
        let new = format!("--mode target --op new --tid 1 --targetname {TARGET_NAME}");
        let name = format!("--mode target --op bind --tid 1 --initiator-name {INITIATOR_NAME}");
        let file = target.disk.display();
        let unit = format!("--mode logicalunit --op new --tid 1 --lun 1 --backing-store {file}");
        let address = "--mode target --op bind --tid 1 --initiator-address ALL";
        for line in [&new, address, &name, &unit] {
            target.administer(line).expect("a target can be made");
        }
        target
    }

    /// Sends a command with `tgtadm`. Returns its output as the error.
    fn administer(&self, line: &str) -> Result<(), String> {
        let mut command = Command::new(self.folder.join(ADMINISTRATION));
        command
            .env("TGT_IPC_SOCKET", self.scratch.path("tgtd"))
            .args(["--lld", "iser"])
            .args(line.split(' '));
        let ended = self.scratch.finish(command);
        if ended.succeeded() {
            Ok(())
        } else {
            Err(ended.output)
        }
    }

    /// Runs a test of libiscsi on the disk, as another host of the fabric. Panics if that test
    /// fails, or is skipped.
    fn run(&self, test: &str) {
        let url = format!("iser://{ADDRESS}:{}/{TARGET_NAME}/1", self.port);
        let arguments = ["--dataloss", "--fail", "--normal", "--test", test, &url];
        let run = || {
            let options = ["--host", "initiator"];
            let mut command = self.scratch.run(&options, "iscsi-test-cu", &arguments);
            // libiscsi 1.19 assumes that memory from `malloc` is an empty list, that is, zero (the
            // `iser_conn` of `iscsi_init_iser_transport`). With this value glibc's `malloc` returns
            // zeroes.
            command.env("MALLOC_PERTURB_", "255");
            self.scratch.finish(command)
        };
        let mut attempts = (0..ATTEMPTS).map(|_| run());
        let ended = attempts.find(|ended| !ended.output.contains(LATE));
        let output = ended
            .expect("an attempt is answered within a second")
            .expect_success();
        let has_run = output.contains("asserts") && !output.contains("[SKIPPED]");
        assert!(has_run, "{test}:\n{output}");
    }

    /// Ends it by deleting its last target. Returns the content of the disk.
    fn end(mut self) -> Vec<u8> {
        eventually("the last initiator is gone", TIMEOUT, || {
            self.administer("--mode target --op delete --tid 1").is_ok()
        });
        let end = self.administer("--mode system --op delete");
        end.expect("tgtd ends without targets");
        self.process.hurry(TIMEOUT);
        self.process.wait().expect_success();
        fs::read(self.disk).expect("the target has closed it")
    }
}

/// Goal: blocks pass unchanged in both directions, and a target ends normally. Method: VERIFY sends
/// the data that READ has returned, and the target compares it with the disk; the test compares the
/// result of WRITE with the file. Each test of libiscsi logs in twice.
///
/// Some of its tests fail on any NIC. Over iSER, libiscsi 1.19 assumes that an answer has the
/// requested length (`Inquiry.Standard`, `Inquiry.AllocLength`, `ModeSense6.Residuals`). It crashes
/// with more than 256 commands at a time, with task management and with transfers above 256 KiB,
/// and it does not disconnect.
#[test]
fn iser_target_and_initiator() {
    let words = (0..).map(|word: u32| word.wrapping_mul(0x9e37_79b1));
    let bytes = words.flat_map(u32::to_le_bytes);
    let content: Vec<u8> = bytes.take(DISK_BYTES).collect();
    let scratch = Scratch::new();
    let Some(folder) = unpack(&scratch) else {
        return;
    };
    let target = Target::start(&scratch, folder, &content);
    for test in [
        "Verify10.Simple",
        "Read16.Simple",
        "Write10.Simple",
        "Verify16.Simple",
    ] {
        target.run(&format!("ALL.{test}"));
    }
    let left = target.end();
    let (start, rest) = left.split_at(WRITTEN_BYTES);
    let end = &rest[rest.len() - WRITTEN_BYTES..];
    for part in [start, end] {
        assert!(part.iter().all(|byte| *byte == WRITTEN), "not written");
    }
    assert!(left[UNTOUCHED] == content[UNTOUCHED], "changed");
}
