//! GSIs: which functions want the frames to QP 1 of their host.
//!
//! The processes of a host have the same addresses, and QP 1 of an address is all of theirs. Each
//! place has a word that says whether its function wants such frames; only its owner writes it.

use std::sync::atomic::Ordering;

use ferroce_wire::Gid;

use super::layout::{PLACES, field, place_offset};
use super::{Place, PlaceSet, Registry};

/// A GSI that takes frames.
const OPEN: u64 = 1;
/// A place without one: as a new owner finds it.
const CLOSED: u64 = 0;

impl Registry {
    /// Returns the live places that have an address and whose GSI is open; `None`: no live place
    /// has the address. Costs a system call for each that has it.
    pub fn gsi_members(&self, gid: Gid) -> Option<PlaceSet> {
        let mut members = None;
        for place in 1..PLACES as u8 {
            let has_address = self.generation(place) != 0 && self.owns_gid(place, gid);
            if !has_address || !self.is_alive(place) {
                continue;
            }
            let members = members.get_or_insert(PlaceSet::default());
            if self.has_open_gsi(place) {
                members[usize::from(place / 64)] |= 1 << (place % 64);
            }
        }
        members
    }

    fn has_open_gsi(&self, place: u8) -> bool {
        let word = self.memory.word(place_offset(place) + field::GSI);
        word.load(Ordering::Acquire) == OPEN
    }
}

impl Place {
    /// Frames to QP 1 of the own addresses are wanted from now on, or no longer.
    pub fn set_gsi(&self, is_open: bool) {
        let offset = place_offset(self.number) + field::GSI;
        let value = if is_open { OPEN } else { CLOSED };
        let word = self.registry.memory.word(offset);
        word.store(value, Ordering::Release);
    }
}
