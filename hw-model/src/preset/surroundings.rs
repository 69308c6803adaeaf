//! The parameters of what is around the card: slot, memory, IOMMU, cable, processors.

use super::section::{range, section};
use super::value::{Range, RegionTranslation};

section! {
    /// The slot, the way to host memory, and the card's DMA engine.
    Pcie {
        /// PCIe generation.
        generation: u32, "", Range::OneOf(&[1, 2, 3, 4, 5, 6]);
        /// Lanes.
        lanes: u32, "lanes", Range::OneOf(&[1, 2, 4, 8, 16]);
        /// Largest payload of a TLP.
        mps_bytes: u32, "bytes", range::TLP_BYTES;
        /// Largest read request.
        mrrs_bytes: u32, "bytes", range::TLP_BYTES;
        /// Read completion boundary.
        rcb_bytes: u32, "bytes", Range::OneOf(&[64, 128]);
        /// Read requests that the device may have outstanding.
        read_tags: u32, "TLPs", range::SOME;
        /// Completion bytes that the device may have outstanding.
        read_buffer_bytes: u32, "bytes", range::BYTES;
        /// Posted header credits of the host.
        posted_header_credits: u32, "TLPs", range::SOME;
        /// Posted data credits of the host.
        posted_data_credits: u32, "16 B units", range::SOME;
        /// Non-posted header credits of the host.
        nonposted_header_credits: u32, "TLPs", range::SOME;
        /// Read of 64 B that hits the LLC, on an idle link: mean of the usual ones.
        read_latency_ns: f64, "ns", range::NS;
        /// Half of the width of the spread of the usual ones.
        read_jitter_ns: f64, "ns", range::NS;
        /// Probability of a long read.
        read_tail_probability: f64, "", Range::Between(0.0, 1.0);
        /// What the longest read takes longer; all up to it are equally likely.
        read_tail_ns: f64, "ns", range::NS;
        /// Posted write: from the card's DMA engine until a processor can see it.
        write_latency_ns: f64, "ns", range::NS;
        /// Store of a processor: until it is at the card's BAR decode.
        mmio_write_ns: f64, "ns", range::NS;
        /// Load of a processor from a register: there and back.
        mmio_read_ns: f64, "ns", range::NS;
        /// DMA engine, per read, on top of the latency of the read.
        engine_read_ns: f64, "ns", range::NS;
        /// DMA engine, per write, on top of the latency of the write.
        engine_write_ns: f64, "ns", range::NS;
        /// Rate at which the engine puts away what a read has brought; 0: passes it on at once.
        engine_store_gbps: f64, "Gb/s", Range::Between(0.0, 100_000.0);
        /// The card allows writes to overtake writes.
        relaxed_ordering: bool, "", range::FLAG;
        /// Atomics are PCIe AtomicOps; else a read and a write, atomic among this card's only.
        atomic_ops: bool, "", range::FLAG;
    }
}

section! {
    /// Host memory.
    Memory {
        /// Last-level cache.
        llc_bytes: u32, "bytes", range::BYTES;
        /// The card's writes go to the LLC (DDIO): without a FLUSH, persistent memory loses them.
        ddio: bool, "", range::FLAG;
        /// What a read takes longer that misses the LLC.
        dram_ns: f64, "ns", range::NS;
        /// What an access takes longer to memory of the other socket.
        numa_ns: f64, "ns", range::NS;
        /// Buffers and processor are on the other socket.
        remote_socket: bool, "", range::FLAG;
    }
}

section! {
    /// The IOMMU between card and host memory.
    Iommu {
        /// It translates the card's addresses.
        enabled: bool, "", range::FLAG;
        /// Its pages.
        page_bytes: u32, "bytes", Range::PowerOfTwo(4096, 1 << 30);
        /// Entries of the IOTLB.
        iotlb_entries: u32, "entries", range::SOME;
        /// Ways of the IOTLB; as many as entries is fully associative.
        iotlb_ways: u32, "entries", range::SOME;
        /// Walk of the page table after a miss.
        walk_ns: f64, "ns", range::NS;
        /// Walks at once.
        walkers: u32, "walks", range::SOME;
    }
}

section! {
    /// Cable and switch.
    Link {
        /// Cable.
        cable_ns: f64, "ns", range::NS;
        /// Switch, first bit in to first bit out, with its two PHYs.
        switch_ns: f64, "ns", range::NS;
        /// A switch is between the two cards.
        switched: bool, "", range::FLAG;
    }
}

section! {
    /// What the application's thread takes for its part.
    Host {
        /// Processors, and so threads that run at once.
        cpus: u32, "threads", Range::Between(1.0, 4096.0);
        /// Factor of a processor's times while the other thread of its core runs, too.
        shared_core_factor: f64, "", Range::Between(1.0, 10.0);
        /// Post of one work request, without its doorbell.
        post_ns: f64, "ns", range::NS;
        /// Doorbell: record, barrier, store to the card.
        doorbell_ns: f64, "ns", range::NS;
        /// Copy of 64 B to the push window, instead of the doorbell.
        push_ns: f64, "ns", range::NS;
        /// Copy of 64 B of inline payload to the WQE.
        inline_ns: f64, "ns", range::NS;
        /// Post of one receive work request.
        post_receive_ns: f64, "ns", range::NS;
        /// Poll of a CQ, per completion that it finds.
        poll_hit_ns: f64, "ns", range::NS;
        /// Poll of a CQ that finds none.
        poll_miss_ns: f64, "ns", range::NS;
        /// One turn of a loop that waits for a byte in memory.
        memory_poll_ns: f64, "ns", range::NS;
        /// From the MSI-X message to a thread that runs and knows of its event.
        interrupt_ns: f64, "ns", range::NS;
        /// System call that does not wait; `sched_yield` and a failed try of a lock take as long.
        syscall_ns: f64, "ns", range::NS;
        /// Command of RDMA CM, in the kernel: each `write` to `/dev/infiniband/rdma_cm`.
        cm_command_ns: f64, "ns", range::NS;
        /// Datagram of RDMA CM, from its arrival at the card to what the kernel does with it.
        cm_mad_ns: f64, "ns", range::NS;
        /// Uncontended lock and unlock.
        lock_ns: f64, "ns", range::NS;
        /// Hand-over of a lock, times log2 of the threads that want it.
        lock_handoff_ns: f64, "ns", range::NS;
        /// Largest inline payload that the provider offers; 0 if none.
        max_inline_bytes: u32, "bytes", Range::Between(0.0, 4096.0);
        /// The push window is mapped write-combining; else every post takes a doorbell.
        write_combining: bool, "", range::FLAG;
        /// The provider pushes WQEs with inline payload only; else every WQE that is posted alone.
        push_inline_only: bool, "", range::FLAG;
        /// Pages by which the card translates a program's memory regions; `physical`: none.
        translation: RegionTranslation, "", Range::Names(RegionTranslation::NAMES);
        /// Page fault of an on-demand region: from its event to the effect of the kernel's answer.
        page_fault_ns: f64, "ns", range::NS;
        /// Memory that the kernel brings in with the page of a fault, after it.
        page_fault_prefetch_bytes: u32, "bytes", Range::Between(0.0, 1_073_741_824.0);
        /// Doorbell registers that a program's threads share.
        doorbells: u32, "registers", range::SOME;
        /// Spread of the processor's times.
        jitter_ns: f64, "ns", range::NS;
    }
}
