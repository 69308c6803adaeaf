//! Published counters of a place.

use std::sync::atomic::AtomicU64;

use super::Registry;
use super::layout::{MAX_COUNTERS, field, place_offset};
use super::uplink_counters::UplinkCounter;

impl Registry {
    /// Returns a counter of the device at a place.
    pub fn counter(&self, place: u8, index: usize) -> &AtomicU64 {
        assert!(index < MAX_COUNTERS);
        self.memory
            .word(place_offset(place) + field::COUNTERS + 8 * index)
    }

    /// Returns how often the background thread at a place got its processor far too late.
    pub fn late_wakeups(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::LATE_WAKEUPS)
    }

    /// Returns the longest delay of that thread's wake-ups, in microseconds.
    pub fn max_late_us(&self, place: u8) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field::MAX_LATE_US)
    }

    /// Returns a counter of the uplink of the function at a place.
    pub fn uplink_counter(&self, place: u8, counter: UplinkCounter) -> &AtomicU64 {
        let offset = place_offset(place) + field::UPLINK_COUNTERS;
        self.memory.word(offset + 8 * counter as usize)
    }
}
