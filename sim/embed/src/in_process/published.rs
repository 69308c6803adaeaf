//! Published counters: a reset of the function does not set them back.

use ferroce_model::Counters;

/// Counts from before the last reset, and counts that were published since.
#[derive(Debug, Default)]
pub(super) struct Published {
    before: Counters,
    /// Values of the registers when a pending reset was requested.
    stale: Option<Counters>,
}

impl Published {
    /// Records a requested reset; the registers still have these values.
    pub(super) fn reset(&mut self, registers: &Counters) {
        if self.is_stale(registers) {
            return;
        }
        self.before.add_difference(&Counters::new(), registers);
        self.stale = Some(registers.clone());
    }

    /// Returns the counters to publish for these register values. `None`: the values are from
    /// before the reset, and were already published.
    pub(super) fn counters(&mut self, registers: &Counters) -> Option<Counters> {
        if self.is_stale(registers) {
            return None;
        }
        self.stale = None;
        let mut all = self.before.clone();
        all.add_difference(&Counters::new(), registers);
        Some(all)
    }

    fn is_stale(&self, registers: &Counters) -> bool {
        let stale = self.stale.as_ref();
        stale.is_some_and(|stale| stale.values() == registers.values())
    }
}

#[cfg(test)]
mod tests {
    use ferroce_spec::counter::Counter;

    use super::*;

    fn registers(frames: u64) -> Counters {
        let mut counters = Counters::new();
        counters.add(Counter::tx_frames, frames);
        counters
    }

    #[test]
    fn a_reset_does_not_set_counters_back() {
        let mut published = Published::default();
        let frames = |published: &mut Published, now| {
            let counters = published.counters(&registers(now));
            counters.map(|counters| counters.value(Counter::tx_frames))
        };
        assert_eq!(frames(&mut published, 5), Some(5));
        published.reset(&registers(7));
        published.reset(&registers(7));
        assert_eq!(frames(&mut published, 7), None, "not reset yet");
        assert_eq!(frames(&mut published, 0), Some(7));
        assert_eq!(frames(&mut published, 7), Some(14));
    }
}
