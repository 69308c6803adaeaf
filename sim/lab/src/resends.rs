//! Retransmission times of unanswered requests, from the frames of a run in simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferroce_faults::Packet;
use ferroce_model::preset::Preset;
use ferroce_spec::register::{AdpRetxProfile, AdpRetxProfileStart, AdpRetxRange, RoceAccl, offset};
use ferroce_units::Instant;
use ferroce_world::{FrameSeen, Recorder, SharedRecorder, Span};
use parking_lot::Mutex;

use ferroce_perf::{Iterations, Operation, PerfSpec, Test, runner};

/// The card.
pub const CARD: &str = "cx5-100g";
/// The host that sends requests.
const REQUESTER: usize = 0;
/// Messages of a run.
const MESSAGES: u64 = 5;
const READ_BYTES: u32 = 1 << 18;
const WRITE_BYTES: u32 = 8;
/// Value of `AdpRetxProfile.time_unit`.
const MICROSECONDS: u8 = 1;
/// Bytes of a range's register.
const RANGE_BYTES: u32 = 4;

/// The reason why no answer arrives in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// READs over a link with a round trip of 40 ms.
    Delay,
    /// WRITEs over a link that loses all packets.
    Loss,
}

/// A range of an adaptive retransmission profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// `range_low_bound`.
    pub low_bound: u8,
    /// `range_size`.
    pub size: u8,
    /// `timeout_retry_num`.
    pub retries: u16,
}

/// An adaptive retransmission profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `time_base`, in us.
    pub base_us: u16,
    /// `timeout_init_low_bound` and `timeout_init_range_size`.
    pub first: (u8, u8),
    /// The ranges.
    pub ranges: &'static [Range],
}

/// A run with the adaptive retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resends {
    /// The profile that software sets; `None`: the built-in one.
    pub profile: Option<&'static Profile>,
    /// Local ACK timeout: 4.096 us times two to the power of it.
    pub local_ack_timeout: u8,
    /// Why there is no answer.
    pub silence: Silence,
    /// Queue pairs.
    pub qps: u32,
}

/// The figure of a run: the transmissions of each queue pair's first request packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Time in us between a transmission and the next one; the first has number 1.
    Interval(usize),
    /// Their number.
    Transmissions,
    /// The shortest time in us until the second one, of all queue pairs.
    ShortestFirst,
    /// The longest.
    LongestFirst,
}

impl Profile {
    /// Returns the register values that set the profile and select it.
    fn registers(&self) -> Vec<(u32, u32)> {
        let mut profile = AdpRetxProfile::default();
        profile.set_time_base(self.base_us);
        profile.set_time_unit(MICROSECONDS);
        profile.set_range_num(self.ranges.len() as u8);
        profile.set_qp_total_timeout(true);
        let mut start = AdpRetxProfileStart::default();
        start.set_timeout_init_low_bound(self.first.0);
        start.set_timeout_init_range_size(self.first.1);
        let mut accl = enabled();
        accl.set_adp_retx_profile_id(1);
        let mut writes = vec![
            (offset::adp_retx_profile, profile.bits()),
            (offset::adp_retx_profile_start, start.bits()),
        ];
        for (index, range) in (0..).zip(self.ranges) {
            let mut word = AdpRetxRange::default();
            word.set_range_low_bound(range.low_bound);
            word.set_range_size(range.size);
            word.set_timeout_retry_num(range.retries);
            writes.push((offset::adp_retx_range + RANGE_BYTES * index, word.bits()));
        }
        writes.push((offset::roce_accl, accl.bits()));
        writes
    }
}

/// Returns ROCE_ACCL with the adaptive retransmission timer.
fn enabled() -> RoceAccl {
    let mut accl = RoceAccl::default();
    accl.set_roce_adp_retrans_en(true);
    accl
}

impl Resends {
    fn spec(&self) -> Result<PerfSpec, String> {
        let mut preset = Preset::load(CARD).map_err(|error| error.to_string())?;
        // The figures come from firmware with another built-in profile than `identity.mlx5` has.
        let changed = preset.set("identity.mlx5", "false");
        changed.map_err(|error| error.to_string())?;
        let operation = match self.silence {
            Silence::Delay => Operation::Read,
            Silence::Loss => Operation::Write,
        };
        if self.silence == Silence::Delay {
            let changed = preset.set("link.cable_ns", "20e6");
            changed.map_err(|error| error.to_string())?;
        }
        let mut spec = PerfSpec::new(preset, operation, Test::Bandwidth);
        spec.sizes = vec![match self.silence {
            Silence::Delay => READ_BYTES,
            Silence::Loss => WRITE_BYTES,
        }];
        if self.silence == Silence::Loss {
            let plan = "loss=1".parse();
            spec.faults = Some(plan.map_err(|error| format!("loss=1: {error}"))?);
        }
        spec.iterations = Iterations::Exactly(MESSAGES);
        spec.local_ack_timeout = Some(self.local_ack_timeout);
        spec.qps = self.qps;
        spec.registers = match self.profile {
            Some(profile) => profile.registers(),
            None => vec![(offset::roce_accl, enabled().bits())],
        };
        Ok(spec)
    }

    /// Returns the times in us, relative to the first one, at which each queue pair sent its first
    /// request packet.
    pub fn times_us(&self) -> Result<Vec<Vec<f64>>, String> {
        let spec = self.spec()?;
        let seen = Arc::new(Mutex::new(FirstRequests::default()));
        let recorder: SharedRecorder = Arc::clone(&seen) as SharedRecorder;
        let stop = AtomicBool::new(false);
        let result = runner::run_recorded(&spec, spec.sizes[0], &stop, recorder);
        if self.silence == Silence::Delay {
            // Without answers the run ends with a completion with error.
            result.map_err(|error| error.to_string())?;
        }
        let requests = std::mem::take(&mut seen.lock().by_qp);
        Ok(requests.into_values().map(FirstRequest::times_us).collect())
    }
}

/// Returns a figure of `resends`.
pub fn figure(resends: &Resends, figure: Figure) -> Result<f64, String> {
    let times = resends.times_us()?;
    let first = times.first().ok_or("no request was sent")?;
    let between = |times: &[f64], number: usize| {
        let pair = times.get(number.checked_sub(1)?..=number)?;
        Some(pair[1] - pair[0])
    };
    let firsts = || times.iter().filter_map(|times| between(times, 1));
    let value = match figure {
        Figure::Interval(number) => between(first, number),
        Figure::Transmissions => Some(first.len() as f64),
        Figure::ShortestFirst => firsts().min_by(f64::total_cmp),
        Figure::LongestFirst => firsts().max_by(f64::total_cmp),
    };
    value.ok_or_else(|| format!("a request was sent only {} times", first.len()))
}

/// The transmissions of a queue pair's first request packet.
#[derive(Debug)]
struct FirstRequest {
    /// Its PSN.
    psn: u32,
    sent: Vec<Instant>,
}

impl FirstRequest {
    fn times_us(self) -> Vec<f64> {
        let first = self.sent.first().copied().unwrap_or(Instant::ZERO);
        let us = |at: Instant| (at - first).as_ps() as f64 / 1e6;
        self.sent.into_iter().map(us).collect()
    }
}

/// Records the times at which the first request packet of each queue pair leaves, by the peer's
/// QPN.
#[derive(Debug, Default)]
struct FirstRequests {
    by_qp: BTreeMap<u32, FirstRequest>,
}

impl Recorder for FirstRequests {
    fn record(&mut self, _: &Span) {}

    fn frame(&mut self, frame: &FrameSeen<'_>) {
        let Some(packet) = Packet::parse(frame.bytes) else {
            return;
        };
        if frame.from != REQUESTER || packet.key.is_response {
            return;
        }
        let psn = packet.psn.value();
        let qpn = packet.key.destination_qp.value();
        let request = self.by_qp.entry(qpn).or_insert(FirstRequest {
            psn,
            sent: Vec::new(),
        });
        if psn == request.psn {
            request.sent.push(frame.sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the timers follow the registers. Method: a profile of one range, and its transmissions
    /// on a link that loses everything.
    #[test]
    fn a_profile_says_when_a_request_is_sent_again() {
        const PROFILE: Profile = Profile {
            base_us: 4,
            first: (3, 1),
            ranges: &[Range {
                low_bound: 4,
                size: 2,
                retries: 2,
            }],
        };
        let resends = Resends {
            profile: Some(&PROFILE),
            local_ack_timeout: 14,
            silence: Silence::Loss,
            qps: 2,
        };
        let times = resends.times_us().expect("it runs");
        assert_eq!(times.len(), 2);
        let intervals = times[0].windows(2).map(|pair| pair[1] - pair[0]);
        let intervals: Vec<f64> = intervals.take(5).map(f64::round).collect();
        assert_eq!(intervals, [32.0, 64.0, 64.0, 128.0, 128.0]);
    }
}
