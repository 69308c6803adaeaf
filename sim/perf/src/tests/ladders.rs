//! Tests of rates against the number of queue pairs.

use super::*;

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
