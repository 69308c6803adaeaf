//! Calibration finds a known host again.

use ferroce_perf::{Operation, Test};

use super::*;
use crate::reference::experiment::Harness;
use crate::reference::{BandwidthRow, LatencyRow, Setup, Verb};

fn preset(changes: &[(&str, &str)]) -> Preset {
    let mut preset = Preset::load("cx5-100g").expect("built in");
    for (key, value) in changes {
        preset.set(key, value).expect("a parameter");
    }
    preset
}

/// Returns a table that the model itself has measured on `preset`.
fn measured(preset: &Preset, verb: Verb) -> Table {
    let operation = match verb {
        Verb::Send => Operation::Send,
        _ => Operation::Write,
    };
    let mut spec = PerfSpec::new(preset.clone(), operation, Test::Bandwidth);
    (spec.sizes, spec.all_sizes) = (vec![2, 16, 64, 4096], true);
    spec.iterations = Iterations::Exactly(2000);
    let rows = Harness.run(&spec).expect("it runs").rows;
    table(verb, experiment::figures(Test::Bandwidth, &rows))
}

fn table(verb: Verb, rows: Rows) -> Table {
    Table {
        name: "mine".to_owned(),
        setup: Setup::new(verb),
        rows,
        notes: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Goal: the calibration finds the cost of a post from a table. Method: the model itself makes the
/// table, with a host that is slower, or faster, than the preset's.
#[test]
fn a_host_is_found_again() {
    for ns in ["250", "20"] {
        let table = measured(&preset(&[("host.post_ns", ns)]), Verb::Write);
        let (fitted, found) = calibrate(&Harness, &preset(&[]), &table).expect("small rows");
        assert_eq!(
            (found.parameter, &found.finding),
            ("host.post_ns", &Finding::Fitted)
        );
        assert_eq!(found.sizes, [16, 64], "not the first, not the large one");
        let expected: f64 = ns.parse().expect("a number");
        assert!((fitted.host.post_ns - expected).abs() < 5.0, "{found:?}");
        assert_eq!(
            (found.before_ns, found.after_ns),
            (68.0, fitted.host.post_ns)
        );
        assert!(found.text().contains("host.post_ns = "), "{}", found.text());
        assert!(uncalibrated(&fitted, Machine::OfProfile).is_none());
    }
}

/// Goal: the calibration finds a slow host even if the card is slower than the preset's host.
#[test]
fn a_host_is_found_behind_a_slow_card() {
    let card = [("units.message_cycles", "200"), ("units.count", "1")];
    let slow = [&card[..], &[("host.post_ns", "2000")]].concat();
    let table = measured(&preset(&slow), Verb::Write);
    let (fitted, found) = calibrate(&Harness, &preset(&card), &table).expect("small rows");
    assert_eq!(found.finding, Finding::Fitted, "{found:?}");
    assert!((fitted.host.post_ns - 2000.0).abs() < 30.0, "{found:?}");
}

/// Goal: a card that is slower than the host is no measurement of the host.
#[test]
fn a_card_that_limits_is_named() {
    let slow = [("units.message_cycles", "400"), ("units.count", "1")];
    let table = measured(&preset(&[]), Verb::Write);
    let (_, found) = calibrate(&Harness, &preset(&slow), &table).expect("small rows");
    assert_eq!(found.finding, Finding::TooSlow, "{found:?}");
    assert!(found.text().contains("transmit side"), "{}", found.text());
    let table = measured(&preset(&slow), Verb::Write);
    let (fitted, found) = calibrate(&Harness, &preset(&slow), &table).expect("small rows");
    assert_eq!(found.finding, Finding::AtMost, "{found:?}");
    assert_eq!(fitted.host.post_ns, 68.0, "it is not changed");
    assert!(
        found.text().contains("not identifiable"),
        "{}",
        found.text()
    );
}

#[test]
fn tables_that_say_nothing_of_the_host_are_refused() {
    let latency = LatencyRow {
        bytes: 2,
        typical_us: Some(1.0),
        ..LatencyRow::default()
    };
    let large = BandwidthRow {
        bytes: 4096,
        peak_gbps: None,
        average_gbps: 90.0,
        message_rate_mpps: 2.7,
    };
    let refused = |rows| {
        let table = table(Verb::Write, rows);
        calibrate(&Harness, &preset(&[]), &table).expect_err("refused")
    };
    let error = refused(Rows::Latency(vec![latency]));
    assert!(error.contains("does not separate them"), "{error}");
    let error = refused(Rows::Bandwidth(vec![large]));
    assert!(error.contains("no row of at most 128 B"), "{error}");
}

#[test]
fn a_guess_is_uncalibrated() {
    let guessed = Preset::load("cx5-100g@k8s-1ghz").expect("built in");
    let warning = uncalibrated(&guessed, Machine::OfProfile).expect("a guess");
    assert!(warning.contains("k8s-1ghz"), "{warning}");
    assert!(
        uncalibrated(&preset(&[]), Machine::OfProfile).is_none(),
        "derived from a measured rate"
    );
    let users = uncalibrated(&preset(&[]), Machine::OfUser);
    assert!(users.is_some(), "that rate is of another machine");
    assert!(
        uncalibrated(&preset(&[("host.post_ns", "50")]), Machine::OfUser).is_none(),
        "given"
    );
}
