//! When the messages of a thread were posted and completed.

/// Times in picoseconds at which one thread has posted messages and polled their completions, in
/// its order.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Message `i` was about to be posted.
    pub posted: Vec<u64>,
    /// Completions were found that bring the count of completed messages to `.0`, at `.1`.
    pub completed: Vec<(u64, u64)>,
}

impl Timeline {
    /// Returns when the first message was posted.
    pub fn start(&self) -> Option<u64> {
        self.posted.first().copied()
    }

    /// Returns when the last completion was found.
    pub fn end(&self) -> Option<u64> {
        self.completed.last().map(|&(_, at)| at)
    }

    /// Returns the number of messages that have completed.
    pub fn messages(&self) -> u64 {
        self.completed.last().map_or(0, |&(count, _)| count)
    }

    /// Returns the least time per message between any post and any later completion.
    pub fn least_ps_per_message(&self) -> Option<f64> {
        let mut least = f64::INFINITY;
        for (first, &posted) in self.posted.iter().enumerate() {
            let later = self
                .completed
                .partition_point(|&(count, _)| count <= first as u64);
            for &(count, at) in &self.completed[later..] {
                let messages = count - first as u64;
                least = least.min((at - posted) as f64 / messages as f64);
            }
        }
        least.is_finite().then_some(least)
    }

    /// Returns the messages that have completed by `at`, with the part of the next one that the
    /// time since the last one says.
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

#[cfg(test)]
mod tests {
    use super::*;

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
