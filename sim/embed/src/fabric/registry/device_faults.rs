//! Faults of a device and of its PCIe link: a word of counts at each place.

use std::sync::atomic::Ordering;

use super::Registry;
use super::layout::{field, place_offset};

/// Bits of each count.
const COUNT_BITS: u32 = 8;

/// A fault of a device or of its PCIe link, which happens a requested number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFault {
    /// A DMA read completes with Unsupported Request or Completer Abort.
    CompletionError,
    /// A DMA read is not completed.
    CompletionTimeout,
    /// The data of a DMA read is poisoned.
    PoisonedData,
    /// An MSI-X message is lost.
    LostInterrupt,
    /// A write to a doorbell is lost.
    StuckDoorbell,
    /// The next command never completes, and no command after it.
    CommandHang,
    /// The function is reset while it is in use.
    FunctionLevelReset,
}

/// The number of times that each fault still has to happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceFaults(u64);

impl DeviceFaults {
    /// Returns true if there is no fault.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Counts a fault down. Returns true if it must happen now.
    pub fn take(&mut self, fault: DeviceFault) -> bool {
        let has_some = self.count(fault) > 0;
        if has_some {
            self.0 -= 1 << shift(fault);
        }
        has_some
    }

    /// Returns the sum of these faults and `others`, at most 255 of each.
    #[must_use]
    pub fn with(self, others: Self) -> Self {
        let sums = self.0.to_le_bytes().into_iter().zip(others.0.to_le_bytes());
        let mut bytes = [0; 8];
        for (sum, (one, other)) in bytes.iter_mut().zip(sums) {
            *sum = one.saturating_add(other);
        }
        Self(u64::from_le_bytes(bytes))
    }

    fn of(fault: DeviceFault, count: u8) -> Self {
        Self(u64::from(count) << shift(fault))
    }

    fn count(self, fault: DeviceFault) -> u8 {
        (self.0 >> shift(fault)) as u8
    }
}

fn shift(fault: DeviceFault) -> u32 {
    fault as u32 * COUNT_BITS
}

impl Registry {
    /// Takes the faults that were injected into the function at a place since the last call.
    pub fn take_device_faults(&self, place: u8) -> DeviceFaults {
        self.clear_device_fault_sign(place);
        let word = self.memory.word(place_offset(place) + field::DEVICE_FAULTS);
        DeviceFaults(word.swap(0, Ordering::SeqCst))
    }

    pub(super) fn add_device_fault(&self, place: u8, fault: DeviceFault, count: u8) {
        let word = self.memory.word(place_offset(place) + field::DEVICE_FAULTS);
        let mut before = word.load(Ordering::SeqCst);
        loop {
            let after = DeviceFaults(before).with(DeviceFaults::of(fault, count)).0;
            match word.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(found) => before = found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_counted_by_itself() {
        let (error, reset) = (
            DeviceFault::CompletionError,
            DeviceFault::FunctionLevelReset,
        );
        let mut faults = DeviceFaults::of(error, 200)
            .with(DeviceFaults::of(error, 200))
            .with(DeviceFaults::of(reset, 1));
        assert_eq!((faults.count(error), faults.count(reset)), (255, 1));
        assert!(!faults.take(DeviceFault::PoisonedData));
        for _ in 0..255 {
            assert!(faults.take(error));
        }
        assert!(!faults.take(error) && !faults.is_empty());
        assert!(faults.take(reset) && faults.is_empty());
    }
}
