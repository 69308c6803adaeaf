//! The interfaces that Ferroce replaces: the page of the book, the symbols of the libraries, and
//! each call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch, TIMEOUT, eventually, free_port, library};

type Names = BTreeSet<String>;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the calls in the page's table of this name.
fn on_page(table: &str) -> Names {
    let page = text("docs/src/interfaces.md");
    let (_, rest) = page
        .split_once(&format!("<!-- calls: {table} -->"))
        .expect("the page has the table");
    let rows = rest.trim_start().lines().skip(2);
    let rows = rows.take_while(|row| row.starts_with('|'));
    let calls = rows.map(|row| row.split('|').nth(1).expect("a cell"));
    let names = calls.flat_map(|calls| calls.split(','));
    let names: Vec<_> = names
        .map(|name| name.trim().trim_matches('`').to_owned())
        .collect();
    let set: Names = names.iter().cloned().collect();
    assert_eq!(
        set.len(),
        names.len(),
        "{table} has a call twice: {names:?}"
    );
    set
}

/// Goal: the page lists exactly the calls of libc that the libraries replace.
#[test]
fn the_page_has_the_symbols_of_the_libraries() {
    let symbols = text("provider/symbols.txt");
    let rows = symbols.lines().filter(|row| row.starts_with("GLIBC_"));
    let names = rows.filter_map(|row| row.split(' ').nth(2));
    let taken: Names = names.map(str::to_owned).collect();
    let listed: Names = &on_page("files") | &on_page("rest");
    assert_eq!(listed, taken);

    let time = library().with_file_name("libferroce_time.so");
    let mut nm = Command::new("nm");
    let output = nm.args(["-D", "--defined-only"]).arg(time).output();
    let output = output.expect("nm runs (binutils)");
    let output = String::from_utf8_lossy(&output.stdout);
    let names = output.lines().filter_map(|row| row.split(' ').nth(2));
    let names = names.filter(|name| !name.starts_with("ferroce_"));
    assert_eq!(on_page("time"), names.map(str::to_owned).collect());
}

/// Goal: each call of libc that takes a path and only reads finds the device.
#[test]
fn each_call_with_a_path_finds_the_device() {
    let scratch = Scratch::new();
    let program = scratch.compile("paths");
    let output = scratch
        .finish(scratch.run(&[], &program, &[]))
        .expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
    let tried = output
        .lines()
        .filter_map(|line| line.strip_prefix("works: "));
    assert_eq!(on_page("files"), tried.map(str::to_owned).collect());
}

/// Goal: the tools that users try first find the device.
#[test]
fn tools_list_the_device() {
    let scratch = Scratch::new();
    let prints = |program: &str, arguments: &[&str], expected: &[&str]| {
        let ended = scratch.finish(scratch.run(&[], program, arguments));
        let output = ended.expect_success();
        for words in expected {
            assert!(
                output.contains(words),
                "{program}: no {words:?} in {output}"
            );
        }
    };
    let port = ["CA 'ferroce0'", "State: Active", "Link layer: Ethernet"];
    prints("/usr/sbin/ibstat", &[], &port);
    prints("/usr/sbin/ibstat", &["-l"], &["ferroce0"]);
    prints("/usr/sbin/ibstat", &["-p"], &["0x"]);
    let status = ["'ferroce0' port 1", "4: ACTIVE", "100 Gb/sec"];
    prints("/usr/sbin/ibstatus", &[], &status);
    let card = ["f10a:00:00.0 Infiniband controller", "Altera"];
    prints("/usr/bin/lspci", &["-v", "-d", "1172:"], &card);
    let place = ["f10a:00:00.0", "OpenFabrics \"ferroce0\""];
    prints("/usr/bin/lstopo-no-graphics", &[], &place);
}

/// Goal: iproute2's `rdma`, which rdma-core's newest tests call first, lists device, link and queue
/// pairs. Method: a second program has queue pairs at the same time.
#[test]
fn rdma_lists_devices_links_and_queue_pairs() {
    let scratch = Scratch::new();
    let rdma = |arguments: &[&str]| scratch.finish(scratch.run(&[], "/usr/bin/rdma", arguments));
    let link = rdma(&["link", "show", "-j"]).expect_success();
    for words in [
        "\"ifname\":\"ferroce0\"",
        "\"port\":1",
        "\"state\":\"ACTIVE\"",
    ] {
        assert!(link.contains(words), "no {words} in {link}");
    }
    let device = rdma(&["dev", "show", "ferroce0"]).expect_success();
    assert!(device.contains("node_type ca"), "{device}");
    let port = free_port().to_string();
    let server = scratch.run(&[], "ibv_rc_pingpong", &["-g", "0", "-p", &port]);
    let _server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    eventually(
        "the queue pair of ibv_rc_pingpong in the list",
        TIMEOUT,
        || {
            let qps = rdma(&["resource", "show", "qp"]).expect_success();
            qps.contains("type RC state INIT") && qps.contains("comm ibv_rc_pingpong")
        },
    );
    let summary = rdma(&["resource", "show", "ferroce0"]).expect_success();
    assert!(summary.contains("qp 1"), "{summary}");
    let ended = rdma(&["resource", "show", "cq"]);
    assert!(ended.output.contains("not supported"), "{}", ended.output);
}

/// Goal: calls that change mappings reach libibverbs, which keeps registered memory in its place.
/// `libferroce_time.so` is loaded before it, and would hide its functions.
#[test]
fn mappings_are_left_to_the_verbs_library() {
    let (files, rest, time) = (on_page("files"), on_page("rest"), on_page("time"));
    for call in ["mmap", "mmap64", "munmap", "mremap", "madvise", "mprotect"] {
        assert!(files.contains(call) || rest.contains(call), "{call}");
        assert!(!time.contains(call), "{call}");
    }
}
