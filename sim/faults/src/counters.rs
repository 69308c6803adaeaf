//! Counters of faults.

/// A counter of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultCounter {
    /// Frames dropped by a loss fault.
    Lost,
    /// Frames dropped because the link had failed.
    LinkDown,
    /// Frames dropped between two separated hosts.
    Partition,
    /// Frames that arrived twice.
    Duplicated,
    /// Frames with an inverted bit.
    Corrupted,
    /// Delayed frames.
    Delayed,
    /// Frames dropped because too many were delayed.
    HeldLost,
}

impl FaultCounter {
    /// All counters, in their order in arrays.
    pub const ALL: [Self; 7] = [
        Self::Lost,
        Self::LinkDown,
        Self::Partition,
        Self::Duplicated,
        Self::Corrupted,
        Self::Delayed,
        Self::HeldLost,
    ];

    /// Returns its printed name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "fault_dropped_loss",
            Self::LinkDown => "fault_dropped_link_down",
            Self::Partition => "fault_dropped_partition",
            Self::Duplicated => "fault_duplicated",
            Self::Corrupted => "fault_corrupted",
            Self::Delayed => "fault_delayed",
            Self::HeldLost => "fault_held_lost",
        }
    }
}

/// The values of all counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounters([u64; FaultCounter::ALL.len()]);

impl FaultCounters {
    /// Returns a value.
    #[must_use]
    pub const fn value(&self, counter: FaultCounter) -> u64 {
        self.0[counter as usize]
    }

    /// Increments a counter.
    pub const fn add(&mut self, counter: FaultCounter) {
        self.0[counter as usize] += 1;
    }

    /// Returns names and values.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FaultCounter::ALL
            .into_iter()
            .map(|counter| (counter.name(), self.value(counter)))
    }
}
