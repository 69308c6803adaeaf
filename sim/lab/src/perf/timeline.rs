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
}
