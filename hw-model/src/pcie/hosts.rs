//! The hosts on which pcie-bench was measured, and an NVIDIA card in its own slot.
//!
//! Figures are from the published data of pcie-bench (Neugebauer et al., "Understanding PCIe
//! performance for end host networking", SIGCOMM 2018; github pcie-bench/data, commit b2abf2f)
//! unless said otherwise. The device is a Netronome NFP-6000 in a generation 3 x8 slot.

use super::parameters::{IommuParameters, MemoryParameters, Parameters, PcieParameters};

/// Page size of the IOMMU when the host uses superpages.
pub const SUPERPAGE_BYTES: u32 = 2 << 20;

/// NFP-6000 through its DMA engine.
///
/// - Latency: LAT_DMA_RD of 64 B is 547 ns and LAT_CMD_RD is 427: 120 ns for the engine, of which 9
///   are the store of 64 bytes.
/// - Store: from 64 to 2048 B the latency grows by 586 ns. The link explains 296 of these; the rest
///   is a second pass over the data at 54.7 Gb/s.
/// - Reads in flight, by Little's law from rate times latency of 64 B reads: 63.6 M/s * 552 ns =
///   35.1 (local), 52.2 M/s * 676 ns = 35.3 (remote socket).
/// - Credits of the host are not known; these do not limit 16 KiB in flight.
const NFP: PcieParameters = PcieParameters {
    generation: 3,
    lanes: 8,
    mps_bytes: 256,
    mrrs_bytes: 512,
    rcb_bytes: 64,
    read_tags: 35,
    read_buffer_bytes: 32 << 10,
    posted_header_credits: 128,
    posted_data_credits: 1024,
    nonposted_header_credits: 128,
    read_latency_ns: 427.0,
    read_jitter_ns: 27.0,
    read_tail_probability: 0.0,
    read_tail_ns: 0.0,
    // By command, WRRD of 64 B is 560 ns and RD is 427; its write is posted.
    write_latency_ns: 220.0,
    mmio_write_ns: 220.0,
    mmio_read_ns: 600.0,
    engine_read_ns: 110.0,
    engine_write_ns: 110.0,
    engine_store_gbps: 54.7,
    relaxed_ordering: false,
};

/// Xeon E5-2620v3 (Haswell, 15 MiB of LLC), IOMMU on with superpages.
///
/// - 64 B by command: minimum 400, median 427, 99.9th percentile 453 ns.
/// - LLC miss: median 480 ns in windows of 64 MiB, and 427 in small ones.
/// - Walk: median 693 ns with 4 KiB pages in a window of 64 MiB, and 480 with superpages.
/// - Walkers: 19.6 M/s misses * 213 ns = 4.2.
/// - IOTLB: mean latencies in windows of 1, 1.5, 2, 3, 4 and 8 MiB give hit ratios which,
///   multiplied by the window's pages, are 117, 115, 114, 108, 102 and 90 entries; 7 ways of 16
///   sets are 112.
pub const HASWELL: Parameters = Parameters {
    pcie: NFP,
    memory: MemoryParameters {
        llc_bytes: 15 << 20,
        ddio: true,
        dram_ns: 53.0,
        numa_ns: 106.0,
        remote_socket: false,
    },
    iommu: IommuParameters {
        enabled: true,
        page_bytes: SUPERPAGE_BYTES,
        iotlb_entries: 112,
        iotlb_ways: 7,
        walk_ns: 213.0,
        walkers: 4,
    },
};

/// Xeon E5-2630v4 (Broadwell, 25 MiB of LLC), IOMMU on.
///
/// - 64 B by command: minimum 400, median 427, 95th percentile 440 ns.
/// - Walk: median 707 ns with 4 KiB pages in windows of 1 to 16 MiB, less 427.
/// - Walkers: 19.2 M/s misses * 280 ns = 5.4.
/// - Other socket: 64 B by DMA 653 ns, and 547 on the near one.
pub const BROADWELL: Parameters = Parameters {
    pcie: NFP,
    memory: MemoryParameters {
        llc_bytes: 25 << 20,
        ddio: true,
        dram_ns: 53.0,
        numa_ns: 106.0,
        remote_socket: false,
    },
    iommu: IommuParameters {
        enabled: true,
        page_bytes: SUPERPAGE_BYTES,
        iotlb_entries: 112,
        iotlb_ways: 7,
        walk_ns: 280.0,
        walkers: 5,
    },
};

/// Xeon E5-2620v2 (Ivy Bridge, 15 MiB of LLC), IOMMU off: 64 B by command 440 ns on the near
/// socket and 507 ns on the other.
pub const IVY_BRIDGE: Parameters = Parameters {
    pcie: PcieParameters {
        read_latency_ns: 440.0,
        read_tail_probability: 0.0015,
        read_tail_ns: 300.0,
        ..NFP
    },
    memory: MemoryParameters {
        llc_bytes: 15 << 20,
        ddio: true,
        dram_ns: 53.0,
        numa_ns: 67.0,
        remote_socket: false,
    },
    iommu: NO_IOMMU,
};

/// Xeon E5-2620v3 with its IOMMU off. Its reads are slower: minimum 467, median 480, 95th
/// percentile 480, 99.9th 747 ns.
pub const HASWELL_WITHOUT_IOMMU: Parameters = Parameters {
    pcie: PcieParameters {
        read_latency_ns: 480.0,
        read_jitter_ns: 13.0,
        read_tail_probability: 0.006,
        read_tail_ns: 320.0,
        ..NFP
    },
    memory: HASWELL.memory,
    iommu: NO_IOMMU,
};

/// A 100 Gb/s mlx5 card, idle, as NVIDIA NeoHost reports it: 403 ns on average, minimum 372,
/// maximum 488.
pub const MLX5_100G: Parameters = Parameters {
    pcie: PcieParameters {
        lanes: 16,
        read_tags: 256,
        read_buffer_bytes: 128 << 10,
        read_latency_ns: 402.6,
        read_jitter_ns: 31.0,
        read_tail_probability: 0.02,
        read_tail_ns: 60.0,
        engine_read_ns: 0.0,
        engine_write_ns: 0.0,
        engine_store_gbps: 0.0,
        ..NFP
    },
    memory: HASWELL.memory,
    iommu: NO_IOMMU,
};

const NO_IOMMU: IommuParameters = IommuParameters {
    enabled: false,
    ..HASWELL.iommu
};

impl Parameters {
    /// Returns the same host with a device that reads by PCIe command rather than its DMA engine:
    /// the measurements named LAT_CMD_RD.
    #[must_use]
    pub fn by_command(mut self) -> Self {
        self.pcie.engine_read_ns = 0.0;
        self.pcie.engine_store_gbps = 0.0;
        self
    }

    /// Returns the same host with 4 KiB pages in its IOMMU.
    #[must_use]
    pub fn with_small_pages(mut self) -> Self {
        self.iommu.page_bytes = 4096;
        self
    }

    /// Returns the same host with the memory on the other socket.
    #[must_use]
    pub fn on_remote_socket(mut self) -> Self {
        self.memory.remote_socket = true;
        self
    }

    /// Returns only a link: latencies are negligible, and no resource ever runs out.
    #[must_use]
    pub fn link_alone(generation: u32, lanes: u32, mps_bytes: u32, mrrs_bytes: u32) -> Self {
        Self {
            pcie: PcieParameters {
                generation,
                lanes,
                mps_bytes,
                mrrs_bytes,
                read_tags: 1 << 20,
                read_buffer_bytes: 1 << 30,
                posted_header_credits: 1 << 20,
                posted_data_credits: 1 << 26,
                nonposted_header_credits: 1 << 20,
                read_latency_ns: 50.0,
                read_jitter_ns: 0.0,
                write_latency_ns: 50.0,
                engine_read_ns: 0.0,
                engine_write_ns: 0.0,
                engine_store_gbps: 0.0,
                ..NFP
            },
            memory: HASWELL.memory,
            iommu: NO_IOMMU,
        }
    }
}
