//! Decides the fate of each frame.

use std::cmp::Ordering;

use ferroce_units::{Duration, Instant};
use ferroce_wire::{Gid, Opcode, Psn};

use crate::agenda::{Agenda, DueStep};
use crate::chance::Transmission;
use crate::counters::FaultCounters;
use crate::flow::{Flow, FlowTable};
use crate::packet::{FlowKey, Packet};
use crate::plan::situation::Situation;
use crate::plan::{Fault, Kind, Plan, Span, When};
use crate::verdict::Verdict;

/// Maximum number of packets in which [`Engine::frames_until_event`] searches for random events.
pub const MAX_LOOK_AHEAD: u64 = 1 << 16;

/// The faults of a plan, and their effects so far.
#[derive(Debug)]
pub struct Engine {
    plan: Plan,
    flows: FlowTable,
    /// Time of the first packet.
    begun: Option<Instant>,
    agenda: Agenda,
    counters: FaultCounters,
}

impl Engine {
    /// Returns an engine that has seen no packet.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            flows: FlowTable::default(),
            begun: None,
            agenda: Agenda::default(),
            counters: FaultCounters::default(),
        }
    }

    /// Returns an engine that continues the counters of another one.
    #[must_use]
    pub fn counting_from(plan: Plan, counters: FaultCounters) -> Self {
        Self {
            counters,
            ..Self::new(plan)
        }
    }

    /// Returns its plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &FaultCounters {
        &self.counters
    }

    /// Returns the counters for events that the caller counts.
    pub fn counters_mut(&mut self) -> &mut FaultCounters {
        &mut self.counters
    }

    /// Returns the number of flows that it knows: at most [`crate::MAX_FLOWS`].
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Returns the verdict on a frame that would arrive at `now`. Frames that are not RoCEv2 pass.
    ///
    /// `is_forward` must be true for one of the two directions between two ends with one address:
    /// it separates their flows.
    pub fn decide(&mut self, now: Instant, is_forward: bool, frame: &[u8]) -> Verdict {
        let Some(packet) = Packet::parse(frame) else {
            return Verdict::PASS;
        };
        let begun = match self.begun {
            Some(begun) => begun,
            None => self.begin(now),
        };
        let Self {
            plan,
            flows,
            counters,
            ..
        } = self;
        let (source, destination) = packet.hosts();
        let is_forward = match source.0.cmp(&destination.0) {
            Ordering::Less => true,
            Ordering::Equal => is_forward,
            Ordering::Greater => false,
        };
        let flow = flows.find_or_add(&packet, is_forward, plan);
        let arrival = Arrival {
            packet: &packet,
            transmission: flow.note(&packet),
            since: now - begun,
            now,
        };
        let mut verdict = Verdict::PASS;
        for (index, fault) in plan.faults.iter().enumerate() {
            if arrival.is_selected(fault, flow) {
                arrival.suffer(index, fault, flow, &mut verdict);
            }
            if verdict.is_dropped() {
                break;
            }
        }
        if !verdict.is_pass() {
            verdict.count(plan, counters);
        }
        verdict
    }

    /// Handles the first packet: the times of the plan count from it.
    #[cold]
    fn begin(&mut self, now: Instant) -> Instant {
        self.agenda = Agenda::of_plan(&self.plan, now);
        *self.begun.insert(now)
    }

    /// Returns when the next step of a situation happens; `None`: there is none before the first
    /// packet, and after the last step.
    #[must_use]
    pub fn next_step(&self) -> Option<Instant> {
        self.agenda.next()
    }

    /// Takes the next step of a situation if it happens until `now`.
    pub fn take_step(&mut self, now: Instant) -> Option<DueStep> {
        self.agenda.take(now)
    }

    /// Returns a lower bound on the number of new packets of a flow that pass before a fault may
    /// affect one; `u64::MAX`: none ever will. It is zero for an unknown flow, and before the last
    /// time in the plan. Random events are searched for up to [`MAX_LOOK_AHEAD`].
    pub fn frames_until_event(&mut self, key: &FlowKey, now: Instant) -> u64 {
        let begun = self.begun.unwrap_or(now);
        let flow = self.flows.get_mut(key);
        flow.map_or(0, |flow| {
            clear_frames(&self.plan, key, flow, now - begun, |_| true)
        })
    }

    /// Returns how many packets of a run certainly pass, like [`Self::frames_until_event`] but
    /// without the flow's packets before the run.
    pub fn frames_from(&mut self, run: &Run, now: Instant) -> u64 {
        let begun = self.begun.unwrap_or(now);
        let Some(flow) = self.flows.get_mut(&run.key) else {
            return 0;
        };
        let example = run.example(flow);
        let concerns = |fault: &Fault| fault.selector.has_packet(&example);
        let frames = clear_frames(&self.plan, &run.key, flow, now - begun, concerns);
        match u64::try_from(run.first.distance_from(flow.next_psn())) {
            Ok(before) => frames.saturating_sub(before),
            Err(_) => 0,
        }
    }

    /// Returns true if a fault counts packets like the run's, and some numbers are still ahead.
    pub fn counts(&mut self, run: &Run) -> bool {
        let Some(flow) = self.flows.get_mut(&run.key) else {
            return false;
        };
        let example = run.example(flow);
        let mut faults = self.plan.faults.iter().zip(&flow.processes);
        faults.any(|(fault, process)| {
            fault.selector.has_packet(&example) && process.clear_numbers(&fault.kind) < u64::MAX
        })
    }

    /// Records that `packets` packets of a run are skipped, at most the number that
    /// [`Self::frames_from`] returned.
    pub fn leave_out(&mut self, run: &Run, packets: u64) {
        let Some(flow) = self.flows.get_mut(&run.key) else {
            return;
        };
        let Ok(before) = u64::try_from(run.first.distance_from(flow.next_psn())) else {
            return;
        };
        let example = run.example(flow);
        let begin = flow.next_offset() + before;
        for (fault, process) in self.plan.faults.iter().zip(&mut flow.processes) {
            let selector = &fault.selector;
            let is_of_flow = selector.flow.is_none_or(|number| number == flow.number);
            if is_of_flow && selector.has_packet(&example) {
                let (from, to) = match &selector.psn {
                    Some(psn) => (begin.max(*psn.start()), psn.end().saturating_add(1)),
                    None => (begin, u64::MAX),
                };
                process.count((begin + packets).min(to).saturating_sub(from));
            }
        }
        flow.move_on(before + packets);
    }
}

/// Consecutive new packets of a flow that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Their flow.
    pub key: FlowKey,
    /// PSN of the first packet.
    pub first: Psn,
    /// Their opcode; `None`: the opcode of the flow's last packet.
    pub opcode: Option<Opcode>,
}

impl Run {
    fn example(&self, flow: &Flow) -> Packet {
        Packet {
            key: self.key,
            psn: self.first,
            opcode: self.opcode.unwrap_or(flow.last.opcode),
            is_nak: false,
        }
    }
}

/// Returns how many new packets of a flow have no event from the faults that `concerns` selects.
fn clear_frames(
    plan: &Plan,
    key: &FlowKey,
    flow: &mut Flow,
    since: Duration,
    concerns: impl Fn(&Fault) -> bool,
) -> u64 {
    let mut certain = u64::MAX;
    let mut is_random = false;
    for (fault, process) in plan.faults.iter().zip(&flow.processes) {
        match fault.selector.during {
            Some(span) if is_done(&fault.kind, &span, since) => continue,
            Some(span) if span.is_over(since) => continue,
            Some(_) => return 0,
            None => {}
        }
        if !may_concern(fault, key, flow.number) {
            continue;
        }
        match (fault.kind.when(), &fault.kind) {
            (Some(When::Random(_)), _) => is_random = true,
            (None, Kind::Burst(_)) if !process.is_bad() => is_random = true,
            _ if !concerns(fault) => {}
            (Some(When::Numbered(_)), kind) => certain = certain.min(process.clear_numbers(kind)),
            (None, _) => return 0,
        }
    }
    if is_random {
        certain.min(look_ahead(plan, key, flow))
    } else {
        certain
    }
}

/// Returns true if nothing more of a situation happens.
fn is_done(kind: &Kind, span: &Span, since: Duration) -> bool {
    matches!(kind, Kind::Situation(situation) if situation.is_over(span, since))
}

/// Returns true if a fault may affect packets of a flow.
fn may_concern(fault: &Fault, key: &FlowKey, number: u64) -> bool {
    let is_between = match fault.kind {
        Kind::Partition(one, other) => separates(one, other, key),
        _ => true,
    };
    let selector = &fault.selector;
    is_between && selector.may_have(key) && selector.flow.is_none_or(|flow| flow == number)
}

fn separates(one: Gid, other: Gid, key: &FlowKey) -> bool {
    let ends = (key.source, key.destination);
    ends == (one, other) || ends == (other, one)
}

/// Returns how many packets of a flow pass before the next random event, up to the look-ahead
/// limit.
fn look_ahead(plan: &Plan, key: &FlowKey, flow: &mut Flow) -> u64 {
    let next = flow.next_offset();
    let end = next + MAX_LOOK_AHEAD;
    let faults = plan.faults.iter().zip(&flow.processes);
    let faults: Vec<_> = faults
        .filter(|(fault, _)| may_concern(fault, key, flow.number))
        .filter(|(fault, _)| !matches!(&fault.selector.tries, Some(tries) if *tries.start() > 1))
        .collect();
    let is_clear = |offset: &u64| {
        faults.iter().all(|(fault, process)| {
            let psn = fault.selector.psn.as_ref();
            psn.is_some_and(|psn| !psn.contains(offset)) || process.is_clear(&fault.kind, *offset)
        })
    };
    let clear_from = flow.clear_until.max(next);
    let event = (clear_from..end).find(|offset| !is_clear(offset));
    let clear_until = event.unwrap_or(clear_from.max(end));
    flow.clear_until = clear_until;
    clear_until - next
}

/// An arriving packet.
struct Arrival<'a> {
    packet: &'a Packet,
    transmission: Transmission,
    /// Time since the first packet.
    since: Duration,
    now: Instant,
}

impl Arrival<'_> {
    /// Returns true if the fault's selector matches the packet; the transmission number is checked
    /// later.
    #[inline]
    fn is_selected(&self, fault: &Fault, flow: &Flow) -> bool {
        let selector = &fault.selector;
        let offset = self.transmission.offset;
        selector.has_packet(self.packet)
            && selector.flow.is_none_or(|number| number == flow.number)
            && selector
                .psn
                .as_ref()
                .is_none_or(|psn| psn.contains(&offset))
            && selector.during.is_none_or(|span| span.has(self.since))
            && self.is_on_link(fault)
    }

    /// Returns false if the fault is a situation, unless it is a link that is down and the packet
    /// needs it.
    #[inline]
    fn is_on_link(&self, fault: &Fault) -> bool {
        let (source, destination) = self.packet.hosts();
        match fault.kind {
            Kind::Situation(Situation::LinkDown) => {
                let at = fault.selector.at;
                at.is_none_or(|at| at == source || at == destination)
            }
            Kind::Situation(_) => false,
            _ => true,
        }
    }

    /// Adds the effect of a fault to the verdict.
    fn suffer(&self, index: usize, fault: &Fault, flow: &mut Flow, verdict: &mut Verdict) {
        let transmission = self.transmission;
        let process = &mut flow.processes[index];
        // The state of a process follows all packets; the transmission number is checked
        // afterwards.
        let happens = match &fault.kind {
            Kind::Burst(burst) => process.is_lost(burst, transmission),
            Kind::Partition(one, other) => separates(*one, *other, &self.packet.key),
            kind => kind
                .when()
                .is_none_or(|when| process.happens(when, transmission)),
        };
        if !happens || !is_right_try(fault, transmission) {
            return;
        }
        let draw = process.draws.other(DRAWS_OF_EFFECT).of(transmission);
        let delay = verdict.delay;
        match fault.kind {
            Kind::Loss(_)
            | Kind::Burst(_)
            | Kind::Down
            | Kind::Partition(..)
            | Kind::Situation(_) => {
                verdict.dropped_by = Some(index as u8);
            }
            Kind::Duplicate(_) => verdict.is_duplicated = true,
            Kind::Corrupt(corruption, _) => verdict.corruption = Some((corruption, draw)),
            Kind::Delay(delay) | Kind::Overtake { delay, .. } => {
                verdict.delay = verdict.delay + delay;
            }
            Kind::Jitter(most) => {
                let jitter = Duration::from_ps(draw % (most.as_ps() + 1));
                let due = (self.now + (verdict.delay + jitter)).max(flow.in_order_from);
                flow.in_order_from = due;
                verdict.delay = due - self.now;
            }
            Kind::Spray { paths, spread } => {
                let path = Duration::from_ps(spread.as_ps() / (paths - 1) * (draw % paths));
                verdict.delay = verdict.delay + path;
            }
        }
        // The shortest path adds no delay.
        if !fault.kind.delays() || verdict.delay != delay {
            verdict.faults |= 1 << index;
        }
    }
}

/// Distinguishes the draws of one fault.
const DRAWS_OF_EFFECT: u64 = 2;

/// Returns true if the transmission number matches. By default, numbered packets only lose their
/// first transmission.
fn is_right_try(fault: &Fault, transmission: Transmission) -> bool {
    let number = u64::from(transmission.earlier) + 1;
    match (&fault.selector.tries, fault.kind.when()) {
        (Some(tries), _) => tries.contains(&number),
        (None, Some(When::Numbered(_))) => number == 1,
        (None, _) => true,
    }
}
