//! Sensitivity of figures whose bottleneck is known.

use super::*;
use crate::spec::{Iterations, Operation};

fn spec(test: Test, size: u32) -> PerfSpec {
    let preset = Preset::load("cx5-100g").expect("built in");
    let mut spec = PerfSpec::new(preset, Operation::Write, test);
    spec.sizes = vec![size];
    spec.iterations = Iterations::Exactly(100);
    spec
}

fn measured(spec: &PerfSpec) -> Sensitivity {
    let stop = AtomicBool::new(false);
    run(spec, spec.sizes[0], 2, &stop, &mut || {}).expect("it runs")
}

#[test]
fn values_move_by_a_tenth_a_step_or_a_factor() {
    let up_and_down = |value, range: &Range| neighbours(value, range);
    let real = up_and_down(Value::Real(50.0), &Range::Between(0.0, 52.0));
    assert_eq!(real, [Some(Value::Real(45.0)), None], "55 is not permitted");
    let few = up_and_down(Value::Count(1), &Range::Between(1.0, 9.0));
    assert_eq!(few, [None, Some(Value::Count(2))]);
    let many = up_and_down(Value::Count(128), &Range::Between(1.0, 1e6));
    assert_eq!(many, [115, 141].map(|count| Some(Value::Count(count))));
    let power = up_and_down(Value::Count(128), &Range::PowerOfTwo(128, 4096));
    assert_eq!(power, [None, Some(Value::Count(256))]);
    let choice = up_and_down(Value::Count(8), &Range::OneOf(&[1, 4, 8, 16]));
    assert_eq!(choice, [4, 16].map(|count| Some(Value::Count(count))));
    let flag = up_and_down(Value::Flag(true), &Range::Any);
    assert_eq!(flag, [None, Some(Value::Flag(false))]);
}

#[test]
fn elasticity_is_one_where_the_figure_is_proportional() {
    let moved = |value: f64, figure: f64| Moved {
        value: Value::Real(value),
        figure,
        change: figure / 2.0 - 1.0,
    };
    let mut effect = Effect {
        key: "a.b".to_owned(),
        unit: "",
        value: Value::Real(10.0),
        down: Some(moved(9.0, 1.8)),
        up: Some(moved(11.0, 2.2)),
    };
    let elasticity = |effect: &Effect| effect.elasticity(2.0).expect("a number");
    assert!((elasticity(&effect) - 1.0).abs() < 1e-12);
    effect.down = None;
    assert!((elasticity(&effect) - 1.0).abs() < 1e-12);
    effect.up = Some(moved(20.0, 1.0));
    assert!((elasticity(&effect) + 1.0).abs() < 1e-12);
    effect.value = Value::Flag(true);
    assert_eq!(effect.elasticity(2.0), None);
}

/// Goal: the wire's rate, and nothing else of much effect, moves the rate of long messages; the
/// program's costs move the rate of short ones.
#[test]
fn the_bottleneck_is_what_moves_the_figure() {
    let long = measured(&spec(Test::Bandwidth, 65_536));
    let first = &long.effects[0];
    assert_eq!(first.key, "mac.rate_gbps", "{:?}", &long.effects[..3]);
    let elasticity = first.elasticity(long.figure).expect("a number");
    assert!((0.8..=1.05).contains(&elasticity), "{elasticity}");
    let listed = long.effects.len() + long.flags.len() + long.without_effect.len();
    let all = spec(Test::Bandwidth, 8).preset.parameters().count();
    assert_eq!(
        listed + long.zero.len() + 1,
        all,
        "each parameter is listed once"
    );
    assert!(long.without_effect.contains(&"link.cable_ns".to_owned()));
    let short = measured(&spec(Test::Bandwidth, 64));
    assert!(
        short.effects[0].key.starts_with("host."),
        "{:?}",
        short.effects[0]
    );
}

/// Goal: the figures do not depend on the number of workers, and a stop is obeyed.
#[test]
fn order_of_runs_does_not_matter() {
    let spec = spec(Test::Latency, 8);
    let stop = AtomicBool::new(false);
    let mut count = 0;
    let alone = run(&spec, 8, 1, &stop, &mut || count += 1).expect("it runs");
    assert_eq!((count, runs(&spec)), (alone.runs, alone.runs));
    assert_eq!(alone, measured(&spec));
    let stopped = run(&spec, 8, 2, &AtomicBool::new(true), &mut || {});
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

#[test]
fn reports_have_every_effect() {
    let found = measured(&spec(Test::Latency, 8));
    let (text, csv) = (report::text(&found), report::csv(&found).expect("memory"));
    let document = report::json(&found);
    for effect in &found.effects {
        assert!(text.contains(&effect.key), "{}\n{text}", effect.key);
        assert!(csv.lines().any(|line| line.starts_with(&effect.key)));
    }
    assert_eq!(
        csv.lines().count(),
        1 + found.effects.len() + found.flags.len()
    );
    let count = document["effects"].as_array().map(Vec::len);
    assert_eq!(count, Some(found.effects.len()));
    let without = format!("{} have no effect", found.without_effect.len());
    assert!(text.contains(&without), "{text}");
}
