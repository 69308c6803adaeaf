//! Delays the card's lines like the PCIe slot and the host of a preset.
//!
//! Uses the model's arithmetic in the time of the card's clock, without the spread of the host's
//! latencies: the same requests take the same cycles. Without TLPs of the card, a line is one.
//!
//! A write reaches memory when it is accepted: the host reads memory only between calls, and then
//! all posted writes are visible. A write only occupies the wire.

use ferroce_model::pcie::{Parameters, Pcie};
use ferroce_model::preset::{Preset, PresetError};
use ferroce_units::Instant;

use crate::clock::CYCLE_NS;

/// Variable with the name of a preset, whose slot and host delay lines.
const VARIABLE: &str = "FERROCE_RTL_PCIE";
/// Any seed: without a spread of latencies it has no effect.
const SEED: u64 = 0;

/// The slot and the host.
#[derive(Debug)]
pub struct HostLink {
    pcie: Pcie,
}

impl HostLink {
    /// Returns the slot and host of the preset that the environment names, if it names one.
    ///
    /// # Panics
    /// If there is no such preset.
    pub fn of_environment() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok()?;
        let link = Self::named(&name);
        Some(link.unwrap_or_else(|error| panic!("{VARIABLE}={name}: {error}")))
    }

    /// Returns the slot and host of a preset.
    ///
    /// # Errors
    /// If there is no such preset.
    pub fn named(name: &str) -> Result<Self, PresetError> {
        let mut preset = Preset::load(name)?;
        preset.pcie.read_jitter_ns = 0.0;
        preset.pcie.read_tail_probability = 0.0;
        let pcie = Pcie::new(&Parameters::from(&preset), SEED);
        Ok(Self { pcie })
    }

    /// Requests bytes in this cycle; returns the cycle in which they arrive.
    pub fn read(&mut self, cycle: u64, iova: u64, bytes: u64) -> u64 {
        let now = instant(cycle);
        self.pcie.begin(now);
        let done = self.pcie.read(now, iova, bytes);
        done.as_ns().div_ceil(CYCLE_NS).max(cycle + 1)
    }

    /// Returns true if the wire to the host is free for a write in this cycle.
    pub fn is_free(&self, cycle: u64) -> bool {
        self.pcie.free_at().0 <= instant(cycle)
    }

    /// Writes this many bytes of a line in this cycle.
    pub fn write(&mut self, cycle: u64, iova: u64, bytes: u64) {
        let now = instant(cycle);
        self.pcie.begin(now);
        self.pcie.write(now, iova, bytes);
    }

    /// Sends an MSI-X message in this cycle.
    pub fn interrupt(&mut self, cycle: u64) {
        let now = instant(cycle);
        self.pcie.begin(now);
        self.pcie.interrupt(now);
    }
}

fn instant(cycle: u64) -> Instant {
    Instant::from_ns(cycle * CYCLE_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESET: &str = "fpga-100g@haswell-e5";
    const CYCLES: u64 = 4000;
    const LINE: u64 = 64;

    fn link() -> HostLink {
        HostLink::named(PRESET).expect("built in")
    }

    /// Goal: the latency of an idle link equals the preset's PCIe latency, each time.
    #[test]
    fn an_idle_link_has_the_latency_of_the_preset() {
        let mut link = link();
        let _page_walk = link.read(0, 0x1000, LINE);
        let cycles: Vec<u64> = (1..9)
            .map(|n| link.read(n * 1000, 0x1000, LINE) - n * 1000)
            .collect();
        let preset = Preset::load(PRESET).expect("built in");
        let least = (preset.pcie.read_latency_ns / CYCLE_NS as f64) as u64;
        assert!(cycles.iter().all(|&taken| taken == cycles[0]), "{cycles:?}");
        assert!((least..least + 40).contains(&cycles[0]), "{cycles:?}");
    }

    /// Goal: lines that are requested in every cycle arrive at the rate of the link, in the same
    /// cycles in each run.
    #[test]
    fn a_busy_link_has_the_rate_of_the_preset() {
        let run = || -> Vec<u64> {
            let mut link = link();
            let requests = (0..CYCLES).map(|cycle| link.read(cycle, 64 * (cycle % 512), LINE));
            requests.collect()
        };
        let (first, second) = (run(), run());
        assert_eq!(first, second);
        let last = first.last().expect("there are requests");
        let bytes_per_cycle = 64.0 * CYCLES as f64 / *last as f64;
        assert!((16.0..48.0).contains(&bytes_per_cycle), "{bytes_per_cycle}");
    }

    /// Goal: a write delays the next one by the time of its TLP.
    #[test]
    fn writes_occupy_the_wire() {
        let mut link = link();
        let written = (0..CYCLES).filter(|&cycle| {
            let is_free = link.is_free(cycle);
            if is_free {
                link.write(cycle, 64 * (cycle % 512), 64);
            }
            is_free
        });
        let bytes_per_cycle = 64.0 * written.count() as f64 / CYCLES as f64;
        assert!((16.0..48.0).contains(&bytes_per_cycle), "{bytes_per_cycle}");
    }
}
