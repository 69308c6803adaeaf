//! When the messages of a thread were posted and completed.

/// Times in picoseconds at which one thread has posted messages and polled their completions, in
/// its order.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Time just before message `i` was posted.
    pub posted: Vec<u64>,
    /// Polled completions: the count of completed messages (`.0`) and the time (`.1`).
    pub completed: Vec<(u64, u64)>,
}

impl Timeline {
    /// Returns the time at which the first message was posted.
    pub fn start(&self) -> Option<u64> {
        self.posted.first().copied()
    }

    /// Returns the time at which the last completion was polled.
    pub fn end(&self) -> Option<u64> {
        self.completed.last().map(|&(_, at)| at)
    }

    /// Returns the number of messages that have completed.
    pub fn messages(&self) -> u64 {
        self.completed.last().map_or(0, |&(count, _)| count)
    }

    /// Returns the least time per message between any post and any later completion.
    ///
    /// Only posts on the upper hull of all posts, as points of count and time, can have the least
    /// time per message until a completion; along the hull this time falls and then rises.
    pub fn least_ps_per_message(&self) -> Option<f64> {
        let mut posts = self.posted.iter().zip(0..).peekable();
        let mut hull = Vec::new();
        let mut least = f64::INFINITY;
        for &completed in &self.completed {
            while let Some((&at, first)) = posts.next_if(|(_, first)| *first < completed.0) {
                extend_hull(&mut hull, (first, at));
            }
            if let Some(posted) = closest_on_hull(&hull, completed) {
                let messages = completed.0 - posted.0;
                least = least.min((completed.1 - posted.1) as f64 / messages as f64);
            }
        }
        least.is_finite().then_some(least)
    }

    /// Returns the number of messages completed by `at`, with a fraction of the next one for the
    /// time since the last completion.
    fn messages_at(&self, at: u64) -> f64 {
        let next = self.completed.partition_point(|(_, time)| *time <= at);
        let before = match next {
            0 => (0, self.start().unwrap_or(0)),
            _ => self.completed[next - 1],
        };
        let Some(after) = self.completed.get(next) else {
            return before.0 as f64;
        };
        let share = (at.max(before.1) - before.1) as f64 / (after.1 - before.1).max(1) as f64;
        before.0 as f64 + (after.0 - before.0) as f64 * share
    }

    /// Returns the rate between two times in Gb/s of payload, of messages of `size` bytes.
    pub fn gbps(&self, size: u32, (start, end): (u64, u64)) -> f64 {
        let messages = self.messages_at(end) - self.messages_at(start);
        messages * f64::from(size) * 8.0 * 1000.0 / (end - start).max(1) as f64
    }
}

/// A count of messages, and a time.
type Point = (u64, u64);

/// Returns true if the time per message from `one` to `end` is less than from `other`.
fn takes_less(one: Point, other: Point, end: Point) -> bool {
    // Both fractions, multiplied by both of their counts.
    let scaled =
        |point: Point, by: Point| u128::from(end.1.abs_diff(point.1)) * u128::from(end.0 - by.0);
    scaled(one, other) < scaled(other, one)
}

/// Adds a point to the right of an upper hull.
fn extend_hull(hull: &mut Vec<Point>, point: Point) {
    while let [.., before, last] = hull[..] {
        if takes_less(last, before, point) {
            break;
        }
        hull.pop();
    }
    hull.push(point);
}

/// Returns the point of an upper hull with the least time per message until `end`, which lies to
/// the right of the hull.
fn closest_on_hull(hull: &[Point], end: Point) -> Option<Point> {
    let mut low = 0;
    let mut high = hull.len().checked_sub(1)?;
    while low < high {
        let middle = (low + high) / 2;
        if takes_less(hull[middle + 1], hull[middle], end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(hull[low])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the least time per message, from each post to each later completion.
    fn least_of_all(timeline: &Timeline) -> Option<f64> {
        let posts = || timeline.posted.iter().zip(0u64..);
        let pairs = timeline.completed.iter().flat_map(|&(count, at)| {
            let earlier = posts().filter(move |(_, first)| *first < count);
            earlier.map(move |(posted, first)| (at - posted) as f64 / (count - first) as f64)
        });
        pairs.min_by(f64::total_cmp)
    }

    proptest! {
        #[test]
        fn the_least_time_is_that_of_all_pairs(
            gaps in prop::collection::vec((0u64..1000, 1u64..5, 0u64..3000), 0..60),
        ) {
            let mut timeline = Timeline::default();
            let (mut posted, mut count, mut at) = (0, 0, 0);
            for (gap, messages, latency) in gaps {
                for _ in 0..messages {
                    posted += gap;
                    timeline.posted.push(posted);
                }
                count += messages;
                at = (posted + latency).max(at);
                timeline.completed.push((count, at));
            }
            let least = timeline.least_ps_per_message();
            prop_assert_eq!(least, least_of_all(&timeline));
        }
    }

    #[test]
    fn a_rate_counts_parts_of_messages() {
        let timeline = Timeline {
            posted: vec![0],
            completed: vec![(1, 1_000_000), (3, 2_000_000)],
        };
        assert_eq!(timeline.messages_at(500_000), 0.5);
        assert_eq!(timeline.messages_at(1_500_000), 2.0);
        assert_eq!(timeline.messages_at(9_000_000), 3.0);
        // Two messages of 1000 bytes in a microsecond.
        let found = timeline.gbps(1000, (1_000_000, 2_000_000));
        assert!((found - 16.0).abs() < 1e-9, "{found}");
    }
}
