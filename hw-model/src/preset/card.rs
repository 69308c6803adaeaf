//! The parameters of the card: clocks, caches, units, datapath, transport, port.

use super::section::{range, section};
use super::value::Range;

section! {
    /// What software takes the card for.
    Identity {
        /// `vendor_part_id` of verbs. perftest and others choose by it how they post.
        part_id: u32, "", Range::Between(0.0, 65535.0);
        /// Fails as a ConnectX with mlx5: its time-outs, `vendor_err` and counters of errors.
        mlx5: bool, "", range::FLAG;
    }
}

section! {
    /// Clock domains; times in cycles are rounded up to whole ones.
    Clock {
        /// Clock of all blocks between the PCIe core and the MAC.
        core_mhz: f64, "MHz", range::MHZ;
        /// Clock of the MAC's user side.
        mac_mhz: f64, "MHz", range::MHZ;
    }
}

section! {
    /// Shape of a cache of context entries.
    ContextCache {
        /// Base-2 logarithm of the number of sets.
        log_sets: u32, "", Range::Between(0.0, 20.0);
        /// Entries in a set.
        ways: u32, "entries", Range::Between(1.0, 64.0);
        /// Misses that may wait for host memory at once (miss status holding registers).
        mshrs: u32, "misses", range::SOME;
    }
}

section! {
    /// Send WQEs of READs and atomics, kept until their response has come.
    WqeCache {
        /// READs and atomics whose WQE stays on the card; one beyond it fetches its WQE again.
        entries: u32, "WQEs", range::SOME;
        /// WQEs that may be fetched again at once.
        mshrs: u32, "misses", range::SOME;
    }
}

section! {
    /// Receive WQEs that are fetched ahead.
    ReceiveCache {
        /// Receive WQEs that one DMA read fetches at most.
        wqes: u32, "WQEs", Range::Between(1.0, 4096.0);
        /// More are fetched when fewer than this are left; 0: when one is needed.
        ahead: u32, "WQEs", Range::Between(0.0, 4096.0);
    }
}

/// The caches of the card.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Caches {
    /// QP contexts.
    pub qpc: ContextCache,
    /// CQ contexts.
    pub cqc: ContextCache,
    /// SRQ contexts.
    pub srqc: ContextCache,
    /// Responder resources of READs and atomics, a line for each QP.
    pub responder: ContextCache,
    /// Memory protection table: key to region.
    pub mpt: ContextCache,
    /// Memory translation table, in lines of eight pages.
    pub mtt: ContextCache,
    /// Send WQEs of READs and atomics in flight.
    pub wqe: WqeCache,
    /// Receive WQEs.
    pub receive: ReceiveCache,
}

section! {
    /// Processing units; a QP is pinned to one of them.
    Units {
        /// Processing units.
        count: u32, "units", Range::Between(1.0, 255.0);
        /// Occupancy of a unit per WQE that it begins.
        message_cycles: u32, "cycles", range::CYCLES;
        /// Occupancy of a unit per packet that it sends.
        transmit_cycles: u32, "cycles", range::CYCLES;
        /// Occupancy of a unit per packet that it receives.
        receive_cycles: u32, "cycles", range::CYCLES;
        /// Occupancy of a unit per request message that it receives, on top of its packets.
        request_cycles: u32, "cycles", range::CYCLES;
        /// Occupancy of a unit per packet of a READ response of several, on top of the packet.
        response_cycles: u32, "cycles", range::CYCLES;
        /// Latency of a unit: from a WQE or packet to what it makes of it.
        latency_cycles: u32, "cycles", range::CYCLES;
        /// Packets that the scheduler lets a QP send before the next QP has its turn.
        quantum_packets: u32, "packets", Range::Between(1.0, 65_536.0);
    }
}

section! {
    /// Widths, latencies and queue depths of the blocks.
    Datapath {
        /// Width of the path between DMA engine and MAC.
        width_bits: u32, "bits", Range::PowerOfTwo(32, 4096);
        /// Doorbell: from BAR decode to scheduler.
        doorbell_cycles: u32, "cycles", range::CYCLES;
        /// Doorbell: clocks until it takes the next one.
        doorbell_interval_cycles: u32, "cycles", range::CYCLES;
        /// Scheduler: from a ready QP to its turn.
        scheduler_cycles: u32, "cycles", range::CYCLES;
        /// WQE fetch: from WQE in hand to processing unit.
        fetch_cycles: u32, "cycles", range::CYCLES;
        /// WQE fetch: clocks until it passes on the next WQE, of whatever QP.
        fetch_interval_cycles: u32, "cycles", range::CYCLES;
        /// 64-byte blocks of send WQEs that one DMA read fetches at most.
        fetch_blocks: u32, "blocks", Range::Between(1.0, 1024.0);
        /// WQE fetches that may wait for host memory at once.
        fetch_slots: u32, "reads", range::SOME;
        /// Packetizer: headers and ICRC of a packet.
        packetizer_cycles: u32, "cycles", range::CYCLES;
        /// Packetizer: clocks until it takes the next packet, if its bytes do not take longer.
        packetizer_interval_cycles: u32, "cycles", range::CYCLES;
        /// Depacketizer: parsing, ICRC and look-up of the QP.
        depacketizer_cycles: u32, "cycles", range::CYCLES;
        /// Depacketizer: clocks until it takes the next packet, if its bytes do not take longer.
        depacketizer_interval_cycles: u32, "cycles", range::CYCLES;
        /// CQE writer.
        completion_cycles: u32, "cycles", range::CYCLES;
        /// CQE writer: clocks until it takes the next completion.
        completion_interval_cycles: u32, "cycles", range::CYCLES;
        /// Look-up in a context cache that hits.
        lookup_cycles: u32, "cycles", range::CYCLES;
        /// Event queue and MSI-X.
        event_cycles: u32, "cycles", range::CYCLES;
        /// Packets that wait between DMA engine and MAC at most, whose payload is on its way.
        egress_packets: u32, "packets", range::SOME;
        /// Items that wait between two other blocks at most.
        edge_items: u32, "items", Range::Between(1.0, 65_536.0);
        /// A frame's first bytes leave before its last have come; else store and forward.
        cut_through: bool, "", range::FLAG;
        /// 64-byte blocks of a WQE that a doorbell can carry (BlueFlame); 0 if none.
        push_blocks: u32, "blocks", Range::Between(0.0, 64.0);
        /// Several CQEs may share one 64-byte write. Not modelled yet: no effect.
        cqe_compression: bool, "", range::FLAG;
        /// How long an atomic keeps its address behind its read of host memory, until its write.
        atomic_cycles: u32, "cycles", range::CYCLES;
        /// Atomics on different addresses that may wait for host memory at once.
        atomic_units: u32, "atomics", range::SOME;
    }
}

section! {
    /// Policy of the transport.
    Transport {
        /// Path MTU of the queue pairs.
        path_mtu_bytes: u32, "bytes", Range::PowerOfTwo(256, 4096);
        /// Request packets of a QP that may be in flight unacknowledged.
        max_unacknowledged_packets: u32, "packets", Range::Between(1.0, 8_388_608.0);
        /// Request packets between two that ask for an acknowledge, inside a long message.
        ack_request_interval: u32, "packets", range::SOME;
        /// Packets that one ACK acknowledges at most.
        ack_coalesce: u32, "packets", range::SOME;
        /// Longest delay of a positive ACK, in which ACKs are coalesced.
        ack_delay_ns: f64, "ns", range::NS;
        /// READs and atomics of a QP that may be outstanding.
        max_outstanding_reads: u32, "requests", Range::Between(1.0, 255.0);
        /// Local ACK timeouts after which the requester's timer expires.
        local_ack_timeout_multiple: u32, "", Range::Between(1.0, 4.0);
        /// Selective repeat between QPs that both have it; else go-back-N.
        selective_repeat: bool, "", range::FLAG;
        /// Selective repeat on a network that reorders; WRITEs are placed in any order.
        adaptive_routing: bool, "", range::FLAG;
        /// With adaptive routing: a gap counts as a loss when it is older than this.
        reorder_ns: f64, "ns", range::NS;
        /// Packets that wait for one that is missing, of all QPs together.
        reorder_buffer_bytes: u32, "bytes", range::BYTES;
        /// The adaptive retransmission timer takes the place of the local ACK timeout.
        adaptive_timer: bool, "", range::FLAG;
        /// With `identity.mlx5`: a local ACK timeout below 16 counts as 16.
        ack_timeout_limit: bool, "", range::FLAG;
    }
}

section! {
    /// Interrupt moderation.
    Interrupt {
        /// Events that one interrupt reports at least, unless time is up; 1: each has its own.
        moderation_count: u32, "events", range::SOME;
        /// Delay in which events are coalesced before their interrupt; CQ moderation comes before.
        moderation_ns: f64, "ns", range::NS;
    }
}

section! {
    /// The port.
    Mac {
        /// Data rate of the wire.
        rate_gbps: f64, "Gb/s", Range::Between(0.001, 10_000.0);
        /// Width of the MAC's user side; a frame takes whole beats of `clock.mac_mhz`.
        width_bits: u32, "bits", Range::PowerOfTwo(8, 4096);
        /// MAC, PCS and transceiver on the way out.
        transmit_ns: f64, "ns", range::NS;
        /// Transceiver, PCS and MAC on the way in.
        receive_ns: f64, "ns", range::NS;
    }
}

section! {
    /// How many objects there can be.
    Limits {
        /// Base-2 logarithm of the largest QP context table.
        log_max_qps: u32, "", Range::Between(1.0, 23.0);
        /// Base-2 logarithm of the largest CQ context table.
        log_max_cqs: u32, "", Range::Between(1.0, 24.0);
        /// Base-2 logarithm of the largest SRQ context table.
        log_max_srqs: u32, "", Range::Between(1.0, 24.0);
        /// Base-2 logarithm of the largest memory protection table.
        log_max_mrs: u32, "", Range::Between(1.0, 24.0);
        /// Base-2 logarithm of the largest memory translation table.
        log_max_mtts: u32, "", Range::Between(3.0, 31.0);
    }
}
