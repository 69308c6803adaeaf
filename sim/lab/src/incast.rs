//! How hosts that all send to one share its cable: WRITEs through a switch, by how the cards react
//! to its marks.

use ferroce_model::congestion::dcqcn::DcqcnParameters;
use ferroce_model::congestion::{Algorithm, CongestionConfig, NotificationConfig};
use ferroce_model::preset::Preset;
use ferroce_units::Duration;
use ferroce_world::fabric_plan::{DEFAULT_ECN, SIGCOMM_2015_ECN};
use ferroce_world::{FabricPlan, MarkCurve};

use crate::perf::pattern::Pattern;
use crate::perf::traffic::Traffic;
use crate::perf::{Iterations, Operation, PerfSpec, Test, Topology};
use crate::reference::experiment::Simulator;

/// The card.
pub const CARD: &str = "cx5-100g";
const MTU_BYTES: u32 = 4096;
const MESSAGE_BYTES: u32 = 64 << 10;
/// Messages of each sender: the shares of DCQCN are fair in the mean of some ten milliseconds.
const MESSAGES: u64 = 4000;
/// With HPCC's parameters: rates that were cut too far come back by 50 to 100 Mb/s in 900 us, so
/// that fair shares take some hundred milliseconds.
const HPCC_MESSAGES: u64 = 32_000;
/// DCQCN in the paper: a CNP in 50 us at most.
const PAPER_CNP_GAP: Duration = Duration::from_us(50);
/// HPCC's simulations: each marked packet is answered by an ACK with the notification in it.
const HPCC_CNP_GAP: Duration = Duration::ZERO;

/// Parameters of switch and cards that were published together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The DCQCN paper and its validation code.
    Paper,
    /// HPCC's simulations of DCQCN at 100 Gb/s.
    Hpcc,
    /// What a ConnectX-5 does by default, behind a switch of HPCC.
    ConnectX,
}

/// Hosts that send to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incast {
    /// How many.
    pub senders: u32,
    /// How they react.
    pub source: Source,
}

/// What is taken from the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Distance of the share that is farthest from the fair one, in parts of it.
    Unfairness,
    /// Payload, of what the cable of the receiver can carry.
    Utilisation,
    /// The queue of the switch in the mean, in KB.
    QueueKilobytes,
    /// Packets that were dropped.
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
            Self::Paper | Self::ConnectX => MESSAGES,
        }
    }

    /// Returns the marks of the switch.
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

/// Returns how hosts that send to one have shared its cable.
pub fn traffic(simulator: &dyn Simulator, incast: &Incast) -> Result<Traffic, String> {
    let result = simulator.run(&incast.spec()?)?;
    let row = result.rows.into_iter().next();
    let traffic = row.and_then(|row| row.traffic);
    traffic.ok_or_else(|| "the run has no flows".to_owned())
}

/// Returns a figure of hosts that send to one.
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
