//! Bytes per cycle of the requester, as docs/src/board.md has them in Gb/s at 250 MHz.

use std::path::Path;

use crate::bench::{Bench, Program};
use crate::host::Link;

const WARM_UP: u64 = 1000;
const MEASURED: u64 = 8000;
const LATENCY: u64 = 200;
/// Gb/s of a byte per cycle of 4 ns.
const GBPS: f64 = 2.0;
const BEGIN: &str = "<!-- table: pcie_requester -->\n";
const END: &str = "<!-- end -->";
/// What MPS and MRRS of 256 bytes have to carry in each direction, both at the same time, for a
/// 100G port.
const GOAL: f64 = 100.0;

/// Returns the rates of writes and of reads.
fn rates(size: u64, completion: u64, reads: u64, writes: u64) -> [f64; 2] {
    let link = Link {
        max_payload: size,
        max_read: size,
        tags: 256,
        makes_errors: false,
        completion: Some(completion),
        latency: LATENCY,
    };
    let program = Program {
        runs: 16,
        reads,
        writes,
        is_whole: true,
    };
    let mut bench = Bench::new(0, link, program, true);
    let mut before = [0; 2];
    for cycle in 0..WARM_UP + MEASURED {
        if cycle == WARM_UP {
            before = [bench.host.written, 64 * bench.lines];
        }
        bench.plan();
        bench.cycle();
    }
    let after = [bench.host.written, 64 * bench.lines];
    core::array::from_fn(|n| GBPS * (after[n] - before[n]) as f64 / MEASURED as f64)
}

/// Goal: the documentation has these rates, and they fill a port of 100 Gb/s.
#[test]
fn the_rates_are_those_of_the_documentation() {
    let mut table = String::from(
        "| MPS and MRRS | completions | writes only | reads only | both: writes | both: reads |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for size in [128, 256, 512] {
        for completion in [64, size] {
            let writes = rates(size, completion, 0, 16)[0];
            let reads = rates(size, completion, 16, 0)[1];
            let [both_writes, both_reads] = rates(size, completion, 16, 16);
            let all = [writes, reads, both_writes, both_reads];
            let cells = all.map(|rate| format!("{rate:.0}")).join(" | ");
            table += &format!("| {size} | {completion} | {cells} |\n");
            if size == 256 {
                for rate in all {
                    assert!(rate >= GOAL, "{rate} Gb/s with completions of {completion}");
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/board.md");
    let page = std::fs::read_to_string(&path).expect("the page can be read");
    let (before, rest) = page.split_once(BEGIN).expect("the page has the table");
    let (found, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        let page = format!("{before}{BEGIN}{table}{END}{after}");
        std::fs::write(&path, page).expect("the page can be written");
    } else {
        assert_eq!(found, table, "FERROCE_UPDATE=1 writes the table");
    }
}
