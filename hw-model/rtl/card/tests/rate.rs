//! The table of hw-model/rtl/README.md: cycles per packet, Gb/s and messages per second of the card
//! for sizes, MTUs, numbers of QPs and operations.
//!
//!     cargo test -p ferroce-rtl-card --test rate
//!     FERROCE_UPDATE=1 cargo test -p ferroce-rtl-card --test rate     # writes the table

mod traffic;

use std::fmt::Write;

use ferroce_driver::PathMtu;
use traffic::{CYCLE_NS, Load, Operation, Traffic};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
const BEGIN: &str = "<!-- table: rate -->\n";
const END: &str = "<!-- end -->";

/// Cycles before and in the measured window.
const WARM_UP_CYCLES: u64 = 6_000;
const WINDOW_CYCLES: u64 = 6_000;
/// A line of host memory takes this long; there is no other limit of the host.
const LINE_LATENCY_CYCLES: u64 = 16;
const QUEUE_PAIRS: [usize; 2] = [1, 16];

/// Goal: the table of the README is current. Method: measure again and compare; a run of the same
/// card gives the same figures.
#[test]
fn the_table_of_the_readme_is_current() {
    let old = std::fs::read_to_string(README).expect("the README is beside the modules");
    let (head, rest) = old.split_once(BEGIN).expect("there is a place for it");
    let (table, tail) = rest.split_once(END).expect("the place has an end");
    let fresh = measured_table();
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        let page = format!("{head}{BEGIN}{fresh}{END}{tail}");
        std::fs::write(README, page).expect("the README can be written");
        return;
    }
    for (old, new) in table.lines().zip(fresh.lines()) {
        assert_eq!(old, new, "README.md, rate (FERROCE_UPDATE=1 mends it)");
    }
    assert_eq!(table.lines().count(), fresh.lines().count(), "{fresh}");
}

fn measured_table() -> String {
    let mut table = "| operation | bytes | MTU |".to_owned();
    for queue_pairs in QUEUE_PAIRS {
        let s = if queue_pairs == 1 { "" } else { "s" };
        let columns = format!(" {queue_pairs} QP{s}: cycles | Gb/s | M/s |");
        table += &columns;
    }
    table += "\n| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n";
    for operation in [Operation::Write, Operation::Send, Operation::Read] {
        for message_bytes in [64, 256, 1024, 4096, 65_536] {
            for mtu in [PathMtu::Mtu1024, PathMtu::Mtu4096] {
                let row = row(operation, message_bytes, mtu);
                println!("{row}");
                writeln!(table, "{row}").expect("a string takes all");
            }
        }
    }
    table
}

fn row(operation: Operation, message_bytes: usize, mtu: PathMtu) -> String {
    let mtu_bytes = if mtu == PathMtu::Mtu1024 { 1024 } else { 4096 };
    let mut row = format!(
        "| {} | {message_bytes} | {mtu_bytes} |",
        format!("{operation:?}").to_uppercase()
    );
    for queue_pairs in QUEUE_PAIRS {
        let load = Load {
            operation,
            message_bytes,
            mtu,
            queue_pairs,
            line_latency_cycles: LINE_LATENCY_CYCLES,
        };
        let traffic = Traffic::new(load);
        traffic.run(WARM_UP_CYCLES);
        let window = traffic.run(WINDOW_CYCLES);
        assert_eq!(traffic.lost(), 0, "{load:?}: requests were repeated");
        let cycles = window.cycles as f64;
        let per_packet = cycles / window.frames as f64;
        let gigabits = window.frame_bytes as f64 * 8.0 / (cycles * CYCLE_NS as f64);
        let packets_of_message = message_bytes.div_ceil(mtu_bytes) as f64;
        let messages = 1000.0 / (CYCLE_NS as f64 * per_packet * packets_of_message);
        write!(row, " {per_packet:.1} | {gigabits:.1} | {messages:.2} |").expect("a string");
    }
    row
}
