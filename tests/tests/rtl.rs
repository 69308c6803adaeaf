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
use ferroce_tests::{Ended, Pair, Process, Scratch, Served, ferroce};
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
const PROGRAMS: [(&str, &str, &[u8]); 5] = [
    ("ib_write_bw", "-F -n 20", &[0x06, 0x07, 0x08, 0x11]),
    ("ib_write_lat", "-F -n 50", &[0x0a, 0x11]),
    ("ib_send_bw", "-F -n 20", &[0x00, 0x01, 0x02, 0x11]),
    ("ib_read_bw", "-F -n 20", &[0x0c, 0x0d, 0x0e, 0x0f]),
    (
        "ibv_rc_pingpong",
        "-c -g 1 -n 50",
        &[0x00, 0x01, 0x02, 0x11],
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
    for (server, client) in [("--rtl", "--rtl"), ("--rtl", ""), ("", "--rtl")] {
        let scratch = Scratch::new();
        let program = scratch.compile("payload");
        let pair = Pair {
            program: &program,
            arguments: &["-n", "39"],
            options: &[],
        };
        let options =
            [server, client].map(|option| Vec::from_iter((!option.is_empty()).then_some(option)));
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

#[test]
#[ignore = "make rtl-programs"]
fn the_card_in_process_passes_the_selftest() {
    let scratch = Scratch::new();
    let text = scratch.finish(scratch.ferroce(&["selftest", "--rtl"]));
    let text = text.expect_success();
    for word in [
        "card.sv, Verilated",
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
        ("ibv_ud_pingpong", "Couldn't create QP"),
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

/// Goal: an atomic fails at the post if the requester is the card, and completes with a remote
/// invalid request (status 9) if the responder is the card. Method: perftest, which does not check
/// capabilities.
#[test]
#[ignore = "make rtl-programs"]
fn atomic_operations_are_refused() {
    for (client, complaint) in [
        (&["--rtl"][..], "Couldn't post send"),
        (&[], "Failed status 9"),
    ] {
        let scratch = Scratch::new();
        let pair = Pair {
            program: "ib_atomic_bw",
            arguments: &["-F", "-n", "20"],
            options: &[],
        };
        let mut running = pair.start(&scratch, &["--rtl"], client);
        let ended = running.client.wait();
        running.server.kill();
        let code = ended.status.and_then(|status| status.code());
        assert_eq!(code, Some(1), "{ended:?}");
        assert!(ended.output.contains(complaint), "{ended:?}");
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
