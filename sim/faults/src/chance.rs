//! Random numbers that are determined by packet contents.

use ferroce_units::random::mixed;

/// A probability above 0, up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probability {
    value: f64,
    /// Draws up to this value are covered.
    last: u64,
}

impl Probability {
    /// Returns the probability; `None` if the number is not a probability, or 0.
    pub fn new(value: f64) -> Option<Self> {
        // A conversion from float saturates.
        let last = (value * 2f64.powi(64)) as u64;
        (value > 0.0 && value <= 1.0).then_some(Self { value, last })
    }

    pub fn value(self) -> f64 {
        self.value
    }

    /// Returns true for this share of all numbers.
    #[inline]
    pub fn covers(self, draw: u64) -> bool {
        draw <= self.last
    }
}

/// A stream of draws: one for each transmission of each packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws(u64);

impl Draws {
    /// Returns the draws of one fault for one flow.
    pub fn new(seed: u64, fault: usize, flow: u64) -> Self {
        Self(mixed(mixed(mixed(seed) ^ fault as u64) ^ flow))
    }

    /// Returns other draws of the same fault and flow.
    pub fn other(self, purpose: u64) -> Self {
        Self(mixed(self.0 ^ purpose))
    }

    /// Returns the draw for a transmission.
    #[inline]
    pub fn of(self, transmission: Transmission) -> u64 {
        let Transmission { offset, earlier } = transmission;
        mixed(self.0 ^ mixed(offset ^ u64::from(earlier) << 56))
    }
}

/// One transmission of a packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// Distance of the PSN from the first PSN of the flow.
    pub offset: u64,
    /// Number of earlier transmissions.
    pub earlier: u8,
}
