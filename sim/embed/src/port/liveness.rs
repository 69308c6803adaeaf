//! Dead peers, and peers that are alive but do not run.
//!
//! A cable does not show whether a device at its other end is alive, but inside one machine this is
//! known. So a requester does not wait for acknowledgements of a dead process, and does not mistake
//! a stopped process, or one that waits for a processor, for packet loss.

use ferroce_model::ports::port::Route;
use ferroce_wire::Gid;

use super::{FabricPort, Peer};
use crate::clock::{Clock, Ticks};

/// Period of the liveness checks while there are peers: requests to a dead process fail after this
/// time.
const CHECK_NS: u64 = 250_000_000;
/// Time from the detection of a peer's death until its requests fail. On a network they fail only
/// after the retries of the local ACK timeout. By then, a program whose last request was in flight
/// when its peer exited has polled its last good completion and exited itself. It must not see the
/// failure next to that completion just because it was not scheduled for a while.
const GRACE_NS: u64 = 100_000_000;
/// How long retries towards a live peer that takes no frames are suppressed before its silence
/// counts as on any network.
const STALL_LIMIT_NS: u64 = 300_000_000_000;
/// The user is warned after this time.
const WARNING_NS: u64 = 1_000_000_000;

/// The times of the checks and their results.
#[derive(Debug)]
pub(super) struct Liveness {
    spans: Spans,
    check_at: Ticks,
    /// When the loss of a peer was detected that is not yet reported to the NIC.
    lost_at: Option<Ticks>,
    /// True if the loss is old enough to report it to the NIC.
    has_loss: bool,
}

#[derive(Debug)]
struct Spans {
    check: u64,
    grace: u64,
    stall_limit: u64,
    warning: u64,
}

impl Liveness {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            spans: Spans {
                check: clock.ticks_of_ns(CHECK_NS),
                grace: clock.ticks_of_ns(GRACE_NS),
                stall_limit: clock.ticks_of_ns(STALL_LIMIT_NS),
                warning: clock.ticks_of_ns(WARNING_NS),
            },
            check_at: Ticks(u64::MAX),
            lost_at: None,
            has_loss: false,
        }
    }

    /// Returns the time of the next check.
    pub(super) fn check_at(&self) -> Ticks {
        self.check_at
    }

    /// Starts the checks because there is a peer.
    pub(super) fn watch(&mut self, now: Ticks) {
        self.check_at = self.check_at.min(after(now, self.spans.check));
    }

    /// Records the loss of a peer. It is reported to the NIC after [`GRACE_NS`].
    pub(super) fn note_loss(&mut self, now: Ticks) {
        let lost_at = *self.lost_at.get_or_insert(now);
        self.check_at = self.check_at.min(after(lost_at, self.spans.grace));
    }

    /// Reports the loss of a peer if it is old enough, or schedules the report.
    fn report_loss(&mut self, now: Ticks) {
        let Some(lost_at) = self.lost_at else { return };
        if now.since(lost_at) < self.spans.grace {
            return self.note_loss(now);
        }
        self.lost_at = None;
        self.has_loss = true;
    }

    /// Returns true if a loss has to be reported to the NIC.
    #[inline]
    pub(super) fn has_loss(&self) -> bool {
        self.has_loss
    }

    /// Takes the loss to report it to the NIC.
    #[inline]
    pub(super) fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.has_loss)
    }
}

/// Progress of a peer at the last check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    seen: Option<(u32, Ticks)>,
    is_reported: bool,
}

impl Progress {
    pub(super) const NONE: Self = Self {
        seen: None,
        is_reported: false,
    };

    /// Returns the time since which the peer has made no progress.
    fn stands_since(&mut self, consumed: u32, now: Ticks) -> Ticks {
        match self.seen {
            Some((before, since)) if before == consumed => since,
            _ => {
                self.seen = Some((consumed, now));
                now
            }
        }
    }
}

impl Peer {
    /// Marks the peer as dead.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.ring = None;
        self.gid = Gid::UNSPECIFIED;
    }
}

impl FabricPort {
    /// Checks the liveness of all peers.
    #[cold]
    pub(super) fn check_liveness(&mut self) {
        self.liveness.check_at = Ticks(u64::MAX);
        self.liveness.report_loss(self.now);
        let mut has_lost = false;
        let (registry, own) = (self.registry, self.place.number());
        for (place, peer) in (0..=u8::MAX).zip(&mut self.peers) {
            if peer.ring.is_none() || place == own {
                continue;
            }
            if registry.generation(place) == peer.generation && registry.is_alive(place) {
                self.liveness.watch(self.now);
            } else {
                peer.lose();
                has_lost = true;
            }
        }
        if has_lost {
            self.liveness.note_loss(self.now);
        }
    }

    /// Returns true if the destination function of this route has ended: its place was released, or
    /// its process died. Beyond an uplink this is unknown.
    pub(super) fn peer_is_gone(&self, route: &Route) -> bool {
        let to = (route.qpn.value() >> 16) as u8;
        if to == 0 {
            return false;
        }
        let (generation, peer) = (self.registry.generation(to), &self.peers[usize::from(to)]);
        let is_known = peer.generation != 0 || self.uplink.is_none();
        match generation {
            0 => is_known,
            _ => peer.is_lost && peer.generation == generation,
        }
    }

    /// Returns true if a live peer has not taken all frames.
    pub(super) fn peer_is_behind(&mut self, route: &Route) -> bool {
        let to = (route.qpn.value() >> 16) as u8;
        let peer = &mut self.peers[usize::from(to)];
        let is_current = peer.generation == self.registry.generation(to);
        let waiting = peer.ring.as_ref().filter(|ring| !ring.is_drained());
        let Some(ring) = waiting.filter(|_| is_current) else {
            peer.progress.seen = None;
            return false;
        };
        let since = peer.progress.stands_since(ring.consumed(), self.now);
        let stands = self.now.since(since);
        if stands > self.liveness.spans.stall_limit || !self.registry.is_alive(to) {
            return false;
        }
        if stands > self.liveness.spans.warning && !peer.progress.is_reported {
            peer.progress.is_reported = true;
            let occupant = self.registry.occupant(to);
            let pid = occupant.map(|occupant| occupant.pid);
            tracing::warn!(
                place = to,
                pid,
                "a peer lives and does not run: it was stopped, or has no processor; retries to it \
                 are not counted for {} s (said once)",
                STALL_LIMIT_NS / 1_000_000_000
            );
        }
        true
    }
}

fn after(now: Ticks, span: u64) -> Ticks {
    Ticks(now.0.saturating_add(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_reported_after_the_time_of_grace_and_once() {
        let mut liveness = Liveness::new(&Clock::start());
        let (lost_at, grace) = (Ticks(1000), liveness.spans.grace);
        liveness.note_loss(lost_at);
        assert_eq!(liveness.check_at(), after(lost_at, grace));
        // A second detection, checked too early: the time of the first one counts.
        liveness.note_loss(after(lost_at, grace / 2));
        liveness.report_loss(after(lost_at, grace - 1));
        assert!(!liveness.take_loss());
        assert_eq!(liveness.check_at(), after(lost_at, grace));
        liveness.report_loss(after(lost_at, grace));
        assert!(liveness.has_loss() && liveness.take_loss());
        liveness.report_loss(after(lost_at, 2 * grace));
        assert!(!liveness.take_loss());
    }
}
