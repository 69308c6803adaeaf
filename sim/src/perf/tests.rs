//! The whole harness, with presets that take time and one that does not.

use ferroce_model::preset::Preset;

use super::*;

fn spec(preset: &str, operation: Operation, test: Test, size: u32) -> PerfSpec {
    let mut spec = PerfSpec::new(Preset::load(preset).expect("built in"), operation, test);
    spec.sizes = vec![size];
    spec.iterations = Iterations::Exactly(200);
    spec
}

fn row(spec: &PerfSpec) -> PerfRow {
    run(spec)
        .unwrap_or_else(|error| panic!("{error}"))
        .rows
        .remove(0)
}

const ALL: [Operation; 4] = [
    Operation::Write,
    Operation::Read,
    Operation::Send,
    Operation::FetchAdd,
];

#[test]
fn every_test_runs_on_the_functional_preset() {
    for operation in ALL {
        for test in [Test::Bandwidth, Test::Latency] {
            let row = row(&spec("functional", operation, test, 8));
            assert_eq!(row.iterations, 200, "{operation:?} {test:?}");
            assert_eq!(row.counters.len(), 2);
        }
    }
}

#[test]
fn every_test_runs_on_a_card() {
    for operation in ALL {
        let rate = row(&spec("cx5-100g", operation, Test::Bandwidth, 8))
            .bandwidth
            .expect("figures");
        let latency = row(&spec("cx5-100g", operation, Test::Latency, 8))
            .latency
            .expect("figures");
        println!(
            "{operation:?}: {rate:?} {} {} {}",
            latency.min_us, latency.typical_us, latency.max_us
        );
        assert!((0.3..20.0).contains(&rate.message_rate_mpps), "{rate:?}");
        assert!((0.5..5.0).contains(&latency.typical_us), "{latency:?}");
        assert!(latency.min_us <= latency.typical_us && latency.typical_us <= latency.max_us);
    }
}
