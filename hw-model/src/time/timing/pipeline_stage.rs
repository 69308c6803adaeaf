//! A block that works on one item at a time.

use ferroce_units::{Duration, Instant};

/// The time at which a block is free again.
#[derive(Debug, Clone, Copy, Default)]
pub struct PipelineStage {
    free_at: Instant,
    busy: Duration,
}

impl PipelineStage {
    /// Occupies the block for `occupancy` with an item that is available at `at`, and returns when
    /// its service begins. A pipeline takes the next item after `occupancy`, long before this item
    /// is done.
    ///
    /// The block's time is reserved from `now` on: an item that waits for host memory does not keep
    /// the block from others meanwhile.
    #[inline]
    pub fn reserve(&mut self, now: Instant, at: Instant, occupancy: Duration) -> Instant {
        let start = self.free_at.max(now);
        self.free_at = start + occupancy;
        self.busy = self.busy + occupancy;
        start.max(at)
    }

    /// Returns the time at which the service of an item that arrives at `at` would begin.
    #[inline]
    pub fn wait(&self, now: Instant, at: Instant) -> Instant {
        self.free_at.max(now).max(at)
    }

    /// Returns the time at which it can accept another item.
    #[inline]
    pub const fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Returns its total busy time.
    pub const fn busy(&self) -> Duration {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_comes_later_keeps_no_other_waiting() {
        let mut block = PipelineStage::default();
        let (now, occupancy) = (Instant::from_ns(100), Duration::from_ns(10));
        let later = block.reserve(now, Instant::from_ns(500), occupancy);
        assert_eq!(later, Instant::from_ns(500));
        let next = block.reserve(now, now, occupancy);
        assert_eq!(next, Instant::from_ns(110), "after ten ns of reserved work");
    }

    #[test]
    fn it_does_no_more_than_it_can() {
        let mut block = PipelineStage::default();
        let mut begin = Instant::ZERO;
        for _ in 0..1000 {
            begin = block.reserve(Instant::ZERO, Instant::from_ns(50), Duration::from_ns(3));
        }
        assert_eq!(begin, Instant::from_ns(3 * 999));
        assert_eq!(block.busy(), Duration::from_ns(3 * 1000));
    }
}
