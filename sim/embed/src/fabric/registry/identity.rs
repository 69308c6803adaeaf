//! Data that a process publishes about itself.

use std::sync::atomic::Ordering;

use ferroce_platform::host::{MAX_GIDS, MAX_HOST_NAME};
use ferroce_wire::{Gid, Mac};

use super::Registry;
use super::layout::{
    MAX_PROGRAM_NAME, PLACE_SIZE, PLACES, field, gid_to_words, mac_to_word, place_offset,
    text_to_words, word_to_mac, words_to_gid, words_to_text,
};

/// Words of a host's name.
pub(super) const NAME_WORDS: usize = MAX_HOST_NAME / 8;
/// Words of a program's name.
const PROGRAM_WORDS: usize = MAX_PROGRAM_NAME / 8;

/// Data that a process publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of its host.
    pub host: String,
    /// Number of the device within the process: 0 is `ferroce0`.
    pub device: u8,
    /// MAC address of the device.
    pub mac: Mac,
    /// Its addresses.
    pub gids: Vec<Gid>,
    /// Identifies its capture file; 0: none.
    pub capture: u64,
}

/// The owner of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    /// The place.
    pub place: u8,
    /// Process ID, as the process itself sees it.
    pub pid: u32,
    /// Number of the claim; unique.
    pub generation: u64,
    /// Its published data.
    pub identity: Identity,
}

impl Registry {
    pub(super) fn write_identity(&self, number: u8, generation: u64, identity: &Identity) {
        let word = |offset| self.memory.word(place_offset(number) + offset);
        word(field::GENERATION).store(0, Ordering::SeqCst);
        word(field::PID).store(u64::from(std::process::id()), Ordering::Relaxed);
        word(field::DEVICE).store(u64::from(identity.device), Ordering::Relaxed);
        word(field::MAC).store(mac_to_word(identity.mac), Ordering::Relaxed);
        word(field::CAPTURE).store(identity.capture, Ordering::Relaxed);
        let gids = &identity.gids[..identity.gids.len().min(MAX_GIDS)];
        word(field::GID_COUNT).store(gids.len() as u64, Ordering::Relaxed);
        for (index, gid) in gids.iter().enumerate() {
            let (high, low) = gid_to_words(*gid);
            word(field::GIDS + 16 * index).store(high, Ordering::Relaxed);
            word(field::GIDS + 16 * index + 8).store(low, Ordering::Relaxed);
        }
        let name: [u64; NAME_WORDS] = text_to_words(&identity.host);
        for (index, value) in name.into_iter().enumerate() {
            word(field::NAME + 8 * index).store(value, Ordering::Relaxed);
        }
        word(field::INJECTED).store(0, Ordering::Relaxed);
        word(field::GROUP_COUNT).store(0, Ordering::Relaxed);
        // Clear the words of the last owner; otherwise a sleeping thread of it would be woken in
        // our place.
        for offset in (field::POLLS_UNTIL..PLACE_SIZE).step_by(8) {
            word(offset).store(0, Ordering::Relaxed);
        }
        word(field::GENERATION).store(generation, Ordering::Release);
    }

    /// Returns the owner of a place. `None`: it is free, or changed while it was read.
    pub fn occupant(&self, place: u8) -> Option<Occupant> {
        let found = self.last_occupant(place)?;
        (found.generation != 0).then_some(found)
    }

    /// Returns the owner of a place, or its last owner if it is free. `None`: the place changed
    /// during the read.
    pub(super) fn last_occupant(&self, place: u8) -> Option<Occupant> {
        let generation = self.generation(place);
        if place == 0 {
            return None;
        }
        let word = |offset| {
            self.memory
                .word(place_offset(place) + offset)
                .load(Ordering::Relaxed)
        };
        let gids = (0..self.gid_count(place))
            .map(|index| self.gid(place, index))
            .collect();
        let name = (0..NAME_WORDS).map(|index| word(field::NAME + 8 * index));
        let identity = Identity {
            host: words_to_text(name),
            device: word(field::DEVICE) as u8,
            mac: word_to_mac(word(field::MAC)),
            gids,
            capture: word(field::CAPTURE),
        };
        let pid = word(field::PID) as u32;
        (self.generation(place) == generation).then_some(Occupant {
            place,
            pid,
            generation,
            identity,
        })
    }

    /// Publishes the name of the program at a place and the number of its `ferroce run`; 0: none.
    pub fn describe(&self, place: u8, program: &str, run: u64) {
        let word = |offset| self.memory.word(place_offset(place) + offset);
        let name: [u64; PROGRAM_WORDS] = text_to_words(program);
        for (index, value) in name.into_iter().enumerate() {
            word(field::PROGRAM + 8 * index).store(value, Ordering::Relaxed);
        }
        word(field::RUN).store(run, Ordering::Relaxed);
    }

    /// Returns the name of the program at a place, also after its end.
    pub fn program(&self, place: u8) -> String {
        let word = |index| place_offset(place) + field::PROGRAM + 8 * index;
        let words = (0..PROGRAM_WORDS).map(|index| self.memory.word(word(index)));
        words_to_text(words.map(|word| word.load(Ordering::Relaxed)))
    }

    /// Returns the functions of a run. Functions that have ended are included until their places
    /// are claimed again.
    pub fn of_run(&self, run: u64) -> Vec<Occupant> {
        let is_of_run = |place: &u8| {
            let word = self.memory.word(place_offset(*place) + field::RUN);
            run != 0 && word.load(Ordering::Relaxed) == run
        };
        let places = (1..PLACES as u8).filter(is_of_run);
        places
            .filter_map(|place| self.last_occupant(place))
            .collect()
    }

    fn gid_count(&self, place: u8) -> usize {
        let offset = place_offset(place) + field::GID_COUNT;
        (self.memory.word(offset).load(Ordering::Relaxed) as usize).min(MAX_GIDS)
    }

    fn gid(&self, place: u8, index: usize) -> Gid {
        let offset = place_offset(place) + field::GIDS + 16 * index;
        let high = self.memory.word(offset).load(Ordering::Relaxed);
        let low = self.memory.word(offset + 8).load(Ordering::Relaxed);
        words_to_gid(high, low)
    }

    /// Changes one of the own addresses of a place; there is room for [`MAX_GIDS`].
    ///
    /// A concurrent reader may see half of the change and fail to find the host for a moment.
    pub fn set_gid(&self, place: u8, index: usize, gid: Gid) {
        if index >= MAX_GIDS {
            return;
        }
        let word = |offset| self.memory.word(place_offset(place) + offset);
        let (high, low) = gid_to_words(gid);
        word(field::GIDS + 16 * index).store(high, Ordering::Relaxed);
        word(field::GIDS + 16 * index + 8).store(low, Ordering::Relaxed);
        word(field::GID_COUNT).fetch_max(index as u64 + 1, Ordering::Release);
    }

    /// Clears a place's own addresses.
    pub fn forget_gids(&self, place: u8) {
        let count = self.memory.word(place_offset(place) + field::GID_COUNT);
        count.store(0, Ordering::Release);
    }

    /// Returns true if the host of a place owns an address.
    pub fn owns_gid(&self, place: u8, gid: Gid) -> bool {
        (0..self.gid_count(place)).any(|index| self.gid(place, index) == gid)
    }

    /// Returns the capture file of the process at a place; 0: none.
    pub fn capture(&self, place: u8) -> u64 {
        self.memory
            .word(place_offset(place) + field::CAPTURE)
            .load(Ordering::Relaxed)
    }
}
