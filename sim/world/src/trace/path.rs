//! The critical path of an operation, from its end back to its start.
//!
//! Steps overlap; only those for which the operation has waited count. At each moment this is the
//! step whose result came last among those for which the next step can wait (`causes`). If a block
//! was busy with something else, the operation has waited for that. The parts are contiguous, so
//! that they add up to the whole.

use ferroce_model::time::timing::Stage;
use ferroce_units::{Duration, Instant};

use super::step::{Kind, Step};
use crate::Activity;

/// Use of a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A step.
    Step(Kind),
    /// A block was busy with other work; `Kind` is the step that it executed next.
    Busy(Kind),
    /// Idle until `Kind` started; `None`: until the end.
    Turn(Option<Kind>),
}

/// A part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The host or its card; for a frame on the cable, its sender.
    pub host: usize,
    /// Its use.
    pub what: What,
    /// Its start.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// Number of moved bytes.
    pub bytes: u32,
    /// Time for which it delays the next one of its kind.
    pub occupied: Duration,
}

impl Part {
    /// Returns its duration.
    pub fn time(&self) -> Duration {
        self.end - self.start
    }
}

/// Returns the parts of the time from `start` to `end`, at which a processor of `host` continued.
///
/// `steps` are in the order in which they became known, so a cause precedes its effect.
pub fn parts(steps: &[Step], host: usize, start: Instant, end: Instant) -> Vec<Part> {
    let mut walk = Walk {
        steps,
        start,
        time: end,
        host,
        before: steps.len(),
        effect: None,
        parts: Vec::new(),
    };
    while walk.time > start {
        match walk.cause() {
            Some(index) => walk.pass(index),
            None => walk.to(start, What::Turn(walk.effect), None),
        }
    }
    walk.parts.reverse();
    walk.parts
}

/// The walk from the end back to the start.
struct Walk<'a> {
    steps: &'a [Step],
    start: Instant,
    /// Everything after this time is explained.
    time: Instant,
    host: usize,
    /// Causes are before this step.
    before: usize,
    /// The step that follows in time; `None`: the end.
    effect: Option<Kind>,
    parts: Vec<Part>,
}

impl Walk<'_> {
    /// Returns the step for which the next one has waited: the one that ended last.
    fn cause(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (index, step) in self.steps[..self.before].iter().enumerate().rev() {
            if step.end > self.time || step.begun() >= self.time || !self.is_cause(step) {
                continue;
            }
            let Some(known) = best.map(|best| &self.steps[best]) else {
                best = Some(index);
                continue;
            };
            // Of posted writes that become visible together, the first one delays the others.
            let is_older = step.end == known.end
                && step.kind == Kind::Host(Activity::PcieWrite)
                && step.start < known.start;
            if step.end > known.end || is_older {
                best = Some(index);
            }
        }
        best
    }

    fn is_cause(&self, step: &Step) -> bool {
        match self.effect {
            Some(Kind::Card(Stage::MacReceive)) => {
                step.kind == Kind::Host(Activity::Link) && step.end == self.time
            }
            effect => step.host == self.host && causes(step.kind, effect),
        }
    }

    /// Goes back to the start of `index` and, if it waited for its block, through the block's
    /// earlier work.
    fn pass(&mut self, mut index: usize) {
        let first = self.steps[index];
        self.to(first.end, What::Turn(self.effect), None);
        loop {
            let step = self.steps[index];
            self.host = step.host;
            self.to(step.begun(), What::Step(step.kind), Some(&step));
            self.before = index;
            self.effect = Some(step.kind);
            if step.begun() <= step.start || self.time <= self.start {
                return;
            }
            match self.user_before(index) {
                Some(user) => index = user,
                None => return self.to(step.start, What::Busy(step.kind), None),
            }
        }
    }

    /// Returns the step that occupied the block when step `index` arrived.
    fn user_before(&self, index: usize) -> Option<usize> {
        let step = &self.steps[index];
        let before = self.steps[..index].iter().enumerate().rev();
        let mut users = before.filter(|(_, user)| user.host == step.host && user.kind == step.kind);
        let (user, found) = users.next()?;
        let released = found.begun() + found.occupied;
        let is_behind = found.begun() < step.begun() && released + SLACK >= step.begun();
        is_behind.then_some(user)
    }

    /// Adds the part from `time` to the position of the walk.
    fn to(&mut self, time: Instant, what: What, step: Option<&Step>) {
        let start = time.max(self.start);
        if start < self.time {
            self.parts.push(Part {
                host: self.host,
                what,
                start,
                end: self.time,
                bytes: step.map_or(0, |step| step.bytes),
                occupied: step.map_or(Duration::ZERO, |step| step.occupied),
            });
            self.time = start;
        }
    }
}

/// A clock edge may be between the end of one item and the start of the next.
const SLACK: Duration = Duration::from_ns(8);

/// Returns true if `effect` may have waited for the result of `cause`; `None`: a processor
/// continued.
fn causes(cause: Kind, effect: Option<Kind>) -> bool {
    use Activity::{
        Compute, Interrupt, Link, Mmio, PcieAtomic, PcieRead, PcieWrite, Poll, Post, PostReceive,
        WakeUp,
    };
    use Kind::{Card, Host};
    use Stage::{
        Completion, Doorbell, Event, Fetch, MacReceive, MacTransmit, Packetize, Receive, Transmit,
    };
    match effect {
        Some(Host(WakeUp)) => cause == Host(Interrupt),
        None | Some(Host(Post | PostReceive | Activity::Doorbell | Poll | Compute)) => {
            cause.is_processor() || matches!(cause, Host(PcieWrite | Interrupt))
        }
        Some(Host(Mmio)) => cause.is_processor(),
        Some(Host(PcieRead)) => matches!(
            cause,
            Card(Doorbell | Fetch | Transmit(_) | Receive(_) | Completion)
                | Host(PcieRead | PcieAtomic)
        ),
        Some(Host(PcieWrite)) => matches!(
            cause,
            Card(Receive(_) | Completion | Event) | Host(PcieRead | PcieAtomic)
        ),
        Some(Host(PcieAtomic)) => matches!(cause, Card(Receive(_)) | Host(PcieRead)),
        Some(Host(Interrupt)) => matches!(cause, Card(Event) | Host(PcieWrite)),
        Some(Host(Link)) => cause == Card(MacTransmit),
        Some(Card(Doorbell)) => cause == Host(Mmio),
        Some(Card(Fetch)) => matches!(
            cause,
            Card(Doorbell | Fetch | Receive(_) | Completion) | Host(PcieRead)
        ),
        Some(Card(Transmit(_))) => matches!(
            cause,
            Card(Doorbell | Fetch | Receive(_) | Transmit(_)) | Host(PcieRead | PcieAtomic)
        ),
        Some(Card(Packetize)) => matches!(cause, Card(Transmit(_)) | Host(PcieRead)),
        Some(Card(MacTransmit)) => cause == Card(Packetize),
        Some(Card(MacReceive)) => cause == Host(Link),
        Some(Card(Receive(_))) => cause == Card(MacReceive),
        Some(Card(Completion)) => matches!(
            cause,
            Card(Receive(_) | Fetch | Transmit(_) | Packetize | MacTransmit)
                | Host(PcieRead | PcieAtomic)
        ),
        Some(Card(Event)) => matches!(
            cause,
            Card(Completion | Doorbell | Receive(_)) | Host(PcieRead | PcieWrite)
        ),
    }
}
