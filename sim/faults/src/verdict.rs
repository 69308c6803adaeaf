//! The fate of a packet.

use std::fmt::{self, Write as _};

use ferroce_units::Duration;

use crate::corrupt::Corruption;
use crate::counters::{FaultCounter, FaultCounters};
use crate::plan::{Kind, Plan};

/// The effects of a plan's faults on one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The fault that drops it: its index in the plan.
    pub dropped_by: Option<u8>,
    /// True if the frame arrives twice; both copies are equal.
    pub is_duplicated: bool,
    /// The damaged part, and a random number that chooses the bit.
    pub corruption: Option<(Corruption, u64)>,
    /// Additional delay.
    pub delay: Duration,
    /// Bitmap of the faults that affect it.
    pub faults: u32,
}

impl Verdict {
    /// The packet is unaffected.
    pub const PASS: Self = Self {
        dropped_by: None,
        is_duplicated: false,
        corruption: None,
        delay: Duration::ZERO,
        faults: 0,
    };

    /// Returns true if the packet is unaffected.
    #[inline]
    #[must_use]
    pub const fn is_pass(&self) -> bool {
        self.faults == 0
    }

    /// Returns true if the frame does not arrive.
    #[inline]
    #[must_use]
    pub const fn is_dropped(&self) -> bool {
        self.dropped_by.is_some()
    }

    /// Adds the verdict to counters.
    pub fn count(&self, plan: &Plan, counters: &mut FaultCounters) {
        if let Some(fault) = self.dropped_by {
            counters.add(match plan.faults[usize::from(fault)].kind {
                Kind::Down | Kind::Situation(_) => FaultCounter::LinkDown,
                Kind::Partition(..) => FaultCounter::Partition,
                _ => FaultCounter::Lost,
            });
            return;
        }
        let happened = [
            (self.is_duplicated, FaultCounter::Duplicated),
            (self.corruption.is_some(), FaultCounter::Corrupted),
            (!self.delay.is_zero(), FaultCounter::Delayed),
        ];
        for (_, counter) in happened.into_iter().filter(|(is_so, _)| *is_so) {
            counters.add(counter);
        }
    }

    /// Returns the comment of the frame in a capture: "dropped: rule 2 (loss)".
    #[must_use]
    pub fn comment(&self, plan: &Plan) -> String {
        if let Some(fault) = self.dropped_by {
            return format!("dropped: {}", Rule(plan, usize::from(fault)));
        }
        let mut comment = String::new();
        for fault in (0..plan.faults.len()).filter(|fault| self.faults & 1 << fault != 0) {
            let separator = if comment.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(
                comment,
                "{separator}{}: {}",
                self.effect(plan.faults[fault].kind),
                Rule(plan, fault)
            );
        }
        comment
    }

    fn effect(&self, kind: Kind) -> String {
        match kind {
            Kind::Duplicate(_) => "duplicated".to_owned(),
            Kind::Corrupt(part, _) => match part {
                Corruption::Payload => "payload corrupted".to_owned(),
                Corruption::Header => "header corrupted".to_owned(),
                Corruption::Icrc => "ICRC corrupted".to_owned(),
            },
            _ => format!("delayed {} ns in all", self.delay.as_ns()),
        }
    }
}

/// A fault in comments: rules count from 1.
struct Rule<'a>(&'a Plan, usize);

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(plan, fault) = self;
        write!(
            f,
            "rule {} ({})",
            fault + 1,
            plan.faults[*fault].kind.name()
        )
    }
}
