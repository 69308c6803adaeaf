//! The option for a fabric between the hosts, and the report on its traffic.

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use ferroce_perf::traffic::Traffic;
use ferroce_world::{FabricNode, FabricPlan, FabricReport};

/// Maximum number of flows that are printed one by one; for more, only a summary is printed.
const MOST_FLOWS: usize = 16;
const PS_PER_US: f64 = 1e6;
/// Maximum number of hosts of a file: they have numbers of 16 bits.
const MOST_HOSTS: usize = 1 << 16;

/// A fabric between the hosts.
#[derive(Debug, Clone, Args)]
pub struct Fabric {
    /// Switches and links between the hosts: a TOML file, `star`, or `two-tier:LEAVES:HOSTS:SPINES`
    /// with so many hosts on each leaf. Built-in ones mark and pause, and the cards have DCQCN.
    /// The chapter "Congestion" has the keys of a file
    #[arg(long = "fabric", value_name = "FILE")]
    pub file: Option<String>,
}

impl Fabric {
    /// Reads the fabric for at most `most` hosts; for `hosts` hosts if the file does not give a
    /// number.
    pub fn plan(&self, hosts: usize, most: usize) -> Result<Option<FabricPlan>, String> {
        let Some(name) = &self.file else {
            return Ok(None);
        };
        let wrong = |error: String| format!("--fabric {name}: {error}");
        let plan = match built_in(name, hosts) {
            Some(plan) => plan.map_err(wrong)?,
            None => {
                let text = std::fs::read_to_string(Path::new(name));
                let text = text.map_err(|error| wrong(error.to_string()))?;
                FabricPlan::from_toml(&text, most).map_err(|error| wrong(error.to_string()))?
            }
        };
        Ok(Some(plan))
    }

    /// Reads the fabric of a command that measures whole hosts.
    pub fn plan_of_hosts(&self, hosts: usize) -> Result<Option<FabricPlan>, String> {
        let plan = self.plan(hosts, MOST_HOSTS)?;
        let several = plan.iter().flat_map(|plan| &plan.multi_function).next();
        match several {
            Some(several) => Err(format!(
                "--fabric: host n{} has several functions, which only `ferroce world` knows",
                several.number
            )),
            None => Ok(plan),
        }
    }
}

/// Returns the built-in fabric `name`, if there is one.
fn built_in(name: &str, hosts: usize) -> Option<Result<FabricPlan, String>> {
    if name == "star" {
        return Some(Ok(FabricPlan::star(hosts).with_dcqcn()));
    }
    let shape = name.strip_prefix("two-tier:")?;
    let numbers: Option<Vec<usize>> = shape.split(':').map(|n| n.parse().ok()).collect();
    let is_sensible = |numbers: &[usize]| numbers.iter().all(|n| (1..=64).contains(n));
    Some(match numbers.as_deref() {
        Some(numbers @ &[leaves, hosts, spines]) if is_sensible(numbers) => {
            Ok(FabricPlan::two_tier(leaves, hosts, spines).with_dcqcn())
        }
        _ => Err("write two-tier:LEAVES:HOSTS:SPINES with numbers from 1 to 64".to_owned()),
    })
}

/// Returns the traffic of flows as text.
pub fn text(traffic: &Traffic) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_flows(&mut out, traffic);
    if let Some(fabric) = &traffic.fabric {
        let _ = write_fabric(&mut out, traffic, fabric);
    }
    out.trim_end().to_owned()
}

fn write_flows(out: &mut String, traffic: &Traffic) -> std::fmt::Result {
    if traffic.flows.len() <= MOST_FLOWS {
        writeln!(out, " flow            payload[Gb/s]   completion[usec]")?;
        for flow in &traffic.flows {
            let ends = format!("n{} -> n{}", flow.from, flow.to);
            let us = flow.completion_ps as f64 / PS_PER_US;
            writeln!(out, " {ends:<14} {:>14.2} {us:>18.2}", flow.gbps)?;
        }
    }
    let (p50, p99) = traffic.completion_ps;
    let us = |ps: u64| ps as f64 / PS_PER_US;
    writeln!(out, " Flows           : {}", traffic.flows.len())?;
    writeln!(
        out,
        " Utilisation     : {:.1} % of the receivers' cables",
        100.0 * traffic.utilisation
    )?;
    let (jain, least) = (traffic.jain, traffic.least_of_most);
    writeln!(
        out,
        " Fairness        : Jain {jain:.4}, slowest / fastest {least:.3}"
    )?;
    writeln!(
        out,
        " Completion      : median {:.2} us, 99 % {:.2} us",
        us(p50),
        us(p99)
    )
}

fn write_fabric(out: &mut String, traffic: &Traffic, fabric: &FabricReport) -> std::fmt::Result {
    if let Some(queue) = &traffic.queue {
        let (from, to) = (node(queue.port.0), node(queue.port.1));
        let (mean, most) = (queue.mean_bytes / 1000.0, queue.most_bytes as f64 / 1000.0);
        writeln!(
            out,
            " Fullest queue   : {from} -> {to}, mean {mean:.1} KB, most {most:.1} KB"
        )?;
    }
    let sum = |count: fn(&ferroce_world::PortReport) -> u64| fabric.ports.iter().map(count).sum();
    let (marked, pauses): (u64, u64) = (sum(|port| port.marked), sum(|port| port.pauses));
    let paused: u64 = sum(|port| port.paused.as_ns());
    writeln!(out, " Marked          : {marked} of {} frames", fabric.sent)?;
    writeln!(
        out,
        " Pauses          : {pauses}, for {:.2} us in all",
        paused as f64 / 1000.0
    )?;
    writeln!(out, " Dropped         : {} frames", fabric.dropped)
}

fn node(node: FabricNode) -> String {
    match node {
        FabricNode::Host(host) => format!("n{host}"),
        FabricNode::Switch(switch) => format!("switch {switch}"),
    }
}
