//! Faults injected by `ferroce inject`: one word per place, which the function at the place reads.

use std::sync::atomic::Ordering;

use super::Registry;
use super::device_faults::DeviceFault;
use super::faults::PLAN_UNIT;
use super::layout::{field, place_offset};
use crate::clock::Ticks;

const PORT_DOWN: u64 = 1;
const DEVICE_FATAL: u64 = 2;
/// The place's word of device faults is not empty and has to be read.
const DEVICE_FAULTS: u64 = 4;
const REMOVED: u64 = 8;
/// The place's word of a situation is not empty and has to be read.
const SITUATION: u64 = 16;

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// The cable is unplugged.
    PortDown,
    /// The cable is plugged in again.
    PortUp,
    /// The device stops working.
    DeviceFatal,
    /// The fault happens this number of times (each time on the next access), or once.
    Device(DeviceFault, u8),
    /// The card is pulled out (PCIe 6.0, 6.7.1).
    SurpriseRemoval,
    /// A card is plugged in again.
    Insertion,
}

/// The faults that are active for a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Injected(u64);

impl Injected {
    /// Returns true if the port has lost its link.
    #[inline]
    #[must_use]
    pub fn is_port_down(self) -> bool {
        self.0 & PORT_DOWN != 0
    }

    /// Returns true if the device must stop.
    #[inline]
    #[must_use]
    pub fn is_device_fatal(self) -> bool {
        self.0 & DEVICE_FATAL != 0
    }

    /// Returns true if the card is pulled out.
    #[must_use]
    pub fn is_removed(self) -> bool {
        self.0 & REMOVED != 0
    }

    /// Returns true if there is a fault of the device, and not only of its port.
    #[inline]
    #[must_use]
    pub fn concerns_device(self) -> bool {
        self.0 & (DEVICE_FATAL | DEVICE_FAULTS | REMOVED) != 0
    }
}

impl Injected {
    /// Returns true if a situation was injected and not taken yet.
    #[must_use]
    pub fn has_situation(self) -> bool {
        self.0 & SITUATION != 0
    }

    /// Returns the number of the last injected plan of packet faults.
    #[must_use]
    pub fn plan_number(self) -> u64 {
        self.0 / PLAN_UNIT
    }
}

impl Registry {
    /// Returns the faults of the function at a place.
    #[inline]
    pub fn injected(&self, place: u8) -> Injected {
        let offset = place_offset(place) + field::INJECTED;
        Injected(self.memory.word(offset).load(Ordering::Acquire))
    }

    /// Injects a fault and wakes the function. Returns false if the fault was already active.
    pub fn inject(&self, place: u8, injection: Injection, now: Ticks) -> bool {
        let word = self.memory.word(place_offset(place) + field::INJECTED);
        if let Injection::Device(fault, count) = injection {
            self.add_device_fault(place, fault, count);
        }
        let (before, bit) = match injection {
            Injection::PortDown => (word.fetch_or(PORT_DOWN, Ordering::SeqCst), PORT_DOWN),
            Injection::PortUp => (!word.fetch_and(!PORT_DOWN, Ordering::SeqCst), PORT_DOWN),
            Injection::DeviceFatal => (word.fetch_or(DEVICE_FATAL, Ordering::SeqCst), DEVICE_FATAL),
            // The same device fault can be injected repeatedly.
            Injection::Device(..) => (0, word.fetch_or(DEVICE_FAULTS, Ordering::SeqCst)),
            Injection::SurpriseRemoval => (word.fetch_or(REMOVED, Ordering::SeqCst), REMOVED),
            Injection::Insertion => {
                let before = word.fetch_and(!REMOVED, Ordering::SeqCst);
                word.fetch_or(DEVICE_FAULTS, Ordering::SeqCst);
                (!before, REMOVED)
            }
        };
        self.words(place).wake(now);
        before & bit == 0
    }

    /// Clears the fatal error of the device at a place after a reset.
    pub fn clear_device_fatal(&self, place: u8) {
        let word = self.memory.word(place_offset(place) + field::INJECTED);
        word.fetch_and(!DEVICE_FATAL, Ordering::SeqCst);
    }

    /// Sets the flag for the word of a situation.
    pub(super) fn announce_situation(&self, place: u8) {
        let word = self.memory.word(place_offset(place) + field::INJECTED);
        word.fetch_or(SITUATION, Ordering::SeqCst);
    }

    /// Clears that flag. The caller reads the word of the situation afterwards.
    pub(super) fn clear_situation_sign(&self, place: u8) {
        let word = self.memory.word(place_offset(place) + field::INJECTED);
        word.fetch_and(!SITUATION, Ordering::SeqCst);
    }

    /// Clears the flag for the word of device faults. The caller reads that word afterwards: a
    /// fault that is injected meanwhile sets the flag again.
    pub(super) fn clear_device_fault_sign(&self, place: u8) {
        let word = self.memory.word(place_offset(place) + field::INJECTED);
        word.fetch_and(!DEVICE_FAULTS, Ordering::SeqCst);
    }
}
