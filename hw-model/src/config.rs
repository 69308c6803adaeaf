//! Every size and limit of a NIC, chosen before it is built.

use ferroce_spec::wqe::MAX_INLINE;
pub use ferroce_transport::RecoveryMode;
use ferroce_transport::{Config as TransportConfig, PathMtu};
use ferroce_units::Duration;

use crate::congestion::CongestionConfig;

/// Shape and policy of one NIC function.
#[derive(Debug, Clone)]
pub struct NicConfig {
    /// QPN of the first entry of the QP context table.
    pub qpn_base: u32,
    /// Seed of the order in which QPNs and keys are given; `None`: ascending.
    pub number_seed: Option<u64>,
    /// MAC address of the port.
    pub mac: [u8; 6],
    /// Processing units; a QP is pinned to one of them.
    pub processing_units: u8,
    /// Base-2 logarithm of the largest QP context table.
    pub log_max_qps: u8,
    /// Base-2 logarithm of the largest CQ context table.
    pub log_max_cqs: u8,
    /// Base-2 logarithm of the largest SRQ context table.
    pub log_max_srqs: u8,
    /// Base-2 logarithm of the largest memory protection table.
    pub log_max_mrs: u8,
    /// Base-2 logarithm of the largest memory translation table.
    pub log_max_mtts: u8,
    /// QP context cache.
    pub qpc_cache: CacheShape,
    /// CQ context cache.
    pub cqc_cache: CacheShape,
    /// SRQ context cache.
    pub srqc_cache: CacheShape,
    /// Memory protection cache.
    pub mpt_cache: CacheShape,
    /// Memory translation cache, in lines of eight entries.
    pub mtt_cache: CacheShape,
    /// Cache of responder resources; those of more queue pairs lie in the private area.
    pub responder_cache: CacheShape,
    /// Packets that the scheduler lets a QP send before the next QP has its turn.
    pub quantum_packets: u32,
    /// Blocks of send WQEs that one DMA read fetches at most.
    pub fetch_blocks: u32,
    /// WQE fetches that are under way at most.
    pub fetch_slots: usize,
    /// Receive WQEs that one DMA read fetches at most.
    pub fetch_receives: u32,
    /// The receive engine fetches more receive WQEs of a queue pair as soon as it has fewer than
    /// this; 0: when it needs one.
    pub receives_ahead: u32,
    /// WQEs of READs and atomics that are kept until their response has come.
    pub wqe_cache: WqeCacheShape,
    /// Blocks of the longest push of a send WQE; 0: there are no push pages.
    pub push_blocks: u8,
    /// The doorbell pages are memory that the bus polls: software has to count and to wake.
    pub polled_doorbells: bool,
    /// Bytes of the longest inline payload.
    pub max_inline: u16,
    /// Items that wait between two blocks.
    pub edge_capacity: usize,
    /// Frames that wait for the MAC, those included whose payload is still on its way.
    pub egress_packets: usize,
    /// Atomics on different addresses that are under way at once.
    pub atomic_units: u8,
    /// How long an atomic keeps its address behind the read of the operand: execution and locked
    /// write.
    pub atomic_execution: Duration,
    /// Atomics are PCIe AtomicOps, atomic also with respect to the host's processors. Else they
    /// are a read and a write, atomic among the queue pairs of this function only.
    pub global_atomics: bool,
    /// CQs can be resized.
    pub cq_resize: bool,
    /// Delay in which events are coalesced before one interrupt announces them; of a timed NIC
    /// only.
    pub interrupt_moderation: InterruptModeration,
    /// Policy of the transport.
    pub transport: TransportConfig,
    /// Recovery of lost packets, until software changes it.
    pub recovery: RecoveryConfig,
    /// What it does about congestion; `None`: nothing.
    pub congestion: Option<CongestionConfig>,
    /// Rate of the line, to which congestion control compares its own.
    pub line_rate_mbps: u32,
}

/// Size and shape of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Base-2 logarithm of the number of sets.
    pub log_sets: u8,
    /// Entries in a set.
    pub ways: u8,
    /// Misses that wait for host memory at once (miss status holding registers); at least one.
    pub mshrs: u8,
}

impl CacheShape {
    /// Entries for all queue pairs of the functional preset.
    const ONE_WAY_OF_2_14: Self = Self {
        log_sets: 14,
        ways: 1,
        mshrs: 1,
    };

    /// Entries in the whole cache.
    pub const fn entries(&self) -> usize {
        (self.ways as usize) << self.log_sets
    }

    /// Base-2 logarithm of the entries that it holds for certain, in whatever order they come.
    pub const fn log_entries(&self) -> u8 {
        self.log_sets + self.ways.ilog2() as u8
    }
}

/// How many WQEs are kept, and how many of the others are read again at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WqeCacheShape {
    /// WQEs; 0: of all requests in flight.
    pub entries: u32,
    /// WQEs that are read again at once; at least one.
    pub mshrs: u32,
}

impl WqeCacheShape {
    /// There is room for all.
    pub const UNLIMITED: Self = Self {
        entries: 0,
        mshrs: 1,
    };
}

/// Delay in which events are coalesced before one interrupt announces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptModeration {
    /// Events that an interrupt announces at least, unless time is up.
    pub count: u32,
    /// How long the first of them waits.
    pub time: Duration,
}

impl InterruptModeration {
    /// Each event has its interrupt.
    pub const NONE: Self = Self {
        count: 1,
        time: Duration::ZERO,
    };

    /// Returns true if there is any delay.
    #[inline]
    pub const fn is_on(self) -> bool {
        self.count > 1 && !self.time.is_zero()
    }
}

/// Recovery of lost packets: what the registers say after a reset, and the reorder buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// How lost packets are recovered.
    pub mode: RecoveryMode,
    /// With adaptive routing a gap counts as a loss when it is older than this.
    pub reorder_time: Duration,
    /// The adaptive retransmission timer takes the place of the local ACK timeout.
    pub adaptive_timer: bool,
    /// Bytes of packets that the card holds because one before them is missing.
    pub reorder_buffer_bytes: u32,
}

impl RecoveryConfig {
    /// Go-back-N; for software that chooses another mode, room for some windows of large packets.
    pub const GO_BACK_N: Self = Self {
        mode: RecoveryMode::GoBackN,
        reorder_time: Duration::from_us(50),
        adaptive_timer: false,
        reorder_buffer_bytes: 8 << 20,
    };

    /// Names of the modes, as users choose them.
    pub const MODES: [&'static str; 6] = [
        "go-back-n",
        "selective-repeat",
        "adaptive-routing",
        "go-back-n+adaptive-timer",
        "selective-repeat+adaptive-timer",
        "adaptive-routing+adaptive-timer",
    ];

    /// Returns the mode of that name, with the other values as above.
    pub fn named(name: &str) -> Option<Self> {
        let without_timer = name.strip_suffix("+adaptive-timer");
        let mode = match without_timer.unwrap_or(name) {
            "go-back-n" => RecoveryMode::GoBackN,
            "selective-repeat" => RecoveryMode::SelectiveRepeat,
            "adaptive-routing" => RecoveryMode::AdaptiveRouting,
            _ => return None,
        };
        Some(Self {
            mode,
            adaptive_timer: without_timer.is_some(),
            ..Self::GO_BACK_N
        })
    }
}

impl NicConfig {
    /// Returns true if software may choose the numbers of objects: unless the card draws them,
    /// which shows programs that rely on an order.
    pub fn has_chosen_numbers(&self) -> bool {
        self.number_seed.is_none()
    }

    /// The functional preset: costs nothing, caches as large as a mid-size card.
    ///
    /// The ACK delay is longer than an application needs to answer a message that it sees arrive
    /// in its memory, so that the ACK leaves together with the answer and one poll of the peer
    /// finds both. Without it a ping-pong over RDMA WRITE needs a thread switch for each turn.
    ///
    /// The local ACK timer runs for as long as IBTA allows, because a simulated peer shares its
    /// processors with other programs. The limits of objects are such that a program which
    /// creates objects until there are no more gets there in seconds.
    pub fn functional(qpn_base: u32, mac: [u8; 6]) -> Self {
        Self {
            qpn_base,
            number_seed: None,
            mac,
            processing_units: 4,
            log_max_qps: 14,
            log_max_cqs: 14,
            log_max_srqs: 12,
            log_max_mrs: 17,
            log_max_mtts: 26,
            qpc_cache: CacheShape {
                log_sets: 8,
                ways: 4,
                mshrs: u8::MAX,
            },
            cqc_cache: CacheShape {
                log_sets: 8,
                ways: 4,
                mshrs: u8::MAX,
            },
            srqc_cache: CacheShape {
                log_sets: 7,
                ways: 4,
                mshrs: u8::MAX,
            },
            mpt_cache: CacheShape {
                log_sets: 9,
                ways: 4,
                mshrs: u8::MAX,
            },
            mtt_cache: CacheShape {
                log_sets: 11,
                ways: 4,
                mshrs: u8::MAX,
            },
            // All on the chip.
            responder_cache: CacheShape::ONE_WAY_OF_2_14,
            quantum_packets: 16,
            fetch_blocks: 16,
            fetch_slots: 1,
            fetch_receives: 16,
            receives_ahead: 0,
            wqe_cache: WqeCacheShape {
                entries: 0,
                mshrs: 1000,
            },
            push_blocks: 0,
            polled_doorbells: false,
            max_inline: MAX_INLINE as u16,
            edge_capacity: 32,
            egress_packets: 32,
            atomic_units: u8::MAX,
            atomic_execution: Duration::ZERO,
            global_atomics: true,
            cq_resize: true,
            interrupt_moderation: InterruptModeration::NONE,
            transport: TransportConfig {
                max_unacknowledged_packets: 512,
                ack_request_interval: 32,
                ack_coalesce: 16,
                ack_delay: Duration::from_us(2),
                local_ack_timeout_multiple: 4,
                datagram_mtu: PathMtu::Mtu4096,
            },
            recovery: RecoveryConfig::GO_BACK_N,
            congestion: None,
            line_rate_mbps: 10_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_different_recovery() {
        let named = RecoveryConfig::MODES.map(|name| RecoveryConfig::named(name).expect("a mode"));
        for (index, recovery) in named.iter().enumerate() {
            assert!(!named[..index].contains(recovery), "{recovery:?}");
        }
        assert_eq!(named[0], RecoveryConfig::GO_BACK_N);
        assert!(RecoveryConfig::named("adaptive-timer").is_none());
    }
}
