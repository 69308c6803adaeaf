//! Device time and world time.

use ferroce_units::{Duration, Instant};

/// Converts between the two times of a world.
///
/// NICs, links and PCIe use device time, which stops while packets are skipped. Threads use world
/// time, which is device time plus all skipped time.
#[derive(Debug, Clone, Copy)]
pub struct DeviceClock {
    skipped: Duration,
}

impl DeviceClock {
    /// Nothing was skipped.
    pub const NEW: Self = Self {
        skipped: Duration::ZERO,
    };

    /// Converts device time to world time.
    #[inline]
    pub fn to_world(self, device: Instant) -> Instant {
        device + self.skipped
    }

    /// Converts world time to device time.
    #[inline]
    pub fn to_device(self, world: Instant) -> Instant {
        world - self.skipped
    }

    /// Lets time pass in the world, but not for devices.
    pub fn skip(&mut self, time: Duration) {
        self.skipped = self.skipped + time;
    }

    /// Returns the total skipped time.
    pub fn skipped(self) -> Duration {
        self.skipped
    }
}
