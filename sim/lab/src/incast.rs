//! Incast: WRITEs of several hosts through a switch to one host, and how DCQCN shares its link.

use ferroce_model::congestion::dcqcn::DcqcnParameters;
use ferroce_model::congestion::{Algorithm, CongestionConfig, NotificationConfig};
use ferroce_model::preset::Preset;
use ferroce_perf::pattern::Pattern;
use ferroce_perf::traffic::Traffic;
use ferroce_perf::{Iterations, Operation, PerfSpec, Test, Topology};
use ferroce_units::Duration;
use ferroce_world::fabric_plan::{DEFAULT_ECN, SIGCOMM_2015_ECN};
use ferroce_world::{FabricPlan, MarkCurve};

use crate::reference::experiment::Simulator;

/// The card.
pub const CARD: &str = "cx5-100g";
const MTU_BYTES: u32 = 4096;
const MESSAGE_BYTES: u32 = 64 << 10;
/// Messages of each sender: DCQCN's shares are fair in the mean of some ten milliseconds.
const MESSAGES: u64 = 4000;
/// Messages with the DCQCN paper's parameters: a flow that was cut recovers by 40 Mb/s every 50 us.
/// The least fair flow is 6 or 14 % off after 4,000 messages, depending on values that have nothing
/// to do with congestion, and 2 or 4 % after 8,000.
const PAPER_MESSAGES: u64 = 8000;
/// Messages with HPCC's parameters: a rate that was cut too far recovers by 50 to 100 Mb/s every
/// 900 us, so fair shares need some hundred milliseconds.
const HPCC_MESSAGES: u64 = 32_000;
/// Minimum interval between two CNPs in the DCQCN paper: 50 us.
const PAPER_CNP_GAP: Duration = Duration::from_us(50);
/// HPCC's simulations answer each marked packet with an ACK that contains the notification.
const HPCC_CNP_GAP: Duration = Duration::ZERO;

/// Parameters of switch and cards that were published together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The DCQCN paper and its validation code.
    Paper,
    /// HPCC's simulations of DCQCN at 100 Gb/s.
    Hpcc,
    /// The defaults of a ConnectX-5, with the switch of HPCC.
    ConnectX,
}

/// An incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incast {
    /// Number of senders.
    pub senders: u32,
    /// Parameters of switch and cards.
    pub source: Source,
}

/// The figure that is computed from the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Largest relative distance of a sender's rate from the fair share.
    Unfairness,
    /// Payload as a share of the capacity of the receiver's link.
    Utilisation,
    /// Mean queue of the switch in KB.
    QueueKilobytes,
    /// Number of dropped packets.
    Drops,
}

impl Source {
    fn congestion(self) -> CongestionConfig {
        let (parameters, gap) = match self {
            Self::Paper => (DcqcnParameters::SIGCOMM_2015, PAPER_CNP_GAP),
            Self::Hpcc => (DcqcnParameters::HPCC, HPCC_CNP_GAP),
            Self::ConnectX => (
                DcqcnParameters::CONNECTX,
                NotificationConfig::CONNECTX.min_time_between_cnps,
            ),
        };
        CongestionConfig {
            notification: NotificationConfig {
                min_time_between_cnps: gap,
                ..NotificationConfig::CONNECTX
            },
            algorithm: Algorithm::Dcqcn(parameters),
        }
    }

    fn messages(self) -> u64 {
        match self {
            Self::Hpcc => HPCC_MESSAGES,
            Self::Paper => PAPER_MESSAGES,
            Self::ConnectX => MESSAGES,
        }
    }

    /// Returns the ECN marking curve of the switch.
    fn curve(self) -> MarkCurve {
        match self {
            Self::Paper => SIGCOMM_2015_ECN,
            Self::Hpcc | Self::ConnectX => DEFAULT_ECN,
        }
    }
}

impl Incast {
    /// Returns the run.
    fn spec(&self) -> Result<PerfSpec, String> {
        let hosts = self.senders + 1;
        let mut fabric = FabricPlan::star(hosts as usize);
        fabric.congestion = Some(self.source.congestion());
        let curve = self.source.curve();
        fabric.for_each_switch(|switch| switch.ecn = Some(curve));
        let preset = Preset::load(CARD).map_err(|error| error.to_string())?;
        let mut spec = PerfSpec::new(preset, Operation::Write, Test::Bandwidth);
        spec.sizes = vec![MESSAGE_BYTES];
        spec.mtu_bytes = Some(MTU_BYTES);
        spec.iterations = Iterations::Exactly(self.source.messages());
        spec.topology = Topology::Flows {
            hosts,
            pattern: Pattern::Incast,
        };
        spec.fabric = Some(fabric);
        Ok(spec)
    }
}

/// Returns the traffic of an incast: rates, queues and fairness.
pub fn traffic(simulator: &dyn Simulator, incast: &Incast) -> Result<Traffic, String> {
    let result = simulator.run(&incast.spec()?)?;
    let row = result.rows.into_iter().next();
    let traffic = row.and_then(|row| row.traffic);
    traffic.ok_or_else(|| "the run has no flows".to_owned())
}

/// Returns a figure of an incast.
pub fn figure(simulator: &dyn Simulator, incast: &Incast, figure: Figure) -> Result<f64, String> {
    let traffic = traffic(simulator, incast)?;
    of(&traffic, figure).ok_or_else(|| format!("the run has no {figure:?}"))
}

fn of(traffic: &Traffic, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Utilisation => Some(traffic.utilisation),
        Figure::QueueKilobytes => Some(traffic.queue.as_ref()?.mean_bytes / 1000.0),
        Figure::Drops => Some(traffic.fabric.as_ref()?.dropped as f64),
        Figure::Unfairness => {
            let rates = traffic.flows.iter().map(|flow| flow.gbps);
            let fair = rates.clone().sum::<f64>() / traffic.flows.len() as f64;
            rates
                .map(|rate| (rate / fair - 1.0).abs())
                .max_by(f64::total_cmp)
        }
    }
}
