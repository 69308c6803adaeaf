//! PCIe as time: the link, the root complex, the IOMMU and the way to host memory.
//!
//! ```text
//!  device                          link                     host
//!  DMA engine ── tags, buffer ──► TLPs up ──► IOMMU ──► LLC or DRAM
//!      ▲                                                    │
//!      └──────────── completions ◄── TLPs down ◄────────────┘
//! ```
//!
//! This is arithmetic only: no memory, no events. [`Pcie`] is told what the device does and says
//! when it is done. A request has two times. `now`, the time of the event in which it is made, is
//! where it takes its share of whatever there is only so much of: wires, tags, credits, walkers.
//! `at`, not earlier, is when it is issued; latency is added there. A request whose `at` lies in
//! the future therefore never keeps those waiting that are issued before it, and no bandwidth is
//! lost; how much is carried in how much time stays exact.
//!
//! | file | is |
//! |---|---|
//! | `tlp` | how accesses become TLPs: MPS, MRRS, RCB, page boundaries, headers |
//! | `link` | rates, DLLP overhead, the two directions |
//! | `pool` | tags, completion buffer, credits |
//! | `spread` | the distribution of host read latency |
//! | `iommu` | IOTLB and page table walkers |
//! | `memory` | LLC, DDIO |
//! | `bench` | pcie-bench: random accesses, their bandwidth and latency |
//! | `hosts` | the hosts on which pcie-bench was measured |

pub mod bench;
mod counters;
pub mod hosts;
mod iommu;
mod link;
mod memory;
mod parameters;
mod pool;
mod spread;
mod tlp;

pub use counters::PcieCounters;
pub use link::{raw_gbps, tlp_gbps};
pub use parameters::{IommuParameters, MemoryParameters, Parameters, PcieParameters};
pub use pool::Units;

use ferroce_transport::{Duration, Instant};
use iommu::Iommu;
use link::{Lane, Rate};
use memory::Memory;
use parameters::ns;
use pool::{Pool, Shortage};
use spread::Spread;
use tlp::{Limits, Tlps};

/// Bytes of an MSI-X message.
const INTERRUPT_BYTES: u64 = 4;
/// Operands of the largest AtomicOp of 8 bytes, a compare and swap.
const ATOMIC_OPERAND_BYTES: u64 = 16;
/// What an AtomicOp of 8 bytes returns.
const ATOMIC_RESULT_BYTES: u64 = 8;
/// Bytes of a register load.
const MMIO_READ_BYTES: u64 = 4;
/// Bytes for which [`PcieParameters::mmio_write_ns`] is given.
const MMIO_WRITE_BYTES: u64 = 8;
/// Bytes for which [`PcieParameters::read_latency_ns`] and `write_latency_ns` are given.
const REFERENCE_BYTES: u64 = 64;
/// A write-combining buffer of a processor; it leaves as one TLP.
const WRITE_COMBINING_BYTES: u64 = 64;

/// Latencies without what TLPs take on the wire, which is added for each request.
#[derive(Debug, Clone, Copy)]
struct Latencies {
    write: Duration,
    mmio_write: Duration,
    mmio_read: Duration,
    /// From the host's memory back to the device.
    read_return: Duration,
    engine_read: Duration,
    engine_write: Duration,
    engine_store: Rate,
    dram: Duration,
    numa: Duration,
}

/// The newest posted write of one direction: when it was issued, when it is visible.
#[derive(Debug, Clone, Copy, Default)]
struct Posted {
    at: Instant,
    visible: Instant,
}

impl Posted {
    /// What a request that is issued at `at` must not pass.
    #[inline]
    fn before(&self, at: Instant) -> Instant {
        if at >= self.at {
            self.visible
        } else {
            Instant::ZERO
        }
    }

    /// Takes note of a write.
    #[inline]
    fn push(&mut self, at: Instant, visible: Instant) {
        if at >= self.at {
            self.at = at;
            self.visible = self.visible.max(visible);
        }
    }
}

/// A PCIe link with a device at one end and a host at the other.
#[derive(Debug)]
pub struct Pcie {
    now: Instant,
    limits: Limits,
    latencies: Latencies,
    spread: Spread,
    relaxed_ordering: bool,
    outbound: Lane,
    inbound: Lane,
    reads: Pool,
    /// `None` if there are as many credits as tags.
    nonposted: Option<Pool>,
    posted: Pool,
    iommu: Option<Iommu>,
    memory: Memory,
    written: Posted,
    stored: Posted,
    counters: PcieCounters,
}

impl Pcie {
    /// An idle link. The same seed gives the same latencies.
    pub fn new(parameters: &Parameters, seed: u64) -> Self {
        let Parameters {
            pcie,
            memory,
            iommu,
        } = parameters;
        let rate = Rate::from_gbps(tlp_gbps(pcie.generation, pcie.lanes, pcie.mps_bytes));
        let read_wire = rate.span(tlp::REQUEST_HEADER_BYTES)
            + rate.span(tlp::COMPLETION_HEADER_BYTES + REFERENCE_BYTES);
        let spread = Spread::new(
            seed,
            ns(pcie.read_latency_ns) - read_wire,
            ns(pcie.read_jitter_ns),
            pcie.read_tail_probability,
            ns(pcie.read_tail_ns),
        );
        let nonposted = (pcie.nonposted_header_credits < pcie.read_tags).then(|| {
            Pool::new(Units {
                headers: pcie.nonposted_header_credits,
                data: u32::MAX,
            })
        });
        Self {
            now: Instant::ZERO,
            limits: Limits::new(pcie.mps_bytes, pcie.mrrs_bytes, pcie.rcb_bytes),
            latencies: latencies(parameters, rate),
            spread,
            relaxed_ordering: pcie.relaxed_ordering,
            outbound: Lane::new(rate),
            inbound: Lane::new(rate),
            reads: Pool::new(Units {
                headers: pcie.read_tags,
                data: pcie.read_buffer_bytes,
            }),
            nonposted,
            posted: Pool::new(Units {
                headers: pcie.posted_header_credits,
                data: pcie.posted_data_credits,
            }),
            iommu: Iommu::new(iommu),
            memory: Memory::new(memory),
            written: Posted::default(),
            stored: Posted::default(),
            counters: PcieCounters::default(),
        }
    }

    /// An event begins: what follows takes its share of the link from `now` on.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
    }

    /// The device reads host memory; returns when the last completion is there.
    #[inline]
    pub fn read(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let mut done = at;
        for (start, bytes) in tlp::pieces(iova, length) {
            let requests = self.limits.read_requests(bytes);
            let completions = self.limits.completions(start, bytes);
            done = done.max(self.nonposted_request(at, start, bytes, requests, completions));
        }
        self.counters.count_read(length, done - at);
        done
    }

    /// The device writes host memory; returns when the host sees all of it.
    ///
    /// With relaxed ordering that may be before older writes are seen.
    #[inline]
    pub fn write(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let visible = self.post(at, iova, length);
        if self.relaxed_ordering {
            self.written.push(at, visible);
            return visible;
        }
        self.order(at, visible)
    }

    /// As [`Pcie::write`], but never seen before what was written before: completions, events.
    #[inline]
    pub fn write_ordered(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let visible = self.post(at, iova, length);
        self.order(at, visible)
    }

    /// An AtomicOp on 8 bytes; returns when the device has the old value.
    pub fn atomic(&mut self, at: Instant, iova: u64) -> Instant {
        self.counters.atomics += 1;
        let request = Tlps {
            count: 1,
            wire_bytes: tlp::REQUEST_HEADER_BYTES + ATOMIC_OPERAND_BYTES,
        };
        let completion = Tlps {
            count: 1,
            wire_bytes: tlp::COMPLETION_HEADER_BYTES + ATOMIC_RESULT_BYTES,
        };
        self.nonposted_request(at, iova, ATOMIC_RESULT_BYTES, request, completion)
    }

    /// The device sends an MSI-X message; returns when the host's interrupt controller has it,
    /// which is after everything that was written before is visible.
    pub fn interrupt(&mut self, at: Instant) -> Instant {
        self.counters.interrupts += 1;
        let tlps = self.limits.writes(INTERRUPT_BYTES);
        let sent = self.send_posted(tlps, INTERRUPT_BYTES);
        let visible = at + (sent.at - self.now) + self.latencies.write;
        self.return_credits(&sent, visible - at);
        self.order(at, visible)
    }

    /// A processor stores `bytes` to the device, 64 at a time; returns when the last are there.
    pub fn mmio_write(&mut self, at: Instant, bytes: u64) -> Instant {
        self.counters.mmio_writes += 1;
        let count = bytes.div_ceil(WRITE_COMBINING_BYTES);
        let wire_bytes = count * tlp::REQUEST_HEADER_BYTES + bytes;
        let (begin, end) = self.inbound.reserve(self.now, Tlps { count, wire_bytes });
        self.counters.inbound_stalled = self.counters.inbound_stalled + (begin - self.now);
        let arrival = at + (end - self.now) + self.latencies.mmio_write;
        let arrival = arrival.max(self.stored.before(at));
        self.stored.push(at, arrival);
        arrival
    }

    /// A processor loads a register of the device; returns when it has the value. All that the
    /// device has written before is visible then.
    pub fn mmio_read(&mut self, at: Instant) -> Instant {
        self.counters.mmio_reads += 1;
        let request = Tlps {
            count: 1,
            wire_bytes: tlp::REQUEST_HEADER_BYTES,
        };
        let completion = Tlps {
            count: 1,
            wire_bytes: tlp::COMPLETION_HEADER_BYTES + MMIO_READ_BYTES,
        };
        let (_, down) = self.inbound.reserve(self.now, request);
        let (_, up) = self.outbound.reserve(self.now, completion);
        let sent = up.max(down + self.outbound.span(completion.wire_bytes));
        let done = at + (sent - self.now) + self.latencies.mmio_read;
        done.max(self.written.before(at))
    }

    /// The mappings have changed and the IOTLB was emptied.
    pub fn invalidate_translations(&mut self) {
        if let Some(iommu) = &mut self.iommu {
            iommu.invalidate();
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> PcieCounters {
        PcieCounters {
            outbound_tlps: self.outbound.tlps(),
            outbound_wire_bytes: self.outbound.wire_bytes(),
            outbound_busy: self.outbound.busy(),
            inbound_tlps: self.inbound.tlps(),
            inbound_wire_bytes: self.inbound.wire_bytes(),
            inbound_busy: self.inbound.busy(),
            iotlb_hits: self.iommu.as_ref().map_or(0, Iommu::hits),
            iotlb_misses: self.iommu.as_ref().map_or(0, Iommu::misses),
            iommu_stalled_no_walker: self.iommu.as_ref().map_or(Duration::ZERO, Iommu::waited),
            llc_hits: self.memory.hits(),
            llc_misses: self.memory.misses(),
            ..self.counters
        }
    }

    /// Tags and bytes of the completion buffer that are in use at `now`.
    pub fn reads_in_flight(&self, now: Instant) -> Units {
        self.reads.in_use(now)
    }

    /// Posted credits that are in use at `now`.
    pub fn posted_in_flight(&self, now: Instant) -> Units {
        self.posted.in_use(now)
    }

    /// When the wire to the host and the wire from the host are free.
    pub fn free_at(&self) -> (Instant, Instant) {
        (self.outbound.free_at(), self.inbound.free_at())
    }

    /// A request with completions, within one page; returns when they are all there.
    #[inline]
    fn nonposted_request(
        &mut self,
        at: Instant,
        iova: u64,
        length: u64,
        requests: Tlps,
        completions: Tlps,
    ) -> Instant {
        let now = self.now;
        let (start, units) = self.take_tags(requests.count, length);
        let start = self.take_nonposted(start, requests.count);
        let (begin, sent) = self.outbound.reserve(now, requests);
        self.counters.outbound_stalled = self.counters.outbound_stalled + (begin - now);
        let sent = sent.max(start + self.outbound.span(requests.wire_bytes));
        let translated = self.translate(sent, iova);
        let back = self.inbound.span(completions.wire_bytes);
        let (begin, received) = self.inbound.reserve(now, completions);
        let received = received.max(translated + back);
        if begin > translated {
            let stall = begin - translated;
            self.counters.inbound_stalled = self.counters.inbound_stalled + stall;
        }
        let memory = self.memory_latency(iova, true);
        let latency = self.spread.next() + memory + self.latencies.engine_read;
        let there = at + (received - now) + latency;
        // A read does not pass writes: it finds in memory what was written before.
        let ordered = self.written.before(at) + self.latencies.read_return + back;
        if ordered > there {
            let stall = ordered - there;
            self.counters.read_stalled_ordering = self.counters.read_stalled_ordering + stall;
        }
        let done = there.max(ordered) + self.latencies.engine_store.span(length);
        // Of several TLPs' tags some come back earlier: on average half of the time that the
        // completions take on the wire.
        let early = match requests.count {
            0 | 1 => Duration::ZERO,
            _ => Duration::from_ps(back.as_ps() / 2),
        };
        self.reads.give_back(now + ((done - at) - early), units);
        done
    }

    /// Takes tags and completion buffer; returns when they are had.
    #[inline]
    fn take_tags(&mut self, count: u64, length: u64) -> (Instant, Units) {
        let units = Units {
            headers: count as u32,
            data: length as u32,
        };
        let (start, units, shortage) = self.reads.take(self.now, units);
        let stall = start - self.now;
        let counters = &mut self.counters;
        match shortage {
            None if stall.is_zero() => {}
            None | Some(Shortage::Headers) => {
                counters.read_stalled_no_read_engines =
                    counters.read_stalled_no_read_engines + stall;
            }
            Some(Shortage::Data) => {
                counters.read_stalled_no_completion_buffer =
                    counters.read_stalled_no_completion_buffer + stall;
            }
        }
        (start, units)
    }

    /// Takes non-posted credits, where they can run out; they come back when the host has taken
    /// the request up.
    #[inline]
    fn take_nonposted(&mut self, start: Instant, count: u64) -> Instant {
        let Some(pool) = &mut self.nonposted else {
            return start;
        };
        let units = Units {
            headers: count as u32,
            data: 0,
        };
        let (had, units, _) = pool.take(self.now, units);
        pool.give_back(had.max(start) + self.latencies.read_return, units);
        let counters = &mut self.counters;
        counters.read_stalled_no_credits = counters.read_stalled_no_credits + (had - start);
        had.max(start)
    }

    /// A posted write in all its pieces; returns when they would be visible if nothing was older.
    #[inline]
    fn post(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        self.counters.writes += 1;
        self.counters.write_bytes += length;
        let mut visible = at;
        for (start, bytes) in tlp::pieces(iova, length) {
            let tlps = self.limits.writes(bytes);
            let sent = self.send_posted(tlps, bytes);
            let translated = self.translate(sent.at, start);
            let memory = self.memory_latency(start, false);
            let latency = self.latencies.write + self.latencies.engine_write + memory;
            let piece = at + (translated - self.now) + latency;
            visible = visible.max(piece);
            self.return_credits(&sent, piece - at);
        }
        visible
    }

    /// Puts posted TLPs on the wire.
    #[inline]
    fn send_posted(&mut self, tlps: Tlps, length: u64) -> SentPosted {
        let units = Units {
            headers: tlps.count as u32,
            data: self.limits.data_credits(length) as u32,
        };
        let (start, units, _) = self.posted.take(self.now, units);
        let counters = &mut self.counters;
        counters.write_stalled_no_credits = counters.write_stalled_no_credits + (start - self.now);
        let (begin, sent) = self.outbound.reserve(self.now, tlps);
        counters.outbound_stalled = counters.outbound_stalled + (begin - self.now);
        SentPosted {
            at: sent.max(start + self.outbound.span(tlps.wire_bytes)),
            units,
        }
    }

    /// The host has room again when the write has become visible.
    #[inline]
    fn return_credits(&mut self, sent: &SentPosted, hold: Duration) {
        self.posted.give_back(self.now + hold, sent.units);
    }

    /// A write becomes visible after all older ones.
    #[inline]
    fn order(&mut self, at: Instant, visible: Instant) -> Instant {
        let before = self.written.before(at);
        let counters = &mut self.counters;
        counters.write_stalled_ordering = counters.write_stalled_ordering + (before - visible);
        let visible = visible.max(before);
        self.written.push(at, visible);
        visible
    }

    #[inline]
    fn translate(&mut self, arrival: Instant, iova: u64) -> Instant {
        match &mut self.iommu {
            Some(iommu) => iommu.translate(self.now, arrival, iova),
            None => arrival,
        }
    }

    /// What host memory takes longer than LLC of the near socket.
    #[inline]
    fn memory_latency(&mut self, iova: u64, is_read: bool) -> Duration {
        let hit = match is_read {
            true => self.memory.read(iova),
            false => self.memory.write(iova),
        };
        match hit {
            true => self.latencies.numa,
            false => self.latencies.numa + self.latencies.dram,
        }
    }
}

/// Posted TLPs: when their last byte is on the wire, and their credits.
#[derive(Debug, Clone, Copy)]
struct SentPosted {
    at: Instant,
    units: Units,
}

fn latencies(parameters: &Parameters, rate: Rate) -> Latencies {
    let Parameters { pcie, memory, .. } = parameters;
    let request = |bytes| rate.span(tlp::REQUEST_HEADER_BYTES + bytes);
    let completion = |bytes| rate.span(tlp::COMPLETION_HEADER_BYTES + bytes);
    let read = ns(pcie.read_latency_ns) - request(0) - completion(REFERENCE_BYTES);
    Latencies {
        write: ns(pcie.write_latency_ns) - request(REFERENCE_BYTES),
        mmio_write: ns(pcie.mmio_write_ns) - request(MMIO_WRITE_BYTES),
        mmio_read: ns(pcie.mmio_read_ns) - request(0) - completion(MMIO_READ_BYTES),
        read_return: Duration::from_ps(read.as_ps() / 2),
        engine_read: ns(pcie.engine_read_ns),
        engine_write: ns(pcie.engine_write_ns),
        engine_store: Rate::from_gbps(pcie.engine_store_gbps),
        dram: ns(memory.dram_ns),
        numa: match memory.remote_socket {
            true => ns(memory.numa_ns),
            false => Duration::ZERO,
        },
    }
}
