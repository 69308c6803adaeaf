//! Faults injected by `ferroce inject`: a word at each place, which its function obeys.

use std::sync::atomic::Ordering;

use super::Registry;
use super::faults::PLAN_UNIT;
use super::layout::{field, place_offset};
use crate::clock::Ticks;

const PORT_DOWN: u64 = 1;
const DEVICE_FATAL: u64 = 2;

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// The cable is unplugged.
    PortDown,
    /// The cable is plugged in again.
    PortUp,
    /// The device stops working.
    DeviceFatal,
}

/// The faults that are in force for a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Injected(u64);

impl Injected {
    /// Returns true if the port has lost its link.
    #[inline]
    #[must_use]
    pub fn is_port_down(self) -> bool {
        self.0 & PORT_DOWN != 0
    }

    /// Returns true if the device has to stop.
    #[inline]
    #[must_use]
    pub fn is_device_fatal(self) -> bool {
        self.0 & DEVICE_FATAL != 0
    }
}

impl Injected {
    /// Returns the number of the plan of packet faults that was injected last.
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

    /// Injects a fault and wakes the function. Returns false if it was already in force.
    pub fn inject(&self, place: u8, injection: Injection, now: Ticks) -> bool {
        let word = self.memory.word(place_offset(place) + field::INJECTED);
        let (before, bit) = match injection {
            Injection::PortDown => (word.fetch_or(PORT_DOWN, Ordering::SeqCst), PORT_DOWN),
            Injection::PortUp => (!word.fetch_and(!PORT_DOWN, Ordering::SeqCst), PORT_DOWN),
            Injection::DeviceFatal => (word.fetch_or(DEVICE_FATAL, Ordering::SeqCst), DEVICE_FATAL),
        };
        self.wake(place, now);
        before & bit == 0
    }
}
