//! Shared by the tests of traces: runs, and waveforms as another crate reads them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ferroce_model::preset::Preset;
use ferroce_perf::{Iterations, Operation, PerfRow, PerfSpec, Test, runner};
use ferroce_world::trace::SharedTrace;
use fst_reader::{FstFilter, FstHierarchyEntry, FstReader, FstSignalValue};

/// Returns a short run with one message under way.
pub fn spec(preset: &str, operation: Operation, test: Test, size: u32) -> PerfSpec {
    let preset = Preset::load(preset).expect("built in");
    let mut spec = PerfSpec::new(preset, operation, test);
    spec.sizes = vec![size];
    spec.iterations = Iterations::Exactly(8);
    if test == Test::Bandwidth {
        spec.depth = Some(1);
        spec.signal_every = Some(1);
    }
    spec
}

pub fn run(spec: &PerfSpec, trace: Option<&SharedTrace>) -> PerfRow {
    let stop = AtomicBool::new(false);
    runner::run(spec, spec.sizes[0], &stop, trace).expect("runs")
}

/// Returns a counter of a host in a run.
pub fn counter(row: &PerfRow, host: usize, name: &str) -> u64 {
    let mut named = row.counters[host].iter().filter(|(own, _)| *own == name);
    named.next().expect("a counter of this name").1
}

/// The lines of a waveform: changes by name.
#[derive(Debug)]
pub struct Signals(BTreeMap<String, Vec<(u64, u64)>>);

impl Signals {
    /// Reads a waveform.
    pub fn read(path: &Path) -> Self {
        let file = BufReader::new(File::open(path).expect("written"));
        let mut reader = FstReader::open(file).expect("FST");
        assert_eq!(reader.get_header().timescale_exponent, -12);
        let (mut names, mut scopes) = (BTreeMap::new(), Vec::new());
        reader
            .read_hierarchy(|entry| match entry {
                FstHierarchyEntry::Scope { name, .. } => scopes.push(name),
                FstHierarchyEntry::UpScope => drop(scopes.pop()),
                FstHierarchyEntry::Var { name, handle, .. } => {
                    let path = format!("{}.{name}", scopes.join("."));
                    names.insert(handle.get_index(), path);
                }
                _ => {}
            })
            .expect("a hierarchy");
        let mut changes: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        reader
            .read_signals(&FstFilter::all(), |time, handle, value| {
                let FstSignalValue::String(bits) = value else {
                    panic!("all our lines are bits");
                };
                let text = std::str::from_utf8(bits).expect("ASCII");
                let value = u64::from_str_radix(text, 2).expect("no undefined bits");
                let name = names[&handle.get_index()].clone();
                changes.entry(name).or_default().push((time, value));
                Ok::<(), std::convert::Infallible>(())
            })
            .expect("changes");
        Self(changes)
    }

    fn changes(&self, name: &str) -> &[(u64, u64)] {
        self.0.get(name).unwrap_or_else(|| panic!("no line {name}"))
    }

    /// Returns all values of a line, in the order of time.
    pub fn values(&self, name: &str) -> Vec<u64> {
        self.changes(name).iter().map(|(_, value)| *value).collect()
    }

    /// Returns the picoseconds during which a line of one bit is one.
    pub fn time_at_one(&self, name: &str) -> u64 {
        let pairs = self.changes(name).windows(2);
        pairs
            .filter(|pair| pair[0].1 == 1)
            .map(|pair| pair[1].0 - pair[0].0)
            .sum()
    }

    /// Returns how often a line of one bit becomes one.
    pub fn rises(&self, name: &str) -> usize {
        let pairs = self.changes(name).windows(2);
        pairs
            .filter(|pair| pair[0].1 == 0 && pair[1].1 == 1)
            .count()
    }
}
