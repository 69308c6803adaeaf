//! Situations that `ferroce inject` brings about: one word per place, until its function takes it.

use std::sync::atomic::Ordering;

use ferroce_faults::{Onset, Situation};
use ferroce_units::Duration;

use super::Registry;
use super::layout::{field, place_offset};
use crate::clock::Ticks;

/// Bits of the word for the situation: its index in [`Situation::ALL`], counted from 1. The other
/// bits are its time in nanoseconds; zero: it has no end.
const SITUATION_BITS: u32 = 8;

impl Registry {
    /// Brings about a situation of the function at a place, and wakes the function. Returns false
    /// if the function has not taken the last one yet.
    pub fn inject_situation(&self, place: u8, onset: Onset, now: Ticks) -> bool {
        let word = self.memory.word(place_offset(place) + field::SITUATION);
        let new = word_of(onset);
        let set = word.compare_exchange(0, new, Ordering::SeqCst, Ordering::SeqCst);
        if set.is_ok() {
            self.announce_situation(place);
            self.words(place).wake(now);
        }
        set.is_ok()
    }

    /// Takes the situation that was injected into the function at a place since the last call.
    pub fn take_situation(&self, place: u8) -> Option<Onset> {
        self.clear_situation_sign(place);
        let word = self.memory.word(place_offset(place) + field::SITUATION);
        onset_of(word.swap(0, Ordering::SeqCst))
    }

    /// Records that the function at a place is served to another process.
    pub fn set_served(&self, place: u8) {
        let word = self.memory.word(place_offset(place) + field::IS_SERVED);
        word.store(1, Ordering::Relaxed);
    }

    /// Returns true if the function at a place is served to another process.
    pub fn is_served(&self, place: u8) -> bool {
        let word = self.memory.word(place_offset(place) + field::IS_SERVED);
        word.load(Ordering::Relaxed) != 0
    }
}

fn word_of(onset: Onset) -> u64 {
    let known = Situation::ALL.iter();
    let number = known.take_while(|known| **known != onset.situation).count() as u64 + 1;
    let time_ns = onset.time.map_or(0, |time| time.as_ns().max(1));
    number | time_ns.min(u64::MAX >> SITUATION_BITS) << SITUATION_BITS
}

/// Decodes a word. `None`: it is empty, or another process has written something else.
fn onset_of(word: u64) -> Option<Onset> {
    let number = word & ((1 << SITUATION_BITS) - 1);
    let situation = *Situation::ALL.get(number.checked_sub(1)? as usize)?;
    let time_ns = word >> SITUATION_BITS;
    let time = (time_ns > 0).then(|| Duration::from_ns(time_ns));
    Some(Onset { situation, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_situation_has_its_word() {
        for situation in Situation::ALL {
            for time in [None, Some(Duration::from_ns(4_000_000_000))] {
                let onset = Onset { situation, time };
                assert_eq!(onset_of(word_of(onset)), Some(onset));
            }
        }
        assert_eq!(onset_of(0), None);
        assert_eq!(onset_of(u64::MAX), None);
    }
}
