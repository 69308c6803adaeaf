//! Where the cycles of a packet go: for each state machine of both cards, the cycles in each state
//! per packet with data. Ignored: prints a table and checks nothing of the card.
//!
//!     cargo test -p ferroce-rtl-card --test occupancy -- --ignored --nocapture
//!     FERROCE_RTL_LOAD=send,1024,4096,16 cargo test ...    # operation, bytes, MTU, QPs

mod traffic;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use ferroce_driver::PathMtu;
use fst_reader::{FstFilter, FstHierarchyEntry, FstReader, FstSignalHandle, FstSignalValue};
use traffic::{Load, Operation, Traffic};

const VARIABLE: &str = "FERROCE_RTL_LOAD";
const WARM_UP_CYCLES: u64 = 8_000;
const WINDOW_CYCLES: u64 = 4_000;
/// State machines, by the end of the path of their instance.
const MACHINES: [&str; 14] = [
    "send",
    "decode",
    "retire",
    "walk",
    "steps",
    "placer",
    "segments",
    "responses",
    "steering",
    "memory",
    "protection",
    "cache",
    "pages",
    "completions",
];

/// A state machine: its path, and the names of its states.
#[derive(Debug)]
struct Machine {
    path: String,
    names: BTreeMap<u64, String>,
}

/// Returns the number of a state.
fn number(bits: &str) -> u64 {
    u64::from_str_radix(bits, 2).unwrap_or(u64::MAX)
}

fn load() -> Load {
    let text = std::env::var(VARIABLE).unwrap_or_else(|_| "write,64,1024,1".to_owned());
    let fields: Vec<&str> = text.split(',').collect();
    let [operation, bytes, mtu, queue_pairs] = fields[..] else {
        panic!("{VARIABLE}: operation,bytes,MTU,QPs");
    };
    Load {
        operation: match operation {
            "write" => Operation::Write,
            "send" => Operation::Send,
            "read" => Operation::Read,
            other => panic!("{VARIABLE}: no operation {other}"),
        },
        message_bytes: bytes.parse().expect("bytes"),
        mtu: match mtu {
            "1024" => PathMtu::Mtu1024,
            "4096" => PathMtu::Mtu4096,
            other => panic!("{VARIABLE}: no MTU {other}"),
        },
        queue_pairs: queue_pairs.parse().expect("number of QPs"),
        line_latency_cycles: 16,
    }
}

#[test]
#[ignore = "prints a table for a reader"]
fn cycles_of_each_state() {
    let load = load();
    let traffic = Traffic::new(load, None);
    traffic.run(WARM_UP_CYCLES);
    let path = |side| {
        let name = format!("occupancy{side}.fst");
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    };
    let begins = [0, 1].map(|side| {
        traffic.with_pair(|pair| {
            let rtl = pair.card(side).rtl();
            let begin = rtl.cycles();
            let cycles = begin..begin + WINDOW_CYCLES;
            rtl.trace(&path(side), cycles).expect("it can be written");
            begin
        })
    });
    let window = traffic.run(WINDOW_CYCLES + 16);
    let frames = window.frames as f64 * WINDOW_CYCLES as f64 / window.cycles as f64;
    drop(traffic); // ends the files
    let per_packet = WINDOW_CYCLES as f64 / frames;
    println!("{load:?}: {per_packet:.1} cycles a packet");
    for side in [0, 1] {
        println!("card {side}: cycles a packet in each state");
        // Two times of the file are a clock cycle.
        let begin = 2 * begins[side];
        print_states(&path(side), begin..begin + 2 * WINDOW_CYCLES, frames);
        std::fs::remove_file(path(side)).expect("it was written");
    }
}

fn print_states(path: &Path, times: std::ops::Range<u64>, frames: f64) {
    let file = BufReader::new(File::open(path).expect("it was written"));
    let mut reader = FstReader::open(file).expect("an FST");
    let machines = machines(&mut reader);
    let handles: Vec<FstSignalHandle> = machines.keys().map(|&at| handle(at)).collect();
    let mut last: BTreeMap<usize, (u64, String)> = BTreeMap::new();
    let mut spent: BTreeMap<(usize, String), u64> = BTreeMap::new();
    let read = reader.read_signals(
        &FstFilter::filter_signals(handles),
        |time, handle, value| {
            let FstSignalValue::String(bits) = value else {
                return Ok(());
            };
            let bits = String::from_utf8_lossy(bits).into_owned();
            if let Some((since, state)) = last.insert(handle.get_index(), (time, bits)) {
                *spent.entry((handle.get_index(), state)).or_default() += time - since;
            }
            Ok::<(), std::convert::Infallible>(())
        },
    );
    read.expect("the values are whole");
    for (at, (since, state)) in last {
        *spent.entry((at, state)).or_default() += times.end.saturating_sub(since);
    }
    for (at, machine) in &machines {
        let mut line = String::new();
        for ((_, state), time) in spent.iter().filter(|((of, _), _)| of == at) {
            let name = machine.names.get(&number(state)).unwrap_or(state);
            let cycles = *time as f64 / 2.0 / frames;
            if cycles >= 0.05 {
                line += &format!(" {name} {cycles:.1}");
            }
        }
        println!("  {}:{line}", machine.path);
    }
}

fn handle(at: usize) -> FstSignalHandle {
    FstSignalHandle::from_index(at)
}

/// Returns the signals `step` of the known state machines.
fn machines(reader: &mut FstReader<BufReader<File>>) -> BTreeMap<usize, Machine> {
    let mut scopes: Vec<String> = Vec::new();
    let mut tables: BTreeMap<u64, BTreeMap<u64, String>> = BTreeMap::new();
    let mut table = None;
    let mut found = BTreeMap::new();
    let read = reader.read_hierarchy(|entry| match entry {
        FstHierarchyEntry::Scope { name, .. } => scopes.push(name),
        FstHierarchyEntry::UpScope => drop(scopes.pop()),
        FstHierarchyEntry::EnumTable {
            handle, mapping, ..
        } => {
            let names = mapping
                .into_iter()
                .map(|(bits, name)| (number(&bits), name));
            tables.insert(handle, names.collect());
        }
        FstHierarchyEntry::EnumTableRef { handle } => table = Some(handle),
        FstHierarchyEntry::Var { name, handle, .. } => {
            let names = table.take().and_then(|at| tables.get(&at).cloned());
            let instance = scopes.last().map(String::as_str).unwrap_or_default();
            let is_step = name.split(' ').next() == Some("step");
            if is_step && MACHINES.contains(&instance) {
                let machine = Machine {
                    path: scopes[2..].join("."),
                    names: names.unwrap_or_default(),
                };
                found.entry(handle.get_index()).or_insert(machine);
            }
        }
        _ => {}
    });
    read.expect("the hierarchy is whole");
    found
}
