//! The rate of a wire, which determines the time of a frame on it.

use ferroce_units::Duration;

/// Bytes on the wire in addition to the frame: preamble 8, frame check sequence 4, gap 12 (IEEE
/// 802.3, 3.1.1 and 4.4.2).
pub const OVERHEAD_BYTES: u32 = 8 + 4 + 12;
/// Shortest frame without its frame check sequence.
const LEAST_BYTES: u32 = 60;

/// Rate of a wire; by default nothing takes time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    /// Time of a byte on the wire, in 2^-20 ps.
    per_byte: u64,
}

impl Rate {
    const FRACTION_BITS: u32 = 20;

    /// Returns a rate in Gb/s.
    pub fn from_gbps(gbps: f64) -> Self {
        let ps = 8000.0 / gbps;
        Self {
            per_byte: (ps * f64::from(1 << Self::FRACTION_BITS)).round() as u64,
        }
    }

    /// Returns the rate in Gb/s.
    pub fn gbps(self) -> f64 {
        8000.0 * f64::from(1 << Self::FRACTION_BITS) / self.per_byte as f64
    }

    /// Returns the time of a frame of `bytes` on the wire.
    #[inline]
    pub fn span(self, bytes: u32) -> Duration {
        let bytes = u64::from(wire_bytes(bytes));
        Duration::from_ps((bytes * self.per_byte) >> Self::FRACTION_BITS)
    }
}

/// Returns the bytes that a frame of `bytes` occupies on a wire.
#[inline]
pub fn wire_bytes(bytes: u32) -> u32 {
    bytes.max(LEAST_BYTES) + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_frames_take_the_shortest_slot() {
        assert_eq!(Rate::from_gbps(8.0).span(1), Duration::from_ns(84));
    }

    #[test]
    fn a_rate_is_what_it_was_made_of() {
        assert!((Rate::from_gbps(100.0).gbps() - 100.0).abs() < 1e-6);
    }
}
