//! A report of a network: counters of all ports.

use ferroce_units::{Duration, Instant};

use super::channel::Channel;
use super::network::Network;
use crate::fabric_plan::Node;

/// Counters of a sending port, that is, of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct PortReport {
    /// The sending node.
    pub from: Node,
    /// The receiving node.
    pub to: Node,
    /// Rate of the wire.
    pub rate_gbps: f64,
    /// Frames sent.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that were marked when they left the queue.
    pub marked: u64,
    /// Frames dropped because the queue was longer than its share of the buffer.
    pub queue_drops: u64,
    /// Frames dropped at the receiving end because its headroom was full.
    pub headroom_drops: u64,
    /// Pause frames that the receiving end has sent.
    pub pauses: u64,
    /// Time for which at least one priority was paused.
    pub paused: Duration,
    /// Maximum number of queued bytes.
    pub queue_most_bytes: u64,
    /// Integral of queued bytes over time in picoseconds.
    pub queue_area: u128,
    /// Frames in the queues.
    pub queued: u64,
    /// Maximum headroom in use for one priority at the receiving end, in bytes.
    pub headroom_most_bytes: u64,
}

/// Counters of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct FabricReport {
    /// Time of the report.
    pub now: Instant,
    /// Frames that hosts have sent.
    pub sent: u64,
    /// Frames that have reached the last wire to their host.
    pub delivered: u64,
    /// Frames that were dropped.
    pub dropped: u64,
    /// Frames in queues and on wires between switches.
    pub inside: u64,
    /// All ports, in the order of the links.
    pub ports: Vec<PortReport>,
}

impl FabricReport {
    pub(super) fn new<F>(network: &Network<F>, now: Instant) -> Self {
        let ports: Vec<_> = network.channels().iter().map(|c| port(c, now)).collect();
        let to_hosts = ports.iter().filter(|port| matches!(port.to, Node::Host(_)));
        let drops = ports
            .iter()
            .map(|port| port.queue_drops + port.headroom_drops);
        Self {
            now,
            sent: network.sent(),
            delivered: to_hosts.map(|port| port.frames).sum(),
            dropped: drops.sum(),
            inside: network.inside(),
            ports,
        }
    }

    /// Returns the ports of switches.
    pub fn switch_ports(&self) -> impl Iterator<Item = &PortReport> {
        let is_switch = |port: &&PortReport| matches!(port.from, Node::Switch(_));
        self.ports.iter().filter(is_switch)
    }

    /// Returns true if each frame that was sent is delivered, dropped or inside.
    pub fn is_conserved(&self) -> bool {
        self.sent == self.delivered + self.dropped + self.inside
    }
}

fn port<F>(channel: &Channel<F>, now: Instant) -> PortReport {
    let totals = &channel.totals;
    PortReport {
        from: channel.from,
        to: channel.to,
        rate_gbps: channel.rate.gbps(),
        frames: totals.frames,
        bytes: totals.bytes,
        marked: totals.marked,
        queue_drops: totals.queue_drops,
        headroom_drops: totals.headroom_drops,
        pauses: totals.pauses,
        paused: channel.pauses.time(now),
        queue_most_bytes: channel.egress.levels().most(),
        queue_area: channel.egress.levels().area(now),
        queued: channel.egress.len() as u64,
        headroom_most_bytes: channel.ingress.most_headroom_bytes(),
    }
}
