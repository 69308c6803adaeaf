//! The cost of loss and reordering: WRITEs over a link with a round trip of 10 us, for each method
//! of loss recovery.
//!
//! Every figure comes from a run of the whole card in simulated time. All figures are relative to
//! go-back-N without loss, so that the cost of a mode without loss is visible, too.

use ferroce_faults::Plan;
use ferroce_model::preset::Preset;
use ferroce_perf::{Iterations, Operation, PerfRow, PerfSpec, Test};

use crate::reference::experiment::Simulator;

/// The card.
pub const CARD: &str = "cx5-100g";
/// One-way delay: with the 0.4 us that the responder needs to answer, a packet's ACK arrives 10 us
/// after its last bit was sent.
pub const CABLE_NS: &str = "4790";
const MESSAGE_BYTES: u32 = 1 << 20;
const PACKETS_OF_A_MESSAGE: f64 = 1024.0;
/// Messages of a run without faults, or with a recovery that loses little. The start of the run,
/// before each card knows that the other supports the recovery, and the last timeout take less than
/// 1 % of it.
const MESSAGES: f64 = 256.0;
/// A run of go-back-N ends earlier, after about this many lost packets.
const LOST_PACKETS: f64 = 100.0;
/// Minimum number of messages of such a run.
const FEWEST_MESSAGES: f64 = 32.0;
/// Messages of a run whose packets are sprayed.
const SPRAYED_MESSAGES: u64 = 16;
/// Up to this loss rate the middle of a message can be skipped without a relevant error.
const SKIPPED_LOSS: f64 = 1e-5;
/// Messages of a run with skipping: most packets need no simulation.
const SKIPPED_MESSAGES: u64 = 2048;
/// A figure is the mean of runs with these seeds.
pub const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
/// A short local ACK timeout: 16 us; the card waits four times as long. The answer takes about 20
/// us if the link is full and the card has queued packets.
const SHORT_TIMEOUT: u8 = 2;
/// Reorder time with adaptive routing.
const REORDER_NS: u32 = 5000;

/// The method of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The requester resends everything from the first missing packet on.
    GoBackN,
    /// The requester resends missing packets only.
    SelectiveRepeat,
    /// The same, but only when the gap is older than the reorder time.
    AdaptiveRouting,
}

/// Fault that is injected into the packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each is lost with this probability.
    Loss(f64),
    /// Each packet takes one of 8 paths; the longest takes this many ns longer than the shortest.
    Spray(u32),
}

/// Two cards, and a faulty link between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultyLink {
    /// Data rate.
    pub gbps: u32,
    /// Recovery of both cards.
    pub recovery: Recovery,
    /// Age at which a gap counts as a loss, with adaptive routing.
    pub reorder_ns: u32,
    /// Local ACK timeout: 4.096 us times two to the power of it.
    pub local_ack_timeout: u8,
    /// Fault that is injected in both directions.
    pub fault: Fault,
}

/// The figure that is computed from the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Goodput as a share of the goodput of go-back-N without loss.
    Goodput,
    /// Goodput as a multiple of the goodput of go-back-N under the same loss.
    OverGoBackN,
    /// Number of resent packets for each packet of the messages.
    Retransmissions,
}

impl FaultyLink {
    /// Returns a link of 100 Gb/s without faults, with the shortest useful timeout.
    pub const fn new(recovery: Recovery) -> Self {
        Self {
            gbps: 100,
            recovery,
            reorder_ns: REORDER_NS,
            local_ack_timeout: SHORT_TIMEOUT,
            fault: Fault::None,
        }
    }

    /// Loses packets.
    pub const fn losing(mut self, probability: f64) -> Self {
        self.fault = Fault::Loss(probability);
        self
    }

    /// Sprays packets over paths whose delays differ by up to this many ns.
    pub const fn spraying(mut self, spread_ns: u32) -> Self {
        self.fault = Fault::Spray(spread_ns);
        self
    }

    /// Sets the data rate.
    pub const fn rate(mut self, gbps: u32) -> Self {
        self.gbps = gbps;
        self
    }

    /// Sets the age at which a gap counts as a loss.
    pub const fn reorder_time(mut self, nanoseconds: u32) -> Self {
        self.reorder_ns = nanoseconds;
        self
    }

    /// Sets the local ACK timeout.
    pub const fn local_ack_timeout(mut self, exponent: u8) -> Self {
        self.local_ack_timeout = exponent;
        self
    }

    /// Returns the preset with the link's parameters.
    pub fn preset(&self) -> Result<Preset, String> {
        let is = |mode| (self.recovery == mode).to_string();
        // A ConnectX waits for 20 ms at least, which would hide what the modes differ in.
        let changes = [
            ("identity.mlx5", "false".to_owned()),
            ("transport.adaptive_timer", "false".to_owned()),
            ("link.cable_ns", CABLE_NS.to_owned()),
            ("mac.rate_gbps", self.gbps.to_string()),
            ("transport.selective_repeat", is(Recovery::SelectiveRepeat)),
            ("transport.adaptive_routing", is(Recovery::AdaptiveRouting)),
            ("transport.reorder_ns", self.reorder_ns.to_string()),
        ];
        let mut preset = Preset::load(CARD).map_err(|error| error.to_string())?;
        for (key, value) in changes {
            preset.set(key, &value).map_err(|error| error.to_string())?;
        }
        Ok(preset)
    }

    /// Returns the run with the faults of `seed`.
    fn spec(&self, seed: u64) -> Result<PerfSpec, String> {
        let mut spec = PerfSpec::new(self.preset()?, Operation::Write, Test::Bandwidth);
        spec.sizes = vec![MESSAGE_BYTES];
        spec.iterations = Iterations::Exactly(self.messages());
        spec.local_ack_timeout = Some(self.local_ack_timeout);
        spec.fast_forward = self.skips();
        spec.seed = seed;
        spec.faults = self.plan(seed)?;
        Ok(spec)
    }

    fn plan(&self, seed: u64) -> Result<Option<Plan>, String> {
        let text = match self.fault {
            Fault::None => return Ok(None),
            Fault::Loss(probability) => format!("loss={probability},seed={seed}"),
            Fault::Spray(spread_ns) => format!("reorder=8paths/{spread_ns}ns,seed={seed}"),
        };
        text.parse()
            .map(Some)
            .map_err(|error| format!("{text}: {error}"))
    }

    fn messages(&self) -> u64 {
        match self.fault {
            Fault::Spray(_) => SPRAYED_MESSAGES,
            Fault::Loss(_) if self.skips() => SKIPPED_MESSAGES,
            Fault::Loss(probability) if self.recovery == Recovery::GoBackN => {
                let messages = LOST_PACKETS / probability / PACKETS_OF_A_MESSAGE;
                messages.clamp(FEWEST_MESSAGES, MESSAGES) as u64
            }
            Fault::None | Fault::Loss(_) => MESSAGES as u64,
        }
    }

    /// Returns true if the middle of messages is skipped; only go-back-N can be.
    fn skips(&self) -> bool {
        matches!(self.fault, Fault::Loss(loss) if loss <= SKIPPED_LOSS)
            && self.recovery == Recovery::GoBackN
    }

    /// Returns the same link with go-back-N.
    const fn going_back(mut self) -> Self {
        self.recovery = Recovery::GoBackN;
        self
    }
}

/// Returns a figure of `link`: the mean of several seeds.
pub fn figure(simulator: &dyn Simulator, link: &FaultyLink, figure: Figure) -> Result<f64, String> {
    match figure {
        Figure::Goodput => {
            let clean = FaultyLink::new(Recovery::GoBackN).rate(link.gbps);
            Ok(goodput(simulator, link)? / goodput(simulator, &clean)?)
        }
        Figure::OverGoBackN => {
            Ok(goodput(simulator, link)? / goodput(simulator, &link.going_back())?)
        }
        Figure::Retransmissions => mean(simulator, link, |row| {
            let packets = row.iterations as f64 * PACKETS_OF_A_MESSAGE;
            Some(counter(row, "packets_retransmitted")? / packets)
        }),
    }
}

/// Returns the goodput in Gb/s.
fn goodput(simulator: &dyn Simulator, link: &FaultyLink) -> Result<f64, String> {
    mean(simulator, link, |row| {
        Some(row.bandwidth.as_ref()?.average_gbps())
    })
}

fn mean(
    simulator: &dyn Simulator,
    link: &FaultyLink,
    value: impl Fn(&PerfRow) -> Option<f64>,
) -> Result<f64, String> {
    let mut sum = 0.0;
    for seed in SEEDS {
        let result = simulator.run(&link.spec(seed)?)?;
        let value = result.rows.first().and_then(&value);
        sum += value.ok_or("the run has no such figure")?;
    }
    Ok(sum / SEEDS.count() as f64)
}

/// Returns a counter of the sending host.
fn counter(row: &PerfRow, name: &str) -> Option<f64> {
    let mut counters = row.counters.first()?.iter();
    counters
        .find(|(own, _)| *own == name)
        .map(|(_, value)| *value as f64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use ferroce_faults::Packet;
    use ferroce_perf::runner;
    use ferroce_units::Instant;
    use ferroce_world::{FrameSeen, Recorder, SharedRecorder, Span};
    use parking_lot::Mutex;

    use super::*;

    /// Times at which the last request has left and its ACK has arrived. The first request misses
    /// in the context caches, so it is not used.
    #[derive(Default)]
    struct RoundTrip {
        sent: Option<Instant>,
        answered: Option<Instant>,
    }

    impl Recorder for RoundTrip {
        fn record(&mut self, _: &Span) {}

        fn frame(&mut self, frame: &FrameSeen<'_>) {
            let packet = Packet::parse(frame.bytes).expect("a packet of RoCEv2");
            if packet.key.is_response {
                self.answered = Some(frame.arrival);
            } else {
                self.sent = Some(frame.sent);
            }
        }
    }

    #[test]
    fn the_round_trip_takes_10_us() {
        let link = FaultyLink::new(Recovery::GoBackN);
        let mut spec = link.spec(1).expect("a preset");
        (spec.sizes, spec.depth) = (vec![1024], Some(1));
        spec.iterations = Iterations::Exactly(5);
        let seen = Arc::new(Mutex::new(RoundTrip::default()));
        let recorder: SharedRecorder = Arc::clone(&seen) as SharedRecorder;
        runner::run_recorded(&spec, 1024, &AtomicBool::new(false), recorder).expect("it runs");
        let seen = seen.lock();
        let (sent, answered) = seen.sent.zip(seen.answered).expect("both were seen");
        let us = (answered - sent).as_ps() as f64 / 1e6;
        assert!((us - 10.0).abs() < 0.1, "{us}");
    }
}
