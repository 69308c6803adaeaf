//! Chooses where rings are created: each in its own file, or in spare room if one of the two
//! processes can no longer open files in the rendezvous directory because it has dropped its user
//! ID.

use std::io;

use super::{FabricPort, MAX_RINGS};
use crate::fabric::registry::{Registry, places};
use crate::fabric::ring::{Receiver, RingName, Sender, is_out_of_reach};
use crate::schedule::shared::publish_work;

/// Creates a ring where both ends can open it.
pub(super) fn new_ring(registry: &Registry, name: RingName, generation: u64) -> io::Result<Sender> {
    let ring = match registry.spare() {
        Some(spare) if registry.opens_no_files(name.to) => {
            Sender::in_spare(spare, name, generation)
        }
        spare => Sender::create(registry.directory(), spare, name, generation),
    }?;
    // A process that cannot create a file cannot open files of other processes: they need not try.
    if ring.is_spare() && !registry.opens_no_files(name.to) {
        registry.set_opens_no_files(name.from, true);
    }
    Ok(ring)
}

/// Reports that no ring to a peer can be created.
#[cold]
pub(super) fn complain(registry: &Registry, error: &io::Error) {
    let directory = registry.directory().display();
    if is_out_of_reach(error) {
        tracing::error!(
            "no ring to a peer can be made in {directory}, frames to it are lost: {error}; this \
             process has lost its access to that directory since it opened the device, or the \
             directory was removed"
        );
    } else {
        tracing::error!(
            "no ring to a peer can be made in {directory}, frames to it are lost: {error}; if \
             there is no space, end programs, enlarge it (docker run --shm-size), or set \
             FERROCE_DIR to another directory"
        );
    }
}

impl FabricPort {
    /// Attaches to new rings, and moves rings that a peer could not open.
    #[cold]
    pub(super) fn attach_announced(&mut self) {
        self.prune();
        let to = self.place.number();
        let generation = self.place.generation();
        for place in places(self.registry.take_asked_to_move(to)) {
            self.move_ring_to(place);
        }
        for from in places(self.registry.take_announced(to)) {
            let name = RingName {
                from,
                to,
                generation,
            };
            let (directory, spare) = (self.registry.directory(), self.registry.spare());
            match Receiver::attach(directory, spare, name) {
                _ if self.incoming.len() >= MAX_RINGS => {}
                Ok(ring) => self.incoming.push(ring),
                Err(error) if spare.is_some() && !self.registry.is_within_reach() => {
                    tracing::debug!(%error, %name, "a ring is to be moved into spare room");
                    self.ask_to_move(from);
                }
                Err(error) => tracing::warn!(%error, %name, "cannot attach to a ring"),
            }
        }
    }

    /// Asks the sender of a ring that this process cannot open to move it.
    fn ask_to_move(&self, from: u8) {
        let own = self.place.number();
        self.registry.set_opens_no_files(own, true);
        self.registry.ask_to_move(own, from);
        publish_work();
        self.registry.words(from).wake(self.now);
    }

    /// Moves the ring to a place whose process could not open it, and announces it again. A ring
    /// that is already in spare room stays.
    fn move_ring_to(&mut self, to: u8) {
        let registry = self.registry;
        let own = self.place.number();
        let peer = &mut self.peers[usize::from(to)];
        let is_current = peer.generation == registry.generation(to);
        let ring = peer.ring.as_mut().filter(|ring| !ring.is_spare());
        let (Some(ring), Some(spare)) = (ring.filter(|_| is_current), registry.spare()) else {
            return;
        };
        let name = RingName {
            from: own,
            to,
            generation: peer.generation,
        };
        match ring.move_to_spare(registry.directory(), spare, name) {
            Ok(()) => {
                registry.announce(own, to);
                publish_work();
                registry.words(to).wake(self.now);
            }
            Err(error) => {
                // The next frame creates another ring; the sender retransmits the frames of this
                // one.
                tracing::debug!(%error, %name, "cannot move a ring");
                peer.ring = None;
            }
        }
    }
}
