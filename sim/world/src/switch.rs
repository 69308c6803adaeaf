//! Latency between two cards: cables, and a switch with one output queue per port.

use ferroce_model::preset::Preset;
use ferroce_units::{Duration, Instant};

use crate::rate::Rate;

/// The cable at a host's port, and the port of the switch at its other end.
#[derive(Debug, Clone, Default)]
pub struct Line {
    cable: Duration,
    /// Latency of the card's MAC, PCS and transceiver, outbound.
    transmit: Duration,
    /// The same, inbound.
    receive: Duration,
    switch: Duration,
    rate: Rate,
    /// Time at which the output queue of the switch becomes empty.
    free_at: Instant,
}

impl Line {
    /// Returns the line of a host with this preset; without one, nothing takes time.
    pub fn new(preset: Option<&Preset>) -> Self {
        let ns = |ns: f64| Duration::from_ps((ns * 1000.0).round() as u64);
        preset.map_or_else(Self::default, |preset| Self {
            cable: ns(preset.link.cable_ns),
            transmit: ns(preset.mac.transmit_ns),
            receive: ns(preset.mac.receive_ns),
            switch: ns(preset.link.switch_ns),
            rate: Rate::from_gbps(preset.mac.rate_gbps),
            free_at: Instant::ZERO,
        })
    }

    /// Returns the time of a frame of `bytes` on the wire.
    #[inline]
    pub fn span(&self, bytes: u32) -> Duration {
        self.rate.span(bytes)
    }

    /// Returns when the last bit of a frame leaves the card, if its first bit is at the MAC at
    /// `at`.
    pub fn departure(&self, at: Instant, bytes: u32) -> Instant {
        at + self.transmit + self.span(bytes)
    }

    /// Returns when the card has received a frame whose last bit arrives at `at`.
    pub fn reception(&self, at: Instant) -> Instant {
        at + self.receive
    }

    /// Returns when the last bit of a frame that leaves the card at `at` arrives at the other end
    /// of the cable.
    #[inline]
    pub fn pass(&self, at: Instant) -> Instant {
        at + self.cable
    }

    /// Returns the arrival of the last bit of a looped-back frame that would leave the card at
    /// `at`: the loopback is before the transceivers.
    #[inline]
    pub fn loop_back(&self, at: Instant) -> Instant {
        at - (self.transmit + self.receive)
    }

    /// Forwards a frame from the line `from` to this line's host. Its last bit leaves the other
    /// card at `at`; returns its arrival here, and its waiting time in the switch.
    ///
    /// The switch is cut-through: the first bits leave before the last ones have arrived, unless
    /// the port is busy. A frame to a faster port waits until it can be sent without a gap.
    #[inline]
    pub fn forward(&mut self, from: &Self, at: Instant, bytes: u32) -> (Instant, Duration) {
        let (inward, outward) = (from.span(bytes), self.span(bytes));
        let last_bit = from.pass(at) + self.switch;
        let first_bit = last_bit - inward;
        let ready = first_bit.max(last_bit - outward);
        let begin = ready.max(self.free_at);
        self.free_at = begin + outward;
        (self.free_at + self.cable, begin - ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::OVERHEAD_BYTES;

    const NS: fn(u64) -> Instant = Instant::from_ns;

    /// Returns a line on which a byte takes `ns_per_byte`.
    fn line(cable_ns: u64, switch_ns: u64, ns_per_byte: u64) -> Line {
        Line {
            cable: Duration::from_ns(cable_ns),
            transmit: Duration::ZERO,
            receive: Duration::ZERO,
            switch: Duration::from_ns(switch_ns),
            rate: Rate::from_gbps(8.0 / ns_per_byte as f64),
            free_at: Instant::ZERO,
        }
    }

    #[test]
    fn an_idle_switch_adds_its_latency_and_nothing_else() {
        let (from, mut to) = (line(30, 200, 1), line(40, 200, 1));
        let frame = 1000 - OVERHEAD_BYTES;
        let (there, waited) = to.forward(&from, NS(5000), frame);
        assert_eq!((there, waited), (NS(5000 + 30 + 200 + 40), Duration::ZERO));
    }

    #[test]
    fn two_senders_share_a_port() {
        let (from, mut to) = (line(0, 100, 1), line(0, 100, 1));
        let frame = 1000 - OVERHEAD_BYTES;
        let (first, _) = to.forward(&from, NS(5000), frame);
        let (second, waited) = to.forward(&from, NS(5010), frame);
        assert_eq!((first, second), (NS(5100), NS(6100)));
        assert_eq!(waited, Duration::from_ns(990));
    }

    #[test]
    fn a_slower_port_stretches_and_a_faster_one_waits_for_the_last_bit() {
        let frame = 1000 - OVERHEAD_BYTES;
        let (slow, fast) = (line(0, 0, 2), line(0, 0, 1));
        let (there, _) = slow.clone().forward(&fast, NS(5000), frame);
        assert_eq!(there, NS(6000), "the first bit came at 4000");
        let (there, _) = fast.clone().forward(&slow, NS(5000), frame);
        assert_eq!(there, NS(5000));
    }
}
