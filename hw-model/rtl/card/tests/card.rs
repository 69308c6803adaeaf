//! The stages of `ferroce selftest` against the card: the same code that checks a board.

mod card_support;

use std::sync::Arc;

use card_support::CardBus;
use ferroce_rtl_card::SlotSizes;
use ferroce_selftest::{Report, Timeouts, Verdict};

/// Cycles from the request of a line of host memory to the line.
const LINE_LATENCY_CYCLES: u64 = 16;
/// The same for resets: longer than the driver takes to post the next command.
const LATE_LINE_CYCLES: u64 = 300;

fn check(names: &[&str], line_latency_cycles: u64, sizes: Option<SlotSizes>) -> Vec<Report> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let stages = ferroce_selftest::select(&names).expect("stages");
    let card = Arc::new(CardBus::new(line_latency_cycles, sizes));
    let reports = ferroce_selftest::run(card.clone(), &stages, &Timeouts::default(), |report| {
        println!("{}", ferroce_selftest::text(report));
    });
    assert!(card.holds_no_memory(), "memory is still mapped");
    reports
}

fn expect_passed(names: &[&str]) {
    for report in check(names, LINE_LATENCY_CYCLES, None) {
        let is_passed = matches!(report.verdict, Verdict::Passed);
        assert!(is_passed, "{}", ferroce_selftest::text(&report));
    }
}

/// Goal: registers, reset and clock follow the contract.
#[test]
fn registers_are_those_of_the_contract() {
    expect_passed(&["bars", "identity", "registers", "reset", "clock"]);
}

/// Goal: the command queue works around the end of rings of several sizes.
#[test]
fn commands_are_executed_in_order() {
    expect_passed(&["commands"]);
}

/// Goal: a reset works in the middle of reads and writes. Method: each reset comes a few cycles
/// later than the previous one; some must interrupt commands, and lines arrive after it.
#[test]
fn a_reset_under_way_is_clean() {
    for sizes in [None, SlotSizes::new(256, 512)] {
        expect_clean_resets(sizes);
    }
}

fn expect_clean_resets(sizes: Option<SlotSizes>) {
    let reports = check(&["reset-dma"], LATE_LINE_CYCLES, sizes);
    let report = reports.last().expect("a stage");
    assert!(
        matches!(report.verdict, Verdict::Passed),
        "{}",
        ferroce_selftest::text(report)
    );
    let interrupted = report
        .figures
        .iter()
        .find(|figure| figure.name == "interrupted");
    let text = format!("{:?}", interrupted.expect("a figure").value);
    assert!(!text.contains("(0)"), "no reset has met a command: {text}");
}

/// Goal: the unmodified driver brings the card up.
#[test]
fn the_driver_opens_the_card() {
    expect_passed(&["bring-up"]);
}

/// Stages in the order of `ferroce selftest`.
const STAGES: [&str; 13] = [
    "bars",
    "identity",
    "registers",
    "reset",
    "clock",
    "commands",
    "bring-up",
    "dma",
    "interrupts",
    "doorbells",
    "loopback",
    "counters",
    "timing",
];

/// Goal: RC queue pairs carry SEND, RDMA WRITE and RDMA READ through the whole card, with
/// interrupts, doorbells and counters. Method: every stage that the card's features allow;
/// mutants/run breaks the card, and checks which stage fails first.
#[test]
fn the_stages_pass_in_their_order() {
    expect_good(None);
}

/// Goal: the same through TLPs. Method: a small MPS, so that completions come in parts.
#[test]
fn a_card_in_a_slot_passes_the_stages() {
    expect_good(SlotSizes::new(128, 512));
}

fn expect_good(sizes: Option<SlotSizes>) {
    for report in check(&STAGES, LINE_LATENCY_CYCLES, sizes) {
        let is_good = report.verdict.is_good();
        assert!(is_good, "{sizes:?}: {}", ferroce_selftest::text(&report));
    }
}
