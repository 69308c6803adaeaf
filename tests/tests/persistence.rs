//! A log in persistent memory of a simulated host whose power fails: what was acknowledged is there
//! afterwards, or is not, depending on the method of the client and on the host.

use std::fs;
use std::path::Path;

use ferroce_tests::{Ended, PROCESS_TIMEOUT, Process, Scratch, free_port, wait_until_listening};

/// Size of the file, of a slot and of an entry, as in tests/c/persistent_log.c.
const FILE_BYTES: usize = 1 << 20;
const SLOT: usize = 4096;
const ENTRY: usize = 3000;
/// When the host of the server loses its power, after the first packet.
const FAILURE_NS: u64 = 350_000;
/// A time at which the card has the answer to a READ ready, and has not sent it.
const WITH_AN_ANSWER_NS: u64 = 351_118;
/// Times of failures of the long mode, and the distance between them: less than a step of the
/// client, of which there are a few in 4 us.
const FAILURES: u64 = 100;
const DISTANCE_NS: u64 = 43;
/// Options of a world whose cards write to memory and not to the cache.
const WITHOUT_DDIO: [&str; 2] = ["--set", "memory.ddio=false"];

/// What a run has left.
#[derive(PartialEq, Eq)]
struct Left {
    /// Entries that the client knows to be persistent.
    acknowledged: u64,
    /// The last entry that the log says it has.
    head: u64,
    /// Entries up to the head that are not there as a whole.
    torn: u64,
    /// The whole file.
    bytes: Vec<u8>,
}

/// Returns the number before ` entries` in the line that begins with `start`.
fn number(output: &str, start: &str) -> u64 {
    let line = output.lines().find_map(|line| line.strip_prefix(start));
    let word = line.and_then(|line| line.split(' ').next());
    let found = word.and_then(|word| word.parse().ok());
    found.unwrap_or_else(|| panic!("no line {start:?}:\n{output}"))
}

/// Runs the log once on a host whose persistent memory is `log`; returns how server and client have
/// ended.
fn run(log: &Path, world: &[&str], method: &str) -> (Ended, Ended) {
    let scratch = Scratch::new();
    let program = scratch.compile("persistent_log");
    let socket = scratch.path("world").to_string_lossy().into_owned();
    let (file, host) = (log.to_string_lossy(), format!("n0={}", log.display()));
    let mut command = scratch.ferroce(&["world", "--preset", "cx5-100g", "--once"]);
    command.args(["--socket", &socket, "--programs", "2"]);
    command.args(["--persistent", &host]).args(world);
    let mut running = Process::start(command, &scratch, "world-output", PROCESS_TIMEOUT);
    running.expect_output("hosts 2");
    let port = free_port();
    let text = port.to_string();
    let start = |name: &str, more: &[&str]| {
        let common = ["-p", &text, "-f", &file, "-m", method];
        let arguments = [&common[..], more].concat();
        let options = ["--world", &socket, "--host", name];
        let command = scratch.run(&options, &program, &arguments);
        Process::start(command, &scratch, name, PROCESS_TIMEOUT)
    };
    let mut server = start("n0", &[]);
    wait_until_listening(port, &mut server);
    let client = start("n1", &["127.0.0.1"]).wait();
    (server.wait(), client)
}

/// Runs the log until the power fails. Returns what is left.
fn fail(world: &[&str], method: &str) -> Left {
    fail_at(FAILURE_NS, world, method)
}

/// As [`fail`], at a time after the first packet.
fn fail_at(time_ns: u64, world: &[&str], method: &str) -> Left {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    fs::write(&log, vec![0; FILE_BYTES]).expect("our own");
    // The host of the server is n0.
    let plan = format!("power-failure={time_ns}ns@at:10.0.0.1");
    let world = [&["--faults", &plan], world].concat();
    let (server, client) = run(&log, &world, method);
    assert!(!server.succeeded(), "it was killed: {}", server.output);
    let acknowledged = number(&client.expect_success(), "acknowledged ");
    let bytes = fs::read(&log).expect("our own");
    let head = u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
    let is_torn = |number: &u64| {
        let start = *number as usize * SLOT;
        // No byte of an entry is zero.
        bytes[start..start + ENTRY].contains(&0)
    };
    let torn = (1..=head).filter(is_torn).count() as u64;
    println!("{world:?} {method}: {acknowledged} acknowledged, head {head}, {torn} torn");
    Left {
        acknowledged,
        head,
        torn,
        bytes,
    }
}

/// Goal: FLUSH with placement PERSISTENT keeps what it promises. Method: each acknowledged entry is
/// there, and the head names no entry that is not; a second run leaves the same bytes; a program
/// that is started again finds the log.
#[test]
fn what_was_flushed_survives() {
    let left = fail(&[], "flush");
    assert!(left.acknowledged > 10, "{}", left.acknowledged);
    assert!(left.head >= left.acknowledged, "{}", left.head);
    assert_eq!(left.torn, 0);
    assert!(
        left == fail(&[], "flush"),
        "another run leaves another file"
    );
    let scratch = Scratch::new();
    let log = scratch.path("log");
    fs::write(&log, &left.bytes).expect("our own");
    let (server, client) = run(&log, &[], "flush");
    let output = server.expect_success();
    assert_eq!(number(&output, "found a head of "), left.head);
    assert_eq!(number(&client.expect_success(), "acknowledged "), 255);
}

/// Goal: an error of a protocol is found. Method: a client that flushes only its heads, which then
/// name entries that the cache loses.
#[test]
fn a_head_without_its_entries_is_found() {
    let left = fail(&[], "head");
    assert!(
        left.head >= left.acknowledged && left.head > 10,
        "{}",
        left.head
    );
    assert_eq!(left.torn, left.head);
}

/// Goal: nothing that was acknowledged is lost, and no head comes before its entry, whenever the
/// power fails. Method: failures in each step of an entry.
#[test]
#[ignore = "takes minutes"]
fn no_moment_of_a_failure_breaks_the_promise() {
    let times = (0..FAILURES).map(|number| FAILURE_NS + number * DISTANCE_NS);
    for time_ns in times {
        for (world, method) in [(&[][..], "flush"), (&WITHOUT_DDIO[..], "read")] {
            let left = fail_at(time_ns, world, method);
            let is_kept = left.head >= left.acknowledged && left.torn == 0;
            assert!(is_kept, "{time_ns} ns, {world:?} {method}");
        }
    }
}

/// Goal: with DDIO, no other method saves an entry: the cache loses it.
#[test]
fn a_cache_loses_what_was_not_flushed() {
    for method in ["none", "visible", "read"] {
        let left = fail(&[], method);
        assert!(left.acknowledged > 10, "{method}: {}", left.acknowledged);
        assert_eq!(left.head, 0, "{method}");
        assert!(left.bytes.iter().all(|byte| *byte == 0), "{method}");
    }
}

/// Goal: without DDIO, and with a cache that survives, the READ of the appliance method is enough:
/// it pushes the posted writes.
#[test]
fn a_read_is_enough_without_a_cache_that_is_lost() {
    for world in [&WITHOUT_DDIO[..], &["--eadr"]] {
        for method in ["read", "flush"] {
            let left = fail(world, method);
            assert!(left.acknowledged > 10, "{world:?}: {}", left.acknowledged);
            assert!(left.head >= left.acknowledged, "{world:?}: {}", left.head);
            assert_eq!(left.torn, 0, "{world:?} {method}");
        }
    }
    let left = fail_at(WITH_AN_ANSWER_NS, &WITHOUT_DDIO, "read");
    assert_eq!(left.head, left.acknowledged);
}

#[test]
fn what_cannot_be_persistent_memory_is_refused() {
    let scratch = Scratch::new();
    let (odd, good) = (scratch.path("odd"), scratch.path("good"));
    fs::write(&odd, [0; 100]).expect("our own");
    fs::write(&good, [0; 4096]).expect("our own");
    let (odd, good) = (format!("n0={}", odd.display()), good.display());
    let (first, second, third) = (
        format!("n0={good}"),
        format!("n1={good}"),
        format!("n7={good}"),
    );
    for (options, message) in [
        (&["--persistent", "log"][..], "must be HOST=FILE"),
        (&["--persistent", &third], "they are n0 to n1"),
        (&["--persistent", "n0=/nowhere/log"], "No such file"),
        (&["--persistent", &odd], "whole pages"),
        (
            &["--persistent", &first, "--persistent", &first],
            "has persistent memory already",
        ),
        (
            &["--persistent", &first, "--persistent", &second],
            "the memory of another host",
        ),
        (
            &["--persistent", &first, "--elide-payload"],
            "cannot be used with",
        ),
        (&["--eadr"], "--persistent"),
    ] {
        let mut command = scratch.ferroce(&["world", "--preset", "cx5-100g", "--socket", "w"]);
        command.args(options);
        let ended = scratch.finish(command);
        assert!(!ended.expect_end().success(), "{options:?}");
        assert!(
            ended.output.contains(message),
            "{options:?}: {}",
            ended.output
        );
    }
}
