//! The tables of hw-model/rtl/README.md: cycles per packet, Gb/s and messages per second of the
//! card for sizes, MTUs, numbers of QPs and operations; and the same through its PCIe endpoint.
//!
//!     cargo test -p ferroce-rtl-card --test rate
//!     FERROCE_UPDATE=1 cargo test -p ferroce-rtl-card --test rate     # writes the tables

mod traffic;

use std::fmt::Write;
use std::sync::Mutex;

use ferroce_driver::PathMtu;
use ferroce_rtl_card::SlotSizes;
use traffic::{CYCLE_NS, Load, Operation, Traffic};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
const END: &str = "<!-- end -->";

/// Cycles before and in the measured window.
const WARM_UP_CYCLES: u64 = 6_000;
const WINDOW_CYCLES: u64 = 6_000;
/// A line of host memory takes this long; there is no other limit of the host.
const LINE_LATENCY_CYCLES: u64 = 16;
const QUEUE_PAIRS: [usize; 2] = [1, 16];
/// MPS, which is MRRS, too.
const SLOTS: [u64; 2] = [256, 512];
const OPERATIONS: [Operation; 3] = [Operation::Write, Operation::Send, Operation::Read];

/// Each test writes a table to the same file.
static FILE: Mutex<()> = Mutex::new(());

/// Goal: the table of the README is current. Method: measure again and compare; a run of the same
/// card gives the same figures.
#[test]
fn the_table_of_the_readme_is_current() {
    expect_table("rate", &measured_table());
}

/// Goal: the same for the table of the card in a slot.
#[test]
fn the_table_of_the_slot_is_current() {
    expect_table("rate in a slot", &measured_in_slots());
}

fn expect_table(name: &str, fresh: &str) {
    let _one = FILE.lock().expect("no panic");
    let begin = format!("<!-- table: {name} -->\n");
    let old = std::fs::read_to_string(README).expect("the README is beside the modules");
    let (head, rest) = old.split_once(&begin).expect("there is a place for it");
    let (table, tail) = rest.split_once(END).expect("the place has an end");
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        let page = format!("{head}{begin}{fresh}{END}{tail}");
        std::fs::write(README, page).expect("the README can be written");
        return;
    }
    for (old, new) in table.lines().zip(fresh.lines()) {
        assert_eq!(old, new, "README.md, {name} (FERROCE_UPDATE=1 mends it)");
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
    for operation in OPERATIONS {
        for message_bytes in [64, 256, 1024, 4096, 65_536] {
            for mtu in [PathMtu::Mtu1024, PathMtu::Mtu4096] {
                let load = load(operation, message_bytes, mtu);
                let columns = QUEUE_PAIRS.map(|queue_pairs| {
                    let load = Load {
                        queue_pairs,
                        ..load
                    };
                    measured(load, None)
                });
                add_row(&mut table, load, &columns);
            }
        }
    }
    table
}

fn measured_in_slots() -> String {
    let mut table = "| operation | bytes | MTU |".to_owned();
    for size in SLOTS {
        table += &format!(" MPS, MRRS {size}: cycles | Gb/s | M/s |");
    }
    table += "\n| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n";
    for operation in OPERATIONS {
        for (message_bytes, mtu) in [
            (64, PathMtu::Mtu1024),
            (1024, PathMtu::Mtu1024),
            (4096, PathMtu::Mtu1024),
            (4096, PathMtu::Mtu4096),
            (65_536, PathMtu::Mtu4096),
        ] {
            let load = load(operation, message_bytes, mtu);
            let columns = SLOTS.map(|size| measured(load, SlotSizes::new(size, size)));
            add_row(&mut table, load, &columns);
        }
    }
    table
}

fn load(operation: Operation, message_bytes: usize, mtu: PathMtu) -> Load {
    Load {
        operation,
        message_bytes,
        mtu,
        queue_pairs: 1,
        line_latency_cycles: LINE_LATENCY_CYCLES,
    }
}

fn mtu_bytes(load: &Load) -> usize {
    if load.mtu == PathMtu::Mtu1024 {
        1024
    } else {
        4096
    }
}

fn add_row(table: &mut String, load: Load, columns: &[String]) {
    let row = format!(
        "| {} | {} | {} |{}",
        format!("{:?}", load.operation).to_uppercase(),
        load.message_bytes,
        mtu_bytes(&load),
        columns.concat()
    );
    println!("{row}");
    writeln!(table, "{row}").expect("a string takes all");
}

/// Returns the columns of a load.
fn measured(load: Load, sizes: Option<SlotSizes>) -> String {
    let traffic = Traffic::new(load, sizes);
    traffic.run(WARM_UP_CYCLES);
    let window = traffic.run(WINDOW_CYCLES);
    assert_eq!(traffic.lost(), 0, "{load:?}: requests were repeated");
    let cycles = window.cycles as f64;
    let per_packet = cycles / window.frames as f64;
    let gigabits = window.frame_bytes as f64 * 8.0 / (cycles * CYCLE_NS as f64);
    let packets_of_message = load.message_bytes.div_ceil(mtu_bytes(&load)) as f64;
    let messages = 1000.0 / (CYCLE_NS as f64 * per_packet * packets_of_message);
    format!(" {per_packet:.1} | {gigabits:.1} | {messages:.2} |")
}
