//! Words by which functions notify each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ferroce_platform::os;

use super::Registry;
use super::layout::{ANNOUNCE_WORDS, field, place_offset};
use crate::clock::Ticks;

/// A process that polled within this time is not woken: it checks before a wake-up could take
/// effect.
pub const FRESH_NS: u64 = 20_000;

impl Registry {
    /// Returns the time of the last poll of the application at a place, in ticks of the machine's
    /// counter.
    #[inline]
    pub fn heartbeat(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::HEARTBEAT)
    }

    /// Returns the word on which the background thread at a place sleeps: 1 while it does.
    #[inline]
    pub fn armed(&self, place: u8) -> &AtomicU32 {
        self.memory.half_word(place_offset(place) + field::ARMED)
    }

    /// Returns the count of rings announced to a place.
    #[inline]
    pub fn announce_epoch(&self, place: u8) -> &AtomicU32 {
        self.memory
            .half_word(place_offset(place) + field::ANNOUNCE_EPOCH)
    }

    /// Announces the ring from place `from` to place `to`.
    pub fn announce(&self, from: u8, to: u8) {
        let offset = place_offset(to) + field::ANNOUNCED + 8 * usize::from(from / 64);
        self.memory
            .word(offset)
            .fetch_or(1 << (from % 64), Ordering::SeqCst);
        self.announce_epoch(to).fetch_add(1, Ordering::SeqCst);
    }

    /// Takes the announcements for a place: one bit per place that has a new ring for it.
    pub fn take_announced(&self, place: u8) -> [u64; ANNOUNCE_WORDS] {
        std::array::from_fn(|index| {
            let offset = place_offset(place) + field::ANNOUNCED + 8 * index;
            self.memory.word(offset).swap(0, Ordering::SeqCst)
        })
    }

    /// Returns when the background thread at a place was last woken, in ticks.
    pub fn woken_at(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::WOKEN_AT)
    }

    /// Returns the word on which polling threads of the application at a place doze: 1 while one
    /// does.
    #[inline]
    pub fn dozing(&self, place: u8) -> &AtomicU32 {
        self.memory.half_word(place_offset(place) + field::DOZING)
    }

    /// Wakes the application's dozing threads at a place, or if there is none the background thread
    /// if it sleeps. Returns true if a thread was woken.
    pub fn wake(&self, place: u8, now: Ticks) -> bool {
        self.wake_dozing(place) || self.wake_background(place, now)
    }

    /// Wakes the application's dozing threads at a place.
    #[inline]
    pub fn wake_dozing(&self, place: u8) -> bool {
        let dozing = self.dozing(place);
        let is_asleep = dozing.load(Ordering::SeqCst) == 1 && dozing.swap(0, Ordering::SeqCst) == 1;
        if is_asleep {
            os::futex_wake_all(dozing);
        }
        is_asleep
    }

    /// Wakes the background thread at a place if it sleeps. Returns true if it did.
    pub fn wake_background(&self, place: u8, now: Ticks) -> bool {
        let armed = self.armed(place);
        if armed.load(Ordering::SeqCst) != 1 {
            return false;
        }
        self.woken_at(place).store(now.0, Ordering::Relaxed);
        let is_asleep = armed.swap(0, Ordering::SeqCst) == 1;
        if is_asleep {
            os::futex_wake_all(armed);
        }
        is_asleep
    }
}
