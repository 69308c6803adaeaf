//! The NIC that a preset describes.

use ferroce_spec::personality::Personality;
use ferroce_spec::push;
use ferroce_spec::wqe::MAX_INLINE;
use ferroce_transport::{Config as TransportConfig, PathMtu, RecoveryMode, RemoteCheck};
use ferroce_units::ClockDomain;

use super::Preset;
use super::card::ContextCache;
use super::value::nanoseconds;
use crate::config::{CacheShape, InterruptModeration, NicConfig, RecoveryConfig, WqeCacheShape};

impl Preset {
    /// Returns limits, cache shapes and policy of a NIC function of this preset.
    pub fn nic_config(&self, qpn_base: u32, mac: [u8; 6]) -> NicConfig {
        let cache = &self.cache;
        let limits = &self.limits;
        NicConfig {
            qpn_base,
            number_seed: None,
            mac,
            processing_units: byte(self.units.count),
            log_max_qps: byte(limits.log_max_qps),
            log_max_cqs: byte(limits.log_max_cqs),
            log_max_srqs: byte(limits.log_max_srqs),
            log_max_mrs: byte(limits.log_max_mrs),
            log_max_mtts: byte(limits.log_max_mtts),
            qpc_cache: shape(&cache.qpc),
            cqc_cache: shape(&cache.cqc),
            srqc_cache: shape(&cache.srqc),
            mpt_cache: shape(&cache.mpt),
            mtt_cache: shape(&cache.mtt),
            responder_cache: shape(&cache.responder),
            quantum_packets: self.units.quantum_packets,
            fetch_blocks: self.datapath.fetch_blocks,
            fetch_slots: self.datapath.fetch_slots as usize,
            fetch_receives: cache.receive.wqes,
            receives_ahead: cache.receive.ahead,
            wqe_cache: WqeCacheShape {
                entries: limit(cache.wqe.entries),
                mshrs: cache.wqe.mshrs,
            },
            push_blocks: longest_push(self.datapath.push_blocks),
            polled_doorbells: false,
            max_inline: self.host.max_inline_bytes.min(MAX_INLINE as u32) as u16,
            edge_capacity: self.datapath.edge_items as usize,
            egress_packets: self.datapath.egress_packets as usize,
            atomic_units: byte(self.datapath.atomic_units),
            atomic_execution: ClockDomain::from_mhz(self.clock.core_mhz)
                .cycles(self.datapath.atomic_cycles),
            global_atomics: self.pcie.atomic_ops,
            persistent_flush: false,
            cq_resize: true,
            interrupt_moderation: InterruptModeration {
                count: self.interrupt.moderation_count,
                time: nanoseconds(self.interrupt.moderation_ns),
            },
            transport: self.transport_config(),
            personality: if self.identity.mlx5 {
                Personality::MLX5
            } else {
                Personality::FERROCE
            },
            recovery: self.recovery_config(),
            congestion: None,
            line_rate_mbps: (self.mac.rate_gbps * 1000.0).round() as u32,
        }
    }

    fn recovery_config(&self) -> RecoveryConfig {
        let transport = &self.transport;
        RecoveryConfig {
            mode: match (transport.adaptive_routing, transport.selective_repeat) {
                (true, _) => RecoveryMode::AdaptiveRouting,
                (false, true) => RecoveryMode::SelectiveRepeat,
                (false, false) => RecoveryMode::GoBackN,
            },
            reorder_time: nanoseconds(transport.reorder_ns),
            adaptive_timer: transport.adaptive_timer,
            ack_timeout_limit: transport.ack_timeout_limit,
            reorder_buffer_bytes: transport.reorder_buffer_bytes,
        }
    }

    fn transport_config(&self) -> TransportConfig {
        let transport = &self.transport;
        TransportConfig {
            max_unacknowledged_packets: transport.max_unacknowledged_packets,
            ack_request_interval: transport.ack_request_interval,
            ack_coalesce: transport.ack_coalesce,
            ack_delay: nanoseconds(transport.ack_delay_ns),
            local_ack_timeout_multiple: byte(transport.local_ack_timeout_multiple),
            datagram_mtu: self.path_mtu(),
            remote_check: if self.identity.mlx5 {
                RemoteCheck::Connectx
            } else {
                RemoteCheck::Message
            },
        }
    }

    /// Returns the path MTU of queue pairs and datagrams.
    pub fn path_mtu(&self) -> PathMtu {
        match self.transport.path_mtu_bytes {
            ..=256 => PathMtu::Mtu256,
            257..=512 => PathMtu::Mtu512,
            513..=1024 => PathMtu::Mtu1024,
            1025..=2048 => PathMtu::Mtu2048,
            2049.. => PathMtu::Mtu4096,
        }
    }
}

/// Returns a parameter whose range ends at 255 or below; larger values are limited to 255.
fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// Returns the entries of a cache with a limit; 0 if the parameter sets no limit.
fn limit(entries: u32) -> u32 {
    const NO_LIMIT: u32 = 1_000_000;
    if entries < NO_LIMIT { entries } else { 0 }
}

/// Returns the blocks of the longest push of a WQE of `blocks` blocks of 64 bytes.
fn longest_push(blocks: u32) -> u8 {
    let words = blocks as usize * push::WORDS_PER_BLOCK;
    push::blocks_for(words).unwrap_or(push::MAX_BLOCKS) as u8
}

fn shape(cache: &ContextCache) -> CacheShape {
    CacheShape {
        log_sets: byte(cache.log_sets),
        ways: byte(cache.ways),
        mshrs: byte(cache.mshrs),
    }
}
