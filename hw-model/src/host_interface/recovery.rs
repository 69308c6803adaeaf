//! The registers of ROCE_ACCL: recovery of queue pairs from packet loss.

use ferroce_spec::personality::Personality;
use ferroce_spec::register::{
    AdpRetxProfile, AdpRetxProfileStart, AdpRetxRange, RoceAccl, RoceAcclLimits, RoceAcclSelect,
    offset,
};
use ferroce_transport::{
    AckTimeouts, AdaptiveTimer, ConnectxSchedule, Recovery, RecoveryMode, TimeoutDecrement,
    TimeoutRange,
};
use ferroce_units::Duration;

use crate::config::RecoveryConfig;

/// Number of profiles in addition to the built-in one.
const PROFILES: u8 = 1;
/// Value of `AdpRetxProfile.time_unit`.
const MICROSECONDS: u8 = 1;
/// Bytes of a range.
const RANGE_BYTES: u32 = 4;

/// The registers, as software has written them.
#[derive(Debug, Clone)]
pub struct RecoveryRegisters {
    config: RecoveryConfig,
    personality: Personality,
    accl: RoceAccl,
    reorder_time_ns: u32,
    profile: AdpRetxProfile,
    start: AdpRetxProfileStart,
    ranges: [AdpRetxRange; AdaptiveTimer::MAX_RANGES],
}

impl RecoveryRegisters {
    /// Returns the registers after power-on.
    pub fn new(config: RecoveryConfig, personality: Personality) -> Self {
        let mut accl = RoceAccl::default();
        accl.set_roce_adp_retrans_en(config.adaptive_timer);
        if personality == Personality::MLX5 {
            accl.set_min_ack_timeout_limit_disabled(!config.ack_timeout_limit);
        }
        match config.mode {
            RecoveryMode::GoBackN => {}
            RecoveryMode::SelectiveRepeat => accl.set_selective_repeat_forced_en(true),
            RecoveryMode::AdaptiveRouting => accl.set_adaptive_routing_forced_en(true),
        }
        let reorder_time_ns = config.reorder_time.as_ps() / 1000;
        Self {
            config,
            personality,
            accl,
            reorder_time_ns: u32::try_from(reorder_time_ns).unwrap_or(u32::MAX),
            profile: AdpRetxProfile::default(),
            start: AdpRetxProfileStart::default(),
            ranges: [AdpRetxRange::default(); AdaptiveTimer::MAX_RANGES],
        }
    }

    /// Returns to the values of power-on.
    pub fn reset(&mut self) {
        *self = Self::new(self.config, self.personality);
    }

    /// Reads 4 bytes; `None`: there is no register.
    pub fn read32(&self, at: u32) -> Option<u32> {
        Some(match at {
            offset::roce_accl_select => self.changeable().bits(),
            offset::roce_accl => self.accl.bits(),
            offset::roce_accl_limits => limits().bits(),
            offset::roce_accl_reorder_time => self.reorder_time_ns,
            offset::adp_retx_profile => self.profile.bits(),
            offset::adp_retx_profile_start => self.start.bits(),
            _ => self.ranges[range_of(at)?].bits(),
        })
    }

    /// Writes 4 bytes; read-only bits stay zero.
    pub fn write32(&mut self, at: u32, value: u32) {
        match at {
            offset::roce_accl => {
                let written = RoceAccl::from_bits(value);
                let mut accl = RoceAccl::default();
                accl.set_roce_adp_retrans_en(written.roce_adp_retrans_en());
                if self
                    .changeable()
                    .min_ack_timeout_limit_disabled_field_select()
                {
                    accl.set_min_ack_timeout_limit_disabled(
                        written.min_ack_timeout_limit_disabled(),
                    );
                }
                accl.set_selective_repeat_forced_en(written.selective_repeat_forced_en());
                accl.set_adaptive_routing_forced_en(written.adaptive_routing_forced_en());
                accl.set_adp_retx_profile_id(written.adp_retx_profile_id().min(PROFILES));
                self.accl = accl;
            }
            offset::roce_accl_reorder_time => self.reorder_time_ns = value,
            offset::adp_retx_profile => self.profile = AdpRetxProfile::from_bits(value),
            offset::adp_retx_profile_start => self.start = AdpRetxProfileStart::from_bits(value),
            _ => {
                if let Some(index) = range_of(at) {
                    self.ranges[index] = AdpRetxRange::from_bits(value);
                }
            }
        }
    }

    /// Returns the recovery state of a queue pair with these settings.
    pub fn recovery(&self, seed: u64) -> Recovery {
        let accl = self.accl;
        let mode = if accl.adaptive_routing_forced_en() {
            RecoveryMode::AdaptiveRouting
        } else if accl.selective_repeat_forced_en() {
            RecoveryMode::SelectiveRepeat
        } else {
            RecoveryMode::GoBackN
        };
        let reorder_time = match mode {
            RecoveryMode::AdaptiveRouting => Duration::from_ns(self.reorder_time_ns.into()),
            _ => Duration::ZERO,
        };
        Recovery {
            mode,
            reorder_time,
            ack_timeouts: self.ack_timeouts(),
            seed,
        }
    }

    /// Returns when queue pairs with these settings retransmit without an answer.
    fn ack_timeouts(&self) -> AckTimeouts {
        let accl = self.accl;
        let is_adaptive = accl.roce_adp_retrans_en();
        let profile = self
            .adaptive_timer()
            .filter(|_| is_adaptive && accl.adp_retx_profile_id() > 0);
        match (profile, self.personality) {
            (Some(profile), _) => AckTimeouts::Adaptive(profile),
            (None, Personality::MLX5) => {
                AckTimeouts::Connectx(if accl.min_ack_timeout_limit_disabled() {
                    ConnectxSchedule::Unlimited
                } else if is_adaptive {
                    ConnectxSchedule::Adaptive
                } else {
                    ConnectxSchedule::Regular
                })
            }
            (None, _) if is_adaptive => AckTimeouts::Adaptive(AdaptiveTimer::DEFAULT),
            (None, _) => AckTimeouts::Iba,
        }
    }

    /// Returns the fields that software can change.
    fn changeable(&self) -> RoceAcclSelect {
        let mut select = RoceAcclSelect::default();
        select.set_roce_adp_retrans_field_select(true);
        select
            .set_min_ack_timeout_limit_disabled_field_select(self.personality == Personality::MLX5);
        select.set_adaptive_routing_forced_en_field_select(true);
        select.set_selective_repeat_forced_en_field_select(true);
        select.set_adp_retx_profile_select(true);
        select
    }

    /// Returns profile 1 if it is valid.
    fn adaptive_timer(&self) -> Option<AdaptiveTimer> {
        let (profile, start) = (self.profile, self.start);
        let count = usize::from(profile.range_num()).min(self.ranges.len());
        let ranges = self.ranges.map(|range| TimeoutRange {
            low: range.range_low_bound(),
            size: range.range_size(),
            retries: range.timeout_retry_num(),
            decrement: match range.dec_mode() {
                0 => TimeoutDecrement::Quarter,
                1 => TimeoutDecrement::Half,
                _ => TimeoutDecrement::Reset,
            },
            previous: range.prev_range_index(),
        });
        let total = (!profile.qp_total_timeout()).then(|| start.retx_total_timeout());
        let first = (
            start.timeout_init_low_bound(),
            start.timeout_init_range_size(),
        );
        let base = Duration::from_us(profile.time_base().into());
        let is_known = profile.time_unit() == MICROSECONDS;
        AdaptiveTimer::new(
            base,
            first,
            &ranges[..count],
            profile.start_range_index(),
            total,
        )
        .filter(|_| is_known)
    }
}

/// Returns the index of the range at byte `at`.
fn range_of(at: u32) -> Option<usize> {
    let place = at.checked_sub(offset::adp_retx_range)?;
    let index = (place / RANGE_BYTES) as usize;
    (index < AdaptiveTimer::MAX_RANGES).then_some(index)
}

fn limits() -> RoceAcclLimits {
    let mut limits = RoceAcclLimits::default();
    limits.set_adp_retx_profile_max_range_num(AdaptiveTimer::MAX_RANGES as u8);
    limits.set_adp_retx_profile_max_id(PROFILES);
    let minimum_ns = AdaptiveTimer::MIN_BASE.as_ps() / 1000;
    limits.set_adp_retx_base_timeout_min(minimum_ns as u32);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RecoveryConfig = RecoveryConfig {
        mode: RecoveryMode::SelectiveRepeat,
        reorder_time: Duration::from_us(50),
        adaptive_timer: false,
        ack_timeout_limit: true,
        reorder_buffer_bytes: 0,
    };

    #[test]
    fn the_registers_choose_the_mode_until_a_reset() {
        let mut registers = RecoveryRegisters::new(CONFIG, Personality::FERROCE);
        assert_eq!(registers.recovery(0).mode, RecoveryMode::SelectiveRepeat);
        assert_eq!(registers.recovery(0).reorder_time, Duration::ZERO);
        registers.write32(offset::roce_accl, u32::MAX);
        assert_eq!(registers.read32(offset::roce_accl), Some(0x1000_0061));
        let recovery = registers.recovery(3);
        assert_eq!(recovery.mode, RecoveryMode::AdaptiveRouting);
        assert_eq!(recovery.reorder_time, CONFIG.reorder_time);
        let default = AckTimeouts::Adaptive(AdaptiveTimer::DEFAULT);
        assert_eq!(recovery.ack_timeouts, default, "profile 1 is not valid");
        registers.write32(offset::roce_accl, 0);
        assert_eq!(registers.recovery(0).mode, RecoveryMode::GoBackN);
        registers.reset();
        assert_eq!(registers.read32(offset::roce_accl), Some(0x40));
        assert_eq!(registers.read32(0x208), Some(0x4100_0fa0));
        assert_eq!(registers.read32(offset::adp_retx_range + 16), None);
    }

    #[test]
    fn a_profile_is_taken_if_it_is_valid() {
        let mut registers = RecoveryRegisters::new(CONFIG, Personality::FERROCE);
        registers.write32(offset::roce_accl, 0x1000_0001);
        registers.write32(offset::adp_retx_profile, 0xa040_0008);
        registers.write32(offset::adp_retx_profile_start, 0x0000_0302);
        registers.write32(offset::adp_retx_range, 0x0003_0305);
        registers.write32(offset::adp_retx_range + 4, 0x1402_0903);
        let range = TimeoutRange {
            low: 3,
            size: 5,
            retries: 3,
            decrement: TimeoutDecrement::Quarter,
            previous: 0,
        };
        let behind = TimeoutRange {
            low: 9,
            size: 3,
            retries: 2,
            decrement: TimeoutDecrement::Half,
            previous: 1,
        };
        let ranges = [range, behind];
        let expected = AdaptiveTimer::new(Duration::from_us(8), (3, 2), &ranges, 0, None);
        let expected = AckTimeouts::Adaptive(expected.expect("a valid profile"));
        assert_eq!(registers.recovery(0).ack_timeouts, expected);
    }

    #[test]
    fn with_mlx5_software_can_disable_the_limit_of_the_timeout() {
        let config = RecoveryConfig {
            adaptive_timer: true,
            ..CONFIG
        };
        let mut registers = RecoveryRegisters::new(config, Personality::MLX5);
        let mut written = RoceAccl::default();
        assert_eq!(
            registers.recovery(0).ack_timeouts,
            AckTimeouts::Connectx(ConnectxSchedule::Adaptive)
        );
        for (disabled, adaptive, expected) in [
            (false, false, ConnectxSchedule::Regular),
            (true, false, ConnectxSchedule::Unlimited),
            (true, true, ConnectxSchedule::Unlimited),
        ] {
            written.set_min_ack_timeout_limit_disabled(disabled);
            written.set_roce_adp_retrans_en(adaptive);
            registers.write32(offset::roce_accl, written.bits());
            assert_eq!(registers.read32(offset::roce_accl), Some(written.bits()));
            let expected = AckTimeouts::Connectx(expected);
            assert_eq!(registers.recovery(0).ack_timeouts, expected);
        }
    }
}
