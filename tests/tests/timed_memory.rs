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

/// Returns what a client printed on `cx5-100g` with a way of translation.
fn client_of(program: &str, arguments: &[&str], translation: &str) -> String {
    let set = format!("host.translation={translation}");
    let pair = Pair {
        program,
        arguments,
        options: &["--timed", "cx5-100g", "--set", &set],
    };
    pair.run().1
}

/// Returns the time of a GET of `tests/c/key_value.c`, in ns.
fn get_ns(program: &str, translation: &str) -> f64 {
    let output = client_of(program, &[], translation);
    let mut words = output
        .lines()
        .filter_map(|line| line.strip_suffix(" ns a GET"));
    let time = words.next().and_then(|time| time.parse().ok());
    time.unwrap_or_else(|| panic!("no time in {output}"))
}

const WRITE_BW: [&str; 6] = ["-q", "8", "-s", "1048576", "-n", "20"];

/// Returns the mean bandwidth of `ib_write_bw` in MB/s.
fn write_mbps(translation: &str) -> f64 {
    let output = client_of("ib_write_bw", &WRITE_BW, translation);
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
    let figures = ways.map(|way| (way, get_ns(&program, way), write_mbps(way)));
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
