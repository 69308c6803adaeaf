//! The course "Learn RDMA without a NIC": each program of `examples/` compiles without warnings,
//! prints what its page shows, and its broken variant is explained. `FERROCE_UPDATE=1` writes what
//! the programs print into the pages.
//!
//! Times on the pages are simulated: they are the same on each run and on each machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferroce_tests::capture::{tshark, wire_check};
use ferroce_tests::explained::without_calls;
use ferroce_tests::page::compare_part;
use ferroce_tests::{Ended, PROCESS_TIMEOUT, Process, Scratch, free_port, wait_until_listening};

/// Debian's own interpreter, for which pyverbs is built.
const PYTHON: &str = "/usr/bin/python3";
/// Options of `ferroce run` for times.
const TIMED: &[&str] = &["--timed", "cx5-100g"];
/// Options for the broken variants.
const EXPLAIN: &[&str] = &["--explain-errors"];

/// Time limit of a build of the programs in Rust.
const BUILD_TIMEOUT: Duration = Duration::from_secs(300);

/// Options of the compiler for a broken variant.
const BROKEN: &[&str] = &["-DBROKEN"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// Compiles a program of the course; returns its path.
fn compile(scratch: &Scratch, name: &str, options: &[&str]) -> String {
    let binary = scratch.path(&format!("{name}{}", options.concat()));
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-o")
        .arg(&binary)
        .arg(examples().join(format!("{name}.c")))
        .args(["-lrdmacm", "-libverbs"]);
    scratch.finish(compiler).expect_success();
    binary.to_string_lossy().into_owned()
}

/// The ends of a client and of its server.
struct Both {
    client: Ended,
    server: Ended,
}

impl Both {
    /// Returns what both have printed; fails the test unless both succeeded.
    fn expect_success(self) -> String {
        let Self { client, server } = self;
        let how = (client.how(), server.how());
        let output = format!("{}{}", client.output, server.output);
        assert!(
            client.succeeded() && server.succeeded(),
            "{how:?}\n{output}"
        );
        output
    }

    /// Returns what both have printed, as the page shows it; fails the test unless the client or
    /// the server failed.
    fn expect_failure(self) -> String {
        let Self { client, server } = self;
        let [client_text, server_text] = [&client, &server].map(|ended| masked(&ended.output));
        let ended = [client.expect_end(), server.expect_end()];
        let text = format!("The client:\n\n{client_text}\nThe server:\n\n{server_text}");
        assert!(ended.iter().any(|status| !status.success()), "{text}");
        text
    }
}

/// Options of `ferroce run` for the two sides.
#[derive(Clone, Copy)]
struct Options<'a> {
    server: &'a [&'a str],
    client: &'a [&'a str],
}

impl<'a> Options<'a> {
    fn of_both(options: &'a [&'a str]) -> Self {
        Self {
            server: options,
            client: options,
        }
    }
}

/// Runs a program that meets its peer by TCP, as server and client.
fn run_both(scratch: &Scratch, options: Options<'_>, program: &[&str]) -> Both {
    let port = free_port().to_string();
    let arguments = [&program[1..], &["-p", &port]].concat();
    let server = scratch.run(options.server, program[0], &arguments);
    let mut server = Process::start(server, scratch, "server", PROCESS_TIMEOUT);
    wait_until_listening(port.parse().expect("a port"), &mut server);
    let arguments = [&arguments[..], &["127.0.0.1"]].concat();
    let client = scratch.run(options.client, program[0], &arguments);
    finish(scratch, client, server)
}

/// The same for RDMA CM, whose server prints that it listens.
fn run_connection(scratch: &Scratch, options: Options<'_>, program: &str) -> Both {
    let server = scratch.run(options.server, program, &[]);
    let mut server = Process::start(server, scratch, "server", PROCESS_TIMEOUT);
    server.expect_output("listening");
    let client = scratch.run(options.client, program, &["127.0.0.1"]);
    finish(scratch, client, server)
}

fn finish(scratch: &Scratch, client: Command, server: Process) -> Both {
    let client = Process::start(client, scratch, "client", PROCESS_TIMEOUT).wait();
    let server = server.wait();
    Both { client, server }
}

/// Returns a block of text for a page, without what differs from run to run: addresses, keys, QPNs
/// and distances between addresses.
fn masked(output: &str) -> String {
    let (mut text, output) = (String::new(), without_calls(output));
    for word in output.split_inclusive([' ', '\n', ':', ',', ')', ']']) {
        let (bare, end) = word.split_at(word.len() - 1);
        let is_hex = bare.starts_with("0x") && !output.contains(&format!("vendor_err {bare}"));
        let is_distance = bare.len() > 9 && bare.bytes().all(|byte| byte.is_ascii_digit());
        text += match (is_hex, is_distance) {
            (true, _) => "0x…",
            (_, true) => "…",
            _ => bare,
        };
        text += end;
    }
    format!("```text\n{text}```\n")
}

/// Returns the page of an exercise.
fn page(name: &str) -> String {
    format!("docs/src/learn-{}.md", name.replace('_', "-"))
}

/// Compares a block of text on a page. Leaves out the line that introduces simulated time.
fn compare_text(name: &str, part: &str, text: &str) {
    let is_shown = |line: &&str| !line.contains(": simulated time: preset ");
    let lines = text.lines().filter(is_shown);
    let shown: String = lines.map(|line| format!("{}\n", line.trim_end())).collect();
    compare_part(&page(name), part, &format!("```text\n{shown}```\n"));
}

/// Compares the explanation on a page, and expects that it contains the fault: what a test that
/// only compares with the page would accept with the page.
fn compare_explanation(name: &str, said: &str, fault: &str) {
    assert!(said.contains(fault), "no {fault:?} in\n{said}");
    compare_part(&page(name), "explained", said);
}

/// Compares the answer to the question of a page.
fn compare_answer(name: &str, answer: &str) {
    compare_part(&page(name), "answer", &format!("{answer}\n"));
}

/// Returns the number after a text in an output.
fn number_after(output: &str, text: &str) -> f64 {
    let rest = output.split_once(text).map(|(_, rest)| rest.trim_start());
    let digits = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        rest[..end.unwrap_or(rest.len())]
            .trim_end_matches('.')
            .parse()
            .ok()
    };
    rest.and_then(digits)
        .unwrap_or_else(|| panic!("no number after {text:?} in\n{output}"))
}

#[test]
fn masks_hide_what_differs() {
    let output =
        "64 bytes at 0x4000, rkey 0x1ff: begins 140195269775360 bytes, vendor_err 0x50: a\n";
    assert_eq!(
        masked(output),
        "```text\n64 bytes at 0x…, rkey 0x…: begins … bytes, vendor_err 0x50: a\n```\n"
    );
    assert_eq!(number_after("a: 12.5 ns\n", "a:"), 12.5);
}

#[test]
fn exercise_1_devices() {
    let name = "01_devices";
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let run = |options: &[&str]| scratch.finish(scratch.run(options, &program, &[]));
    // Further GIDs are the addresses of the machine.
    let output = run(&[]).expect_success();
    let (fixed, others) = output.split_once("  GID 1").expect("two GIDs");
    let first = others.lines().next().unwrap_or_default();
    compare_text(name, "output", &format!("{fixed}  GID 1{first}\n"));
    let timed = run(TIMED).expect_success();
    let queue_pairs = number_after(&timed, "queue pairs:");
    let in_flight = number_after(&timed, "of one queue pair:");
    let answer = format!("{queue_pairs} queue pairs; {in_flight} READs in flight for each.");
    compare_answer(name, &answer);
    let broken = compile(&scratch, name, BROKEN);
    let ended = scratch.finish(scratch.run(EXPLAIN, &broken, &[]));
    assert!(!ended.succeeded(), "{}", ended.output);
    compare_explanation(
        name,
        &masked(&ended.output),
        "ibv_query_port: port_num is 0",
    );
}

#[test]
fn exercise_2_objects() {
    let name = "02_objects";
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let output = scratch
        .finish(scratch.run(&[], &program, &[]))
        .expect_success();
    compare_text(name, "output", &output);
    let sends = number_after(&output, "asked for 10 sends, got room for");
    compare_answer(
        name,
        &format!("{sends}: the device makes queues of a power of two."),
    );
    let broken = compile(&scratch, name, BROKEN);
    let ended = scratch.finish(scratch.run(EXPLAIN, &broken, &[]));
    assert!(!ended.succeeded(), "{}", ended.output);
    let fault = "ibv_modify_qp: attr->qp_state is RTS; right: a state that follows INIT";
    compare_explanation(name, &masked(&ended.output), fault);
}

/// Runs the broken variant of an exercise with two sides, and compares what is said about it.
fn explain_exercise(scratch: &Scratch, name: &str, fault: &str) {
    let broken = compile(scratch, name, BROKEN);
    let said = run_both(scratch, Options::of_both(EXPLAIN), &[&broken]).expect_failure();
    compare_explanation(name, &said, fault);
}

/// Runs both variants of an exercise in simulated time, and compares them with its page. Returns
/// the output.
fn run_exercise(name: &str, fault: &str) -> String {
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let output = run_both(&scratch, Options::of_both(TIMED), &[&program]).expect_success();
    compare_text(name, "output", &output);
    explain_exercise(&scratch, name, fault);
    output
}

#[test]
fn exercise_3_pingpong() {
    let name = "03_pingpong";
    let fault = "IBV_WC_RNR_RETRY_EXC_ERR, vendor_err 0x5a: The peer had no receive posted";
    let output = run_exercise(name, fault);
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let slow = run_both(
        &scratch,
        Options::of_both(&["--timed", "irdma-10g"]),
        &[&program],
    );
    let slow = slow.expect_success();
    let round_ns = |output: &str| number_after(output, "rounds of 64 bytes,");
    let (fast_ns, slow_ns) = (round_ns(&output), round_ns(&slow));
    assert!(slow_ns > fast_ns);
    let answer = format!("{slow_ns:.1} ns, where the ConnectX-5 takes {fast_ns:.1} ns.");
    compare_answer(name, &answer);
}

#[test]
fn exercise_4_write_read() {
    let name = "04_write_read";
    let output = run_exercise(name, "lack IBV_ACCESS_REMOTE_WRITE");
    let write_ns = number_after(&output, "a WRITE of 8 bytes takes");
    let read_ns = number_after(&output, "a READ of 8 bytes takes");
    let more_ns = read_ns - write_ns;
    compare_answer(
        name,
        &format!("The READ, by {more_ns:.1} ns of {read_ns:.1} ns."),
    );
}

#[test]
fn exercise_5_events() {
    let name = "05_events";
    let output = run_exercise(name, "ibv_get_cq_event: no CQ of the channel is armed");
    let polls_ns = number_after(&output, "the server polls:");
    let sleeps_ns = number_after(&output, "the server sleeps:");
    assert!(sleeps_ns > polls_ns);
    compare_answer(name, &format!("{:.1} ns.", sleeps_ns - polls_ns));
}

#[test]
fn exercise_6_signalling() {
    let name = "06_signalling";
    let output = run_exercise(name, "ibv_post_send: the queue is full; max_send_wr is 64");
    let rate =
        |interval| number_after(&output, &format!("64 in flight, 1 of {interval} signaled:"));
    let (each, few) = (rate(" 1"), rate("32"));
    assert!(few > each);
    let (more, percent) = (few - each, (few / each - 1.0) * 100.0);
    compare_answer(
        name,
        &format!("{more:.2} million WRITEs a second, {percent:.0} %."),
    );
}

/// Returns the table of `ferroce perf`, and its bottleneck.
fn perf(scratch: &Scratch, bytes: &str) -> String {
    let test = ["perf", "write_bw", "--preset", "cx5-100g", "-s", bytes];
    let output = scratch.finish(scratch.ferroce(&test)).expect_success();
    let rows = ["#bytes", bytes, "Bottleneck"];
    let is_row = |line: &&str| rows.iter().any(|row| line.trim_start().starts_with(row));
    let lines = output.lines().filter(is_row);
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn exercise_7_latency() {
    let name = "07_latency";
    let output = run_exercise(
        name,
        "ibv_post_send: inline data have 512 bytes; right: at most",
    );
    let scratch = Scratch::new();
    let small = perf(&scratch, "64");
    assert!(small.contains("program's thread"), "{small}");
    compare_text(name, "small", &small);
    let long = perf(&scratch, "65536");
    assert!(long.contains("MAC, transmit"), "{long}");
    compare_text(name, "long", &long);
    let inline_ns = number_after(&output, ", inline:");
    let fetched_ns = number_after(&output, ", not inline:");
    compare_answer(name, &format!("{:.1} ns.", fetched_ns - inline_ns));
}

#[test]
fn exercise_8_srq() {
    let name = "08_srq";
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let output = scratch
        .finish(scratch.run(&[], &program, &[]))
        .expect_success();
    compare_text(name, "output", &output);
    let message = number_after(&output, "after message");
    compare_answer(name, &format!("After message {message}."));
    let broken = compile(&scratch, name, BROKEN);
    let ended = scratch.finish(scratch.run(EXPLAIN, &broken, &[]));
    assert!(!ended.succeeded(), "{}", ended.output);
    let fault = "ibv_post_recv: the QP takes its receives from an SRQ";
    compare_explanation(name, &masked(&ended.output), fault);
}

#[test]
fn exercise_9_atomics() {
    let name = "09_atomics";
    let fault = "the peer's RC_FETCH_ADD does not fit: the address 0x… is no multiple of 8";
    let output = run_exercise(name, fault);
    let rate = |depth| 1e3 / number_after(&output, &format!("fetch-and-add, {depth} in flight:"));
    let (one, many) = (rate(" 1"), rate("16"));
    assert!(many > one);
    compare_answer(
        name,
        &format!("{one:.2} million and {many:.2} million times."),
    );
}

#[test]
fn exercise_10_key_value() {
    let name = "10_key_value";
    let output = run_exercise(name, "the peer's RDMA READ of 256 bytes at");
    let reads_ns = number_after(&output, "two READs    ,  1 at a time:");
    let messages_ns = number_after(&output, "SEND and RECV,  1 at a time:");
    let look_up_ns = reads_ns - messages_ns;
    assert!(look_up_ns > 0.0, "{output}");
    compare_answer(name, &format!("{look_up_ns:.1} ns."));
}

#[test]
fn exercise_11_connection_manager() {
    let name = "11_connection_manager";
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let file = scratch.path("connection.pcapng");
    let capture = ["--capture", file.to_str().expect("our own name")];
    let output = run_connection(
        &scratch,
        Options {
            server: &capture,
            client: &[],
        },
        &program,
    )
    .expect_success();
    compare_text(name, "output", &output);
    let report = wire_check(&scratch, &file).expect_success();
    let messages = number_after(&report, "UD_SEND_ONLY");
    compare_answer(name, &format!("{messages}."));
    let broken = compile(&scratch, name, BROKEN);
    let said = run_connection(&scratch, Options::of_both(EXPLAIN), &broken).expect_failure();
    let fault = "IBV_WC_LOC_LEN_ERR, vendor_err 0x30: The message is longer than the receive";
    compare_explanation(name, &said, fault);
}

#[test]
fn exercise_12_recovery() {
    let name = "12_recovery";
    let scratch = Scratch::new();
    let program = compile(&scratch, name, &[]);
    let file = "recovery.pcapng";
    let path = scratch.path(file);
    let path = path.to_str().expect("our own name");
    let output = run_both(
        &scratch,
        Options {
            server: &["--capture", path],
            client: &[],
        },
        &[&program],
    )
    .expect_success();
    compare_text(name, "output", &output);
    let fields = ["opcode", "psn"].map(|field| format!("infiniband.bth.{field}"));
    let [opcode, psn] = &fields;
    let columns = [
        "-T",
        "fields",
        "-e",
        opcode,
        "-e",
        psn,
        "-e",
        "infiniband.aeth.syndrome",
    ];
    let seen = tshark(&scratch, file, &columns);
    // tshark warns root on standard error.
    let is_row = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
    let rows: Vec<_> = seen.lines().filter(is_row).collect();
    let report = wire_check(&scratch, &scratch.path(file)).expect_success();
    let report = report.replace(path, file);
    compare_text(name, "capture", &format!("{}\n{report}", rows.join("\n")));
    // WRITE, NAK; WRITE, ACK.
    assert_eq!(rows.len(), 4, "{rows:?}");
    let psn = rows[2].split('\t').nth(1).expect("a PSN");
    compare_answer(name, &format!("{psn}."));
    explain_exercise(
        &scratch,
        name,
        "No valid answer: the peer's QP is not in RTR or RTS",
    );
}

/// Goal: the programs in another language do what those in C do. Method: the figures of a device,
/// the states, the texts that are read and written; a time, which only has to be there.
fn expect_as_in_c(run: impl Fn(&str) -> String) {
    let devices = run("devices");
    assert!(number_after(&devices, "queue pairs:") > 1000.0, "{devices}");
    let objects = run("objects");
    assert!(
        objects.ends_with("in RTS\nreceived \"hello\"\n"),
        "{objects}"
    );
    let rounds = run("pingpong");
    assert!(
        number_after(&rounds, "rounds of 64 bytes,") > 0.0,
        "{rounds}"
    );
    let texts = run("write_read");
    let right = "client: READ \"kept by the server\"\n\
                 server: my memory says \"written by the client\"\n";
    assert_eq!(texts, right);
}

/// Exercises with two sides.
const PAIRS: [&str; 2] = ["pingpong", "write_read"];

#[test]
fn exercises_1_to_4_in_python() {
    let scratch = Scratch::new();
    let names = [
        ("devices", "01_devices"),
        ("objects", "02_objects"),
        ("pingpong", "03_pingpong"),
        ("write_read", "04_write_read"),
    ];
    expect_as_in_c(|name| {
        let (_, file) = names
            .iter()
            .find(|(of, _)| *of == name)
            .expect("one of them");
        let script = examples().join(format!("python/{file}.py"));
        let script = script.to_str().expect("a plain name");
        let program = [PYTHON, "-B", script];
        if PAIRS.contains(&name) {
            run_both(&scratch, Options::of_both(&[]), &program).expect_success()
        } else {
            let command = scratch.run(&[], program[0], &program[1..]);
            scratch.finish(command).expect_success()
        }
    });
}

/// Builds the programs in Rust; returns their folder. If the bindings of verbs cannot be built
/// here, prints the reason and returns `None`.
fn build_rust(scratch: &Scratch) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("course");
    let manifest = examples().join("rust/Cargo.toml");
    let build = |options: &[&str]| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["build", "--locked", "--quiet", "--manifest-path"])
            .arg(&manifest)
            .arg("--target-dir")
            .arg(&target)
            .args(options);
        Process::start(command, scratch, "build", BUILD_TIMEOUT).wait()
    };
    // It needs crates.io, libclang and pkg-config.
    let bindings = build(&["--package", "rdma-sys"]);
    if !bindings.succeeded() {
        eprintln!("skipped: rdma-sys: {}\n{}", bindings.how(), bindings.output);
        return None;
    }
    build(&[]).expect_success();
    Some(target.join("debug"))
}

#[test]
#[ignore = "builds rdma-sys, which needs libclang and the network"]
fn exercises_1_to_4_in_rust() {
    let scratch = Scratch::new();
    let Some(folder) = build_rust(&scratch) else {
        return;
    };
    expect_as_in_c(|name| {
        let program = folder.join(name);
        let program = program.to_str().expect("a plain name");
        if PAIRS.contains(&name) {
            run_both(&scratch, Options::of_both(&[]), &[program]).expect_success()
        } else {
            scratch
                .finish(scratch.run(&[], program, &[]))
                .expect_success()
        }
    });
}
