//! The PCIe slot, host memory and IOMMU that a preset describes.

use super::Preset;
use crate::pcie::{IommuParameters, MemoryParameters, Parameters, PcieParameters};

impl From<&Preset> for Parameters {
    fn from(preset: &Preset) -> Self {
        let Preset {
            pcie,
            memory,
            iommu,
            ..
        } = preset;
        Parameters {
            pcie: PcieParameters {
                generation: pcie.generation,
                lanes: pcie.lanes,
                mps_bytes: pcie.mps_bytes,
                mrrs_bytes: pcie.mrrs_bytes,
                rcb_bytes: pcie.rcb_bytes,
                read_tags: pcie.read_tags,
                read_buffer_bytes: pcie.read_buffer_bytes,
                posted_header_credits: pcie.posted_header_credits,
                posted_data_credits: pcie.posted_data_credits,
                nonposted_header_credits: pcie.nonposted_header_credits,
                read_latency_ns: pcie.read_latency_ns,
                read_jitter_ns: pcie.read_jitter_ns,
                read_tail_probability: pcie.read_tail_probability,
                read_tail_ns: pcie.read_tail_ns,
                write_latency_ns: pcie.write_latency_ns,
                mmio_write_ns: pcie.mmio_write_ns,
                mmio_read_ns: pcie.mmio_read_ns,
                engine_read_ns: pcie.engine_read_ns,
                engine_write_ns: pcie.engine_write_ns,
                engine_store_gbps: pcie.engine_store_gbps,
                relaxed_ordering: pcie.relaxed_ordering,
            },
            memory: MemoryParameters {
                llc_bytes: memory.llc_bytes,
                ddio: memory.ddio,
                dram_ns: memory.dram_ns,
                numa_ns: memory.numa_ns,
                remote_socket: memory.remote_socket,
            },
            iommu: IommuParameters {
                enabled: iommu.enabled,
                page_bytes: iommu.page_bytes,
                iotlb_entries: iommu.iotlb_entries,
                iotlb_ways: iommu.iotlb_ways,
                walk_ns: iommu.walk_ns,
                walkers: iommu.walkers,
            },
        }
    }
}
