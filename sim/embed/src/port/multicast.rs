//! Frames with several receivers. A frame to a multicast group is copied to every function that has
//! joined it, including the sender, and once to the uplink. A frame to the GSI (QP 1) of a host is
//! copied to every function of that host whose GSI is open.

use ferroce_model::ports::port::Reservation;
use ferroce_wire::Gid;

use super::FabricPort;
use super::frame::Frame;
use crate::fabric::registry::{PlaceSet, places};
use crate::fabric::ring::{self, Sender, Staging};

/// Maximum number of groups whose members are cached.
const MAX_KNOWN: usize = 64;

/// State of a multicast sender.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    staging: Option<Staging>,
    /// The members of groups to which frames were sent, as of `epoch`.
    known: Vec<(Gid, PlaceSet)>,
    epoch: u64,
}

impl FabricPort {
    /// Reserves a frame that will be copied to the members of a group.
    #[cold]
    pub(super) fn reserve_multicast(&mut self, group: Gid, length: usize) -> Reservation<Frame> {
        let members = self.members(group);
        if members == PlaceSet::default() {
            // Members beyond the uplink are unknown.
            return self.reserve_on_uplink(group, length);
        }
        if self.uplink_is_full() {
            return Reservation::Full;
        }
        self.reserve_copies(members, group, length)
    }

    /// Reserves a frame to the GSI of the host that has an address.
    #[cold]
    pub(super) fn reserve_gsi(&mut self, host: Gid, length: usize) -> Reservation<Frame> {
        match self.registry.gsi_members(host) {
            None => self.reserve_on_uplink(host, length),
            Some(members) if members == PlaceSet::default() => Reservation::NoRoute,
            Some(members) => self.reserve_copies(members, host, length),
        }
    }

    /// Reserves a frame that will be copied to several places.
    fn reserve_copies(
        &mut self,
        members: PlaceSet,
        address: Gid,
        length: usize,
    ) -> Reservation<Frame> {
        let staged = self.multicast.staging.as_ref().map_or(0, Staging::taken);
        if places(members).any(|to| self.must_wait_for(to, staged + 1)) {
            return Reservation::Full;
        }
        if self.multicast.staging.is_none() {
            match Staging::new() {
                Ok(staging) => self.multicast.staging = Some(staging),
                Err(error) => {
                    tracing::error!(%error, "no memory for frames to multicast groups");
                    return Reservation::NoRoute;
                }
            }
        }
        let frame = self
            .multicast
            .staging
            .as_mut()
            .and_then(|staging| staging.reserve(address, length));
        frame.map_or(Reservation::Full, |frame| {
            Reservation::Ready(Frame::Ring(frame))
        })
    }

    /// Returns true if a member has no room for `frames`: senders slow down to the slowest member,
    /// but a member that takes nothing for long loses its copies instead.
    fn must_wait_for(&mut self, to: u8, frames: u32) -> bool {
        let peer = &mut self.peers[usize::from(to)];
        let has_room = |ring: &mut Sender| ring.has_room_for(frames);
        if peer.ring.as_mut().is_none_or(has_room) {
            peer.pause = None;
            return false;
        }
        matches!(self.full(to), Reservation::Full)
    }

    /// Copies a frame into the ring of each member. A copy that finds no room is lost.
    #[cold]
    pub(super) fn transmit_multicast(&mut self, frame: ring::Frame) {
        let Some(staging) = &self.multicast.staging else {
            return;
        };
        let address = staging.address(&frame);
        let is_group = address.is_multicast();
        let members = if is_group {
            self.members(address)
        } else {
            self.registry.gsi_members(address).unwrap_or_default()
        };
        for to in places(members) {
            self.copy_to(to, &frame);
        }
        if is_group {
            self.copy_to_uplink(address, frame.as_ref());
        }
        self.cancel_multicast(frame);
    }

    /// Releases a frame, sent or not.
    pub(super) fn cancel_multicast(&mut self, frame: ring::Frame) {
        if let Some(staging) = &mut self.multicast.staging {
            staging.release(frame);
        }
    }

    fn copy_to(&mut self, to: u8, frame: &ring::Frame) {
        let generation = self.registry.generation(to);
        let peer = &self.peers[usize::from(to)];
        let is_known = peer.generation == generation && peer.ring.is_some();
        if !is_known && !self.connect(to, generation, None) {
            return;
        }
        let ring = self.peers[usize::from(to)].ring.as_mut();
        let bytes = frame.as_ref();
        if let Some(mut copy) = ring.and_then(|ring| ring.reserve(bytes.len())) {
            copy.as_mut().copy_from_slice(bytes);
            if frame.is_recorded() {
                copy.set_recorded();
            }
            self.hand_over(copy);
        }
    }

    /// Returns the members of a group, looked up again if any group has changed.
    fn members(&mut self, group: Gid) -> PlaceSet {
        let epoch = self.registry.group_epoch();
        if self.multicast.epoch != epoch {
            self.multicast.epoch = epoch;
            self.multicast.known.clear();
        }
        let known = self.multicast.known.iter();
        if let Some((_, members)) = known.into_iter().find(|(known, _)| *known == group) {
            return *members;
        }
        let members = self.registry.group_members(group);
        if self.multicast.known.len() == MAX_KNOWN {
            self.multicast.known.clear();
        }
        self.multicast.known.push((group, members));
        members
    }
}
