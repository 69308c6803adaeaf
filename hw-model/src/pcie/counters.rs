//! Traffic on the link, and stalls.

use ferroce_units::{Duration, Instant};

/// Counters of a PCIe link and its host. A stall counter is the sum over single requests; if
/// several wait at once, each counts. Names follow the PCIe unit of NVIDIA NeoHost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PcieCounters {
    /// Reads requested by the blocks.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Writes requested by the blocks.
    pub writes: u64,
    /// Bytes that were written.
    pub write_bytes: u64,
    /// AtomicOps.
    pub atomics: u64,
    /// MSI-X messages.
    pub interrupts: u64,
    /// Stores of processors to the device.
    pub mmio_writes: u64,
    /// Loads of processors from the device.
    pub mmio_reads: u64,
    /// TLPs to the host.
    pub outbound_tlps: u64,
    /// Bytes on the wire to the host, with headers.
    pub outbound_wire_bytes: u64,
    /// Time for which the wire to the host has carried TLPs.
    pub outbound_busy: Duration,
    /// TLPs from the host.
    pub inbound_tlps: u64,
    /// Bytes on the wire from the host, with headers.
    pub inbound_wire_bytes: u64,
    /// Time for which the wire from the host has carried TLPs.
    pub inbound_busy: Duration,
    /// Reads waited for a tag.
    pub read_stalled_no_read_engines: Duration,
    /// Reads waited for room for their completions.
    pub read_stalled_no_completion_buffer: Duration,
    /// Reads waited for non-posted credits.
    pub read_stalled_no_credits: Duration,
    /// Reads waited at the host for writes that they must not overtake.
    pub read_stalled_ordering: Duration,
    /// Writes waited for posted credits.
    pub write_stalled_no_credits: Duration,
    /// Writes waited at the host for older writes.
    pub write_stalled_ordering: Duration,
    /// Requests waited for the wire to the host.
    pub outbound_stalled: Duration,
    /// Completions waited for the wire from the host.
    pub inbound_stalled: Duration,
    /// Translations that were in the IOTLB.
    pub iotlb_hits: u64,
    /// Translations that needed a page table walk.
    pub iotlb_misses: u64,
    /// Requests waited for a page table walker.
    pub iommu_stalled_no_walker: Duration,
    /// Accesses that the LLC served.
    pub llc_hits: u64,
    /// Accesses that went to DRAM.
    pub llc_misses: u64,
    /// Sum of the latencies of all reads.
    pub read_latency: Duration,
    /// Minimum read latency; zero before the first read.
    pub read_latency_min: Duration,
    /// Maximum read latency.
    pub read_latency_max: Duration,
}

impl PcieCounters {
    /// Returns the mean read latency.
    pub fn read_latency_avg(&self) -> Duration {
        Duration::from_ps(self.read_latency.as_ps() / self.reads.max(1))
    }

    /// Returns the share of the time up to `now` in which the upstream and the downstream wire
    /// carried TLPs.
    pub fn utilisation(&self, now: Instant) -> (f64, f64) {
        let share = |busy: Duration| busy.as_ps() as f64 / now.as_ps().max(1) as f64;
        (share(self.outbound_busy), share(self.inbound_busy))
    }

    pub(super) fn count_read(&mut self, length: u64, latency: Duration) {
        self.read_latency_min = match self.reads {
            0 => latency,
            _ => self.read_latency_min.min(latency),
        };
        self.read_latency_max = self.read_latency_max.max(latency);
        self.read_latency = self.read_latency + latency;
        self.reads += 1;
        self.read_bytes += length;
    }
}
