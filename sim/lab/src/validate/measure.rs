//! Executes plans.

use ferroce_model::pcie::{Parameters, bench};
use ferroce_model::preset::Preset;
use ferroce_perf::{PerfResult, PerfSpec};

use super::changes::Changes;
use super::datagram_echo;
use super::plan::{Access, Figure, Perf, Run, Slot, Statistic};

use crate::reference::experiment::{self, Simulator};
use crate::reference::{BandwidthRow, LatencyRow, Rows};
use crate::{dead_peer, faulty_link, incast, resends};

/// Number of accesses of a run over PCIe; enough for a 99.9th percentile.
const PCIE_ACCESSES: u32 = 40_000;
/// A window that fits every cache.
const PCIE_WINDOW_BYTES: u64 = 8 << 10;
/// Share of the best bandwidth at a knee.
const KNEE_SHARE: f64 = 0.95;

/// Returns the figure of `run`, with these changes of its preset.
pub fn figure(simulator: &dyn Simulator, run: &Run, changes: &Changes) -> Result<f64, String> {
    let parameters = |slot| parameters_with(slot, changes);
    let changed = Changed { simulator, changes };
    Ok(match run {
        Run::Perf(perf, figure) => of_perf(&changed, perf, *figure)?,
        Run::Knee(perf, depths) => knee(&changed, perf, depths)?,
        Run::Pcie(slot, access) => of_pcie(&parameters(*slot)?, *access),
        Run::RemoteSocket(slot) => {
            let read = Access::Latency(64, PCIE_WINDOW_BYTES, Statistic::Median);
            let near = parameters(*slot)?;
            let mut far = near;
            far.memory.remote_socket = true;
            of_pcie(&far, read) - of_pcie(&near, read)
        }
        Run::Datagrams(preset, datagrams) => {
            datagram_echo::figure(&load(preset, changes)?, *datagrams)?
        }
        Run::Faulty(link, figure) => faulty_link::figure(&changed, link, *figure)?,
        Run::Incast(incast, figure) => incast::figure(&changed, incast, *figure)?,
        Run::Resends(resends, figure) => resends::figure(resends, *figure)?,
        Run::DeadPeer(peer) => peer.detection_ms(load(dead_peer::CARD, changes)?)?,
    })
}

/// A simulator that changes the preset of each experiment.
struct Changed<'a> {
    simulator: &'a dyn Simulator,
    changes: &'a Changes,
}

impl Simulator for Changed<'_> {
    fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
        let mut spec = spec.clone();
        self.changes.apply(&mut spec.preset)?;
        self.simulator.run(&spec)
    }
}

fn load(name: &str, changes: &Changes) -> Result<Preset, String> {
    let mut preset = Preset::load(name).map_err(|error| error.to_string())?;
    changes.apply(&mut preset)?;
    Ok(preset)
}

fn of_perf(simulator: &dyn Simulator, perf: &Perf, figure: Figure) -> Result<f64, String> {
    let rows = experiment::run(simulator, &perf.spec()?)?;
    of_rows(&rows, figure, perf.requesting_hosts(), perf.threads())
        .ok_or_else(|| format!("the run has no {figure:?}"))
}

/// Returns a figure of a run's rows, for this many requesting hosts and threads of each.
pub fn of_rows(rows: &Rows, figure: Figure, hosts: u32, threads: u32) -> Option<f64> {
    match rows {
        Rows::Bandwidth(rows) => of_bandwidth(rows, figure, hosts, threads),
        Rows::Latency(rows) => of_latency(rows, figure),
    }
}

fn of_bandwidth(rows: &[BandwidthRow], figure: Figure, hosts: u32, threads: u32) -> Option<f64> {
    let rate = rows.last()?.message_rate_mpps / f64::from(hosts);
    let best = rows.iter().map(|row| row.average_gbps).fold(0.0, f64::max);
    match figure {
        Figure::Goodput => {
            let sum: f64 = rows.iter().map(|row| row.average_gbps).sum();
            Some(sum / rows.len() as f64)
        }
        Figure::KneeBytes => {
            let reached = rows
                .iter()
                .filter(|row| row.average_gbps >= best * KNEE_SHARE);
            reached.map(|row| row.bytes as f64).min_by(f64::total_cmp)
        }
        Figure::Rate => Some(rate),
        Figure::RateFarthestFrom(expected) => {
            let distance = |rate: &f64| (rate / expected).ln().abs();
            let rates = rows.iter().map(|row| row.message_rate_mpps);
            rates.max_by(|a, b| distance(a).total_cmp(&distance(b)))
        }
        Figure::LoopTime => Some(f64::from(threads) / rate),
        Figure::Typical | Figure::Mean | Figure::Tail | Figure::Step => None,
    }
}

fn of_latency(rows: &[LatencyRow], figure: Figure) -> Option<f64> {
    let (first, last) = (rows.first()?, rows.last()?);
    match figure {
        Figure::Typical => last.typical_us,
        Figure::Mean => last.average_us,
        Figure::Tail => Some(last.p99_us? / last.typical_us?),
        Figure::Step => Some(last.typical_us? - first.typical_us?),
        Figure::Goodput
        | Figure::KneeBytes
        | Figure::Rate
        | Figure::RateFarthestFrom(_)
        | Figure::LoopTime => None,
    }
}

/// Returns the largest number of outstanding work requests at which the rate still has
/// [`KNEE_SHARE`] of the best.
fn knee(simulator: &dyn Simulator, perf: &Perf, depths: &[u32]) -> Result<f64, String> {
    let mut rates = Vec::new();
    for depth in depths {
        let rate = of_perf(simulator, &perf.at_depth(*depth), Figure::Rate)?;
        rates.push((*depth, rate));
    }
    let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let held = rates.iter().filter(|(_, rate)| *rate >= best * KNEE_SHARE);
    let depth = held.map(|(depth, _)| *depth).max().unwrap_or(0);
    Ok(f64::from(depth * perf.threads()))
}

/// Returns the parameters of a slot, with card and host.
pub fn parameters(slot: Slot) -> Result<Parameters, String> {
    parameters_with(slot, &Changes::default())
}

fn parameters_with(slot: Slot, changes: &Changes) -> Result<Parameters, String> {
    Ok(match slot {
        Slot::Engine(name) => Parameters::from(&load(name, changes)?),
        Slot::Command(name) => Parameters::from(&load(name, changes)?).by_command(),
        Slot::Link(generation, lanes, mps_bytes, mrrs_bytes) => {
            Parameters::link_alone(generation, lanes, mps_bytes, mrrs_bytes)
        }
    })
}

/// Returns a figure of a slot: ns or Gb/s.
pub fn of_pcie(host: &Parameters, access: Access) -> f64 {
    match access {
        Access::Latency(bytes, window, statistic) => {
            let latency = bench::latency(host, bytes, window, PCIE_ACCESSES);
            match statistic {
                Statistic::Minimum => latency.min,
                Statistic::Median => latency.median,
                Statistic::Mean => latency.avg,
                Statistic::P999 => latency.p999,
            }
        }
        Access::Bandwidth(direction, bytes, window) => {
            bench::bandwidth(host, direction, bytes, window, PCIE_ACCESSES)
        }
    }
}
