//! Words by which functions notify each other.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Registry;
use super::layout::{ANNOUNCE_WORDS, field, place_offset};
use crate::schedule::shared::Words;

impl Registry {
    /// Returns the words that wake the threads of the function at a place.
    #[inline]
    pub fn words(&self, place: u8) -> Words<'_> {
        let offset = place_offset(place);
        Words::new(
            self.memory.word(offset + field::POLLS_UNTIL),
            self.memory.half_word(offset + field::ARMED),
            self.memory.word(offset + field::WOKEN_AT),
            self.memory.half_word(offset + field::DOZING),
        )
    }

    /// Returns the number of rings that were announced to a place.
    #[inline]
    pub fn announce_epoch(&self, place: u8) -> &AtomicU32 {
        self.memory
            .half_word(place_offset(place) + field::ANNOUNCE_EPOCH)
    }

    /// Announces the ring from place `from` to place `to`.
    pub fn announce(&self, from: u8, to: u8) {
        self.signal(field::ANNOUNCED, from, to);
    }

    /// Asks the function at place `to` to move its ring to place `from` into spare room.
    pub fn ask_to_move(&self, from: u8, to: u8) {
        self.signal(field::ASKED_TO_MOVE, from, to);
    }

    fn signal(&self, bitmap: usize, from: u8, to: u8) {
        let offset = place_offset(to) + bitmap + 8 * usize::from(from / 64);
        self.memory
            .word(offset)
            .fetch_or(1 << (from % 64), Ordering::SeqCst);
        self.announce_epoch(to).fetch_add(1, Ordering::SeqCst);
    }

    /// Takes the announcements for a place: one bit per place that has a new ring for it.
    pub fn take_announced(&self, place: u8) -> [u64; ANNOUNCE_WORDS] {
        self.take_signals(field::ANNOUNCED, place)
    }

    /// Takes the requests of [`Self::ask_to_move`] to a place: one bit per place that asks.
    pub fn take_asked_to_move(&self, place: u8) -> [u64; ANNOUNCE_WORDS] {
        self.take_signals(field::ASKED_TO_MOVE, place)
    }

    fn take_signals(&self, bitmap: usize, place: u8) -> [u64; ANNOUNCE_WORDS] {
        std::array::from_fn(|index| {
            let offset = place_offset(place) + bitmap + 8 * index;
            self.memory.word(offset).swap(0, Ordering::SeqCst)
        })
    }
}
