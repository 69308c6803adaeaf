//! Programs on the card in SystemVerilog, under Verilator: between two cards, and between card and
//! model.
//!
//! `make rtl-programs` builds the card and runs these tests; they fail if it is not built.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferroce_tests::capture::{expect_decoded, opcodes};
use ferroce_tests::{
    Ended, Pair, Process, Scratch, Served, executed, ferroce, free_port, start_rdma_cm_server,
};
use fst_reader::{FstFilter, FstHierarchyEntry, FstReader};

/// Exit code for wrong arguments.
const OWN_FAILURE: i32 = 125;
/// The command that `ferroce --rtl` becomes, and the library of programs.
const BUILT: [&str; 2] = ["ferroce-rtl", "lib/libibverbs.so.1"];
/// Part of the name of each function of the model's NIC.
const MODEL_NIC: &str = "ferroce_model::nic::";
/// Part of the name of each function of the Verilated card.
const CARD: &str = "Vcard";
/// A build that stops at its first step.
const BUILD_TIMEOUT: Duration = Duration::from_secs(600);

/// Programs, and opcodes (IBTA vol 1, table 38) in their captures.
const PROGRAMS: [(&str, &str, &[u8]); 8] = [
    ("ib_write_bw", "-F -n 20", &[0x06, 0x07, 0x08, 0x11]),
    ("ib_write_lat", "-F -n 50", &[0x0a, 0x11]),
    ("ib_send_bw", "-F -n 20", &[0x00, 0x01, 0x02, 0x11]),
    ("ib_read_bw", "-F -n 20", &[0x0c, 0x0d, 0x0e, 0x0f]),
    (
        "ibv_rc_pingpong",
        "-c -g 1 -n 50",
        &[0x00, 0x01, 0x02, 0x11],
    ),
    ("ib_send_bw", "-F -c UD -n 20", &[0x64]),
    ("ib_send_lat", "-F -c UD -n 50", &[0x64]),
    ("ibv_ud_pingpong", "-c -g 1 -n 50", &[0x64]),
];

/// Runs of a program with RDMA CM until one is not refused.
const RDMA_CM_ATTEMPTS: usize = 10;
/// perftest's message if no process listens.
const REFUSED: &str = "RDMA_CM_EVENT_REJECTED; error: 8";

/// Programs that connect with RDMA CM, through the GSI: server and client.
const RDMA_CM: [(&str, &str); 2] = [
    (
        "rping -s -a 127.0.0.1 -p PORT -C 20 -V -S 100",
        "rping -c -a 127.0.0.1 -p PORT -C 20 -V -S 100",
    ),
    (
        "ib_write_bw -R -F -n 20 -p PORT",
        "ib_write_bw -R -F -n 20 -p PORT 127.0.0.1",
    ),
];

/// Runs all programs between two sides, and checks a capture of both.
fn run_programs(server: &[&str], client: &[&str]) {
    for (program, arguments, expected) in PROGRAMS {
        let scratch = Scratch::new();
        let file = scratch.path("pair.pcapng");
        let capture = ["--capture", file.to_str().expect("our own name")];
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let pair = Pair {
            program,
            arguments: &arguments,
            options: &[],
        };
        let options = [server, client].map(|options| [options, &capture].concat());
        let (server, client) = pair.start(&scratch, &options[0], &options[1]).finish();
        for output in [server, client] {
            assert!(!output.contains("invalid data"), "{program}: {output}");
        }
        let seen = opcodes(&scratch, "pair.pcapng");
        let expected = BTreeSet::from_iter(expected);
        let missing: Vec<_> = expected.iter().filter(|o| !seen.contains_key(o)).collect();
        assert!(
            missing.is_empty(),
            "{program}: no {missing:x?} in {seen:x?}"
        );
        expect_decoded(&scratch, "pair.pcapng", &seen);
    }
}

/// Runs the programs with RDMA CM between two sides. perftest's server destroys the listener of its
/// first connection and creates one for the second; a request in between is refused.
fn run_rdma_cm(server: &[&str], client: &[&str]) {
    for (of_server, of_client) in RDMA_CM {
        let is_served = (0..RDMA_CM_ATTEMPTS).any(|_| {
            let scratch = Scratch::new();
            let port = free_port().to_string();
            let command = |options: &[&str], line: &str| {
                let line = line.replace("PORT", &port);
                let words: Vec<_> = line.split_whitespace().collect();
                scratch.run_rdma_cm(options, words[0], &words[1..])
            };
            let running = start_rdma_cm_server(&scratch, command(server, of_server));
            let ended = scratch.finish(command(client, of_client));
            if ended.output.contains(REFUSED) && executed(&ended.output, "CONNECT") == 2 {
                return false;
            }
            ended.expect_success();
            running.wait().expect_success();
            true
        });
        assert!(is_served, "{of_client}: refused each time");
    }
}

#[test]
#[ignore = "make rtl-programs"]
fn programs_connect_with_rdma_cm() {
    run_rdma_cm(&["--rtl"], &["--rtl"]);
    run_rdma_cm(&["--rtl"], &[]);
    run_rdma_cm(&[], &["--rtl"]);
}

#[test]
#[ignore = "make rtl-programs"]
fn programs_run_between_two_cards() {
    run_programs(&["--rtl"], &["--rtl"]);
}

#[test]
#[ignore = "make rtl-programs"]
fn programs_on_the_model_use_a_server_on_the_card() {
    run_programs(&["--rtl"], &[]);
}

#[test]
#[ignore = "make rtl-programs"]
fn programs_on_the_card_use_a_server_on_the_model() {
    run_programs(&[], &["--rtl"]);
}

/// Goal: RDMA WRITE and RDMA READ move the right data and change no other byte, which perftest does
/// not check. Method: tests/c/payload.c, at all alignments, in up to three segments.
#[test]
#[ignore = "make rtl-programs"]
fn the_payload_of_writes_and_reads_is_right() {
    for (server, client) in [
        ("--rtl", "--rtl"),
        ("--rtl", ""),
        ("", "--rtl"),
        ("--rtl --tlp", "--rtl --tlp=512:128"),
    ] {
        let scratch = Scratch::new();
        let program = scratch.compile("payload");
        let pair = Pair {
            program: &program,
            arguments: &["-n", "39"],
            options: &[],
        };
        let options = [server, client].map(|options| Vec::from_iter(options.split_whitespace()));
        let (server, client) = pair.start(&scratch, &options[0], &options[1]).finish();
        for output in [server, client] {
            assert!(
                output.contains("39 rounds of RDMA WRITE and RDMA READ"),
                "{output}"
            );
        }
    }
}

/// Goal: with `--pcie` the results are the same, only the times differ.
#[test]
#[ignore = "make rtl-programs"]
fn programs_run_with_the_delays_of_a_host() {
    let card = ["--rtl", "--pcie", "fpga-100g@haswell-e5"];
    run_programs(&card, &card);
}

/// Goal: through TLPs the results are the same. Method: usual sizes at the server; at the client,
/// the smallest MPS and the largest MRRS.
#[test]
#[ignore = "make rtl-programs"]
fn programs_run_between_two_cards_in_slots() {
    run_programs(&["--rtl", "--tlp"], &["--rtl", "--tlp=128:4096"]);
}

#[test]
#[ignore = "make rtl-programs"]
fn the_card_in_process_passes_the_selftest() {
    expect_selftest(&["selftest", "--rtl"], "rtl: card.sv, Verilated");
}

#[test]
#[ignore = "make rtl-programs"]
fn the_card_in_a_slot_passes_the_selftest() {
    let arguments = ["selftest", "--rtl", "--tlp"];
    expect_selftest(&arguments, "rtl: pcie_card.sv, Verilated");
}

fn expect_selftest(arguments: &[&str], name: &str) {
    let scratch = Scratch::new();
    let text = scratch.finish(scratch.ferroce(arguments));
    let text = text.expect_success();
    for word in [
        name,
        "0.1.0-rtl",
        "13 of 16 stages passed; not applicable: config, bars, device-memory",
    ] {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
}

#[test]
#[ignore = "make rtl-programs"]
fn the_card_behind_a_socket_passes_the_selftest() {
    let scratch = Scratch::new();
    let mut served = Served::start_with(&scratch, 1, &["--rtl"]);
    let text = scratch.finish(scratch.ferroce(&["selftest", "--device", &served.device(0)]));
    let text = text.expect_success();
    for word in [
        "0.1.0-rtl",
        "15 of 16 stages passed; not applicable: device-memory",
    ] {
        assert!(text.contains(word), "no {word}:\n{text}");
    }
    served.process.kill();
}

/// Goal: features that the card lacks are refused with a message. Method: rdma-core's programs that
/// use them.
#[test]
#[ignore = "make rtl-programs"]
fn objects_that_the_card_lacks_are_refused() {
    for (program, complaint) in [
        ("ibv_uc_pingpong", "Couldn't create QP"),
        ("ibv_srq_pingpong", "Couldn't create SRQ"),
    ] {
        let scratch = Scratch::new();
        let ended = scratch.finish(scratch.run(&["--rtl"], program, &["-g", "1"]));
        let code = ended.status.and_then(|status| status.code());
        assert_eq!(code, Some(1), "{program}: {ended:?}");
        assert!(ended.output.contains(complaint), "{program}: {ended:?}");
    }
}

fn built() -> [PathBuf; 2] {
    let folder = ferroce().with_file_name("../rtl/release");
    BUILT.map(|name| folder.join(name))
}

fn symbols(scratch: &Scratch, file: &Path) -> String {
    let mut nm = Command::new("nm");
    nm.arg("-C").arg(file);
    scratch.finish(nm).expect_success()
}

/// Goal: a process with the card contains no NIC of the model. Method: compare its symbols with the
/// symbols of the model's build.
#[test]
#[ignore = "make rtl-programs"]
fn the_card_is_without_the_model() {
    let scratch = Scratch::new();
    let model = symbols(&scratch, &ferroce());
    assert!(model.contains(MODEL_NIC) && !model.contains(CARD));
    for file in built() {
        let card = symbols(&scratch, &file);
        assert!(card.contains(CARD), "{}", file.display());
        let nic: Vec<_> = card.lines().filter(|l| l.contains(MODEL_NIC)).collect();
        assert!(nic.is_empty(), "{}: {nic:#?}", file.display());
    }
}

/// Goal: without Verilator the build reports what is missing. Method: a `PATH` with links to all
/// other programs of the machine.
#[test]
#[ignore = "make rtl-programs"]
fn without_verilator_the_build_says_so() {
    let scratch = Scratch::new();
    let programs = scratch.path("bin");
    fs::create_dir(&programs).expect("a new folder");
    let path = std::env::var_os("PATH").expect("a shell has started this");
    for folder in std::env::split_paths(&path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with("verilator") {
                // If several programs have a name, the first one counts.
                let _ = symlink(entry.path(), programs.join(name));
            }
        }
    }
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../hw-model/rtl/Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "check",
            "--locked",
            "-p",
            "ferroce-rtl-card",
            "--manifest-path",
            manifest,
        ])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-verilator"))
        .env("PATH", &programs)
        .env_remove("VERILATOR");
    let ended = Process::start(cargo, &scratch, "cargo", BUILD_TIMEOUT).wait();
    assert!(!ended.succeeded(), "{ended:?}");
    for word in [
        "Verilator 5.006 or newer is needed",
        "apt-get install verilator",
    ] {
        assert!(ended.output.contains(word), "no {word}: {ended:?}");
    }
}

/// Returns the times at which the card's clock changes in a waveform.
fn clock_times(path: &Path) -> BTreeSet<u64> {
    let file = BufReader::new(File::open(path).expect("the waveform was written"));
    let mut reader = FstReader::open(file).expect("the waveform is whole");
    let mut names = BTreeMap::new();
    let read = reader.read_hierarchy(|entry| {
        if let FstHierarchyEntry::Var { name, handle, .. } = entry {
            names.entry(name).or_insert(handle);
        }
    });
    read.expect("the names are whole");
    assert!(names.len() > 500, "{} signals", names.len());
    let clock = names.remove("clk").expect("the clock is a signal");
    let mut times = BTreeSet::new();
    let filter = FstFilter::filter_signals(vec![clock]);
    let read = reader.read_signals(&filter, |time, _, _| {
        times.insert(time);
        Ok::<(), std::convert::Infallible>(())
    });
    read.expect("the values are whole");
    times
}

fn wave_of(scratch: &Scratch, bounds: &str) -> (BTreeSet<u64>, Ended) {
    let file = scratch.path("card.fst");
    let wave = format!("{}{bounds}", file.display());
    let options = ["--rtl", "--wave", &wave];
    let ended = scratch.finish(scratch.run(&options, "ibv_devinfo", &[]));
    assert!(ended.succeeded(), "{ended:?}");
    (clock_times(&file), ended)
}

/// Goal: `--wave` writes exactly the requested cycles. Method: read the FST file, in which a clock
/// cycle has two time stamps.
#[test]
#[ignore = "make rtl-programs"]
fn a_waveform_has_the_cycles_that_were_asked_for() {
    let scratch = Scratch::new();
    let (all, _) = wave_of(&scratch, "");
    let last = *all.last().expect("the clock runs");
    assert!(all.first() == Some(&0) && last > 2 * 600, "{last}");
    let (some, ended) = wave_of(&scratch, ":200..500");
    assert_eq!(some.first(), Some(&400));
    assert_eq!(some.last(), Some(&999));
    assert!(!ended.output.contains("waveform"), "{ended:?}");
}

/// Goal: the waveform of a long run ends with a message, and is complete.
#[test]
#[ignore = "make rtl-programs"]
fn a_waveform_without_bounds_ends_by_itself() {
    let scratch = Scratch::new();
    let file = scratch.path("card.fst");
    let mut command = scratch.ferroce(&["selftest", "--rtl", "--stage", "dma", "--wave"]);
    command.arg(&file);
    let output = scratch.finish(command).expect_success();
    let said = "the waveform ends here, at clock cycle 262144;";
    assert!(output.contains(said), "{output}");
    let last = *clock_times(&file).last().expect("the clock runs");
    assert_eq!(last, 2 * 262_144 - 1);
}

#[test]
#[ignore = "make rtl-programs"]
fn what_cannot_be_is_refused() {
    let scratch = Scratch::new();
    for (options, complaint) in [
        (&["--rtl", "--wave", "a.fst:5..x"][..], "are clock cycles"),
        (&["--rtl", "--wave", "a.fst:9..5"], "FROM before TO"),
        (&["--rtl", "--wave", "/no/such/a.fst"], "no such folder"),
        (&["--rtl", "--pcie", "no-such-card"], "no-such-card"),
        (&["--rtl", "--tlp=1024:512"], "MPS is 128, 256 or 512"),
        (&["--rtl", "--tlp=256"], "--tlp=256:512"),
        (&["--tlp"], "--rtl"),
        (&["--wave", "a.fst"], "--rtl"),
    ] {
        let ended = scratch.finish(scratch.run(options, "ibv_devices", &[]));
        assert!(!ended.succeeded(), "{options:?}: {ended:?}");
        assert!(ended.output.contains(complaint), "{options:?}: {ended:?}");
    }
    let ended = scratch.finish(scratch.run(&["--rtl", "--wave", "/a:9..5"], "true", &[]));
    let code = ended.status.and_then(|status| status.code());
    assert_eq!(code, Some(OWN_FAILURE), "{ended:?}");
}
