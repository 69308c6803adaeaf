//! Parameters of a PCIe slot, its host and the card's DMA engine.

use ferroce_units::Duration;

/// The link and the DMA engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieParameters {
    /// PCIe generation, 1 to 6.
    pub generation: u32,
    /// Lanes.
    pub lanes: u32,
    /// Largest payload of a TLP.
    pub mps_bytes: u32,
    /// Largest read request.
    pub mrrs_bytes: u32,
    /// Read completion boundary.
    pub rcb_bytes: u32,
    /// Maximum number of outstanding read TLPs. The DMA engine takes a tag when it begins a read,
    /// and returns it when the data has been stored.
    pub read_tags: u32,
    /// Maximum number of outstanding completion bytes.
    pub read_buffer_bytes: u32,
    /// Posted header credits of the host.
    pub posted_header_credits: u32,
    /// Posted data credits of the host, of 16 bytes each.
    pub posted_data_credits: u32,
    /// Non-posted header credits of the host.
    pub nonposted_header_credits: u32,
    /// Latency of a 64-byte read that hits the LLC on an idle link: mean of the body of the
    /// distribution.
    pub read_latency_ns: f64,
    /// Half width of that body.
    pub read_jitter_ns: f64,
    /// Probability of a long read.
    pub read_tail_probability: f64,
    /// Maximum additional latency of a long read; uniformly distributed.
    pub read_tail_ns: f64,
    /// Latency of a 64-byte write on an idle link, until a processor can see it.
    pub write_latency_ns: f64,
    /// Latency of an 8-byte store by a processor, until it arrives at the device.
    pub mmio_write_ns: f64,
    /// Latency of a 4-byte load by a processor from the device.
    pub mmio_read_ns: f64,
    /// DMA engine, per read.
    pub engine_read_ns: f64,
    /// DMA engine, per write.
    pub engine_write_ns: f64,
    /// Rate at which the DMA engine stores the data of a read after all of it has arrived (store
    /// and forward); 0 if it passes data on as it arrives.
    pub engine_store_gbps: f64,
    /// Data writes may become visible before older writes.
    pub relaxed_ordering: bool,
}

/// Host memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryParameters {
    /// Last-level cache.
    pub llc_bytes: u32,
    /// The device's writes go to the LLC.
    pub ddio: bool,
    /// Additional latency of an access that misses the LLC.
    pub dram_ns: f64,
    /// Additional latency of memory on the other socket.
    pub numa_ns: f64,
    /// The memory is on the other socket.
    pub remote_socket: bool,
}

/// The IOMMU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuParameters {
    /// The IOMMU translates the device's addresses.
    pub enabled: bool,
    /// Page size.
    pub page_bytes: u32,
    /// Entries of the IOTLB.
    pub iotlb_entries: u32,
    /// Ways of the IOTLB.
    pub iotlb_ways: u32,
    /// Latency of the page table walk after a miss.
    pub walk_ns: f64,
    /// Number of concurrent walks.
    pub walkers: u32,
}

/// All parameters of [`super::Pcie`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// The link and the DMA engine.
    pub pcie: PcieParameters,
    /// Host memory.
    pub memory: MemoryParameters,
    /// The IOMMU.
    pub iommu: IommuParameters,
}

/// Converts nanoseconds to a span; zero if negative or not a number.
pub(super) fn ns(ns: f64) -> Duration {
    Duration::from_ps((ns * 1000.0).round().max(0.0) as u64)
}
