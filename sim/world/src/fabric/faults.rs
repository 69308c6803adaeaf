//! Packet faults between the hosts of a world.

use ferroce_faults::{FaultCounter, Run, Verdict, corrupt, write_icrc};
use ferroce_units::Instant;

use super::{Arrivals, Fabric, MAX_UNDER_WAY};
use crate::frame::Frame;
use crate::recorder::{FaultSeen, Received};

impl Fabric {
    /// Sends a frame to the card of a host, if it arrives.
    #[cold]
    pub(super) fn deliver_with_faults(&mut self, at: Instant, to: usize, frame: Frame) {
        let arrival = self.travel(at, to, frame.length());
        self.arrive_with_faults((at, arrival), (self.current, to), frame);
    }

    /// Queues a frame at the card of a host unless a fault prevents it. `times`: when it was sent,
    /// and when it would arrive.
    #[cold]
    pub(super) fn arrive_with_faults(
        &mut self,
        times: (Instant, Instant),
        ends: (usize, usize),
        mut frame: Frame,
    ) {
        let sent = self.recorder.as_ref().map(|_| frame.as_ref().to_vec());
        let verdict = self.judge(times.1, ends, frame.as_ref());
        let times = (times.0, times.1 + verdict.delay);
        if let Some((corruption, draw)) = verdict.corruption {
            if !self.icrc {
                write_icrc(frame.as_mut());
            }
            if corrupt(frame.as_mut(), corruption, draw) {
                frame.set_checked();
            }
        }
        let received = match verdict {
            _ if verdict.is_dropped() => Received::Lost,
            _ if verdict.corruption.is_some() => Received::Damaged(frame.as_ref()),
            _ => Received::Intact,
        };
        if let Some(sent) = sent {
            self.record_verdict(times, ends, frame.qpn(), &sent, &verdict, received);
        }
        if verdict.is_dropped() {
            return self.pool.give_back(frame);
        }
        let (arrival, to) = (times.1, ends.1);
        if verdict.is_duplicated {
            if let Some(copy) = self.pool.copy(&frame) {
                self.put_if_room(arrival, to, copy);
            }
        }
        self.put_if_room(arrival, to, frame);
    }

    /// Carries a frame that a host receives without its card and that would arrive at `arrival`. A
    /// frame with a wrong bit fails its ICRC check.
    #[cold]
    pub(super) fn carry_aside_with_faults(
        &mut self,
        (at, arrival): (Instant, Instant),
        to: usize,
        qpn: u32,
        frame: &[u8],
    ) -> Arrivals {
        let ends = (self.current, to);
        let verdict = self.judge(arrival, ends, frame);
        let arrival = arrival + verdict.delay;
        let is_lost = verdict.is_dropped() || verdict.corruption.is_some();
        let received = if is_lost {
            Received::Lost
        } else {
            Received::Intact
        };
        self.record_verdict((at, arrival), ends, qpn, frame, &verdict, received);
        if is_lost {
            return [None, None];
        }
        self.count_received(to, frame.len() as u32);
        [Some(arrival), verdict.is_duplicated.then_some(arrival)]
    }

    /// Returns the verdict on a frame that would arrive at `arrival`.
    fn judge(&mut self, arrival: Instant, (from, to): (usize, usize), frame: &[u8]) -> Verdict {
        let Some(engine) = &mut self.faults else {
            return Verdict::PASS;
        };
        let verdict = engine.decide(arrival, from < to, frame);
        if !verdict.is_pass() {
            if let Some(counters) = &mut self.ends[to].counters.faults {
                verdict.count(engine.plan(), counters);
            }
        }
        verdict
    }

    fn record_verdict(
        &self,
        times: (Instant, Instant),
        ends: (usize, usize),
        qpn: u32,
        sent: &[u8],
        verdict: &Verdict,
        received: Received<'_>,
    ) {
        let engine = self.faults.as_ref().filter(|_| !verdict.is_pass());
        let comment = engine.map(|engine| verdict.comment(engine.plan()));
        let fault = comment
            .as_deref()
            .map(|comment| FaultSeen { comment, received });
        self.record_frame(times, ends, qpn, sent, fault);
    }

    /// Queues a frame unless too many are in flight: copies of frames do not wait for room.
    fn put_if_room(&mut self, arrival: Instant, to: usize, frame: Frame) {
        let end = &mut self.ends[to];
        if end.arriving.len() >= 2 * MAX_UNDER_WAY {
            if let Some(counters) = &mut end.counters.faults {
                counters.add(FaultCounter::HeldLost);
            }
            return self.pool.give_back(frame);
        }
        self.count_received(to, frame.length());
        self.put(arrival, to, frame);
    }
}

/// Queries of fast-forward.
impl Fabric {
    /// Returns true if there are faults.
    #[inline]
    pub fn has_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// Returns how many packets of a message can be skipped before a fault hits one of them or one
    /// of their ACKs.
    pub fn frames_from(&mut self, data: &Run, acks: Option<&Run>) -> u64 {
        let Some(engine) = &mut self.faults else {
            return u64::MAX;
        };
        let frames = engine.frames_from(data, self.now);
        let acknowledges = match acks {
            None => u64::MAX,
            // The number of skipped ACKs is unknown.
            Some(acks) if engine.counts(acks) => 0,
            Some(acks) => engine.frames_from(acks, self.now),
        };
        frames.min(acknowledges)
    }

    /// Records that packets of a message are skipped.
    pub fn leave_out(&mut self, data: &Run, packets: u64) {
        if let Some(engine) = &mut self.faults {
            engine.leave_out(data, packets);
        }
    }
}
