//! Peers that are gone, and peers that live and do not run.
//!
//! A cable does not tell whether anybody is at its other end. Inside one machine it is known, so a
//! requester need not wait for acknowledges of a process that has died, and does not take a process
//! that was stopped, or waits for a processor, for packets that were lost.

use ferroce_model::ports::port::Route;

use super::{FabricPort, Peer};
use crate::clock::{Clock, Ticks};
use ferroce_wire::Gid;

/// How often peers are asked whether they live, while there are any: the requests of a process that
/// has died fail so soon.
const CHECK_NS: u64 = 250_000_000;
/// Time between two reports of peers that are gone: each costs a look at every queue pair.
const REPORT_NS: u64 = 5_000_000;
/// For how long a peer that lives and takes no frame is waited for, retry after retry, before its
/// silence counts as it does on any network.
const PATIENCE_NS: u64 = 300_000_000_000;
/// After this time the user is told.
const WARNING_NS: u64 = 1_000_000_000;

/// When peers are asked, and whether one was found to be gone.
#[derive(Debug)]
pub(super) struct Liveness {
    spans: Spans,
    check_at: Ticks,
    /// A peer is gone, and the NIC was not told.
    has_loss: bool,
    /// As `has_loss`, but the NIC was told of another one a moment ago.
    has_late_loss: bool,
    reported_at: Option<Ticks>,
}

#[derive(Debug)]
struct Spans {
    check: u64,
    report: u64,
    patience: u64,
    warning: u64,
}

impl Liveness {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            spans: Spans {
                check: clock.ticks_of_ns(CHECK_NS),
                report: clock.ticks_of_ns(REPORT_NS),
                patience: clock.ticks_of_ns(PATIENCE_NS),
                warning: clock.ticks_of_ns(WARNING_NS),
            },
            check_at: Ticks(u64::MAX),
            has_loss: false,
            has_late_loss: false,
            reported_at: None,
        }
    }

    /// When to look again.
    pub(super) fn check_at(&self) -> Ticks {
        self.check_at
    }

    /// There is a peer to look after.
    pub(super) fn watch(&mut self, now: Ticks) {
        self.check_at = self.check_at.min(after(now, self.spans.check));
    }

    /// A frame could not be sent because its peer is gone, or a peer was found to be.
    pub(super) fn note_loss(&mut self, now: Ticks) {
        match self.reported_at {
            Some(at) if now.since(at) < self.spans.report => {
                self.has_late_loss = true;
                self.check_at = self.check_at.min(after(at, self.spans.report));
            }
            _ => {
                self.has_loss = true;
                self.reported_at = Some(now);
            }
        }
    }

    /// Whether the NIC is to be told.
    #[inline]
    pub(super) fn has_loss(&self) -> bool {
        self.has_loss
    }

    /// Tells the NIC.
    #[inline]
    pub(super) fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.has_loss)
    }
}

/// How far a peer was when it was last looked at, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    seen: Option<(u32, Ticks)>,
    is_told: bool,
}

impl Progress {
    pub(super) const NONE: Self = Self {
        seen: None,
        is_told: false,
    };

    /// Since when the peer stands where it is.
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
    /// Its process is gone.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.ring = None;
        self.gid = Gid::UNSPECIFIED;
    }
}

impl FabricPort {
    /// Asks all peers whether they live.
    #[cold]
    pub(super) fn check_liveness(&mut self) {
        self.liveness.check_at = Ticks(u64::MAX);
        let mut has_lost = std::mem::take(&mut self.liveness.has_late_loss);
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

    /// Whether the function that packets of this route are for is gone: its place is given back, or
    /// its process died. Beyond an uplink nothing is known.
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

    /// Whether a live peer has frames of ours that it has not taken.
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
        if stands > self.liveness.spans.patience || !self.registry.is_alive(to) {
            return false;
        }
        if stands > self.liveness.spans.warning && !peer.progress.is_told {
            peer.progress.is_told = true;
            let occupant = self.registry.occupant(to);
            let pid = occupant.map(|occupant| occupant.pid);
            tracing::warn!(
                place = to,
                pid,
                "a peer lives and does not run: it was stopped, or has no processor; retries to it \
                 are not counted for {} s (said once)",
                PATIENCE_NS / 1_000_000_000
            );
        }
        true
    }
}

fn after(now: Ticks, span: u64) -> Ticks {
    Ticks(now.0.saturating_add(span))
}
