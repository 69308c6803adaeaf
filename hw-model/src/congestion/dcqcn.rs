//! DCQCN (Zhu et al., SIGCOMM 2015) with the parameters of a ConnectX.
//!
//! - A CNP cuts the rate by up to one half: by `alpha`, an estimate of the congestion on the path,
//!   which rises with CNPs and falls without them.
//! - Then the rate rises again, in steps that are counted by a timer and by the bytes sent: first
//!   back to the rate before the cut (fast recovery), then slowly beyond it (additive increase),
//!   and faster when both counters have reached the threshold (hyper increase).

use ferroce_units::{Duration, Instant};

use super::RateControl;

/// Scale of `alpha` and of its gain: 1024 is one.
const ALPHA_ONE: f64 = 1024.0;

/// Parameters, named as in `mlxconfig` without `RPG_` and `DCE_TCP_`.
#[derive(Debug, Clone, PartialEq)]
pub struct DcqcnParameters {
    /// `RPG_TIME_RESET`: time between two steps of the timer.
    pub time_reset: Duration,
    /// `RPG_BYTE_RESET`: bytes between two steps of the byte counter; `None`: there is no byte
    /// counter, and the timer alone decides, with one additive step before the hyper steps.
    pub byte_reset: Option<u64>,
    /// `RPG_THRESHOLD`: steps of fast recovery.
    pub threshold: u32,
    /// `RPG_MAX_RATE` in Mb/s; 0: the line rate.
    pub max_rate_mbps: u32,
    /// `RPG_AI_RATE` in Mb/s: additive increase.
    pub ai_rate_mbps: u32,
    /// `RPG_HAI_RATE` in Mb/s: hyper increase.
    pub hai_rate_mbps: u32,
    /// `RPG_GD`: a cut takes `rate * alpha / 2^gd` with `alpha` from 0 to 1023.
    pub gd: u32,
    /// `RPG_MIN_DEC_FAC`: minimum share of the rate that a cut leaves, in percent.
    pub min_dec_fac_percent: u32,
    /// `RPG_MIN_RATE` in Mb/s.
    pub min_rate_mbps: u32,
    /// `RATE_TO_SET_ON_FIRST_CNP` in Mb/s; 0: the first CNP cuts like any other.
    pub rate_to_set_on_first_cnp_mbps: u32,
    /// `DCE_TCP_G`: share of `alpha` that is kept in a period, in 1/1024.
    pub dce_tcp_g: u32,
    /// `DCE_TCP_RTT`: period in which `alpha` is updated.
    pub dce_tcp_rtt: Duration,
    /// `RATE_REDUCE_MONITOR_PERIOD`: minimum time between two cuts.
    pub rate_reduce_monitor_period: Duration,
    /// `INITIAL_ALPHA_VALUE`, in 1/1024.
    pub initial_alpha_value: u32,
    /// `CLAMP_TGT_RATE`: each cut sets the target to the rate before the cut, even if the rate has
    /// not risen since the last cut.
    pub clamp_tgt_rate: bool,
    /// `CLAMP_TGT_RATE_AFTER_TIME_INC`: a step of the timer counts as such a rise.
    pub clamp_tgt_rate_after_time_inc: bool,
}

impl DcqcnParameters {
    /// Values that `mlxconfig` prints for a ConnectX-5 Ex (MCX516A-CDA).
    pub const CONNECTX: Self = Self {
        time_reset: Duration::from_us(300),
        byte_reset: Some(32_767),
        threshold: 1,
        max_rate_mbps: 0,
        ai_rate_mbps: 5,
        hai_rate_mbps: 50,
        gd: 11,
        min_dec_fac_percent: 50,
        min_rate_mbps: 1,
        rate_to_set_on_first_cnp_mbps: 0,
        dce_tcp_g: 1019,
        dce_tcp_rtt: Duration::from_us(1),
        rate_reduce_monitor_period: Duration::from_us(4),
        initial_alpha_value: 1023,
        clamp_tgt_rate: false,
        clamp_tgt_rate_after_time_inc: true,
    };

    /// Parameters of the evaluation in the DCQCN paper: timer and byte counter, gain 1/256, five
    /// steps of fast recovery, 40 Mb/s additive increase, a cut and an update of `alpha` in 50 us.
    /// Hyper increase is ten times the additive increase, as on a ConnectX: the paper does not
    /// state it.
    pub const SIGCOMM_2015: Self = Self {
        time_reset: Duration::from_us(50),
        byte_reset: Some(10_000_000),
        threshold: 5,
        ai_rate_mbps: 40,
        hai_rate_mbps: 400,
        dce_tcp_g: 1020,
        dce_tcp_rtt: Duration::from_us(50),
        rate_reduce_monitor_period: Duration::from_us(50),
        clamp_tgt_rate: true,
        ..Self::CONNECTX
    };

    /// Parameters with which HPCC (SIGCOMM 2019) simulates DCQCN: gain 1/256 each microsecond, a
    /// cut in 4 us, a step of the timer in 900 us, one step of fast recovery, and no byte counter.
    pub const HPCC: Self = Self {
        time_reset: Duration::from_us(900),
        byte_reset: None,
        ai_rate_mbps: 50,
        hai_rate_mbps: 100,
        dce_tcp_g: 1020,
        ..Self::CONNECTX
    };
}

/// The rate of one queue pair.
#[derive(Debug)]
pub struct Dcqcn {
    parameters: DcqcnParameters,
    max_mbps: f64,
    rate_mbps: f64,
    target_mbps: f64,
    /// From 0 to 1.
    alpha: f64,
    /// True if a CNP has arrived in this period of `alpha`.
    has_cnp: bool,
    /// End of the period.
    period_ends: Instant,
    last_cut: Option<Instant>,
    /// True if the rate has risen since the last cut, by a step that counts.
    has_risen: bool,
    /// Time of the timer's next step.
    timer: Instant,
    timer_steps: u32,
    bytes: u64,
    byte_steps: u32,
}

/// The source of a step.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Time,
    Bytes,
}

impl Dcqcn {
    /// Returns the control of a queue pair that had no limit so far.
    pub fn new(parameters: DcqcnParameters, now: Instant, line_rate_mbps: f64) -> Self {
        let max_mbps = match parameters.max_rate_mbps {
            0 => line_rate_mbps,
            limit => f64::from(limit).min(line_rate_mbps),
        };
        Self {
            max_mbps,
            rate_mbps: max_mbps,
            target_mbps: max_mbps,
            alpha: f64::from(parameters.initial_alpha_value) / ALPHA_ONE,
            has_cnp: false,
            period_ends: now + parameters.dce_tcp_rtt,
            last_cut: None,
            has_risen: true,
            timer: now + parameters.time_reset,
            timer_steps: 0,
            bytes: 0,
            byte_steps: 0,
            parameters,
        }
    }

    /// Processes the periods of `alpha` and the steps of the timer up to `now`.
    fn catch_up(&mut self, now: Instant) {
        let keep = f64::from(self.parameters.dce_tcp_g) / ALPHA_ONE;
        let period = self.parameters.dce_tcp_rtt;
        if self.period_ends <= now {
            self.alpha *= keep;
            if std::mem::take(&mut self.has_cnp) {
                self.alpha += 1.0 - keep;
            }
            self.period_ends += period;
            // No CNP arrived in the later periods.
            let late = now.saturating_since(self.period_ends).as_ps();
            if self.period_ends <= now {
                let periods = late / period.as_ps().max(1) + 1;
                self.alpha *= keep.powi(periods.min(i32::MAX as u64) as i32);
                self.period_ends += Duration(periods * period.as_ps());
            }
        }
        while self.timer <= now {
            let at = self.timer;
            if self.is_unlimited() {
                // Nothing can change before the next cut, which restarts the timer.
                self.timer = now + self.parameters.time_reset;
                break;
            }
            self.timer = at + self.parameters.time_reset;
            self.timer_steps = self.timer_steps.saturating_add(1);
            self.rise(Step::Time);
        }
    }

    fn is_unlimited(&self) -> bool {
        self.rate_mbps >= self.max_mbps && self.target_mbps >= self.max_mbps
    }

    /// Makes a step up.
    fn rise(&mut self, step: Step) {
        let threshold = self.parameters.threshold;
        let byte_steps = match self.parameters.byte_reset {
            Some(_) => self.byte_steps,
            None => self.timer_steps.saturating_sub(1),
        };
        let (most, least) = (
            self.timer_steps.max(byte_steps),
            self.timer_steps.min(byte_steps),
        );
        if least > threshold {
            self.target_mbps += f64::from(self.parameters.hai_rate_mbps);
        } else if most > threshold {
            self.target_mbps += f64::from(self.parameters.ai_rate_mbps);
        }
        self.target_mbps = self.target_mbps.min(self.max_mbps);
        self.rate_mbps = (self.rate_mbps + self.target_mbps) / 2.0;
        // Halving the distance never reaches the target, so stop when it is close.
        if self.max_mbps - self.rate_mbps < 1.0 && self.target_mbps >= self.max_mbps {
            self.rate_mbps = self.max_mbps;
        }
        self.has_risen |= step == Step::Bytes || self.parameters.clamp_tgt_rate_after_time_inc;
    }

    fn cut(&mut self, now: Instant) {
        let parameters = &self.parameters;
        let first = f64::from(parameters.rate_to_set_on_first_cnp_mbps);
        if self.has_risen || parameters.clamp_tgt_rate {
            self.target_mbps = self.rate_mbps;
        }
        if self.last_cut.is_none() && first > 0.0 {
            self.rate_mbps = first.min(self.max_mbps);
        } else {
            let share = self.alpha * ALPHA_ONE / f64::from(1 << parameters.gd.min(30));
            let kept = f64::from(parameters.min_dec_fac_percent) / 100.0;
            self.rate_mbps *= (1.0 - share).max(kept);
        }
        self.rate_mbps = self
            .rate_mbps
            .max(f64::from(parameters.min_rate_mbps.max(1)));
        self.timer = now + parameters.time_reset;
        self.last_cut = Some(now);
        self.has_risen = false;
        (self.timer_steps, self.byte_steps, self.bytes) = (0, 0, 0);
    }
}

impl RateControl for Dcqcn {
    fn congested(&mut self, now: Instant) {
        self.catch_up(now);
        self.has_cnp = true;
        let pause = self.parameters.rate_reduce_monitor_period;
        if self.last_cut.is_none_or(|last| now >= last + pause) {
            self.cut(now);
        }
    }

    fn sent(&mut self, now: Instant, bytes: u32) {
        self.catch_up(now);
        if self.is_unlimited() {
            return;
        }
        let Some(byte_reset) = self.parameters.byte_reset else {
            return;
        };
        self.bytes += u64::from(bytes);
        if self.bytes >= byte_reset {
            self.bytes -= byte_reset;
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.rise(Step::Bytes);
        }
    }

    fn rate_mbps(&mut self, now: Instant) -> Option<f64> {
        self.catch_up(now);
        (!self.is_unlimited()).then_some(self.rate_mbps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: f64 = 100_000.0;

    fn control(parameters: DcqcnParameters) -> Dcqcn {
        Dcqcn::new(parameters, Instant::ZERO, LINE)
    }

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.01
    }

    #[test]
    fn the_first_notification_halves_the_rate_and_recovery_takes_it_back() {
        let mut dcqcn = control(DcqcnParameters::CONNECTX);
        dcqcn.congested(Instant::from_us(1));
        let rate = dcqcn.rate_mbps(Instant::from_us(1)).expect("limited");
        assert!(near(rate, 50_000.0), "{rate}");
        let rate = dcqcn.rate_mbps(Instant::from_us(301)).expect("limited");
        assert!(near(rate, 75_000.0), "half of the way back: {rate}");
    }

    #[test]
    fn cuts_keep_their_distance() {
        let mut dcqcn = control(DcqcnParameters::CONNECTX);
        for ns in (1000..5000).step_by(500) {
            dcqcn.congested(Instant::from_ns(ns));
        }
        let rate = dcqcn.rate_mbps(Instant::from_ns(4999)).expect("limited");
        assert!(near(rate, 50_000.0), "one cut: {rate}");
        dcqcn.congested(Instant::from_us(5));
        let rate = dcqcn.rate_mbps(Instant::from_us(5)).expect("limited");
        assert!((25_000.0..26_000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn alpha_falls_without_notifications() {
        let mut dcqcn = control(DcqcnParameters::CONNECTX);
        dcqcn.congested(Instant::from_us(1));
        // 139 periods of 1 us halve alpha: (1019 / 1024)^139 = 0.506.
        dcqcn.catch_up(Instant::from_us(140));
        assert!(near(dcqcn.alpha, 0.506), "{}", dcqcn.alpha);
        dcqcn.catch_up(Instant::from_us(10_000));
        assert!(dcqcn.alpha < 1e-6, "{}", dcqcn.alpha);
    }

    #[test]
    fn the_phases_follow_each_other() {
        let mut dcqcn = control(DcqcnParameters::SIGCOMM_2015);
        dcqcn.congested(Instant::from_us(1));
        let target = dcqcn.target_mbps;
        dcqcn.catch_up(Instant::from_us(1 + 50 * 5));
        assert_eq!(dcqcn.target_mbps, target, "five steps of fast recovery");
        let mut low = control(DcqcnParameters::SIGCOMM_2015);
        low.congested(Instant::from_us(1));
        low.target_mbps = 1000.0;
        low.rate_mbps = 500.0;
        low.catch_up(Instant::from_us(1 + 50 * 7));
        assert_eq!(low.target_mbps, 1080.0, "two steps of additive increase");
        low.byte_steps = 6;
        low.catch_up(Instant::from_us(1 + 50 * 8));
        assert_eq!(low.target_mbps, 1480.0, "a step of hyper increase");
    }

    #[test]
    fn a_sender_that_is_left_alone_reaches_the_line() {
        let mut dcqcn = control(DcqcnParameters::SIGCOMM_2015);
        dcqcn.congested(Instant::from_us(1));
        assert_eq!(dcqcn.rate_mbps(Instant::from_us(1_000_000)), None);
        dcqcn.sent(Instant::from_us(1_000_000), u32::MAX);
        assert_eq!(dcqcn.rate_mbps(Instant::from_us(1_000_001)), None);
    }

    #[test]
    fn the_rate_has_a_lower_bound() {
        let mut dcqcn = control(DcqcnParameters::CONNECTX);
        for n in 0..1000 {
            dcqcn.congested(Instant::from_us(4 * n));
        }
        let rate = dcqcn.rate_mbps(Instant::from_us(4000)).expect("limited");
        assert_eq!(rate, 1.0);
    }
}
