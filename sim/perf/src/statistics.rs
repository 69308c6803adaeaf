//! Figures from exact samples, computed as perftest 4.5 computes them.
//!
//! Two oddities are perftest's: the means omit the two largest latencies, and the table never shows
//! the larger of them. One is not copied: perftest 4.5 keeps differences from the mean in an `int`,
//! so that its standard deviation is computed from whole microseconds.

use crate::result::{BandwidthRow, LatencyRow};
use crate::timeline::Timeline;

/// Number of largest samples that perftest omits (`LAT_MEASURE_TAIL`).
const DROPPED: usize = 2;
/// Picoseconds of a microsecond.
const PS_PER_US: f64 = 1e6;
const PS_PER_S: f64 = 1e12;
const MIB: f64 = 1_048_576.0;

/// Returns the row of a latency test, from the times of the posts in picoseconds. `rounds` is 2 if
/// a sample is a round trip and half of it is reported, else 1. `None`: fewer than four posts.
pub fn latency(posted: &[u64], rounds: u32) -> Option<LatencyRow> {
    let mut samples: Vec<u64> = posted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    samples.sort_unstable();
    let kept = samples
        .len()
        .checked_sub(DROPPED)
        .filter(|&kept| kept > 0)?;
    let us = |ps: f64| ps / PS_PER_US / f64::from(rounds);
    let average = samples[..kept].iter().sum::<u64>() as f64 / kept as f64;
    let variance = samples[..kept]
        .iter()
        .map(|&sample| (sample as f64 - average).powi(2))
        .sum::<f64>()
        / kept as f64;
    Some(LatencyRow {
        min_us: us(samples[0] as f64),
        max_us: us(samples[kept] as f64),
        typical_us: us(median(&samples[..kept])),
        average_us: us(average),
        stdev_us: us(variance.sqrt()),
        p99_us: us(samples[rank(kept, 99, 100)] as f64),
        p999_us: us(samples[rank(kept, 999, 1000)] as f64),
        samples_ps: samples,
    })
}

/// Returns `ceil(kept * part / whole)`. It is in range because there are two more samples.
fn rank(kept: usize, part: usize, whole: usize) -> usize {
    (kept * part).div_ceil(whole)
}

fn median(sorted: &[u64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => ((sorted[middle] + sorted[middle - 1]) / 2) as f64,
        _ => sorted[middle] as f64,
    }
}

/// Returns the row of a bandwidth test of messages of `size` bytes, from the times of its threads.
/// `with_peak` adds perftest's search for the best interval, for its one thread.
pub fn bandwidth(size: u32, timelines: &[Timeline], with_peak: bool) -> Option<BandwidthRow> {
    let start = timelines.iter().filter_map(Timeline::start).min()?;
    let end = timelines.iter().filter_map(Timeline::end).max()?;
    let messages: u64 = timelines.iter().map(Timeline::messages).sum();
    let peak_mib_per_s = match timelines {
        [only] if with_peak => only
            .least_ps_per_message()
            .map_or(0.0, |ps| f64::from(size) / MIB * PS_PER_S / ps),
        _ => 0.0,
    };
    Some(rate(size, messages, end - start, peak_mib_per_s))
}

/// Returns the row of `messages` of `size` bytes in `elapsed_ps`.
pub fn rate(size: u32, messages: u64, elapsed_ps: u64, peak_mib_per_s: f64) -> BandwidthRow {
    let per_second = match elapsed_ps {
        0 => 0.0,
        _ => messages as f64 * PS_PER_S / elapsed_ps as f64,
    };
    BandwidthRow {
        peak_mib_per_s,
        average_mib_per_s: per_second * f64::from(size) / MIB,
        message_rate_mpps: per_second / 1e6,
        elapsed_ps,
        messages,
    }
}

/// Returns the sum of rows of several senders, as perftest adds up both directions of `-b`.
pub fn sum(rows: &[BandwidthRow]) -> Option<BandwidthRow> {
    let (first, others) = rows.split_first()?;
    let mut total = first.clone();
    for row in others {
        total.peak_mib_per_s += row.peak_mib_per_s;
        total.average_mib_per_s += row.average_mib_per_s;
        total.message_rate_mpps += row.message_rate_mpps;
        total.elapsed_ps = total.elapsed_ps.max(row.elapsed_ps);
        total.messages += row.messages;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns posts at these distances in nanoseconds.
    fn posts(distances_ns: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut at = 5_000;
        let mut posted = vec![at];
        for distance in distances_ns {
            at += distance * 1000;
            posted.push(at);
        }
        posted
    }

    #[test]
    fn latency_of_perftest() {
        // 999 samples of 1000 posts: 1001, 1002, ... ns; the largest two are dropped.
        let row = latency(&posts((1..=999).map(|n| 1000 + n)), 1).expect("enough");
        assert_eq!(row.min_us, 1.001);
        assert_eq!(row.typical_us, 1.499, "the 499th of 997");
        assert_eq!(
            row.max_us, 1.998,
            "delta[997]: two are above the statistics, one is printed"
        );
        assert_eq!(row.average_us, 1.499);
        assert_eq!(row.p99_us, 1.989, "delta[ceil(987.03)]");
        assert_eq!(row.p999_us, 1.998, "delta[ceil(996.003)]");
        let deviation = (997.0f64.powi(2) - 1.0) / 12.0;
        assert!((row.stdev_us - deviation.sqrt() / 1000.0).abs() < 1e-9);
    }

    #[test]
    fn half_of_a_round_trip() {
        let row = latency(&posts([2000; 10]), 2).expect("enough");
        assert_eq!((row.min_us, row.typical_us, row.max_us), (1.0, 1.0, 1.0));
        assert_eq!(row.stdev_us, 0.0);
        assert_eq!(row.samples_ps, [2_000_000; 10]);
    }

    #[test]
    fn median_of_an_even_number() {
        let row = latency(&posts([1000, 2000, 9000, 9000]), 1).expect("enough");
        assert_eq!(row.typical_us, 1.5);
    }

    #[test]
    fn too_few_samples() {
        assert_eq!(latency(&posts([1000, 1000]), 1), None);
        assert_eq!(latency(&[], 1), None);
    }

    #[test]
    fn order_of_samples_does_not_matter() {
        let rising = latency(&posts([1, 2, 3, 4, 5, 6, 7]), 1);
        assert_eq!(rising, latency(&posts([7, 1, 6, 2, 5, 3, 4]), 1));
    }

    #[test]
    fn bandwidth_from_first_post_to_last_completion() {
        let timeline = Timeline {
            posted: vec![1_000_000, 1_100_000, 1_200_000, 1_300_000],
            completed: vec![(2, 2_000_000), (4, 3_000_000)],
        };
        let row = bandwidth(1 << 20, &[timeline], true).expect("messages");
        assert_eq!((row.messages, row.elapsed_ps), (4, 2_000_000));
        assert!((row.message_rate_mpps - 2.0).abs() < 1e-12);
        assert!((row.average_mib_per_s - 2e6).abs() < 1e-3);
        // Best stretch: messages 2 and 3, posted at 1.2 us, done at 3 us: 0.9 us each; all four in
        // 2 us are better: 0.5 us; the first two: 0.5 us.
        assert!((row.peak_mib_per_s - 2e6).abs() < 1e-3);
    }

    #[test]
    fn peak_is_the_best_stretch() {
        let timeline = Timeline {
            posted: vec![0, 100, 200, 300],
            completed: vec![(2, 10_000), (4, 10_300)],
        };
        let least = timeline.least_ps_per_message().expect("completions");
        assert_eq!(least, 10_300.0 / 4.0);
    }

    #[test]
    fn threads_share_the_time() {
        let thread = |start: u64| Timeline {
            posted: vec![start],
            completed: vec![(1, start + 1_000_000)],
        };
        let row = bandwidth(8, &[thread(0), thread(1_000_000)], true).expect("messages");
        assert_eq!((row.messages, row.elapsed_ps), (2, 2_000_000));
        assert_eq!(row.peak_mib_per_s, 0.0, "perftest has one thread");
        assert_eq!(bandwidth(8, &[], true), None);
    }

    #[test]
    fn both_directions_add_up() {
        let one = rate(1 << 20, 1000, 1_000_000_000, 3.0);
        let both = sum(&[one.clone(), one.clone()]).expect("rows");
        assert_eq!(both.message_rate_mpps, 2.0 * one.message_rate_mpps);
        assert_eq!((both.messages, both.peak_mib_per_s), (2000, 6.0));
    }
}
