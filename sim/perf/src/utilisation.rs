//! Utilisation: how much of the time each part of hosts and cards was in use, and which one limits
//! a figure.
//!
//! A server, such as a block or a wire, limits the rate when it is always in use. An entry of a
//! pool, such as a PCIe tag, stays allocated while its item waits for a server downstream; so a
//! pool limits the rate only if no server does. If neither is in use all the time, the limit is the
//! time of each request and the number of requests that may be outstanding.

use std::fmt;

use ferroce_model::usage::{FETCHES, Kind, Usage};
use ferroce_units::Duration;
use ferroce_world::HostUsage;

use crate::plan::Plan;
use crate::spec::{Operation, Workload};

/// Share of the time above which a part counts as always in use. A run begins and ends with an idle
/// card, and the input queue of a part is sometimes empty.
const ALWAYS: f64 = 0.85;
/// Two shares that are this close are equal: the part that comes first on the data path is named.
const SAME: f64 = 0.005;
/// Decimals of a share in the documents.
const DECIMALS: f64 = 1e4;

/// The receiving MAC.
const MAC_RECEIVE: &str = "mac_receive";
/// A window counts these.
const REQUESTS: &str = "requests";

/// Name of a program's thread.
pub const THREAD: &str = "host_thread";
/// Name of a program's thread that waits for locks most of its time.
pub const LOCKS: &str = "host_thread_waits_for_locks";
/// Name of a lock that threads of a program share.
pub const LOCK: &str = "host_lock";

/// A part of a host, and the share of the time in which it was in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The host.
    pub host: usize,
    /// The part.
    pub name: &'static str,
    /// The processing unit that it belongs to.
    pub unit: Option<u8>,
    /// The kind of its work.
    pub kind: Kind,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

/// The limit on outstanding requests, and its parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Requests, or packets, of all QPs of a client.
    pub count: u64,
    /// `requests` or `packets`.
    pub of: &'static str,
    /// The parameter.
    pub by: &'static str,
}

/// The bottleneck of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Bottleneck {
    /// A part that is always in use.
    Part(Part),
    /// The time of a request: no part is always in use; the busiest one is named.
    Latency {
        /// The limit on outstanding requests.
        window: Window,
        /// The busiest part.
        busiest: Part,
    },
}

/// The use of all parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Utilisation {
    /// The parts, by host, in the order of the data path.
    pub parts: Vec<Part>,
    /// The bottleneck.
    pub bottleneck: Bottleneck,
}

/// Times of the threads of a host's program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Program {
    /// Time in which the busiest thread has worked; empty polls are no work.
    pub worked: Duration,
    /// Time in which it has waited for locks.
    pub spun: Duration,
    /// Time for which the busiest lock was held.
    pub lock: Duration,
}

/// A host during a measurement.
pub struct Observed {
    /// Its program.
    pub program: Program,
    /// Its card, slot and cable.
    pub usage: HostUsage,
    /// Device time of the measurement.
    pub elapsed: Duration,
}

impl Utilisation {
    /// Returns the use of all parts of `hosts` in a measurement that took `elapsed`; `None` if
    /// nothing takes time.
    pub fn new(
        plan: &Plan,
        workload: Workload,
        hosts: &[Observed],
        elapsed: Duration,
    ) -> Option<Self> {
        let mut parts = Vec::new();
        for (host, observed) in hosts.iter().enumerate() {
            if observed.usage.parts.is_empty() || observed.elapsed.is_zero() {
                continue;
            }
            let program = observed.program;
            let thread = if program.spun > program.worked {
                LOCKS
            } else {
                THREAD
            };
            let thread = (thread, program.worked + program.spun);
            for (name, busy) in [(LOCK, program.lock), thread] {
                parts.push(Part {
                    host,
                    name,
                    unit: None,
                    kind: Kind::Server,
                    share: share(busy, 1, elapsed),
                });
            }
            let of_card = observed.usage.parts.iter();
            parts.extend(of_card.map(|usage| part(host, usage, plan, observed.elapsed)));
        }
        let bottleneck = bottleneck(&parts, || window(plan, workload))?;
        Some(Self { parts, bottleneck })
    }

    /// Returns the part that limits the figure, if one does.
    pub fn limit(&self) -> Option<&Part> {
        match &self.bottleneck {
            Bottleneck::Part(part) => Some(part),
            Bottleneck::Latency { .. } => None,
        }
    }
}

fn part(host: usize, usage: &Usage, plan: &Plan, elapsed: Duration) -> Part {
    let qps = u64::from(plan.threads) * u64::from(plan.qps_per_thread);
    let count = match usage.name {
        FETCHES => u64::from(usage.count).min(qps),
        _ => u64::from(usage.count),
    };
    Part {
        host,
        name: usage.name,
        unit: usage.unit,
        kind: usage.kind,
        share: share(usage.busy, count, elapsed),
    }
}

fn share(busy: Duration, count: u64, elapsed: Duration) -> f64 {
    let whole = elapsed.as_ps() as f64 * count.max(1) as f64;
    let share = busy.as_ps() as f64 / whole.max(1.0);
    (share * DECIMALS).round() / DECIMALS
}

/// Returns the first of the busiest parts. A receiving MAC is as busy as the MAC that sends to it,
/// so it is never the cause.
fn busiest(parts: &[Part], kind: Kind) -> Option<Part> {
    let of_kind = || parts.iter().filter(|part| part.kind == kind);
    let most = of_kind().map(|part| part.share).fold(0.0, f64::max);
    let same = of_kind().filter(|part| part.share >= most - SAME);
    same.min_by_key(|part| part.name == MAC_RECEIVE).copied()
}

fn bottleneck(parts: &[Part], window: impl FnOnce() -> Window) -> Option<Bottleneck> {
    let server = busiest(parts, Kind::Server)?;
    if server.share >= ALWAYS {
        return Some(Bottleneck::Part(server));
    }
    match innermost(parts) {
        Some(pool) => Some(Bottleneck::Part(pool)),
        None => Some(Bottleneck::Latency {
            window: window(),
            busiest: server,
        }),
    }
}

/// Returns the innermost of the pools that are always in use: entries of the outer pools stay
/// allocated while their items wait for it.
fn innermost(parts: &[Part]) -> Option<Part> {
    let is_full = |part: &&Part| part.kind == Kind::Pool && part.share >= ALWAYS;
    let full = parts.iter().filter(is_full);
    full.min_by_key(|part| nesting(part.name)).copied()
}

/// Returns the nesting level of a kind of pool: an item that waits for an entry of a pool may hold
/// entries of pools with higher levels.
fn nesting(pool: &str) -> u32 {
    match pool {
        FETCHES => 5,
        "egress_packets" => 4,
        "atomic_units" => 3,
        name if name.ends_with("_mshrs") => 2,
        name if name.starts_with("pcie_") => 1,
        _ => 0,
    }
}

/// Returns the smallest number of requests, or packets, that may be outstanding.
fn window(plan: &Plan, workload: Workload) -> Window {
    let (threads, qps) = (u64::from(plan.threads), u64::from(plan.qps_per_thread));
    let qps = threads * qps;
    let depth = u64::from(plan.depth)
        * match workload {
            Workload::Perftest => qps,
            Workload::Batch | Workload::Window => threads,
        };
    let mut window = Window {
        count: depth,
        of: REQUESTS,
        by: "--depth",
    };
    let reads = u64::from(plan.outstanding_reads) * qps;
    let waits_for_response = plan.is_atomic() || plan.operation == Operation::Read;
    if waits_for_response && reads < window.count {
        window = Window {
            count: reads,
            of: REQUESTS,
            by: "transport.max_outstanding_reads or --outstanding-reads",
        };
    }
    let packets = u64::from(plan.size.div_ceil(plan.mtu.bytes()).max(1));
    let unacknowledged = u64::from(plan.unacknowledged_packets) * qps;
    if !waits_for_response && unacknowledged < window.count * packets {
        window = Window {
            count: unacknowledged,
            of: "packets",
            by: "transport.max_unacknowledged_packets",
        };
    }
    window
}

/// Returns the text for a part.
fn label(name: &str) -> &str {
    match name {
        THREAD => "program's thread",
        LOCKS => "program's thread, which waits for locks",
        LOCK => "lock that threads share",
        "doorbell" => "doorbells",
        "fetch" => "WQE fetch",
        "transmit" => "transmit side",
        "packetizer" => "packetizer",
        "mac_transmit" => "MAC, transmit",
        "depacketizer" => "depacketizer",
        "receive" => "receive side",
        "completion" => "CQE writer",
        "event" => "events",
        MAC_RECEIVE => "MAC, receive",
        "atomic_address" => "atomics on one address",
        "atomic_units" => "atomics at once",
        "fetches" => "WQE fetches at once",
        "qpc_mshrs" => "misses of the QPC cache",
        "cqc_mshrs" => "misses of the CQC cache",
        "srqc_mshrs" => "misses of the SRQC cache",
        "mpt_mshrs" => "misses of the MPT cache",
        "mtt_mshrs" => "misses of the MTT cache",
        "responder_mshrs" => "misses of the responder resources",
        "wqe_mshrs" => "WQEs that are read again",
        "egress_packets" => "packets whose payload is on its way",
        "pcie_to_host" => "PCIe to the host",
        "pcie_from_host" => "PCIe from the host",
        "pcie_engine_store" => "DMA engine's store",
        "iommu_walkers" => "page table walkers",
        "pcie_tags" => "PCIe tags",
        "pcie_read_buffer" => "PCIe completion buffer",
        "pcie_posted_headers" => "PCIe posted header credits",
        "pcie_posted_data" => "PCIe posted data credits",
        "pcie_nonposted_headers" => "PCIe non-posted credits",
        other => other,
    }
}

/// Returns the label of a part of a machine; `number`: its element.
pub fn machine_label(name: &str, number: u8) -> Option<String> {
    Some(match name {
        "dram" => format!("memory of socket {number}"),
        "socket_link" => "socket link".to_owned(),
        "root_complex_p2p_reads" => format!("root complex, P2P reads at root port {number}"),
        "root_complex_p2p_writes" => format!("root complex, P2P writes at root port {number}"),
        "root_port_strict_writes" => format!("root port {number}, strictly ordered writes"),
        "switch_up" => format!("switch {number}, link to the host"),
        "switch_down" => format!("switch {number}, link from the host"),
        "gpu_link_up" => format!("GPU {number}, link from it"),
        "gpu_link_down" => format!("GPU {number}, link to it"),
        "gpu_reads" => format!("GPU {number}, reads of its memory"),
        "gpu_writes" => format!("GPU {number}, writes to its memory"),
        "gpu_read_requests" => format!("GPU {number}, reads at once"),
        "nvm_link_up" => format!("NVM {number}, link from it"),
        "nvm_link_down" => format!("NVM {number}, link to it"),
        "nvm_reads" => format!("NVM {number}, reads"),
        "nvm_writes" => format!("NVM {number}, writes"),
        "nvm_read_requests" => format!("NVM {number}, reads at once"),
        _ => return None,
    })
}

impl Part {
    /// Returns its name without its share of the time.
    pub fn text(&self) -> String {
        let host = self.host;
        match self.unit {
            Some(unit) => match machine_label(self.name, unit) {
                Some(label) => format!("host {host}, {label}"),
                None => format!("host {host}, unit {unit}, {}", label(self.name)),
            },
            None => format!("host {host}, {}", label(self.name)),
        }
    }
}

impl Bottleneck {
    /// Returns the bottleneck as text, without shares: equal for rows with the same bottleneck.
    pub fn text(&self) -> String {
        match self {
            Self::Part(part) => part.text(),
            Self::Latency { window, .. } => {
                let Window { count, of, by } = window;
                format!("latency; outstanding {of}: {count} at most, by {by}")
            }
        }
    }

    /// Returns the busiest part.
    pub fn busiest(&self) -> &Part {
        match self {
            Self::Part(part) => part,
            Self::Latency { busiest, .. } => busiest,
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.busiest();
        let percent = part.share * 100.0;
        match self {
            Self::Part(_) => write!(f, "{} ({percent:.0} %)", self.text()),
            Self::Latency { .. } => {
                let part = part.text();
                write!(f, "{}; busiest: {part} ({percent:.0} %)", self.text())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &'static str, kind: Kind, share: f64) -> Part {
        Part {
            host: 0,
            name,
            unit: None,
            kind,
            share,
        }
    }

    fn named(parts: &[Part]) -> String {
        let window = || Window {
            count: 1,
            of: REQUESTS,
            by: "--depth",
        };
        bottleneck(parts, window).expect("parts").to_string()
    }

    #[test]
    fn a_pool_that_waits_for_a_server_is_not_the_bottleneck() {
        let tags = part("pcie_tags", Kind::Pool, 1.0);
        let wire = part("pcie_from_host", Kind::Server, 0.97);
        assert_eq!(named(&[tags, wire]), "host 0, PCIe from the host (97 %)");
        let idle = part("pcie_from_host", Kind::Server, 0.5);
        assert_eq!(named(&[tags, idle]), "host 0, PCIe tags (100 %)");
        let fetches = part(FETCHES, Kind::Pool, 1.0);
        let text = "host 0, PCIe tags (100 %)";
        assert_eq!(named(&[fetches, tags, idle]), text, "fetches wait for tags");
        let few = part("pcie_tags", Kind::Pool, 0.4);
        let text = "latency; outstanding requests: 1 at most, by --depth; \
                    busiest: host 0, PCIe from the host (50 %)";
        assert_eq!(named(&[few, idle]), text);
    }

    #[test]
    fn of_equal_parts_the_first_is_named() {
        let wire = part("mac_transmit", Kind::Server, 0.975);
        let peer = part(MAC_RECEIVE, Kind::Server, 0.978);
        assert_eq!(named(&[wire, peer]), "host 0, MAC, transmit (98 %)");
        assert_eq!(named(&[peer, wire]), "host 0, MAC, transmit (98 %)");
        assert!(bottleneck(&[], || unreachable!()).is_none());
    }
}
