//! Packet faults of the function at a place: the plan set by `ferroce inject`, and the counters of
//! its engine.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_faults::{FaultCounter, FaultCounters, MAX_EXPRESSION, Plan};

use super::Registry;
use super::layout::{field, place_offset};
use crate::clock::Ticks;

/// The upper half of the word of injected faults holds the number of the current plan, so that a
/// function that reads this word also notices a new plan.
pub(super) const PLAN_UNIT: u64 = 1 << 32;

impl Registry {
    /// Sets or removes the plan of the function at a place, and wakes the function.
    pub fn inject_plan(&self, place: u8, plan: Option<&Plan>, now: Ticks) {
        let text = plan.map(Plan::to_string).unwrap_or_default();
        let bytes = &text.as_bytes()[..text.len().min(MAX_EXPRESSION)];
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let offset = field::FAULT_PLAN + 8 * index;
            self.place_word(place, offset)
                .store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        let length = self.place_word(place, field::FAULT_PLAN_LENGTH);
        length.store(bytes.len() as u64, Ordering::Relaxed);
        let injected = self.place_word(place, field::INJECTED);
        injected.fetch_add(PLAN_UNIT, Ordering::SeqCst);
        self.words(place).wake(now);
    }

    /// Returns the plan of the function at a place. `None`: there is none, or another process is
    /// writing it and will notify again.
    pub fn injected_plan(&self, place: u8) -> Option<Plan> {
        let length = self.place_word(place, field::FAULT_PLAN_LENGTH);
        let length = (length.load(Ordering::Relaxed) as usize).min(MAX_EXPRESSION);
        let words = (0..length.div_ceil(8)).flat_map(|index| {
            let word = self.place_word(place, field::FAULT_PLAN + 8 * index);
            word.load(Ordering::Relaxed).to_le_bytes()
        });
        let bytes: Vec<u8> = words.take(length).collect();
        std::str::from_utf8(&bytes).ok()?.parse().ok()
    }

    /// Records whether the function at a place has faults. If it has, it alone records the frames
    /// that it receives, in a capture that it shares with their senders.
    pub fn set_faults_active(&self, place: u8, is_active: bool) {
        let word = self.place_word(place, field::FAULTS_ACTIVE);
        word.store(u64::from(is_active), Ordering::Relaxed);
    }

    /// Returns the value set by [`Self::set_faults_active`].
    pub fn are_faults_active(&self, place: u8) -> bool {
        let word = self.place_word(place, field::FAULTS_ACTIVE);
        word.load(Ordering::Relaxed) != 0
    }

    /// Returns a counter of the faults of the function at a place.
    pub fn fault_counter(&self, place: u8, counter: FaultCounter) -> &AtomicU64 {
        self.place_word(place, field::FAULT_COUNTERS + 8 * counter as usize)
    }

    /// Publishes the counters of the faults of the function at a place.
    pub fn publish_faults(&self, place: u8, counters: &FaultCounters) {
        for counter in FaultCounter::ALL {
            self.fault_counter(place, counter)
                .store(counters.value(counter), Ordering::Relaxed);
        }
    }

    fn place_word(&self, place: u8, field: usize) -> &AtomicU64 {
        self.memory.word(place_offset(place) + field)
    }
}
