//! Packet faults between the hosts of a world.

use ferroce_faults::{DueStep, Engine, FaultCounter, Run, Verdict, corrupt, write_icrc};
use ferroce_units::Instant;

use super::{Arrivals, Fabric, MAX_UNDER_WAY, Transit};
use crate::frame::Frame;
use crate::recorder::{FaultSeen, Received};

impl Fabric {
    /// Sends a frame to the card of a host, if it arrives.
    #[cold]
    pub(super) fn deliver_with_faults(&mut self, at: Instant, to: usize, frame: Frame) {
        let transit = Transit {
            from: self.current,
            to,
            sent: at,
            arrival: self.travel(at, to, frame.length()),
        };
        self.arrive_with_faults(transit, frame);
    }

    /// Queues a frame at the card of a host unless a fault prevents it. `transit`: its way without
    /// faults.
    #[cold]
    pub(super) fn arrive_with_faults(&mut self, transit: Transit, mut frame: Frame) {
        let sent = self.recorder.as_ref().map(|_| frame.as_ref().to_vec());
        let verdict = self.judge(transit, frame.as_ref());
        let (arrival, to) = (transit.arrival + verdict.delay, transit.to);
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
            let transit = Transit { arrival, ..transit };
            self.record_verdict(transit, frame.qpn(), &sent, &verdict, received);
        }
        if verdict.is_dropped() {
            return self.pool.give_back(frame);
        }
        if verdict.is_duplicated {
            if let Some(copy) = self.pool.copy(&frame) {
                self.put_if_room(arrival, to, copy);
            }
        }
        self.put_if_room(arrival, to, frame);
    }

    /// Carries a frame that a host receives without its card. `transit`: its way without faults. A
    /// frame with a wrong bit fails its ICRC check.
    #[cold]
    pub(super) fn carry_aside_with_faults(
        &mut self,
        transit: Transit,
        qpn: u32,
        frame: &[u8],
    ) -> Arrivals {
        let verdict = self.judge(transit, frame);
        let arrival = transit.arrival + verdict.delay;
        let is_lost = verdict.is_dropped() || verdict.corruption.is_some();
        let received = if is_lost {
            Received::Lost
        } else {
            Received::Intact
        };
        let transit = Transit { arrival, ..transit };
        self.record_verdict(transit, qpn, frame, &verdict, received);
        if is_lost {
            return [None, None];
        }
        self.count_received(transit.to, frame.len() as u32);
        [Some(arrival), verdict.is_duplicated.then_some(arrival)]
    }

    /// Returns the verdict on a frame with this way without faults.
    fn judge(&mut self, transit: Transit, frame: &[u8]) -> Verdict {
        let Some(engine) = &mut self.faults else {
            return Verdict::PASS;
        };
        let verdict = engine.decide(transit.arrival, transit.from < transit.to, frame);
        if !verdict.is_pass() {
            if let Some(counters) = &mut self.ends[transit.to].counters.faults {
                verdict.count(engine.plan(), counters);
            }
        }
        verdict
    }

    fn record_verdict(
        &self,
        transit: Transit,
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
        self.record_frame(transit, qpn, sent, fault);
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

/// Situations of hosts.
impl Fabric {
    /// Returns when the next step of a situation happens.
    #[inline]
    pub(super) fn next_step(&self) -> Option<Instant> {
        self.faults.as_deref().and_then(Engine::next_step)
    }

    /// Takes the next step of a situation that happens until `now`.
    pub fn take_step(&mut self, now: Instant) -> Option<DueStep> {
        self.faults.as_mut()?.take_step(now)
    }

    /// Takes the link from the port of a host. The plan drops its frames.
    pub fn set_link_down(&mut self, host: usize) {
        self.ends[host].is_down = true;
    }

    /// Gives the port of a host its link again.
    pub fn set_link_up(&mut self, host: usize) {
        self.ends[host].is_down = false;
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
