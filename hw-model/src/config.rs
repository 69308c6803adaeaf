//! All sizes and limits of a NIC, chosen before it is built.

use ferroce_spec::personality::Personality;
use ferroce_spec::wqe::MAX_INLINE;
pub use ferroce_transport::RecoveryMode;
use ferroce_transport::{Config as TransportConfig, PathMtu, RemoteCheck};
use ferroce_units::Duration;

use crate::congestion::CongestionConfig;

/// Shape and policy of one NIC function.
#[derive(Debug, Clone)]
pub struct NicConfig {
    /// QPN of the first entry of the QP context table.
    pub qpn_base: u32,
    /// Seed of the order in which QPNs and keys are allocated; `None`: ascending.
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
    /// Cache of responder resources; the private area holds the resources of further queue pairs.
    pub responder_cache: CacheShape,
    /// Packets that a QP may send before the scheduler serves the next QP.
    pub quantum_packets: u32,
    /// Maximum number of send WQE blocks per DMA read.
    pub fetch_blocks: u32,
    /// Maximum number of WQE fetches in flight.
    pub fetch_slots: usize,
    /// Maximum number of receive WQEs per DMA read.
    pub fetch_receives: u32,
    /// The receive engine fetches more receive WQEs of a queue pair when it has fewer than this; 0:
    /// when it needs one.
    pub receives_ahead: u32,
    /// Room for WQEs of READs and atomics, which are kept until their response arrives.
    pub wqe_cache: WqeCacheShape,
    /// Blocks of the longest pushed send WQE; 0: there are no push pages.
    pub push_blocks: u8,
    /// The bus polls doorbell pages in memory: software has to count doorbells and to wake the
    /// device.
    pub polled_doorbells: bool,
    /// Bytes of the longest inline payload.
    pub max_inline: u16,
    /// Maximum number of items between two blocks.
    pub edge_capacity: usize,
    /// Maximum number of frames in the MAC, including frames whose payload has not arrived yet.
    pub egress_packets: usize,
    /// Maximum number of atomics in flight, on different addresses.
    pub atomic_units: u8,
    /// How long an atomic locks its address after the operand was read: execution and locked write.
    pub atomic_execution: Duration,
    /// Atomics are PCIe AtomicOps, which are also atomic with respect to the host's processors.
    /// Otherwise they are a read and a write, atomic only among the queue pairs of this function.
    pub global_atomics: bool,
    /// The host has persistent memory, and makes it persistent when the card asks
    /// ([`crate::Host::persist`]): FLUSH can do that, too.
    pub persistent_flush: bool,
    /// CQs can be resized.
    pub cq_resize: bool,
    /// Delay in which events are coalesced into one interrupt; only for a NIC with timing.
    pub interrupt_moderation: InterruptModeration,
    /// Policy of the transport.
    pub transport: TransportConfig,
    /// Whose failures it shows.
    pub personality: Personality,
    /// Initial recovery mode, until software changes it.
    pub recovery: RecoveryConfig,
    /// Congestion control; `None`: none.
    pub congestion: Option<CongestionConfig>,
    /// Rate of the line, with which congestion control compares its rates.
    pub line_rate_mbps: u32,
}

/// Size and shape of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Base-2 logarithm of the number of sets.
    pub log_sets: u8,
    /// Entries in a set.
    pub ways: u8,
    /// Maximum number of outstanding misses (miss status holding registers); at least one.
    pub mshrs: u8,
}

impl CacheShape {
    /// Entries for all queue pairs of the functional preset.
    const ONE_WAY_OF_2_14: Self = Self {
        log_sets: 14,
        ways: 1,
        mshrs: 1,
    };

    /// Returns the number of entries in the whole cache.
    pub const fn entries(&self) -> usize {
        (self.ways as usize) << self.log_sets
    }

    /// Returns the base-2 logarithm of the number of entries that it is certain to hold, whatever
    /// their order.
    pub const fn log_entries(&self) -> u8 {
        self.log_sets + self.ways.ilog2() as u8
    }
}

/// How many WQEs are kept, and how many of the others can be read again at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WqeCacheShape {
    /// Number of WQEs; 0: the WQEs of all requests in flight.
    pub entries: u32,
    /// Number of WQEs that can be read again at once; at least one.
    pub mshrs: u32,
}

impl WqeCacheShape {
    /// Room for all WQEs, and no limit to reading them again.
    const FUNCTIONAL: Self = Self {
        entries: 0,
        mshrs: 1000,
    };
    /// Room for all WQEs.
    pub const UNLIMITED: Self = Self {
        entries: 0,
        mshrs: 1,
    };
}

/// Delay in which events are coalesced into one interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptModeration {
    /// Minimum number of events per interrupt, unless the time expires.
    pub count: u32,
    /// Maximum time for which the first event waits.
    pub time: Duration,
}

impl InterruptModeration {
    /// One interrupt per event.
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

/// Recovery from packet loss: register values after a reset, and the reorder buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// Recovery mode.
    pub mode: RecoveryMode,
    /// With adaptive routing, a gap counts as a loss when it is older than this.
    pub reorder_time: Duration,
    /// The adaptive retransmission timer replaces the local ACK timeout.
    pub adaptive_timer: bool,
    /// With [`Personality::MLX5`], a local ACK timeout below 16 counts as 16.
    pub ack_timeout_limit: bool,
    /// Size of the reorder buffer for out-of-order packets.
    pub reorder_buffer_bytes: u32,
}

impl RecoveryConfig {
    /// Go-back-N; the reorder buffer has room for some windows of large packets in case software
    /// chooses another mode.
    pub const GO_BACK_N: Self = Self {
        mode: RecoveryMode::GoBackN,
        reorder_time: Duration::from_us(50),
        adaptive_timer: false,
        ack_timeout_limit: true,
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

    /// Returns the mode with this name; the other values are as above.
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
    /// Returns this configuration of a function that fails as a ConnectX with mlx5 does.
    #[must_use]
    pub fn as_mlx5(mut self) -> Self {
        self.personality = Personality::MLX5;
        self.transport.remote_check = RemoteCheck::Connectx;
        self.recovery.adaptive_timer = true;
        self
    }

    /// Returns true if software may choose the numbers of objects. It may not if the card
    /// randomises them to expose programs that rely on an order.
    pub fn has_chosen_numbers(&self) -> bool {
        self.number_seed.is_none()
    }

    /// Returns the functional preset: no costs, and caches as large as a mid-size card's.
    ///
    /// The ACK delay is longer than an application needs to answer a message that it sees arrive in
    /// its memory. So the ACK leaves together with the answer, and one poll of the peer finds both.
    /// Without the delay, a ping-pong over RDMA WRITE takes a thread switch in each direction.
    ///
    /// The local ACK timer runs for as long as IBTA allows, because a simulated peer shares its
    /// processors with other programs. The object limits are low enough that a program which
    /// creates objects until it fails gets there in seconds.
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
            wqe_cache: WqeCacheShape::FUNCTIONAL,
            push_blocks: 0,
            polled_doorbells: false,
            max_inline: MAX_INLINE as u16,
            edge_capacity: 32,
            egress_packets: 32,
            atomic_units: u8::MAX,
            atomic_execution: Duration::ZERO,
            global_atomics: true,
            persistent_flush: false,
            cq_resize: true,
            interrupt_moderation: InterruptModeration::NONE,
            transport: TransportConfig {
                max_unacknowledged_packets: 512,
                ack_request_interval: 32,
                ack_coalesce: 16,
                ack_delay: Duration::from_us(2),
                local_ack_timeout_multiple: 4,
                datagram_mtu: PathMtu::Mtu4096,
                remote_check: RemoteCheck::Message,
            },
            personality: Personality::FERROCE,
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
