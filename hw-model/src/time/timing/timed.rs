//! The costs of a card according to a preset.

use ferroce_units::{ClockDomain, Duration, Instant};

use super::pipeline_stage::PipelineStage;
use super::{Stage, Timing, Work};
use crate::preset::Preset;
use crate::preset::value::nanoseconds;

/// Bytes on the wire in addition to the frame: preamble and start of frame 8, frame check sequence
/// 4, shortest gap between two frames 12 (IEEE 802.3, 3.1.1 and 4.4.2).
const WIRE_OVERHEAD_BYTES: u32 = 8 + 4 + 12;
/// Shortest frame without its frame check sequence (IEEE 802.3, 4.4.2).
const MIN_FRAME_BYTES: u32 = 60;
/// The inter-frame gap, which is not part of the time until the last bit of a frame.
const GAP_BYTES: u32 = 12;

/// Cost of a block: its occupancy, and the additional latency of its result.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    per_item: Duration,
    per_message: Duration,
    /// Additional latency of one of several packets of a READ response.
    per_response: Duration,
    latency: Duration,
}

/// The width of a path: converts bytes to cycles.
#[derive(Debug, Clone, Copy)]
struct Beats {
    bytes: u32,
    domain: ClockDomain,
}

impl Beats {
    fn new(width_bits: u32, domain: ClockDomain) -> Self {
        let bytes = (width_bits / u8::BITS).max(1);
        Self { bytes, domain }
    }

    #[inline]
    fn occupancy(&self, bytes: u32) -> Duration {
        self.domain.cycles(bytes.div_ceil(self.bytes))
    }
}

/// A card with clocks.
#[derive(Debug, Clone)]
pub struct Timed {
    core: ClockDomain,
    path: Beats,
    mac: Beats,
    /// Cut-through: the first bytes of a frame move on before the last have arrived.
    cut_through: bool,
    /// Picoseconds that a byte takes on the wire.
    wire_ps_per_byte: f64,
    transmit_latency: Duration,
    receive_latency: Duration,
    costs: Costs,
    blocks: Blocks,
}

/// Costs of the blocks that count cycles.
#[derive(Debug, Clone)]
struct Costs {
    doorbell: Cost,
    fetch: Cost,
    transmit: Cost,
    packetize: Cost,
    depacketize: Cost,
    receive: Cost,
    completion: Cost,
    event: Cost,
}

/// The time at which each block is free.
#[derive(Debug, Clone)]
struct Blocks {
    doorbell: PipelineStage,
    fetch: PipelineStage,
    transmit: Vec<PipelineStage>,
    packetize: PipelineStage,
    mac: PipelineStage,
    depacketize: PipelineStage,
    receive: Vec<PipelineStage>,
    completion: PipelineStage,
    event: PipelineStage,
}

impl Timed {
    /// Returns the idle card of `preset`.
    pub fn new(preset: &Preset) -> Self {
        let core = ClockDomain::from_mhz(preset.clock.core_mhz);
        Self {
            core,
            path: Beats::new(preset.datapath.width_bits, core),
            mac: Beats::new(
                preset.mac.width_bits,
                ClockDomain::from_mhz(preset.clock.mac_mhz),
            ),
            cut_through: preset.datapath.cut_through,
            wire_ps_per_byte: f64::from(u8::BITS) * 1000.0 / preset.mac.rate_gbps,
            transmit_latency: nanoseconds(preset.mac.transmit_ns),
            receive_latency: nanoseconds(preset.mac.receive_ns),
            costs: Costs::new(preset, core),
            blocks: Blocks::new(preset.units.count as usize),
        }
    }

    /// Returns the time that `bytes` take on the wire.
    #[inline]
    fn on_wire(&self, bytes: u32) -> Duration {
        // Rounded: `f64::round` is a call of the C library.
        Duration::from_ps((f64::from(bytes) * self.wire_ps_per_byte + 0.5) as u64)
    }
}

impl Costs {
    fn new(preset: &Preset, core: ClockDomain) -> Self {
        let (units, path) = (&preset.units, &preset.datapath);
        let pipelined = |interval: u32, latency: u32| Cost {
            per_item: core.cycles(interval),
            per_message: Duration::ZERO,
            per_response: Duration::ZERO,
            latency: core.cycles(latency),
        };
        Self {
            doorbell: pipelined(
                path.doorbell_interval_cycles,
                path.doorbell_cycles + path.scheduler_cycles,
            ),
            fetch: pipelined(path.fetch_interval_cycles, path.fetch_cycles),
            transmit: Cost {
                per_item: core.cycles(units.transmit_cycles),
                per_message: core.cycles(units.message_cycles),
                per_response: Duration::ZERO,
                latency: core.cycles(units.latency_cycles + path.lookup_cycles),
            },
            packetize: pipelined(
                path.packetizer_interval_cycles,
                path.packetizer_cycles + path.lookup_cycles,
            ),
            depacketize: pipelined(path.depacketizer_interval_cycles, path.depacketizer_cycles),
            receive: Cost {
                per_item: core.cycles(units.receive_cycles),
                per_message: core.cycles(units.request_cycles),
                per_response: core.cycles(units.response_cycles),
                latency: core.cycles(units.latency_cycles + path.lookup_cycles),
            },
            completion: pipelined(
                path.completion_interval_cycles,
                path.completion_cycles + path.lookup_cycles,
            ),
            event: pipelined(1, path.event_cycles),
        }
    }
}

impl Blocks {
    fn new(units: usize) -> Self {
        Self {
            doorbell: PipelineStage::default(),
            fetch: PipelineStage::default(),
            transmit: vec![PipelineStage::default(); units],
            packetize: PipelineStage::default(),
            mac: PipelineStage::default(),
            depacketize: PipelineStage::default(),
            receive: vec![PipelineStage::default(); units],
            completion: PipelineStage::default(),
            event: PipelineStage::default(),
        }
    }
}

impl Timing for Timed {
    #[inline]
    fn reserve(&mut self, now: Instant, at: Instant, stage: Stage, work: Work) -> Instant {
        let (block, cost) = match stage {
            Stage::MacTransmit => return self.transmit(at, work.bytes),
            Stage::MacReceive => {
                // The wire has spread the frames, and the MAC keeps up with it.
                let at = self.core.edge(at + self.receive_latency);
                return self.pass_through(now, at, stage, work.bytes);
            }
            Stage::Doorbell => (&mut self.blocks.doorbell, &self.costs.doorbell),
            Stage::Fetch => (&mut self.blocks.fetch, &self.costs.fetch),
            Stage::Transmit(unit) => (
                &mut self.blocks.transmit[usize::from(unit)],
                &self.costs.transmit,
            ),
            Stage::Packetize => {
                return self.pass_through(now, self.core.edge(at), stage, work.bytes);
            }
            Stage::Receive(unit) => (
                &mut self.blocks.receive[usize::from(unit)],
                &self.costs.receive,
            ),
            Stage::Completion => (&mut self.blocks.completion, &self.costs.completion),
            Stage::Event => (&mut self.blocks.event, &self.costs.event),
        };
        let mut occupancy = cost.per_item;
        match stage {
            // A fetch returns several WQEs, which are decoded one after the other.
            Stage::Fetch => occupancy = Duration(occupancy.0 * u64::from(work.messages)),
            _ if work.messages > 0 => occupancy = occupancy + cost.per_message,
            _ if work.continues_read => occupancy = occupancy + cost.per_response,
            _ => {}
        }
        let begin = block.reserve(now, self.core.edge(at), occupancy);
        match stage {
            Stage::Fetch => begin + cost.latency + (occupancy - cost.per_item),
            _ => begin + cost.latency,
        }
    }

    #[inline]
    fn free_at(&self, stage: Stage) -> Instant {
        match stage {
            Stage::Transmit(unit) => self.blocks.transmit[usize::from(unit)].free_at(),
            Stage::MacTransmit => self.blocks.mac.free_at(),
            _ => Instant::ZERO,
        }
    }

    fn visit_busy(&self, each: &mut dyn FnMut(Stage, Duration)) {
        let blocks = &self.blocks;
        each(Stage::Doorbell, blocks.doorbell.busy());
        each(Stage::Fetch, blocks.fetch.busy());
        for (unit, block) in (0..).zip(&blocks.transmit) {
            each(Stage::Transmit(unit), block.busy());
        }
        each(Stage::Packetize, blocks.packetize.busy());
        each(Stage::MacTransmit, blocks.mac.busy());
        each(Stage::MacReceive, blocks.depacketize.busy());
        for (unit, block) in (0..).zip(&blocks.receive) {
            each(Stage::Receive(unit), block.busy());
        }
        each(Stage::Completion, blocks.completion.busy());
        each(Stage::Event, blocks.event.busy());
    }
}

impl Timed {
    /// Passes a frame of `bytes` through the packetizer or the depacketizer: in beats of the path,
    /// or at the block's own pace if that is slower. With store and forward, it moves on when its
    /// last byte has arrived.
    #[inline]
    fn pass_through(&mut self, now: Instant, at: Instant, stage: Stage, bytes: u32) -> Instant {
        let (block, cost) = match stage {
            Stage::Packetize => (&mut self.blocks.packetize, &self.costs.packetize),
            _ => (&mut self.blocks.depacketize, &self.costs.depacketize),
        };
        let beats = self.path.occupancy(bytes);
        let begin = block.reserve(now, at, cost.per_item.max(beats));
        if self.cut_through {
            begin + cost.latency
        } else {
            begin + cost.latency + beats
        }
    }

    /// Transmits a frame that is ready at `at`; returns when its last bit has left the card.
    #[inline]
    fn transmit(&mut self, at: Instant, bytes: u32) -> Instant {
        let slot = self.on_wire(bytes.max(MIN_FRAME_BYTES) + WIRE_OVERHEAD_BYTES);
        let start = self.mac.domain.edge(at);
        let slot = slot.max(self.mac.occupancy(bytes));
        let last_bit = self.blocks.mac.reserve(start, start, slot) + slot;
        last_bit - self.on_wire(GAP_BYTES) + self.transmit_latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_full_frames_has_the_goodput_of_the_wire() {
        let mut preset = Preset::load("cx5-100g").expect("built in");
        preset.set("mac.rate_gbps", "100").expect("in range");
        let mut card = Timed::new(&preset);
        // IPv4, MTU 1024, RDMA WRITE middle: 14 + 20 + 8 + 12 + 1024 + 4 bytes in the frame.
        let (frames, payload, frame) = (10_000u64, 1024, 1082);
        let mut last = Instant::ZERO;
        for _ in 0..frames {
            last = card.reserve(last, Instant::ZERO, Stage::MacTransmit, Work::bytes(frame));
        }
        let gbps = (frames * payload * 8) as f64 / last.as_ns() as f64;
        assert!((gbps - 92.586).abs() < 0.02, "{gbps}");
    }
}
