//! UDP datagrams between the user logic of two FPGA cards: packetizer, MAC, cable, MAC and
//! depacketizer of a preset, without hosts, PCIe and RDMA.
//!
//! VNx was measured like this (Xilinx/xup_vitis_network_example, Alveo U280): kernels at 300 MHz
//! send, count and send back. Clock, width, MAC and wire come from the preset; the UDP stack is not
//! ours, and `stack_cycles` holds the known facts about it.

use ferroce_model::preset::Preset;
use ferroce_model::time::timing::pipeline_stage::PipelineStage;
use ferroce_model::time::timing::{Stage, Timed, Timing, Work};
use ferroce_units::ClockDomain;
use ferroce_units::{Duration, Instant};

use super::plan::Datagrams;

/// Ethernet 14, IPv4 20, UDP 8.
const HEADER_BYTES: u32 = 42;
/// Beat of the user logic's path.
const BEAT_BYTES: u32 = 64;
/// Payload of the datagram that goes back and forth: one beat.
const ECHO_BYTES: u32 = 64;
/// Datagrams of a run.
const COUNT: u64 = 20_000;

/// Returns the requested figure, in us or Gb/s, between two cards of `preset`.
pub fn figure(preset: &Preset, datagrams: Datagrams) -> Result<f64, String> {
    let mut preset = preset.clone();
    let changed = preset.set("clock.core_mhz", "300");
    changed.map_err(|error| error.to_string())?;
    Ok(match datagrams {
        Datagrams::RoundTrip => round_trip_us(&preset),
        Datagrams::Goodput(bytes) => goodput_gbps(&preset, bytes),
    })
}

/// Returns the cycles that VNx's UDP stack takes for a datagram. 128 bytes, two beats, go out at
/// 59.86 M/s: five cycles of 300 MHz, the only size below the capacity of the wire. 64 bytes take
/// no more than three, and from 192 bytes on the wire needs longer than payload and three cycles.
fn stack_cycles(bytes: u32) -> u32 {
    match bytes.div_ceil(BEAT_BYTES) {
        0 | 1 => 3,
        beats => beats + 3,
    }
}

/// A card with user logic.
struct Card {
    timed: Timed,
    stack: PipelineStage,
    clock: ClockDomain,
    cable: Duration,
}

impl Card {
    fn new(preset: &Preset) -> Self {
        Self {
            timed: Timed::new(preset),
            stack: PipelineStage::default(),
            clock: ClockDomain::from_mhz(preset.clock.core_mhz),
            cable: Duration::from_ps((preset.link.cable_ns * 1000.0) as u64),
        }
    }
}

/// Sends one datagram from the user logic of `from` at `at` to the user logic of `to`; returns the
/// time of arrival.
fn deliver(from: &mut Card, to: &mut Card, at: Instant, bytes: u32) -> Instant {
    let frame = Work::bytes(HEADER_BYTES + bytes);
    let occupancy = from.clock.cycles(stack_cycles(bytes));
    let datagram = from.stack.reserve(at, from.clock.edge(at), occupancy);
    let cable = from.cable;
    let (from, to) = (&mut from.timed, &mut to.timed);
    let packet = from.reserve(at, datagram, Stage::Packetize, frame);
    let sent = from.reserve(at, packet, Stage::MacTransmit, frame);
    let arrived = sent + cable;
    to.reserve(arrived, arrived, Stage::MacReceive, frame)
}

fn round_trip_us(preset: &Preset) -> f64 {
    let (mut near, mut far) = (Card::new(preset), Card::new(preset));
    let mut now = Instant::ZERO;
    for _ in 0..COUNT {
        let there = deliver(&mut near, &mut far, now, ECHO_BYTES);
        now = deliver(&mut far, &mut near, there, ECHO_BYTES);
    }
    now.as_ps() as f64 / COUNT as f64 / 1e6
}

fn goodput_gbps(preset: &Preset, bytes: u32) -> f64 {
    let (mut near, mut far) = (Card::new(preset), Card::new(preset));
    let mut first = None;
    let mut last = Instant::ZERO;
    for _ in 0..=COUNT {
        last = deliver(&mut near, &mut far, Instant::ZERO, bytes);
        first = first.or(Some(last));
    }
    let elapsed_ps = last.as_ps() - first.map_or(0, Instant::as_ps);
    (COUNT * u64::from(bytes) * 8) as f64 * 1e3 / elapsed_ps as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goodput(bytes: u32) -> f64 {
        let preset = Preset::load("fpga-100g").expect("built in");
        figure(&preset, Datagrams::Goodput(bytes)).expect("it has such a clock")
    }

    #[test]
    fn goodput_is_what_the_wire_leaves() {
        for bytes in [64, 192, 512, 1472] {
            let goodput = goodput(bytes);
            let expected = 100.0 * f64::from(bytes) / f64::from(bytes + 66);
            assert!(
                (goodput / expected - 1.0).abs() < 1e-3,
                "{bytes}: {goodput} {expected}"
            );
        }
    }

    #[test]
    fn two_beats_are_slower_than_the_wire() {
        let goodput = goodput(128);
        assert!((goodput / 61.297 - 1.0).abs() < 0.01, "{goodput}");
    }
}
