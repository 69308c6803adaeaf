//! Registered memory, in simulated and in real time: data arrives, and after deregistration the
//! memory is normal again. In simulated time, by which pages the card translates addresses.

use ferroce_tests::page::compare_part;
use ferroce_tests::{Pair, Scratch};

fn run(options: &[&str], arguments: &[&str]) {
    let scratch = Scratch::new();
    let program = scratch.compile("registered");
    let command = scratch.run(options, &program, arguments);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

#[test]
fn registered_memory() {
    run(&[], &[]);
}

#[test]
fn registered_memory_in_simulated_time() {
    run(&["--timed", "cx5-100g"], &["shared"]);
}

/// Returns what a client printed on `cx5-100g` with a parameter.
fn client_of(program: &str, arguments: &[&str], parameter: &str) -> String {
    let pair = Pair {
        program,
        arguments,
        options: &["--timed", "cx5-100g", "--set", parameter],
    };
    pair.run().1
}

/// Returns the time of a GET of `tests/c/key_value.c`, in ns.
fn get_ns(program: &str, arguments: &[&str], parameter: &str) -> f64 {
    let output = client_of(program, arguments, parameter);
    let mut words = output
        .lines()
        .filter_map(|line| line.strip_suffix(" ns a GET"));
    let time = words.next().and_then(|time| time.parse().ok());
    time.unwrap_or_else(|| panic!("no time in {output}"))
}

const WRITE_BW: [&str; 6] = ["-q", "8", "-s", "1048576", "-n", "20"];

/// Returns the mean bandwidth of `ib_write_bw` in MB/s.
fn write_mbps(arguments: &[&str], parameter: &str) -> f64 {
    let arguments = [&WRITE_BW, arguments].concat();
    let output = client_of("ib_write_bw", &arguments, parameter);
    let row = output.lines().find(|line| line.starts_with(" 1048576 "));
    let mean = row.and_then(|row| row.split_whitespace().nth(3)?.parse().ok());
    mean.unwrap_or_else(|| panic!("no row in {output}"))
}

/// Goal: `host.translation` changes what a program's own pages cost on the card. Method: a
/// key-value store whose table exceeds the reach of the MTT cache at 4 KiB, and a stream, which
/// reads its pages ahead.
#[test]
fn large_pages_save_a_key_value_store_its_table_reads() {
    let scratch = Scratch::new();
    let program = scratch.compile("key_value");
    let ways = ["kernel", "pages-4k", "pages-2m", "physical"];
    let figures = ways.map(|way| {
        let set = format!("host.translation={way}");
        (way, get_ns(&program, &[], &set), write_mbps(&[], &set))
    });
    let [kernel, small, large, physical] = figures.map(|(_, ns, _)| ns);
    assert_eq!(kernel, small, "the memory has no huge pages");
    // The cache covers half of the table: every second READ waits for an entry of the MTT.
    assert!(large < 0.9 * small && physical <= large, "{figures:?}");
    let mut table = "| `host.translation` | `key_value`, ns a GET | `ib_write_bw`, MB/s |\n\
                     | --- | --: | --: |\n"
        .to_owned();
    for (way, ns, mbps) in figures {
        table += &format!("| `{way}` | {ns:.1} | {mbps:.2} |\n");
    }
    compare_part("docs/src/simulated-time.md", "translation", &table);
}

/// Goal: pages of an on-demand region come, go and fail as a program sees it, in real and in
/// simulated time; there a page fault takes `host.page_fault_ns`, and each run is the same.
#[test]
fn pages_come_with_the_first_access() {
    let scratch = Scratch::new();
    let program = scratch.compile("paging");
    let run = |options: &[&str], arguments: &[&str]| {
        let ended = scratch.finish(scratch.run(options, &program, arguments));
        ended.expect_success()
    };
    run(&[], &[]);
    let timed = ["--timed", "cx5-100g"];
    let first = run(&timed, &["timed"]);
    assert_eq!(run(&timed, &["timed"]), first);
    let slow = [&timed[..], &["--set", "host.page_fault_ns=1e6"]].concat();
    let fault_us = |output: &str| -> f64 {
        let words: Vec<&str> = output.split_whitespace().collect();
        let place = words.iter().position(|word| *word == "with");
        let time = place.and_then(|place| words[place - 1].trim_end_matches(',').parse().ok());
        time.unwrap_or_else(|| panic!("no time in {output}"))
    };
    let (fast, slow) = (fault_us(&first), fault_us(&run(&slow, &["timed"])));
    assert!(fast > 220.0 && slow > 1000.0, "{fast} us and {slow} us");
}

/// Goal: the book says what page faults cost a store and a stream, and what bringing in more with
/// each of them is worth.
#[test]
fn on_demand_memory_costs_a_page_fault_for_each_page() {
    let scratch = Scratch::new();
    let program = scratch.compile("key_value");
    let none = "host.page_fault_prefetch_bytes=0";
    let much = "host.page_fault_prefetch_bytes=4194304";
    let odp: &[&str] = &["--odp"];
    let figures = [
        ("pinned", &[][..], none),
        ("on demand", odp, none),
        ("on demand, with 4 MiB after the page", odp, much),
    ]
    .map(|(memory, arguments, set)| {
        let ns = get_ns(&program, arguments, set);
        (memory, ns, write_mbps(arguments, set))
    });
    let [pinned, single, many] = figures;
    assert!(
        single.1 > 20.0 * pinned.1 && single.2 < pinned.2 / 5.0,
        "{figures:?}"
    );
    assert!(many.2 > 5.0 * single.2 && many.1 < single.1, "{figures:?}");
    let mut table = "| memory | `key_value`, ns a GET | `ib_write_bw`, MB/s |\n\
                     | --- | --: | --: |\n"
        .to_owned();
    for (memory, ns, mbps) in figures {
        table += &format!("| {memory} | {ns:.1} | {mbps:.2} |\n");
    }
    compare_part("docs/src/simulated-time.md", "on-demand", &table);
}
