//! The steps of situations, in the order of their times.

use ferroce_units::Instant;
use ferroce_wire::Gid;

use crate::plan::situation::{Onset, Step};
use crate::plan::{Kind, Plan};

/// A step, and where it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueStep {
    /// When it happens.
    pub at: Instant,
    /// An address of the host to which it happens; `None`: to all hosts that the plan concerns.
    pub host: Option<Gid>,
    /// What happens.
    pub step: Step,
}

/// Number of waiting steps at which no situation is added any more.
const MAX_STEPS: usize = 4096;

/// The steps that have not happened yet.
#[derive(Debug, Default)]
pub struct Agenda {
    /// The first one is last.
    steps: Vec<DueStep>,
}

impl Agenda {
    /// Returns the steps of a plan whose first packet arrives at `begun`.
    pub(crate) fn of_plan(plan: &Plan, begun: Instant) -> Self {
        let mut agenda = Self::default();
        for fault in &plan.faults {
            if let (Kind::Situation(situation), Some(during)) = (fault.kind, fault.selector.during)
            {
                let onset = Onset {
                    situation,
                    time: during.until.map(|until| until - during.from),
                };
                agenda.add(begun + during.from, fault.selector.at, onset);
            }
        }
        agenda
    }

    /// Returns an agenda with these steps at `at`.
    pub fn of_steps(at: Instant, steps: impl Iterator<Item = Step>) -> Self {
        let host = None;
        let steps = steps.map(|step| DueStep { at, host, step }).collect();
        Self { steps }
    }

    /// Adds a situation that begins at `at`.
    pub fn add(&mut self, at: Instant, host: Option<Gid>, onset: Onset) {
        let Onset { situation, time } = onset;
        for step in situation.begin() {
            self.insert(DueStep {
                at,
                host,
                step: *step,
            });
        }
        let Some(time) = time else { return };
        for step in situation.end() {
            let at = at + time;
            self.insert(DueStep {
                at,
                host,
                step: *step,
            });
        }
    }

    /// Returns true if no situation may be added to those of the plan.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.steps.len() >= MAX_STEPS
    }

    /// Inserts a step after the steps of the same time.
    fn insert(&mut self, step: DueStep) {
        let place = self.steps.partition_point(|other| other.at > step.at);
        self.steps.insert(place, step);
    }

    /// Returns when the next step happens.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.steps.last().map(|step| step.at)
    }

    /// Takes the next step if it happens until `now`.
    pub fn take(&mut self, now: Instant) -> Option<DueStep> {
        self.steps.pop_if(|step| step.at <= now)
    }
}
