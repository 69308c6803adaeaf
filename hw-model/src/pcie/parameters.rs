//! What a PCIe slot, the host behind it and the card's DMA engine are like.

use ferroce_units::Duration;

/// The link and the DMA engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieParameters {
    /// PCIe generation, 1 to 5.
    pub generation: u32,
    /// Lanes.
    pub lanes: u32,
    /// Largest payload of a TLP.
    pub mps_bytes: u32,
    /// Largest read request.
    pub mrrs_bytes: u32,
    /// Read completion boundary.
    pub rcb_bytes: u32,
    /// Read TLPs that the device may have outstanding. A tag is taken when the DMA engine begins
    /// with a read, and comes back when the data has been put away.
    pub read_tags: u32,
    /// Completion bytes that the device may have outstanding.
    pub read_buffer_bytes: u32,
    /// Posted header credits of the host.
    pub posted_header_credits: u32,
    /// Posted data credits of the host, of 16 bytes each.
    pub posted_data_credits: u32,
    /// Non-posted header credits of the host.
    pub nonposted_header_credits: u32,
    /// Read of 64 bytes that hits the LLC, on an idle link: mean of the body of the distribution.
    pub read_latency_ns: f64,
    /// Half of the width of that body.
    pub read_jitter_ns: f64,
    /// Probability of a long read.
    pub read_tail_probability: f64,
    /// What the longest of them takes longer; all up to it are equally likely.
    pub read_tail_ns: f64,
    /// Write of 64 bytes on an idle link, until a processor can see it.
    pub write_latency_ns: f64,
    /// Store of 8 bytes by a processor, until it is at the device.
    pub mmio_write_ns: f64,
    /// Load of 4 bytes by a processor from the device.
    pub mmio_read_ns: f64,
    /// DMA engine, per read.
    pub engine_read_ns: f64,
    /// DMA engine, per write.
    pub engine_write_ns: f64,
    /// Rate at which the DMA engine puts away the data of a read after all of it has come
    /// (store and forward); 0 if it passes data on as it comes.
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
    /// What an access takes longer that the LLC cannot serve.
    pub dram_ns: f64,
    /// What an access takes longer to memory of the other socket.
    pub numa_ns: f64,
    /// The memory is on the other socket.
    pub remote_socket: bool,
}

/// The IOMMU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuParameters {
    /// It translates the device's addresses.
    pub enabled: bool,
    /// Its pages.
    pub page_bytes: u32,
    /// Entries of the IOTLB.
    pub iotlb_entries: u32,
    /// Ways of the IOTLB.
    pub iotlb_ways: u32,
    /// Walk of the page table after a miss.
    pub walk_ns: f64,
    /// Walks at once.
    pub walkers: u32,
}

/// Everything that [`super::Pcie`] has to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// The link and the DMA engine.
    pub pcie: PcieParameters,
    /// Host memory.
    pub memory: MemoryParameters,
    /// The IOMMU.
    pub iommu: IommuParameters,
}

/// A time in nanoseconds as a span; none if it is negative or no number.
pub(super) fn ns(ns: f64) -> Duration {
    Duration::from_ps((ns * 1000.0).round().max(0.0) as u64)
}
