//! The cable of a function: shared-memory rings to and from the other functions of this machine,
//! and the uplink, if it has one.

use std::sync::atomic::Ordering;

use faults::{Captured, FaultEnd};
use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_platform::shared_memory::watched;
use ferroce_units::Instant;
use ferroce_wire::{Gid, Qpn};
use frame::Frame;
use liveness::{Liveness, Progress};
use multicast::Multicast;
use patient::PatientMode;
use recording::carries_icrc;
use rings::{complain, new_ring};
use uplink::UplinkEnd;

use ferroce_record::{Kind, Recorder};

use crate::capture::Capture;
use crate::clock::{Clock, Ticks};
use crate::fabric::registry::{Injected, Injection, PLACES, Place, Registry};
use crate::fabric::ring::{self, MAX_FRAME, Receiver, RingName, Sender};
use crate::schedule::shared::{Words, publish_work};
use crate::schedule::tunables::FRESH_NS;

mod faults;
mod frame;
mod liveness;
mod multicast;
pub mod patient;
mod recording;
mod rings;
mod uplink;
mod work;

/// Maximum number of frames taken from one ring before the next ring is served.
const BURST: u32 = 16;
/// Maximum number of watched incoming rings.
const MAX_RINGS: usize = 2 * PLACES;
/// Period of the check that the receiver of a full ring is alive.
const LIVENESS_CHECK_NS: u64 = 1_000_000;
/// A ring that stays full for this long drops frames, like a switch: one stuck process must not
/// stop the traffic of this function with all others.
const MAX_PAUSE_NS: u64 = 100_000_000;
/// Pause after an attempt to create a ring has failed.
const RETRY_NS: u64 = 10_000_000;
/// Number of checks, at growing intervals, before a peer that takes no frames is given up.
const MAX_WAKE_UPS: u32 = 16;
/// The intervals grow up to 2^this times [`FRESH_NS`].
const MAX_INTERVAL_SHIFT: u32 = 9;

/// The time since which a ring is full.
#[derive(Debug, Clone, Copy)]
struct Pause {
    since: Ticks,
    checked: Ticks,
    consumed: u32,
}

/// State of the function at another place.
#[derive(Debug)]
struct Peer {
    /// The claim of its place; 0 before the first frame.
    generation: u64,
    /// The last destination address that was verified to belong to its host.
    gid: Gid,
    ring: Option<Sender>,
    pause: Option<Pause>,
    /// Its process died without releasing the place, or takes no more frames.
    is_lost: bool,
    /// Do not try to create a ring before this time.
    retry_at: Ticks,
    /// It was reported that a ring cannot be created.
    has_complained: bool,
    /// It may not have seen all of its frames.
    is_watched: bool,
    /// It did not poll at the last check, so that each frame checks whether it sleeps.
    is_silent: bool,
    check_at: Ticks,
    /// Number of checks since it last took a frame or slept.
    wake_ups: u32,
    /// The number of frames that it had consumed at the last check.
    consumed: u32,
    /// Its progress with unacknowledged frames.
    progress: Progress,
}

impl Peer {
    const NONE: Self = Self {
        generation: 0,
        gid: Gid::UNSPECIFIED,
        ring: None,
        pause: None,
        is_lost: false,
        retry_at: Ticks(0),
        has_complained: false,
        is_watched: false,
        is_silent: false,
        check_at: Ticks(0),
        wake_ups: 0,
        consumed: 0,
        progress: Progress::NONE,
    };
}

/// Time spans in ticks.
#[derive(Debug)]
struct Spans {
    fresh: u64,
    liveness_check: u64,
    max_pause: u64,
    retry: u64,
}

/// The shared-memory wire as one function sees it.
#[derive(Debug)]
pub struct FabricPort {
    place: Place,
    registry: &'static Registry,
    clock: Clock,
    now: Ticks,
    spans: Spans,
    peers: Box<[Peer]>,
    /// Places of the watched peers.
    watched: Vec<u8>,
    check_at: Ticks,
    incoming: Vec<Receiver>,
    cursor: usize,
    burst: u32,
    announce_epoch: u32,
    /// Number of lost mappings at the last check.
    losses: u32,
    /// The registry was lost, and this was reported.
    is_cut_off: bool,
    injected: Injected,
    liveness: Liveness,
    /// State of patient mode, if it is on.
    patient: Option<Box<PatientMode>>,
    multicast: Multicast,
    uplink: Option<Box<UplinkEnd>>,
    /// Faults of frames in flight; `None`: no faults.
    faults: Option<Box<FaultEnd>>,
    computes_icrc: bool,
    capture: Option<Capture>,
    /// The record of sent and received frames.
    recorder: Option<Recorder>,
}

impl FabricPort {
    /// Creates the cable of the function at `place`.
    pub fn new(place: Place, clock: &Clock, icrc: bool, capture: Option<Capture>) -> Self {
        Self {
            registry: place.registry(),
            place,
            clock: *clock,
            now: Ticks(0),
            spans: Spans {
                fresh: clock.ticks_of_ns(FRESH_NS),
                liveness_check: clock.ticks_of_ns(LIVENESS_CHECK_NS),
                max_pause: clock.ticks_of_ns(MAX_PAUSE_NS),
                retry: clock.ticks_of_ns(RETRY_NS),
            },
            peers: (0..=u8::MAX).map(|_| Peer::NONE).collect(),
            watched: Vec::new(),
            check_at: Ticks(u64::MAX),
            incoming: Vec::new(),
            cursor: 0,
            burst: 0,
            announce_epoch: 0,
            losses: watched::losses(),
            is_cut_off: false,
            injected: Injected::default(),
            liveness: Liveness::new(clock),
            patient: None,
            multicast: Multicast::default(),
            uplink: None,
            faults: None,
            computes_icrc: icrc || capture.is_some(),
            capture,
            recorder: None,
        }
    }

    /// Returns the place in the registry.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Prepares a run of the model: reads the time, injected faults and new incoming rings.
    #[inline]
    pub fn begin(&mut self, now: Ticks) {
        self.now = now;
        if watched::losses() != self.losses {
            self.notice_losses();
        }
        let injected = self.registry.injected(self.place.number());
        if injected != self.injected {
            self.change_injected(injected);
        }
        if self.faults.is_some() {
            self.transmit_due();
        }
        if let Some(uplink) = &mut self.uplink {
            uplink.begin();
        }
        let epoch = self
            .registry
            .announce_epoch(self.place.number())
            .load(Ordering::Acquire);
        if epoch != self.announce_epoch {
            self.announce_epoch = epoch;
            self.attach_announced();
        }
    }

    /// Finishes a run of the model: wakes peers that need it. `worked`: something moved.
    #[inline]
    pub fn finish(&mut self, worked: bool) {
        if !worked {
            for ring in &mut self.incoming {
                ring.return_credits();
            }
        }
        if self.now >= self.check_at {
            self.check_peers();
        }
        if let Some(capture) = &mut self.capture {
            capture.flush();
        }
    }

    /// Returns true if the function has sent frames to itself and has not yet received them and
    /// become idle. No other thread is woken for them: the thread that runs the model continues, or
    /// leaves them to another thread.
    #[inline]
    pub fn holds_own_frames(&self) -> bool {
        let own = &self.peers[usize::from(self.place.number())];
        own.ring.as_ref().is_some_and(|ring| !ring.is_drained())
    }

    /// Checks all peers with pending frames, because the caller is about to sleep.
    pub fn check_all(&mut self, now: Ticks) {
        self.now = now;
        for place in &self.watched {
            self.peers[usize::from(*place)].check_at = Ticks(0);
        }
        self.check_peers();
    }

    /// Returns the time at which [`Self::finish`] must be called again even if nothing happens.
    #[inline]
    pub fn check_at(&self) -> Ticks {
        self.check_at
    }

    /// Returns the faults that `ferroce inject` has activated.
    #[inline]
    pub fn injected(&self) -> Injected {
        self.injected
    }

    /// Removes rings whose senders have ended. Not urgent.
    pub fn prune(&mut self) {
        let registry = self.registry;
        if registry.generation(self.place.number()) != self.place.generation() {
            self.cut_off();
        }
        self.incoming.retain(|ring| {
            registry.generation(ring.place()) == ring.sender_generation() || !ring.is_idle()
        });
        self.cursor = 0;
    }

    /// Handles mapped files that were truncated: their memory has been private since then.
    #[cold]
    fn notice_losses(&mut self) {
        self.losses = watched::losses();
        if self.registry.is_lost() {
            self.cut_off();
        }
        self.incoming.retain(|ring| !ring.is_lost());
        self.cursor = 0;
        for (place, peer) in self.peers.iter_mut().enumerate() {
            if peer.ring.as_ref().is_some_and(Sender::is_lost) {
                tracing::error!(place, "the ring to a peer was truncated: the peer is lost");
                peer.ring = None;
                peer.is_lost = true;
                peer.gid = Gid::UNSPECIFIED;
            }
        }
    }

    /// Handles a registry file in which this function's place is missing, because the file was
    /// truncated. Other processes can no longer find the function, so its cable is unplugged
    /// permanently.
    #[cold]
    fn cut_off(&mut self) {
        if std::mem::replace(&mut self.is_cut_off, true) {
            return;
        }
        let directory = self.registry.directory().display();
        tracing::error!(
            "the register of the fabric in {directory} was truncated: this program's port is down \
             until it is started again"
        );
        let place = self.place.number();
        self.registry.inject(place, Injection::PortDown, self.now);
    }

    /// Updates the state of a peer. Returns true if frames can be sent to it and, for unicast, if
    /// it owns the address `gid`.
    #[cold]
    fn connect(&mut self, to: u8, generation: u64, gid: Option<Gid>) -> bool {
        let registry = self.registry;
        let peer = &mut self.peers[usize::from(to)];
        if peer.generation != generation {
            // The place has a new owner: frames in flight to the old owner are lost. Its entry in
            // the list of watched peers, if any, stays.
            let is_watched = peer.is_watched;
            *peer = Peer {
                generation,
                is_watched,
                ..Peer::NONE
            };
        }
        let is_foreign_gid = gid.is_some_and(|gid| !registry.owns_gid(to, gid));
        if generation == 0 || peer.is_lost {
            self.liveness.note_loss(self.now);
            self.check_at = self.check_at.min(self.liveness.check_at());
            return false;
        }
        if is_foreign_gid {
            return false;
        }
        if peer.ring.is_none() {
            if self.now < peer.retry_at {
                return false;
            }
            peer.retry_at = Ticks(self.now.0.saturating_add(self.spans.retry));
            if !registry.is_alive(to) {
                peer.is_lost = true;
                self.liveness.note_loss(self.now);
                self.check_at = self.check_at.min(self.liveness.check_at());
                return false;
            }
            let name = RingName {
                from: self.place.number(),
                to,
                generation,
            };
            match new_ring(registry, name, self.place.generation()) {
                Ok(ring) => peer.ring = Some(ring),
                Err(error) => {
                    if !std::mem::replace(&mut peer.has_complained, true) {
                        complain(registry, &error);
                    }
                    return false;
                }
            }
            registry.announce(name.from, to);
            self.liveness.watch(self.now);
            self.check_at = self.check_at.min(self.liveness.check_at());
        }
        peer.gid = gid.unwrap_or(peer.gid);
        true
    }

    /// Handles a full ring: applies back-pressure, unless the receiver has ended or is stuck.
    #[cold]
    fn full(&mut self, to: u8) -> Reservation<Frame> {
        let peer = &mut self.peers[usize::from(to)];
        let Some(ring) = &peer.ring else {
            return Reservation::NoRoute;
        };
        let consumed = ring.consumed();
        let begun = Pause {
            since: self.now,
            checked: self.now,
            consumed,
        };
        let pause = peer.pause.get_or_insert(begun);
        if pause.consumed != consumed {
            *pause = begun;
        }
        if self.now.since(pause.since) > self.spans.max_pause {
            return Reservation::NoRoute;
        }
        if self.now.since(pause.checked) > self.spans.liveness_check {
            pause.checked = self.now;
            if !self.registry.is_alive(to) {
                peer.lose();
                self.liveness.note_loss(self.now);
                self.check_at = self.check_at.min(self.liveness.check_at());
                return Reservation::NoRoute;
            }
        }
        Reservation::Full
    }

    /// Publishes a frame in the ring in which it was reserved.
    #[inline]
    fn hand_over(&mut self, frame: ring::Frame) {
        let to = frame.place();
        let peer = &mut self.peers[usize::from(to)];
        if let Some(ring) = &mut peer.ring {
            ring.transmit(frame, self.computes_icrc);
        }
        if to == self.place.number() {
            return;
        }
        if !peer.is_watched {
            peer.is_watched = true;
            self.watched.push(to);
        }
        if peer.is_silent {
            peer.check_at = Ticks(0);
        }
        self.check_at = self.check_at.min(peer.check_at);
    }

    /// Wakes peers that have pending frames and do not poll.
    #[cold]
    fn check_peers(&mut self) {
        if self.now >= self.liveness.check_at() {
            self.check_liveness();
        }
        let mut check_at = self.liveness.check_at();
        let mut index = 0;
        while let Some(&place) = self.watched.get(index) {
            let peer = &mut self.peers[usize::from(place)];
            if peer.check_at <= self.now {
                let words = self.registry.words(place);
                check_peer(peer, words, self.now, self.spans.fresh);
            }
            if peer.is_watched {
                check_at = check_at.min(peer.check_at);
                index += 1;
            } else {
                self.watched.swap_remove(index);
            }
        }
        self.check_at = check_at;
    }

    /// Takes the next frame from the rings, round-robin.
    #[inline]
    fn receive_from_ring(&mut self) -> Option<ring::Frame> {
        // The uplink takes part in the round-robin.
        if self.burst == BURST && self.uplink_has_frame() {
            self.pass_turn();
            return None;
        }
        // One round, and the first ring again if only its burst was used up.
        for _ in 0..=self.incoming.len() {
            let ring = self.incoming.get_mut(self.cursor)?;
            if self.burst < BURST {
                if let Some(frame) = ring.receive() {
                    self.burst += 1;
                    return Some(frame);
                }
            }
            self.pass_turn();
        }
        None
    }

    #[inline]
    fn pass_turn(&mut self) {
        self.burst = 0;
        self.cursor = if self.cursor + 1 < self.incoming.len() {
            self.cursor + 1
        } else {
            0
        };
    }

    /// Takes the next frame from a ring or the uplink.
    #[inline]
    fn take_frame(&mut self) -> Option<Frame> {
        match self.receive_from_ring() {
            Some(frame) => Some(Frame::Ring(frame)),
            None => self.receive_from_uplink().map(Frame::Buffer),
        }
    }
}

/// Wakes a peer if necessary, and sets the time of its next check.
fn check_peer(peer: &mut Peer, words: Words<'_>, now: Ticks, fresh: u64) {
    publish_work();
    peer.is_silent = !words.polls(now);
    let Some(ring) = peer.ring.as_ref().filter(|ring| !ring.is_drained()) else {
        peer.is_watched = false;
        return;
    };
    if !peer.is_silent {
        peer.check_at = words.polls_until();
        peer.wake_ups = 0;
        return;
    }
    let consumed = ring.consumed();
    if words.wake(now) || peer.consumed != consumed {
        peer.consumed = consumed;
        peer.wake_ups = 0;
    }
    // The peer is awake now: check again later, in case it is stuck.
    peer.check_at = Ticks(
        now.0
            .saturating_add(fresh << peer.wake_ups.min(MAX_INTERVAL_SHIFT)),
    );
    peer.wake_ups += 1;
    if peer.wake_ups >= MAX_WAKE_UPS {
        peer.wake_ups = 0;
        peer.is_watched = false;
    }
}

impl Port for FabricPort {
    type Frame = Frame;

    #[inline]
    fn reserve(&mut self, route: &Route, length: usize) -> Reservation<Frame> {
        // The special QPs 0 and 1 belong to no place, nor do the QPs of peers on the uplink.
        let to = (route.qpn.value() >> 16) as u8;
        if length > MAX_FRAME {
            return Reservation::NoRoute;
        }
        if to == 0 {
            return match route.qpn {
                Qpn::GSI => self.reserve_gsi(route.gid, length),
                _ => self.reserve_on_uplink(route.gid, length),
            };
        }
        if route.qpn == Qpn::MULTICAST && route.gid.is_multicast() {
            return self.reserve_multicast(route.gid, length);
        }
        let generation = self.registry.generation(to);
        let peer = &self.peers[usize::from(to)];
        let is_known = peer.generation == generation && peer.gid == route.gid;
        if !is_known && !self.connect(to, generation, Some(route.gid)) {
            return self.reserve_on_uplink(route.gid, length);
        }
        let peer = &mut self.peers[usize::from(to)];
        let Some(ring) = &mut peer.ring else {
            return Reservation::NoRoute;
        };
        match ring.reserve(length) {
            Some(frame) => {
                peer.pause = None;
                Reservation::Ready(Frame::Ring(frame))
            }
            None => self.full(to),
        }
    }

    #[inline]
    fn transmit(&mut self, _at: Instant, mut frame: Frame) {
        if self.recorder.is_some() {
            self.note_frame(Kind::FRAME_SENT, &frame, self.computes_icrc);
        }
        if self.capture.is_some() {
            self.record_sent(&mut frame);
        }
        // The frame was just written: reading it back for a copy would wait for those stores.
        match frame {
            Frame::Ring(frame) if frame.place() == 0 => self.transmit_multicast(frame),
            Frame::Ring(frame) => self.hand_over(frame),
            Frame::Buffer(buffer) if self.faults.is_some() => {
                self.transmit_with_faults(buffer, Captured::NotYet);
            }
            Frame::Buffer(buffer) => self.transmit_on_uplink(buffer),
        }
    }

    fn cancel(&mut self, frame: Frame) {
        match frame {
            Frame::Ring(frame) if frame.place() == 0 => self.cancel_multicast(frame),
            Frame::Ring(frame) => {
                if let Some(ring) = &mut self.peers[usize::from(frame.place())].ring {
                    ring.cancel(frame);
                }
            }
            Frame::Buffer(buffer) => self.release_buffer(buffer),
        }
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<(Instant, Frame)> {
        let frame = if self.faults.is_some() {
            self.receive_with_faults(now)?
        } else {
            self.receive_without_faults()?
        };
        if self.recorder.is_some() {
            self.note_frame(Kind::FRAME_RECEIVED, &frame, carries_icrc(&frame));
        }
        Some((now, frame))
    }

    #[inline]
    fn release(&mut self, frame: Frame) {
        let frame = match frame {
            Frame::Ring(frame) => frame,
            Frame::Buffer(buffer) => return self.release_buffer(buffer),
        };
        let current = self.incoming.get_mut(self.cursor);
        if let Some(ring) = current.filter(|ring| ring.owns(&frame)) {
            ring.release(frame);
        } else if let Some(ring) = self.incoming.iter_mut().find(|ring| ring.owns(&frame)) {
            ring.release(frame);
        }
    }

    #[inline]
    fn computes_icrc(&self) -> bool {
        self.computes_icrc
    }

    #[inline]
    fn carries_icrc(&self, frame: &Frame) -> bool {
        carries_icrc(frame)
    }

    fn join(&mut self, group: Gid) {
        if group.is_multicast() && !self.place.join_group(group) {
            tracing::warn!(group = %group.to_ipv6(), "no room for another multicast group");
        }
    }

    fn leave(&mut self, group: Gid) {
        self.place.leave_group(group);
    }

    fn set_gsi(&mut self, is_open: bool) {
        self.place.set_gsi(is_open);
    }

    fn set_gid(&mut self, index: usize, gid: Gid) {
        self.registry.set_gid(self.place.number(), index, gid);
    }

    #[inline]
    fn take_loss(&mut self) -> bool {
        self.liveness.take_loss()
    }

    fn is_gone(&self, route: &Route) -> bool {
        self.peer_is_gone(route)
    }

    fn is_behind(&mut self, route: &Route) -> bool {
        self.peer_is_behind(route) || self.is_patient_with(route)
    }

    fn queue_pair_ready(&mut self, qpn: Qpn) {
        if let Some(uplink) = &self.uplink {
            uplink.queue_pair_ready(qpn);
        }
    }

    #[inline]
    fn link_is_up(&self) -> bool {
        !self.injected.is_port_down() && self.uplink.as_ref().is_none_or(|uplink| uplink.is_up())
    }
}

#[cfg(test)]
mod tests;
