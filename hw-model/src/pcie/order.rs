//! The order of posted writes.

use ferroce_units::Instant;

/// The newest posted write of one direction: its time of issue, and when it becomes visible.
#[derive(Debug, Clone, Copy, Default)]
pub struct Posted {
    at: Instant,
    visible: Instant,
}

impl Posted {
    /// Returns the time before which a request issued at `at` must not be visible.
    #[inline]
    pub fn before(&self, at: Instant) -> Instant {
        if at >= self.at {
            self.visible
        } else {
            Instant::ZERO
        }
    }

    /// Records a write.
    #[inline]
    pub fn push(&mut self, at: Instant, visible: Instant) {
        if at >= self.at {
            self.at = at;
            self.visible = self.visible.max(visible);
        }
    }
}
