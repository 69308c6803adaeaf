//! What `ferroce cm` shows of this process: listeners, connections, rejections.

use ferroce_embed::fabric::cm_report::CmEntry;
use ferroce_embed::fabric::host_peers::HostPeers;
use ferroce_rdma_cm::{PortSpace, RdmaCm};
use ferroce_units::{Duration, Instant};

/// A file is written at most once in this time, however many connections come and go.
const INTERVAL: Duration = Duration::from_ms(100);
/// Maximum number of connections that are listed; further ones are only counted.
const MAX_LISTED: usize = 256;

/// The report that is published, and when.
#[derive(Default)]
pub struct Report {
    published: String,
    next: Option<Instant>,
    peers: Option<HostPeers>,
}

impl Report {
    /// Publishes the report if it has changed and the last one is old enough. Returns when to come
    /// back if it is not.
    pub fn publish(&mut self, now: Instant, cm: &RdmaCm, peers: &HostPeers) -> Option<Instant> {
        if let Some(next) = self.next.filter(|next| now < *next) {
            return Some(next);
        }
        let text = text(cm);
        if text == self.published {
            return None;
        }
        if let Err(error) = peers.publish(&text) {
            tracing::debug!(%error, "report of RDMA CM not written");
        }
        self.published = text;
        self.next = Some(now + INTERVAL);
        self.peers = Some(*peers);
        None
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(peers) = self.peers {
            peers.withdraw();
        }
    }
}

fn text(cm: &RdmaCm) -> String {
    let listeners = cm.listeners().map(|listener| CmEntry::Listener {
        port_space: space_name(listener.port_space).to_owned(),
        address: listener.address.to_string(),
        unread: listener.unread as u64,
    });
    let connections = cm.connections().take(MAX_LISTED);
    let connections = connections.map(|connection| CmEntry::Connection {
        port_space: space_name(connection.port_space).to_owned(),
        address: connection.address.map(|address| address.to_string()),
        peer: connection.peer.map(|peer| peer.to_string()),
        state: format!("{:?}", connection.state),
    });
    let others = cm.connections().count().saturating_sub(MAX_LISTED);
    let others = (others != 0).then_some(CmEntry::Others(others as u64));
    let rejections = cm.rejections().map(|rejection| CmEntry::Rejection {
        from: rejection.from.to_string(),
        to: rejection.to.to_string(),
        service: rejection.service.0,
        reason: rejection.reason.0,
        name: rejection.reason.name().map(str::to_owned),
    });
    let entries = listeners.chain(connections).chain(others).chain(rejections);
    entries.map(|entry| entry.to_line() + "\n").collect()
}

fn space_name(space: PortSpace) -> &'static str {
    match space {
        PortSpace::Tcp => "tcp",
        PortSpace::Udp => "udp",
        PortSpace::Ib => "ib",
        PortSpace::Ipoib => "ipoib",
    }
}
