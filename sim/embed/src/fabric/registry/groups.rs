//! Members of multicast groups.
//!
//! Each place has a table that only its owner writes. A change of any table increments a word in
//! the header; a sender may cache the members of a group until that word changes.

use std::sync::atomic::Ordering;

use ferroce_wire::Gid;

use super::layout::{
    ANNOUNCE_WORDS, MAX_GROUPS, PLACES, field, gid_to_words, header, place_offset, words_to_gid,
};
use super::{Place, Registry};

/// A bit for each place.
pub type PlaceSet = [u64; ANNOUNCE_WORDS];

/// Returns the members of a set, in order.
pub fn places(set: PlaceSet) -> impl Iterator<Item = u8> {
    let without_lowest = |word: &u64| Some(word & (word - 1)).filter(|rest| *rest != 0);
    set.into_iter().enumerate().flat_map(move |(index, word)| {
        std::iter::successors(Some(word).filter(|word| *word != 0), without_lowest)
            .map(move |rest| index as u8 * 64 + rest.trailing_zeros() as u8)
    })
}

impl Registry {
    /// Returns the number of changes of all groups.
    #[inline]
    pub fn group_epoch(&self) -> u64 {
        let epoch = self.memory.word(header::GROUP_EPOCH);
        epoch.load(Ordering::Acquire)
    }

    pub(super) fn groups_changed(&self) {
        let epoch = self.memory.word(header::GROUP_EPOCH);
        epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the places of a group's members. Some of them may be dead.
    pub fn group_members(&self, group: Gid) -> PlaceSet {
        let mut members = PlaceSet::default();
        for place in 1..PLACES as u8 {
            if self.generation(place) != 0 && self.group_index(place, group).is_some() {
                members[usize::from(place / 64)] |= 1 << (place % 64);
            }
        }
        members
    }

    fn group_count(&self, place: u8) -> usize {
        let offset = place_offset(place) + field::GROUP_COUNT;
        (self.memory.word(offset).load(Ordering::Acquire) as usize).min(MAX_GROUPS)
    }

    fn set_group_count(&self, place: u8, count: usize) {
        let offset = place_offset(place) + field::GROUP_COUNT;
        self.memory
            .word(offset)
            .store(count as u64, Ordering::Release);
    }

    fn group(&self, place: u8, index: usize) -> Gid {
        let offset = place_offset(place) + field::GROUPS + 16 * index;
        let high = self.memory.word(offset).load(Ordering::Relaxed);
        let low = self.memory.word(offset + 8).load(Ordering::Relaxed);
        words_to_gid(high, low)
    }

    fn set_group(&self, place: u8, index: usize, group: Gid) {
        let offset = place_offset(place) + field::GROUPS + 16 * index;
        let (high, low) = gid_to_words(group);
        self.memory.word(offset).store(high, Ordering::Relaxed);
        self.memory.word(offset + 8).store(low, Ordering::Relaxed);
    }

    fn group_index(&self, place: u8, group: Gid) -> Option<usize> {
        (0..self.group_count(place)).find(|index| self.group(place, *index) == group)
    }
}

impl Place {
    /// Joins a group. Returns false if there is no room for another group.
    pub fn join_group(&self, group: Gid) -> bool {
        let (registry, place) = (self.registry, self.number);
        if registry.group_index(place, group).is_some() {
            return true;
        }
        let count = registry.group_count(place);
        if count == MAX_GROUPS {
            return false;
        }
        registry.set_group(place, count, group);
        registry.set_group_count(place, count + 1);
        registry.groups_changed();
        true
    }

    /// Leaves a group.
    pub fn leave_group(&self, group: Gid) {
        let (registry, place) = (self.registry, self.number);
        let Some(index) = registry.group_index(place, group) else {
            return;
        };
        // The entry is in both slots for a moment rather than in none: other processes may be
        // reading.
        let last = registry.group_count(place) - 1;
        registry.set_group(place, index, registry.group(place, last));
        registry.set_group_count(place, last);
        registry.groups_changed();
    }
}
