//! The harness: ports, waveforms, failed assertions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use ferroce_rtl::roce_rx::Parser;
use ferroce_rtl::verilated::roce_rx::RoceRx;
use ferroce_rtl_harness::{Direction, Port, power_on};
use fst_reader::{FstFilter, FstHierarchyEntry, FstReader, FstSignalValue};

#[test]
fn ports_are_those_of_the_source() {
    let rtl = RoceRx::new();
    let port = |name| {
        *rtl.ports()
            .iter()
            .find(|port| port.name == name)
            .expect(name)
    };
    let expected = |name, direction, bits| Port {
        name,
        direction,
        bits,
    };
    assert_eq!(port("s_data"), expected("s_data", Direction::Input, 512));
    assert_eq!(port("m_psn"), expected("m_psn", Direction::Output, 24));
    assert_eq!(port("m_valid"), expected("m_valid", Direction::Output, 1));
}

/// Goal: a failed assertion of a module is a panic that names its line, and the module cannot be
/// used afterwards. Method: a beat with more bytes than exist.
#[test]
fn a_failed_assertion_is_a_panic() {
    let mut rtl = RoceRx::new();
    rtl.set_s_valid(1);
    rtl.set_s_bytes(65);
    let panic = catch_unwind(AssertUnwindSafe(|| rtl.cycle())).expect_err("the assertion fails");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("roce_rx.sv:"), "{text}");
}

/// Goal: instances do not share the thread-local state of Verilator's runtime. Method: they end in
/// the order in which they were created, one of them in another thread.
#[test]
fn instances_are_independent() {
    let instances = [RoceRx::new(), RoceRx::new(), RoceRx::new()];
    let [first, second, mut third] = instances;
    drop(first);
    drop(second);
    let thread = std::thread::Builder::new();
    let cycles = thread.spawn(move || {
        third.cycle();
        third.cycles()
    });
    let cycles = cycles.expect("a thread").join().expect("it ends");
    assert_eq!(cycles, 1);
}

/// Goal: state after power-on is random, and repeats with the seed; inputs are zero.
#[test]
fn state_after_power_on_is_random_and_repeats() {
    let state = |seed| {
        power_on::begin(seed);
        let rtl = RoceRx::new();
        assert_eq!((rtl.s_data(), rtl.s_bytes()), ([0; 16], 0));
        (rtl.m_psn(), rtl.m_source(), rtl.m_address())
    };
    assert_eq!(state(1), state(1));
    assert_ne!(state(1), state(2));
}

#[test]
#[should_panic(expected = "s_bytes is too narrow")]
fn a_value_beyond_the_width_of_a_port_is_refused() {
    RoceRx::new().set_s_bytes(128);
}

/// Returns the values of a signal in a waveform, by time.
fn values(path: &PathBuf, wanted: &str) -> BTreeMap<u64, String> {
    let file = BufReader::new(File::open(path).expect("the waveform was written"));
    let mut reader = FstReader::open(file).expect("the waveform is whole");
    let mut found = None;
    let names = reader.read_hierarchy(|entry| {
        if let FstHierarchyEntry::Var { name, handle, .. } = entry {
            if name.split(' ').next() == Some(wanted) {
                found.get_or_insert(handle);
            }
        }
    });
    names.expect("the names are whole");
    let handle = found.unwrap_or_else(|| panic!("no signal {wanted}"));
    let mut values = BTreeMap::new();
    let read = reader.read_signals(
        &FstFilter::filter_signals(vec![handle]),
        |time, _, value| {
            if let FstSignalValue::String(text) = value {
                let text = String::from_utf8_lossy(text);
                values.insert(time, text.into_owned());
            }
            Ok::<(), std::convert::Infallible>(())
        },
    );
    read.expect("the values are whole");
    values
}

/// Goal: a waveform has the signals of the source, and the requested cycles. Method: two frames of
/// two beats; some of the cycles are written.
#[test]
fn a_waveform_has_signals_and_cycles() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("roce_rx.fst");
    let mut parser = Parser::new();
    let begin = parser.rtl().cycles();
    let window = begin..begin + 20;
    parser
        .rtl()
        .trace(&path, window)
        .expect("it can be written");
    for _ in 0..2 {
        parser.frame(&[0; 100], || 0, 0);
        parser.idle(18);
    }
    assert_eq!(parser.rtl().cycles(), begin + 40);
    drop(parser); // ends the file
    let beats = values(&path, "beat1");
    let last = beats.keys().next_back().expect("it has values");
    assert!(*last < 2 * (begin + 20), "beyond the window: {beats:?}");
    // Each frame has beats 0 and 1; only the first frame is in the window.
    let numbers: Vec<_> = beats
        .values()
        .map(|bits| u64::from_str_radix(bits, 2))
        .collect();
    assert!(numbers.contains(&Ok(1)), "{beats:?}");
    std::fs::remove_file(&path).expect("it was written");
}

#[test]
fn a_waveform_that_cannot_be_written_is_an_error() {
    let path = PathBuf::from("/nonexistent/roce_rx.fst");
    let error = RoceRx::new()
        .trace(&path, 0..1)
        .expect_err("there is no folder");
    assert!(error.to_string().contains("/nonexistent/roce_rx.fst"));
}
