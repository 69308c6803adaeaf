//! Tests of rates against the number of queue pairs, and of requests that are outstanding.

use super::*;

/// Goal: the rate of atomics does not fall as more of them are outstanding, although a responder
/// executes the atomics of a queue pair one by one. Method: 24 queue pairs whose requests all have
/// their own address, so that the queue pairs are the limit from a depth of four on.
#[test]
fn more_atomics_at_once_are_not_slower() {
    let mut atomics = spec(
        "cx5-100g@uar-per-thread",
        Operation::CompareSwap,
        Test::Bandwidth,
        8,
    );
    (atomics.qps, atomics.threads, atomics.signal_every) = (24, 24, Some(1));
    atomics.iterations = Iterations::Exactly(300);
    let mut best: f64 = 0.0;
    for depth in [4, 8, 12, 16, 24, 32] {
        atomics.depth = Some(depth);
        let rate = rate(&atomics);
        assert!(rate > 0.95 * best, "depth {depth}: {rate} of {best}");
        best = best.max(rate);
    }
}

/// Goal: processing units are no limit while queue pairs are too few to keep them all busy. Method:
/// a multiple of the queue pairs that eight units have one each of; four of a unit post less than
/// it can do.
#[test]
fn queue_pairs_have_an_equal_share_of_the_units() {
    for operation in [Operation::Write, Operation::Read] {
        let rate_of = |count| {
            let preset = "cx6-200g@xeon-8360y";
            let mut many = spec(preset, operation, Test::Bandwidth, 64);
            (many.qps, many.threads, many.signal_every) = (count, count, Some(1));
            many.depth = Some(32);
            rate(&many)
        };
        let eight = rate_of(8);
        for times in 2..=4 {
            let rate = rate_of(8 * times);
            let expected = f64::from(times) * eight;
            assert!(
                rate > 0.95 * expected,
                "{operation:?}: {rate} of {expected}"
            );
        }
    }
}
