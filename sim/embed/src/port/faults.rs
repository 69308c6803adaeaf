//! Packet faults of a function: on frames that it receives, and on frames that it sends on its
//! uplink, where the other end has no plan.
//!
//! Slots of a ring are returned in order. A frame that is delayed or changed is copied out of its
//! slot; a timer delivers the copy.

use ferroce_faults::{
    Agenda, Engine, FaultCounter, Held, Onset, Plan, Step, Verdict, corrupt, write_icrc,
};
use ferroce_units::Instant;
use ferroce_wire::Gid;
use ferroce_wire::pcapng::Direction;

use super::FabricPort;
use super::frame::Frame;
use crate::clock::Clock;
use crate::fabric::registry::Injected;
use crate::uplink::Buffer;
use crate::uplink::buffer::Pool;
use ferroce_model::ports::port::Port;

/// Maximum number of frames dropped in one step, so that other work is not blocked.
const MAX_TAKEN: u32 = 64;

/// Whether a frame is in the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Captured {
    NotYet,
    Already,
}

/// The faults of a function, and the frames that they delay.
#[derive(Debug)]
pub(super) struct FaultEnd {
    clock: Clock,
    /// `None`: the faults were removed; delayed frames may remain.
    engine: Option<Engine>,
    /// Situations that `ferroce inject` brings about.
    agenda: Agenda,
    /// What ends the situations that have begun.
    open_ends: Vec<Step>,
    arriving: Held<Box<Buffer>>,
    leaving: Held<Box<Buffer>>,
    pool: Pool,
}

impl FaultEnd {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            engine: None,
            agenda: Agenda::default(),
            open_ends: Vec::new(),
            arriving: Held::default(),
            leaving: Held::default(),
            pool: Pool::default(),
        }
    }

    /// Replaces the plan. The situations that have begun end.
    fn set_plan(&mut self, plan: Option<Plan>, now: Instant) {
        self.agenda = Agenda::of_steps(now, self.open_ends.drain(..));
        let counters = self.engine.as_ref().map(|engine| *engine.counters());
        self.engine = plan.map(|plan| match counters {
            Some(counters) => Engine::counting_from(plan, counters),
            None => Engine::new(plan),
        });
    }

    /// Takes the next step of a situation that happens until `now`, if the function has the address
    /// of its host.
    fn take_step(&mut self, now: Instant, has: impl Fn(Gid) -> bool) -> Option<Step> {
        loop {
            let engine = self.engine.as_mut();
            let due = self.agenda.take(now);
            let due = due.or_else(|| engine.and_then(|engine| engine.take_step(now)))?;
            if due.host.is_none_or(&has) {
                let end = due.step.undone_by();
                self.open_ends
                    .retain(|open| *open != due.step && Some(*open) != end);
                self.open_ends.extend(end);
                return Some(due.step);
            }
        }
    }

    /// Returns when the next step of a situation happens.
    fn next_step(&self) -> Option<Instant> {
        let engine = self.engine.as_ref().and_then(Engine::next_step);
        self.agenda.next().into_iter().chain(engine).min()
    }

    /// Returns the verdict on a frame, and a comment on it if one is requested.
    fn decide(
        &mut self,
        now: Instant,
        is_forward: bool,
        frame: &[u8],
        wants_comment: bool,
    ) -> (Verdict, Option<String>) {
        let Some(engine) = &mut self.engine else {
            return (Verdict::PASS, None);
        };
        let verdict = engine.decide(now, is_forward, frame);
        let has_comment = wants_comment && !verdict.is_pass();
        (verdict, has_comment.then(|| verdict.comment(engine.plan())))
    }

    fn copy(&self, bytes: &[u8]) -> Box<Buffer> {
        let mut buffer = self.pool.take(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    pub(super) fn release(&self, buffer: Box<Buffer>) {
        self.pool.give_back(buffer);
    }

    /// Delays a frame, twice if it is duplicated. A frame for which there is no room is lost.
    fn hold(&mut self, now: Instant, verdict: &Verdict, frame: Box<Buffer>, direction: Direction) {
        let due = now + verdict.delay;
        let second = verdict.is_duplicated.then(|| self.copy(frame.bytes()));
        let held = match direction {
            Direction::Inbound => &mut self.arriving,
            Direction::Outbound => &mut self.leaving,
        };
        for frame in [Some(frame), second].into_iter().flatten() {
            if let (Err(frame), Some(engine)) = (held.push(due, frame), &mut self.engine) {
                engine.counters_mut().add(FaultCounter::HeldLost);
                self.pool.give_back(frame);
            }
        }
    }
}

impl FabricPort {
    /// Gives the function a plan of faults.
    #[must_use]
    pub fn with_faults(mut self, plan: Option<Plan>) -> Self {
        if plan.is_some() {
            self.set_faults(plan);
        }
        self
    }

    fn set_faults(&mut self, plan: Option<Plan>) {
        let place = self.place.number();
        self.registry.set_faults_active(place, plan.is_some());
        let clock = self.clock;
        let faults = self
            .faults
            .get_or_insert_with(|| FaultEnd::new(clock).into());
        faults.set_plan(plan, clock.instant(self.now));
    }

    /// Begins a situation that `ferroce inject` asks for.
    fn begin_situation(&mut self, onset: Onset) {
        let (clock, now) = (self.clock, self.now);
        let faults = self
            .faults
            .get_or_insert_with(|| FaultEnd::new(clock).into());
        if faults.agenda.is_full() {
            tracing::warn!(?onset, "too many situations wait for their end: not begun");
            return;
        }
        faults.agenda.add(clock.instant(now), None, onset);
    }

    /// Returns true if situations may be due.
    #[inline]
    pub fn may_have_steps(&self) -> bool {
        self.faults.is_some()
    }

    /// Takes the next step of a situation that is due.
    #[cold]
    pub fn take_step(&mut self, now: Instant) -> Option<Step> {
        let (registry, place) = (self.registry, self.place.number());
        let faults = self.faults.as_mut()?;
        faults.take_step(now, |address| registry.owns_gid(place, address))
    }

    /// Applies a plan that `ferroce inject` has changed.
    #[cold]
    pub(super) fn change_injected(&mut self, injected: Injected) {
        if injected.plan_number() != self.injected.plan_number() {
            let plan = self.registry.injected_plan(self.place.number());
            self.set_faults(plan);
        }
        if injected.has_situation() {
            let onset = self.registry.take_situation(self.place.number());
            onset
                .into_iter()
                .for_each(|onset| self.begin_situation(onset));
        }
        self.injected = injected;
    }

    /// Returns the time at which a delayed frame is due.
    #[inline]
    pub fn next_delivery(&self) -> Option<Instant> {
        let faults = self.faults.as_ref()?;
        let (arriving, leaving) = (faults.arriving.next(), faults.leaving.next());
        let steps = faults.next_step();
        arriving.into_iter().chain(leaving).chain(steps).min()
    }

    /// Publishes the counters of faults.
    pub fn publish_faults(&self) {
        if let Some(engine) = self
            .faults
            .as_ref()
            .and_then(|faults| faults.engine.as_ref())
        {
            let place = self.place.number();
            self.registry.publish_faults(place, engine.counters());
        }
    }

    /// Takes the next frame that arrives.
    #[cold]
    pub(super) fn receive_with_faults(&mut self, now: Instant) -> Option<Frame> {
        for _ in 0..MAX_TAKEN {
            if let Some(frame) = self.faults.as_mut()?.arriving.pop(now) {
                return Some(Frame::Buffer(frame));
            }
            let frame = self.take_frame()?;
            if let Some(frame) = self.pass_faults(now, frame) {
                return Some(frame);
            }
        }
        None
    }

    /// Returns a received frame if no fault affects it.
    fn pass_faults(&mut self, now: Instant, frame: Frame) -> Option<Frame> {
        let is_forward = match &frame {
            Frame::Ring(frame) => frame.place() < self.place.number(),
            Frame::Buffer(_) => true,
        };
        let wants_comment = self.capture.is_some();
        let faults = self.faults.as_mut()?;
        let (verdict, comment) = faults.decide(now, is_forward, frame.as_ref(), wants_comment);
        if verdict.is_pass() {
            if wants_comment {
                self.record_received(&frame);
            }
            return Some(frame);
        }
        let mut copy = faults.copy(frame.as_ref());
        if !super::carries_icrc(&frame) {
            write_icrc(copy.bytes_mut());
        }
        if let Some((corruption, draw)) = verdict.corruption {
            corrupt(copy.bytes_mut(), corruption, draw);
        }
        if let (Some(capture), Some(comment)) = (&mut self.capture, comment) {
            capture.record_commented(Direction::Inbound, copy.bytes(), &comment);
        }
        if verdict.is_dropped() {
            faults.release(copy);
        } else {
            faults.hold(now, &verdict, copy, Direction::Inbound);
        }
        self.release(frame);
        None
    }

    /// Sends a frame on the uplink.
    #[cold]
    pub(super) fn transmit_with_faults(&mut self, mut buffer: Box<Buffer>, captured: Captured) {
        let Some(faults) = self.faults.as_mut() else {
            return self.transmit_on_uplink(buffer);
        };
        let now = faults.clock.instant(self.now);
        let (is_forward, wants_comment) = (true, self.capture.is_some());
        let (verdict, comment) = faults.decide(now, is_forward, buffer.bytes(), wants_comment);
        if let Some((corruption, draw)) = verdict.corruption {
            corrupt(buffer.bytes_mut(), corruption, draw);
        }
        match (&mut self.capture, comment) {
            (Some(capture), Some(comment)) => {
                capture.record_commented(Direction::Outbound, buffer.bytes(), &comment);
            }
            (Some(capture), None) if captured == Captured::NotYet => {
                capture.record(Direction::Outbound, buffer.bytes());
            }
            _ => {}
        }
        if verdict.is_dropped() {
            self.release_buffer(buffer);
        } else if verdict.is_duplicated || !verdict.delay.is_zero() {
            faults.hold(now, &verdict, buffer, Direction::Outbound);
            self.transmit_due();
        } else {
            self.transmit_on_uplink(buffer);
        }
    }

    /// Sends the delayed frames on the uplink that are due.
    #[cold]
    pub(super) fn transmit_due(&mut self) {
        let Some(mut faults) = self.faults.take() else {
            return;
        };
        let now = faults.clock.instant(self.now);
        while let Some(frame) = faults.leaving.pop(now) {
            self.transmit_on_uplink(frame);
        }
        self.faults = Some(faults);
    }
}
