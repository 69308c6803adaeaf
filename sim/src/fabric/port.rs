//! The cable of a function: shared-memory rings to and from the other functions of this machine, and
//! the wire that leads out of it, if it has one.

use std::sync::atomic::{Ordering, fence};

use ferroce_model::port::{Port, Reservation, Route};
use ferroce_transport::Instant;
use ferroce_wire::{Gid, Qpn};

use super::frame::Frame;
use super::registry::{Injected, Injection, PLACES, Place, Registry, places};
use super::ring::{self, MAX_FRAME, Receiver, RingName, Sender};
use crate::capture::Capture;
use crate::clock::{Clock, Ticks};
use crate::shared_memory::watched;
use liveness::{Liveness, Progress};
use multicast::Multicast;
use uplink::UplinkEnd;

mod liveness;
mod multicast;
mod uplink;

/// A process that polled within this time is not woken: it will look before a wake-up could work.
pub const FRESH_NS: u64 = 20_000;
/// Frames taken from one ring before the next one has its turn.
const BURST: u32 = 16;
/// Incoming rings that are watched at the same time.
const MAX_RINGS: usize = 2 * PLACES;
/// How often a full ring's receiver is asked whether it lives.
const LIVENESS_CHECK_NS: u64 = 1_000_000;
/// A ring that stays full for so long loses frames, as a switch does: one stuck process must not
/// stop the traffic of this function with all others.
const MAX_PAUSE_NS: u64 = 100_000_000;
/// How long to wait after a ring could not be made.
const RETRY_NS: u64 = 10_000_000;
/// Looks at a peer that takes nothing, in growing intervals, before it is given up.
const MAX_WAKE_UPS: u32 = 16;
/// The intervals grow up to 2^this times [`FRESH_NS`].
const MAX_INTERVAL_SHIFT: u32 = 9;

/// Since when a ring is full.
#[derive(Debug, Clone, Copy)]
struct Pause {
    since: Ticks,
    checked: Ticks,
    consumed: u32,
}

/// What we know of the function at another place.
#[derive(Debug)]
struct Peer {
    /// Its claim; 0 before the first frame.
    generation: u64,
    /// The last destination address that was found to be its host's.
    gid: Gid,
    ring: Option<Sender>,
    pause: Option<Pause>,
    /// Its process died without giving the place back, or takes no frames any more.
    is_lost: bool,
    /// No attempt to make a ring before this.
    retry_at: Ticks,
    /// It was said that there is no room for a ring.
    has_complained: bool,
    /// It has frames that it may not have seen.
    is_watched: bool,
    /// It did not poll when we last looked: whether it sleeps is looked at with each frame.
    is_silent: bool,
    check_at: Ticks,
    /// Looks since it last took a frame or slept.
    wake_ups: u32,
    /// How far it was at the last one.
    consumed: u32,
    /// What it has done about the frames that an acknowledge is missing for.
    progress: Progress,
}

impl Peer {
    const NOBODY: Self = Self {
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

/// Spans of time in ticks.
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
    now: Ticks,
    spans: Spans,
    peers: Box<[Peer]>,
    /// Places of the peers that are watched.
    watched: Vec<u8>,
    check_at: Ticks,
    incoming: Vec<Receiver>,
    cursor: usize,
    burst: u32,
    announce_epoch: u32,
    /// Mappings of files that had been lost when we last looked.
    losses: u32,
    /// The register was lost, and it was said.
    is_cut_off: bool,
    injected: Injected,
    liveness: Liveness,
    multicast: Multicast,
    uplink: Option<Box<UplinkEnd>>,
    computes_icrc: bool,
    capture: Option<Capture>,
}

impl FabricPort {
    /// The cable of the function at `place`.
    pub fn new(place: Place, clock: &Clock, icrc: bool, capture: Option<Capture>) -> Self {
        Self {
            registry: place.registry(),
            place,
            now: Ticks(0),
            spans: Spans {
                fresh: clock.ticks_of_ns(FRESH_NS),
                liveness_check: clock.ticks_of_ns(LIVENESS_CHECK_NS),
                max_pause: clock.ticks_of_ns(MAX_PAUSE_NS),
                retry: clock.ticks_of_ns(RETRY_NS),
            },
            peers: (0..=u8::MAX).map(|_| Peer::NOBODY).collect(),
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
            multicast: Multicast::default(),
            uplink: None,
            computes_icrc: icrc || capture.is_some(),
            capture,
        }
    }

    /// The place at the register.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Before the model runs: what time it is, what was injected, and who has a new ring for us.
    #[inline]
    pub fn begin(&mut self, now: Ticks) {
        self.now = now;
        if watched::losses() != self.losses {
            self.notice_losses();
        }
        self.injected = self.registry.injected(self.place.number());
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

    /// After the model ran: wakes who must be woken. `worked`: something moved.
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

    /// Looks after all peers that have frames waiting now: the caller is about to sleep.
    pub fn check_all(&mut self, now: Ticks) {
        self.now = now;
        for place in &self.watched {
            self.peers[usize::from(*place)].check_at = Ticks(0);
        }
        self.check_peers();
    }

    /// When [`Self::finish`] has to be called again even if nothing happens.
    #[inline]
    pub fn check_at(&self) -> Ticks {
        self.check_at
    }

    /// Whether `ferroce inject` wants the device to stop.
    #[inline]
    pub fn is_device_fatal(&self) -> bool {
        self.injected.is_device_fatal()
    }

    /// Whether a frame waits, or something was injected since the model last ran, or the link of
    /// the uplink has changed.
    pub fn has_work(&self) -> bool {
        self.registry.injected(self.place.number()) != self.injected
            || self.liveness.has_loss()
            || watched::losses() != self.losses
            || self.has_frame()
            || self.uplink.as_ref().is_some_and(|uplink| uplink.has_work())
    }

    /// Whether a frame waits.
    pub fn has_frame(&self) -> bool {
        let epoch = self
            .registry
            .announce_epoch(self.place.number())
            .load(Ordering::Acquire);
        epoch != self.announce_epoch || self.incoming.iter().any(Receiver::has_frame)
    }

    /// Forgets rings whose senders are gone. Not urgent.
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

    /// A file was cut off that this process has mapped; its memory is our own since.
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

    /// The register is not the one in which this function has its place: it was truncated. Nobody
    /// finds the function any more; that is a cable which is pulled out for ever.
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

    #[cold]
    fn attach_announced(&mut self) {
        self.prune();
        let to = self.place.number();
        let generation = self.place.generation();
        for from in places(self.registry.take_announced(to)) {
            let name = RingName {
                from,
                to,
                generation,
            };
            match Receiver::attach(self.registry.directory(), name) {
                _ if self.incoming.len() >= MAX_RINGS => {}
                Ok(ring) => self.incoming.push(ring),
                Err(error) => tracing::warn!(%error, %name, "cannot attach to a ring"),
            }
        }
    }

    /// Brings what we know of a peer up to date. Whether frames can go there, to its address `gid`
    /// if they are for it alone.
    #[cold]
    fn connect(&mut self, to: u8, generation: u64, gid: Option<Gid>) -> bool {
        let registry = self.registry;
        let peer = &mut self.peers[usize::from(to)];
        if peer.generation != generation {
            // The place changed hands: what was on the way to the old owner is lost. The entry
            // in the list of watched peers, if there is one, stays.
            let is_watched = peer.is_watched;
            *peer = Peer {
                generation,
                is_watched,
                ..Peer::NOBODY
            };
        }
        let is_stranger = gid.is_some_and(|gid| !registry.owns_gid(to, gid));
        if generation == 0 || peer.is_lost {
            self.liveness.note_loss(self.now);
            self.check_at = self.check_at.min(self.liveness.check_at());
            return false;
        }
        if is_stranger {
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
                return false;
            }
            let name = RingName {
                from: self.place.number(),
                to,
                generation,
            };
            match Sender::create(registry.directory(), name, self.place.generation()) {
                Ok(ring) => peer.ring = Some(ring),
                Err(error) => {
                    if peer.has_complained {
                        return false;
                    }
                    peer.has_complained = true;
                    let directory = registry.directory().display();
                    tracing::error!(
                        "no ring to a peer can be made in {directory}, frames to it are lost: \
                         {error}; if there is no space, end programs, enlarge it (docker run \
                         --shm-size), or set FERROCE_DIR to another directory"
                    );
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

    /// A ring is full: back-pressure, unless its receiver is gone or stuck.
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
                return Reservation::NoRoute;
            }
        }
        Reservation::Full
    }

    /// Puts a frame into the ring that it was reserved in.
    #[inline]
    fn hand_over(&mut self, frame: ring::Frame) {
        let to = frame.place();
        let peer = &mut self.peers[usize::from(to)];
        if let Some(ring) = &mut peer.ring {
            ring.transmit(frame, self.computes_icrc);
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

    /// Wakes peers that have frames waiting and do not poll.
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
                check_peer(peer, place, self.registry, self.now, self.spans.fresh);
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

    /// Takes the next frame out of the rings, each of which has its turn.
    #[inline]
    fn receive_from_ring(&mut self) -> Option<ring::Frame> {
        // The uplink has its turn, too.
        if self.burst == BURST && self.uplink_has_frame() {
            self.pass_turn();
            return None;
        }
        // Once around, and once more the first ring if only its burst was over.
        for _ in 0..=self.incoming.len() {
            let ring = self.incoming.get_mut(self.cursor)?;
            if self.burst < BURST {
                if let Some(frame) = ring.receive() {
                    self.burst += 1;
                    if self.capture.is_some() {
                        self.record_received(&frame);
                    }
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

    /// Records a frame that came in, unless it was recorded in the same file when it was sent.
    #[cold]
    fn record_received(&mut self, frame: &ring::Frame) {
        if let Some(capture) = &mut self.capture {
            if self.registry.capture(frame.place()) != capture.identity() {
                capture.record(frame.as_ref(), frame.carries_icrc());
            }
        }
    }
}

/// Wakes one peer if it must be, and says when to look again.
fn check_peer(peer: &mut Peer, place: u8, registry: &Registry, now: Ticks, fresh: u64) {
    // What was published before this fence is seen by the peer's thread after it has armed
    // itself, or it is seen here that it has: there is a fence on the other side, too.
    fence(Ordering::SeqCst);
    let heartbeat = Ticks(registry.heartbeat(place).load(Ordering::Relaxed)).min(now);
    peer.is_silent = now.since(heartbeat) >= fresh;
    let Some(ring) = peer.ring.as_ref().filter(|ring| !ring.is_drained()) else {
        peer.is_watched = false;
        return;
    };
    if !peer.is_silent {
        peer.check_at = Ticks(heartbeat.0.saturating_add(fresh));
        peer.wake_ups = 0;
        return;
    }
    let consumed = ring.consumed();
    if registry.wake(place, now) || peer.consumed != consumed {
        peer.consumed = consumed;
        peer.wake_ups = 0;
    }
    // It is awake now, or was before: look again later, in case that it is stuck.
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
        // The special QPs 0 and 1 are nobody's.
        let to = (route.qpn.value() >> 16) as u8;
        if length > MAX_FRAME {
            return Reservation::NoRoute;
        }
        if to == 0 {
            return self.reserve_on_uplink(route.gid, length);
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
    fn transmit(&mut self, _at: Instant, frame: Frame) {
        if let Some(capture) = &mut self.capture {
            capture.record(frame.as_ref(), true);
        }
        match frame {
            Frame::Ring(frame) if frame.place() == 0 => self.transmit_multicast(frame),
            Frame::Ring(frame) => self.hand_over(frame),
            Frame::Uplink(buffer) => self.transmit_on_uplink(buffer),
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
            Frame::Uplink(buffer) => self.release_to_uplink(buffer),
        }
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<(Instant, Frame)> {
        let frame = match self.receive_from_ring() {
            Some(frame) => Frame::Ring(frame),
            None => Frame::Uplink(self.receive_from_uplink()?),
        };
        Some((now, frame))
    }

    #[inline]
    fn release(&mut self, frame: Frame) {
        let frame = match frame {
            Frame::Ring(frame) => frame,
            Frame::Uplink(buffer) => return self.release_to_uplink(buffer),
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
        match frame {
            Frame::Ring(frame) => frame.carries_icrc(),
            Frame::Uplink(_) => true,
        }
    }

    fn join(&mut self, group: Gid) {
        if group.is_multicast() && !self.place.join_group(group) {
            tracing::warn!(group = %group.to_ipv6(), "no room for another multicast group");
        }
    }

    fn leave(&mut self, group: Gid) {
        self.place.leave_group(group);
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
        self.peer_is_behind(route)
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
mod tests {
    use super::*;
    use crate::fabric::registry::{Identity, Injection};
    use crate::test_support::{TemporaryDirectory, send_frame, temporary_directory};
    use ferroce_wire::{Frame as WireFrame, Mac};
    use std::net::Ipv4Addr;
    use std::path::Path;

    const LOCAL: Gid = Gid::from_ipv4(Ipv4Addr::LOCALHOST);

    fn port(directory: &Path, clock: &Clock, capture: Option<Capture>, icrc: bool) -> FabricPort {
        let registry = Registry::open(directory).expect("usable");
        let identity = Identity {
            host: "test".to_owned(),
            device: 0,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            gids: vec![LOCAL],
            capture: capture.as_ref().map_or(0, Capture::identity),
        };
        FabricPort::new(
            registry.claim(&identity).expect("free"),
            clock,
            icrc,
            capture,
        )
    }

    fn route(to: &FabricPort) -> Route {
        let qpn = Qpn::new(to.place.first_qpn().value() + 5);
        Route {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            gid: LOCAL,
            qpn,
        }
    }

    fn send(from: &mut FabricPort, route: &Route, bytes: &[u8]) -> bool {
        match from.reserve(route, bytes.len()) {
            Reservation::Ready(mut frame) => {
                frame.as_mut().copy_from_slice(bytes);
                from.transmit(Instant::ZERO, frame);
                true
            }
            _ => false,
        }
    }

    fn take(port: &mut FabricPort) -> Option<Vec<u8>> {
        let (_, frame) = port.receive(Instant::ZERO)?;
        let bytes = frame.as_ref().to_vec();
        port.release(frame);
        Some(bytes)
    }

    fn two(name: &str) -> (TemporaryDirectory, Clock, FabricPort, FabricPort) {
        let directory = temporary_directory(name);
        let clock = Clock::start();
        let one = port(directory.path(), &clock, None, false);
        let other = port(directory.path(), &clock, None, false);
        (directory, clock, one, other)
    }

    #[test]
    fn frames_go_by_qpn_and_address_also_to_oneself() {
        let (_directory, clock, mut one, mut other) = two("route");
        let there = route(&other);
        assert!(send(&mut one, &there, b"to the other"));
        let here = route(&one);
        assert!(send(&mut one, &here, b"to myself"));
        one.begin(clock.ticks());
        other.begin(clock.ticks());
        assert!(one.has_frame() && other.has_frame());
        assert_eq!(take(&mut one).as_deref(), Some(b"to myself".as_slice()));
        assert_eq!(
            take(&mut other).as_deref(),
            Some(b"to the other".as_slice())
        );
        assert_eq!((take(&mut one), take(&mut other)), (None, None));

        let nowhere = Route {
            qpn: Qpn::new(77 << 16),
            ..there
        };
        assert!(matches!(one.reserve(&nowhere, 64), Reservation::NoRoute));
        let stranger = Gid::from_ipv4(Ipv4Addr::new(10, 9, 8, 7));
        let wrong_host = Route {
            gid: stranger,
            ..there
        };
        assert!(matches!(one.reserve(&wrong_host, 64), Reservation::NoRoute));
        // A driver elsewhere (vfio-user) gives a function its addresses later.
        other.set_gid(3, stranger);
        assert!(send(&mut one, &wrong_host, b"to a new address"));
        assert!(send(&mut one, &there, b"and to the old one"));
        let special = Route {
            qpn: Qpn::new(1),
            ..there
        };
        assert!(matches!(one.reserve(&special, 64), Reservation::NoRoute));
        drop(other);
        assert!(matches!(one.reserve(&there, 64), Reservation::NoRoute));
    }

    #[test]
    fn a_new_owner_of_a_place_sees_no_old_frames() {
        let (directory, clock, mut one, other) = two("owner");
        let there = route(&other);
        let kept = one.reserve(&there, 4);
        let Reservation::Ready(kept) = kept else {
            panic!("there is room")
        };
        drop(other);
        // Places are used in turn; go around until the same one comes again.
        let (mut again, mut others) = (port(directory.path(), &clock, None, false), Vec::new());
        while again.place.first_qpn() != Qpn::new(there.qpn.value() & 0xff_0000) {
            others.push(again);
            again = port(directory.path(), &clock, None, false);
        }
        assert!(send(&mut one, &there, b"new"));
        one.transmit(Instant::ZERO, kept);
        again.begin(clock.ticks());
        assert_eq!(take(&mut again).as_deref(), Some(b"new".as_slice()));
        assert_eq!(take(&mut again), None);
    }

    #[test]
    fn rings_take_turns() {
        let (_directory, clock, mut one, mut other) = two("fair");
        let there = route(&other);
        for _ in 0..40 {
            assert!(send(&mut one, &there, b"one") && send(&mut other, &there, b"other"));
        }
        other.begin(clock.ticks());
        let first: Vec<_> = (0..64).filter_map(|_| take(&mut other)).collect();
        let from_one = first.iter().filter(|bytes| *bytes == b"one").count();
        assert_eq!((first.len(), from_one), (64, 32));
        assert_eq!((0..80).filter_map(|_| take(&mut other)).count(), 16);
    }

    #[test]
    fn a_stuck_receiver_pushes_back_and_then_loses_frames() {
        let (_directory, clock, mut one, other) = two("stuck");
        let there = route(&other);
        one.begin(clock.ticks());
        while send(&mut one, &there, b"x") {}
        assert!(matches!(one.reserve(&there, 1), Reservation::Full));
        one.now.0 += 2 * one.spans.max_pause;
        assert!(matches!(one.reserve(&there, 1), Reservation::NoRoute));
    }

    #[test]
    fn only_a_silent_peer_is_woken() {
        let (_directory, clock, mut one, mut other) = two("wake");
        let there = route(&other);
        let registry = one.registry;
        let place = other.place.number();
        let armed = || registry.armed(place).load(Ordering::SeqCst) == 1;
        registry.armed(place).store(1, Ordering::SeqCst);
        let now = clock.ticks();
        registry.heartbeat(place).store(now.0, Ordering::SeqCst);
        one.begin(now);
        assert!(send(&mut one, &there, b"x"));
        one.finish(true);
        assert!(armed(), "it polls");
        assert_eq!(one.check_at().0, now.0 + one.spans.fresh);
        one.begin(one.check_at());
        one.finish(false);
        assert!(!armed(), "it has not polled for long");

        registry.armed(place).store(1, Ordering::SeqCst);
        other.begin(clock.ticks());
        assert!(take(&mut other).is_some());
        other.finish(false);
        one.begin(Ticks(now.0 + 1000 * one.spans.fresh));
        one.finish(false);
        assert!(armed(), "nothing waits for it");
        assert_eq!(one.check_at(), one.liveness.check_at());
    }

    fn multicast_route(number: u8) -> Route {
        Route {
            mac: Mac([1, 0, 0x5e, 0, 0, number]),
            gid: Gid::from_ipv4(Ipv4Addr::new(239, 0, 0, number)),
            qpn: Qpn::MULTICAST,
        }
    }

    #[test]
    fn a_frame_to_a_group_reaches_all_members_and_nobody_else() {
        let (directory, clock, mut one, mut other) = two("multicast");
        let mut third = port(directory.path(), &clock, None, true);
        let (here, there) = (multicast_route(1), multicast_route(2));
        assert!(matches!(one.reserve(&here, 64), Reservation::NoRoute));
        one.join(here.gid);
        other.join(here.gid);
        third.join(there.gid);
        assert!(send(&mut one, &here, b"first"));
        other.join(there.gid);
        assert!(send(&mut third, &here, b"second"));
        assert!(send(&mut one, &there, b"third"));
        let received = |port: &mut FabricPort| {
            port.begin(clock.ticks());
            std::iter::from_fn(|| take(port)).collect::<Vec<_>>()
        };
        let texts = |texts: &[&str]| -> Vec<Vec<u8>> {
            texts.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        assert_eq!(received(&mut one), texts(&["first", "second"]));
        let mut at_other = received(&mut other);
        at_other.sort();
        assert_eq!(at_other, texts(&["first", "second", "third"]));
        assert_eq!(received(&mut third), texts(&["third"]));

        other.leave(here.gid);
        assert!(send(&mut third, &here, b"fourth"));
        assert_eq!(received(&mut one), texts(&["fourth"]));
        assert_eq!(received(&mut other), texts(&[]));
        drop(one);
        assert!(matches!(third.reserve(&here, 64), Reservation::NoRoute));
    }

    #[test]
    fn a_member_that_takes_nothing_holds_up_the_others_for_a_moment_only() {
        const FRAMES: u32 = 1000;
        let (_directory, clock, mut one, mut stuck) = two("multicast-stuck");
        let route = multicast_route(1);
        one.join(route.gid);
        stuck.join(route.gid);
        let cancelled = one.reserve(&route, 8);
        let Reservation::Ready(cancelled) = cancelled else {
            panic!("there is room")
        };
        one.cancel(cancelled);
        let mut now = clock.ticks();
        let pause_ticks = clock.ticks_of_ns(MAX_PAUSE_NS / 10);
        let mut waits = 0;
        for number in 0..FRAMES {
            // It waits for the member once, not for each frame.
            while !send(&mut one, &route, &number.to_ne_bytes()) {
                waits += 1;
                assert!(waits < 20, "held up at frame {number}");
                now = Ticks(now.0 + pause_ticks);
                one.begin(now);
            }
            one.begin(now);
            assert_eq!(take(&mut one), Some(number.to_ne_bytes().to_vec()));
            one.finish(false);
        }
        assert!(waits > 5, "{waits}");
        stuck.begin(clock.ticks());
        let kept = std::iter::from_fn(|| take(&mut stuck)).count();
        assert!(kept > 10 && kept < FRAMES as usize, "{kept}");
        assert!(send(&mut one, &route, b"again"));
        let last = std::iter::from_fn(|| take(&mut stuck)).last();
        assert_eq!(last.as_deref(), Some(b"again".as_slice()));
    }

    #[test]
    fn groups_are_known_by_their_addresses() {
        for (text, expected) in [
            ("239.1.2.3", true),
            ("224.0.0.1", true),
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("ff0e::1", true),
            ("fe80::1", false),
            ("2001:db8::1", false),
        ] {
            let gid: Gid = text.parse().expect("an address");
            assert_eq!(gid.is_multicast(), expected);
        }
    }

    #[test]
    fn an_injected_fault_is_work() {
        let (_directory, clock, mut one, _other) = two("inject");
        let place = one.place.number();
        assert!(!one.has_work() && one.link_is_up());
        one.registry.inject(place, Injection::PortDown, Ticks(1));
        assert!(one.has_work() && one.link_is_up(), "not seen yet");
        one.begin(clock.ticks());
        assert!(!one.has_work() && !one.link_is_up());
        one.registry.inject(place, Injection::PortUp, Ticks(1));
        one.begin(clock.ticks());
        assert!(one.link_is_up() && !one.is_device_fatal());
    }

    #[test]
    fn each_frame_tells_whether_it_carries_an_icrc() {
        let directory = temporary_directory("icrc");
        let clock = Clock::start();
        let mut without = port(directory.path(), &clock, None, false);
        let mut with = port(directory.path(), &clock, None, true);
        assert!(!without.computes_icrc() && with.computes_icrc());
        let there = route(&with);
        assert!(send(&mut without, &there, b"without") && send(&mut with, &there, b"with"));
        with.begin(clock.ticks());
        for _ in 0..2 {
            let (_, frame) = with.receive(Instant::ZERO).expect("sent");
            assert_eq!(with.carries_icrc(&frame), frame.as_ref() == b"with");
            with.release(frame);
        }
    }

    #[test]
    fn a_capture_completes_frames_of_a_sender_that_computes_none() {
        let directory = temporary_directory("complete");
        let clock = Clock::start();
        let path = directory.path().join("c.pcapng");
        let mut one = port(directory.path(), &clock, None, false);
        let capture = Capture::open(&path).expect("new");
        let mut other = port(directory.path(), &clock, Some(capture), false);
        let there = route(&other);
        let bytes = send_frame(there.mac, there.qpn, b"payload");
        assert!(send(&mut one, &there, &bytes));
        other.begin(clock.ticks());
        assert_eq!(take(&mut other), Some(bytes.clone()));
        other.finish(true);
        let content = std::fs::read(&path).expect("written");
        let start = content.len() - 4 - bytes.len().next_multiple_of(4);
        let recorded = WireFrame::parse(&content[start..]).expect("RoCEv2");
        assert!(recorded.icrc_is_valid());
    }

    #[test]
    fn a_frame_is_captured_once() {
        let directory = temporary_directory("once");
        let clock = Clock::start();
        let path = directory.path().join("c.pcapng");
        let capture = || Some(Capture::open(&path).expect("usable"));
        let mut one = port(directory.path(), &clock, capture(), false);
        let mut other = port(directory.path(), &clock, capture(), false);
        let there = route(&other);
        let bytes = send_frame(there.mac, there.qpn, b"once and only once");
        assert!(send(&mut one, &there, &bytes));
        one.finish(true);
        other.begin(clock.ticks());
        assert!(take(&mut other).is_some());
        other.finish(true);
        let content = std::fs::read(&path).expect("written");
        let found = content
            .windows(9)
            .filter(|window| *window == b"only once")
            .count();
        assert_eq!(found, 1);
    }
}
