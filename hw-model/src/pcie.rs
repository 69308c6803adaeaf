//! PCIe as time: the link, the root complex, the IOMMU and the way to host memory.
//!
//! ```text
//!  device                          link                     host
//!  DMA engine ── tags, buffer ──► TLPs up ──► IOMMU ──► LLC or DRAM
//!      ▲                                                    │
//!      └──────────── completions ◄── TLPs down ◄────────────┘
//! ```
//!
//! This is arithmetic only: no memory, no events. [`Pcie`] gets the actions of the device and
//! returns when they are done. A request has two times. At `now`, the time of the event that makes
//! it, it reserves its share of the limited resources: wires, tags, credits, walkers. At `at`,
//! which is not earlier, it is issued; latency is added there. So a request whose `at` lies in the
//! future never delays requests that are issued before it, and no bandwidth is lost; the amount of
//! data per time stays exact.
//!
//! | file | is |
//! |---|---|
//! | `tlp` | how accesses become TLPs: MPS, MRRS, RCB, page boundaries, headers |
//! | `link` | rates, DLLP overhead, the two directions |
//! | `inbound` | the direction from the host: completions, and stores between them |
//! | `requests` | the way of one request |
//! | `pool` | tags, completion buffer, credits |
//! | `order` | the order of posted writes |
//! | `latencies`, `spread` | fixed latencies, and the distribution of host read latency |
//! | `iommu` | IOTLB and page table walkers |
//! | `memory` | LLC, DDIO |
//! | `machine` | what several cards share: switches, sockets, memory of peers |
//! | `usage` | how long each part was in use |
//! | `bench` | pcie-bench: random accesses, their bandwidth and latency |
//! | `hosts` | the hosts on which pcie-bench was measured |

pub mod bench;
mod counters;
pub mod hosts;
mod inbound;
mod iommu;
mod latencies;
mod link;
pub mod machine;
mod memory;
mod order;
mod parameters;
mod pool;
mod requests;
mod spread;
mod tlp;
mod usage;

pub use counters::PcieCounters;
use ferroce_units::{Duration, Instant};
use inbound::Inbound;
use iommu::Iommu;
use latencies::Latencies;
use link::{Lane, Rate};
pub use link::{raw_gbps, tlp_gbps};
use machine::{Attachment, Direction};
use memory::Memory;
use order::Posted;
pub use parameters::{IommuParameters, MemoryParameters, Parameters, PcieParameters};
use pool::Pool;
pub use pool::Units;
use spread::Spread;
use tlp::{Headers, Limits, Tlps};

use crate::ports::host::PostedOrder;

/// Bytes of an MSI-X message.
const INTERRUPT_BYTES: u64 = 4;
/// Operands of the largest 8-byte AtomicOp, a compare and swap.
const ATOMIC_OPERAND_BYTES: u64 = 16;
/// Bytes that an 8-byte AtomicOp returns.
const ATOMIC_RESULT_BYTES: u64 = 8;
/// Bytes of a register load.
const MMIO_READ_BYTES: u64 = 4;
/// A processor's write-combining buffer, which is flushed as one TLP.
const WRITE_COMBINING_BYTES: u64 = 64;

/// A processor's store to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// When the device has it.
    pub arrival: Instant,
    /// When the root port has taken it: the processor waits for that if a fence follows.
    pub taken: Instant,
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
    inbound: Inbound,
    /// Where the DMA engine stores the data of reads.
    storage: Lane,
    reads: Pool,
    /// `None` if there are at least as many credits as tags.
    nonposted: Option<Pool>,
    posted: Pool,
    iommu: Option<Iommu>,
    memory: Memory,
    /// The way beyond the slot; `None`: nothing limits it.
    attachment: Option<Box<Attachment>>,
    written: Posted,
    stored: Posted,
    counters: PcieCounters,
}

impl Pcie {
    /// Returns an idle link. The same seed gives the same latencies.
    pub fn new(parameters: &Parameters, seed: u64) -> Self {
        let pcie = &parameters.pcie;
        let rate = Rate::from_gbps(tlp_gbps(pcie.generation, pcie.lanes, pcie.mps_bytes));
        let nonposted = (pcie.nonposted_header_credits < pcie.read_tags).then(|| {
            Pool::new(Units {
                headers: pcie.nonposted_header_credits,
                data: u32::MAX,
            })
        });
        let headers = Headers::of(pcie.generation);
        let limits = Limits::new(headers, pcie.mps_bytes, pcie.mrrs_bytes, pcie.rcb_bytes);
        Self {
            now: Instant::ZERO,
            limits,
            latencies: Latencies::new(parameters, rate),
            spread: latencies::spread(parameters, rate, seed),
            relaxed_ordering: pcie.relaxed_ordering,
            outbound: Lane::new(rate),
            inbound: Inbound::new(rate, limits, seed),
            storage: Lane::new(Rate::from_gbps(pcie.engine_store_gbps)),
            reads: Pool::new(Units {
                headers: pcie.read_tags,
                data: pcie.read_buffer_bytes,
            }),
            nonposted,
            posted: Pool::new(Units {
                headers: pcie.posted_header_credits,
                data: pcie.posted_data_credits,
            }),
            iommu: Iommu::new(&parameters.iommu),
            memory: Memory::new(&parameters.memory),
            attachment: None,
            written: Posted::default(),
            stored: Posted::default(),
            counters: PcieCounters::default(),
        }
    }

    /// Connects the slot to a machine, which other cards may share.
    pub fn attach(&mut self, attachment: Attachment) {
        self.attachment = Some(Box::new(attachment));
    }

    /// Returns true if the machine lets this access pass to the target of a physical address.
    #[inline]
    pub fn allows(&self, physical: u64, access: Direction) -> bool {
        let attachment = self.attachment.as_ref();
        attachment.is_none_or(|attachment| attachment.allows(physical, access))
    }

    /// Begins an event: its requests reserve resources from `now` on.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
    }

    /// Reads host memory; returns when the last completion has arrived.
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

    /// Writes host memory; returns when the host sees all of it.
    ///
    /// With relaxed ordering that may be before older writes are visible.
    #[inline]
    pub fn write(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        self.write_as(at, iova, length, PostedOrder::Strict)
    }

    /// As [`Pcie::write`], with the order to which the memory region has a right. Without a
    /// topology, only `pcie.relaxed_ordering` counts.
    #[inline]
    pub fn write_as(&mut self, at: Instant, iova: u64, length: u64, order: PostedOrder) -> Instant {
        let is_heard = self.attachment.is_some();
        let is_relaxed = order == PostedOrder::Relaxed && is_heard || self.relaxed_ordering;
        if is_relaxed {
            let visible = self.post(at, iova, length, PostedOrder::Relaxed);
            self.written.push(at, visible);
            return visible;
        }
        self.write_ordered(at, iova, length)
    }

    /// As [`Pcie::write`], but visible only after all earlier writes: completions, events.
    #[inline]
    pub fn write_ordered(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let visible = self.post(at, iova, length, PostedOrder::Strict);
        self.order(at, visible)
    }

    /// Performs an AtomicOp on 8 bytes; returns when the device has the old value.
    pub fn atomic(&mut self, at: Instant, iova: u64) -> Instant {
        self.counters.atomics += 1;
        let request = Tlps {
            count: 1,
            wire_bytes: self.limits.headers.request + ATOMIC_OPERAND_BYTES,
        };
        let completion = Tlps {
            count: 1,
            wire_bytes: self.limits.headers.completion + ATOMIC_RESULT_BYTES,
        };
        self.nonposted_request(at, iova, ATOMIC_RESULT_BYTES, request, completion)
    }

    /// Sends an MSI-X message; returns when the host's interrupt controller has it. All earlier
    /// writes are visible by then.
    pub fn interrupt(&mut self, at: Instant) -> Instant {
        self.counters.interrupts += 1;
        let tlps = self.limits.writes(INTERRUPT_BYTES);
        let sent = self.send_posted(tlps, INTERRUPT_BYTES);
        let visible = at + (sent.at - self.now) + self.latencies.write;
        self.return_credits(&sent, visible - at);
        self.order(at, visible)
    }

    /// Stores `bytes` from a processor to the device, 64 at a time.
    pub fn mmio_write(&mut self, at: Instant, bytes: u64) -> Store {
        self.counters.mmio_writes += 1;
        let count = bytes.div_ceil(WRITE_COMBINING_BYTES);
        let wire_bytes = count * self.limits.headers.request + bytes;
        let taken = at + self.inbound.time_until_taken(self.now);
        let (begin, end) = self.inbound.reserve(self.now, Tlps { count, wire_bytes });
        self.counters.inbound_stalled = self.counters.inbound_stalled + (begin - self.now);
        let arrival = at + (end - self.now) + self.latencies.mmio_write;
        let arrival = arrival.max(self.stored.before(at));
        self.stored.push(at, arrival);
        Store { arrival, taken }
    }

    /// Loads a register of the device to a processor; returns when the processor has the value. All
    /// earlier writes of the device are visible by then.
    pub fn mmio_read(&mut self, at: Instant) -> Instant {
        self.counters.mmio_reads += 1;
        let request = Tlps {
            count: 1,
            wire_bytes: self.limits.headers.request,
        };
        let completion = Tlps {
            count: 1,
            wire_bytes: self.limits.headers.completion + MMIO_READ_BYTES,
        };
        let (_, down) = self.inbound.reserve(self.now, request);
        let (_, up) = self.outbound.reserve(self.now, completion);
        let sent = up.max(down + self.outbound.span(completion.wire_bytes));
        let done = at + (sent - self.now) + self.latencies.mmio_read;
        done.max(self.written.before(at))
    }

    /// Returns lower bounds of the latency: from a processor's store to the device, and from the
    /// event in which the device writes until the host sees the data.
    #[inline]
    pub fn least(&self) -> (Duration, Duration) {
        let Latencies {
            write,
            mmio_write,
            engine_write,
            ..
        } = self.latencies;
        (mmio_write, write + engine_write)
    }

    /// Returns true if there was an AtomicOp.
    #[inline]
    pub fn has_atomics(&self) -> bool {
        self.counters.atomics > 0
    }

    /// Empties the IOTLB because the mappings have changed.
    pub fn invalidate_translations(&mut self) {
        if let Some(iommu) = &mut self.iommu {
            iommu.invalidate();
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> PcieCounters {
        PcieCounters {
            outbound_tlps: self.outbound.tlps(),
            outbound_wire_bytes: self.outbound.wire_bytes(),
            outbound_busy: self.outbound.busy(),
            inbound_tlps: self.inbound.lane().tlps(),
            inbound_wire_bytes: self.inbound.lane().wire_bytes(),
            inbound_busy: self.inbound.lane().busy(),
            iotlb_hits: self.iommu.as_ref().map_or(0, Iommu::hits),
            iotlb_misses: self.iommu.as_ref().map_or(0, Iommu::misses),
            iommu_stalled_no_walker: self.iommu.as_ref().map_or(Duration::ZERO, Iommu::waited),
            llc_hits: self.memory.hits(),
            llc_misses: self.memory.misses(),
            ..self.counters
        }
    }

    /// Returns the tags and bytes of the completion buffer in use at `now`.
    pub fn reads_in_flight(&self, now: Instant) -> Units {
        self.reads.in_use(now)
    }

    /// Returns the posted credits in use at `now`.
    pub fn posted_in_flight(&self, now: Instant) -> Units {
        self.posted.in_use(now)
    }

    /// Returns when the upstream and the downstream wire are free.
    pub fn free_at(&self) -> (Instant, Instant) {
        (self.outbound.free_at(), self.inbound.lane().free_at())
    }

    /// Returns when all writes and all reads so far have passed what limits them: the wires, and in
    /// a machine the credits and the parts beyond the slot.
    #[inline]
    pub fn passed_at(&self) -> (Instant, Instant) {
        let (outbound, inbound) = self.free_at();
        let Some(attachment) = &self.attachment else {
            return (outbound, inbound);
        };
        let [written, read] = attachment.until();
        let granted = self.posted.granted();
        (outbound.max(written).max(granted), inbound.max(read))
    }
}
