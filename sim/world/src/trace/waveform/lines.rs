//! The lines of a host, and their values.

use ferroce_model::Counters;
use ferroce_model::time::timing::Stage;
use ferroce_spec::counter::Counter;
use ferroce_units::{Duration, Instant};

use crate::trace::step::Kind;
use crate::{Activity, Observation, PortObservation};

/// Number of a line of a waveform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line(pub usize);

/// A cache, and its counters.
pub struct Cache {
    /// Name.
    pub name: &'static str,
    hits: Option<Counter>,
    misses: Option<Counter>,
}

const fn cache(name: &'static str, hits: Counter, misses: Counter) -> Cache {
    let (hits, misses) = (Some(hits), Some(misses));
    Cache { name, hits, misses }
}

/// Caches of the card, followed by the IOTLB of the host.
pub const CACHES: [Cache; 6] = [
    cache("qpc", Counter::qpc_hits, Counter::qpc_misses),
    cache("cqc", Counter::cqc_hits, Counter::cqc_misses),
    cache("srqc", Counter::srqc_hits, Counter::srqc_misses),
    cache("mpt", Counter::mpt_hits, Counter::mpt_misses),
    cache("mtt", Counter::mtt_hits, Counter::mtt_misses),
    Cache {
        name: "iotlb",
        hits: None,
        misses: None,
    },
];

/// Busy lines of processing units.
#[derive(Debug, Default)]
pub struct Units {
    /// Lines of the sending part.
    pub transmit: Vec<Line>,
    /// Lines of the receiving part.
    pub receive: Vec<Line>,
}

/// Lines of the PCIe link.
#[derive(Debug)]
pub struct Usage {
    /// TLPs to the host.
    pub up: Line,
    /// TLPs from the host.
    pub down: Line,
    /// Tags in use.
    pub tags: Line,
    /// Bytes of the completion buffer in use.
    pub read_bytes: Line,
    /// Posted header credits in use.
    pub posted_headers: Line,
    /// Posted data credits in use.
    pub posted_data: Line,
}

/// Lines of a switch port, and its last seen state.
#[derive(Debug)]
pub struct PortLines {
    /// Queued bytes.
    pub queued_bytes: Line,
    /// Paused priorities.
    pub paused: Line,
    /// The last seen state.
    pub seen: PortObservation,
}

/// Lines of a host, and their last seen values.
#[derive(Debug)]
pub struct HostLines {
    queues: Vec<Line>,
    blocks: Vec<Line>,
    requests: Vec<Line>,
    units: Units,
    caches: Vec<Line>,
    usage: Usage,
    /// The direction to the switch or the other card.
    transmit: Line,
    on_cable: Line,
    /// The direction from there.
    pub receive: Line,
    processor: Vec<Line>,
    congestion: Vec<Line>,
    ps_per_byte: f64,
    /// Hits and misses of each cache so far.
    counted: [u64; 2 * CACHES.len()],
    /// Busy times of both directions of the PCIe link so far, and the time up to which they are
    /// known.
    lanes: [(Duration, Instant); 2],
    /// True if a state was seen before, so that differences are meaningful.
    is_known: bool,
}

/// Bytes on the wire in addition to the frame: preamble, frame check sequence.
const WIRE_BYTES: usize = 8 + 4;

impl HostLines {
    #[expect(clippy::too_many_arguments, reason = "one for each group of lines")]
    pub(super) fn new(
        queues: Vec<Line>,
        blocks: Vec<Line>,
        requests: Vec<Line>,
        units: Units,
        caches: Vec<Line>,
        usage: Usage,
        link: Vec<Line>,
        processor: Vec<Line>,
        congestion: Vec<Line>,
        gbps: f64,
    ) -> Self {
        Self {
            queues,
            blocks,
            requests,
            units,
            caches,
            usage,
            transmit: link[0],
            on_cable: link[1],
            receive: link[2],
            processor,
            congestion,
            ps_per_byte: f64::from(u8::BITS) * 1000.0 / gbps,
            counted: [0; 2 * CACHES.len()],
            lanes: [(Duration::ZERO, Instant::ZERO); 2],
            is_known: false,
        }
    }

    /// Returns the line that shows this activity.
    pub fn busy_with(&self, kind: Kind) -> Option<Line> {
        Some(match kind {
            Kind::Card(stage) => match stage {
                Stage::Doorbell => self.blocks[0],
                Stage::Fetch => self.blocks[1],
                Stage::Packetize => self.blocks[2],
                Stage::MacReceive => self.blocks[3],
                Stage::Completion => self.blocks[4],
                Stage::Event => self.blocks[5],
                Stage::MacTransmit => self.transmit,
                Stage::Transmit(unit) => *self.units.transmit.get(usize::from(unit))?,
                Stage::Receive(unit) => *self.units.receive.get(usize::from(unit))?,
            },
            Kind::Host(activity) => match activity {
                Activity::PcieRead => self.requests[0],
                Activity::PcieWrite => self.requests[1],
                Activity::PcieAtomic => self.requests[2],
                Activity::Interrupt => self.requests[3],
                Activity::Mmio => self.requests[4],
                Activity::Link => self.on_cable,
                Activity::Post | Activity::PostReceive | Activity::Doorbell => self.processor[0],
                Activity::Poll => self.processor[1],
                Activity::Compute | Activity::WakeUp => self.processor[2],
            },
        })
    }

    /// Returns true if the line shows how long the next item has to wait, rather than the duration
    /// of this one.
    pub fn is_occupancy(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Card(_))
    }

    /// Returns the time of a frame on the cable.
    pub fn time_on_wire(&self, bytes: usize) -> Duration {
        Duration::from_ps(((bytes + WIRE_BYTES) as f64 * self.ps_per_byte).round() as u64)
    }

    /// Calls `set` for each level.
    pub fn levels(&self, seen: &Observation<'_>, mut set: impl FnMut(Line, u64)) {
        for (line, value) in self.queues.iter().zip(seen.levels) {
            set(*line, *value);
        }
        if let Some(pcie) = &seen.pcie {
            set(self.usage.tags, pcie.reads.headers.into());
            set(self.usage.read_bytes, pcie.reads.data.into());
            set(self.usage.posted_headers, pcie.posted.headers.into());
            set(self.usage.posted_data, pcie.posted.data.into());
        }
        if let (Some(rates), [limited, lowest]) = (&seen.rates, &*self.congestion) {
            set(*limited, rates.queue_pairs as u64);
            set(*lowest, rates.lowest_mbps.round() as u64);
        }
    }

    /// Stores the seen state, with which the next state is compared.
    pub fn set_known(&mut self) {
        self.is_known = true;
    }

    /// Calls `pulse` for each cache line with hits or misses since the last call.
    pub fn pulses(&mut self, seen: &Observation<'_>, mut pulse: impl FnMut(Line)) {
        let iotlb = seen.pcie.as_ref().map_or((0, 0), |pcie| {
            (pcie.counters.iotlb_hits, pcie.counters.iotlb_misses)
        });
        let value = |counters: &Counters, counter: Option<Counter>, other: u64| {
            counter.map_or(other, |counter| counters.value(counter))
        };
        let counts = CACHES.iter().flat_map(|cache| {
            [
                value(seen.counters, cache.hits, iotlb.0),
                value(seen.counters, cache.misses, iotlb.1),
            ]
        });
        for ((line, was), is) in self.caches.iter().zip(&mut self.counted).zip(counts) {
            if is > *was && self.is_known {
                pulse(*line);
            }
            *was = is;
        }
    }

    /// Calls `busy` for the intervals since the last call in which a direction of PCIe was busy.
    pub fn lanes(&mut self, seen: &Observation<'_>, mut busy: impl FnMut(Line, Instant, Instant)) {
        let Some(pcie) = &seen.pcie else {
            return;
        };
        let (up, down) = pcie.free_at;
        let now = [
            (self.usage.up, pcie.counters.outbound_busy, up),
            (self.usage.down, pcie.counters.inbound_busy, down),
        ];
        for ((line, total, until), known) in now.into_iter().zip(&mut self.lanes) {
            let more = total - known.0;
            // The link was busy without a gap since then, or with gaps too short to be seen.
            if self.is_known {
                busy(line, (until - more).max(known.1), until);
            }
            *known = (total, until);
        }
    }
}
