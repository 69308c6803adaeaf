//! GSIs: which functions receive the frames to QP 1 of their host.
//!
//! All processes of a host have the same addresses and share QP 1 of each address. Each place has a
//! word that says whether its function receives such frames; only the owner writes it.

use std::sync::atomic::Ordering;

use ferroce_wire::Gid;

use super::layout::{PLACES, field, place_offset};
use super::{Place, PlaceSet, Registry};

/// The GSI is open.
const OPEN: u64 = 1;
/// The GSI is closed, as a new owner finds it.
const CLOSED: u64 = 0;

impl Registry {
    /// Returns the live places that have an address and an open GSI. `None`: no live place has the
    /// address. It takes one system call for each place with the address.
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
    /// Sets whether the function receives frames to QP 1 of its addresses.
    pub fn set_gsi(&self, is_open: bool) {
        let offset = place_offset(self.number) + field::GSI;
        let value = if is_open { OPEN } else { CLOSED };
        let word = self.registry.memory.word(offset);
        word.store(value, Ordering::Release);
    }
}
