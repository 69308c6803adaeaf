//! What `ferroce cm` shows of this process: listeners, connections, rejections.

use std::fmt::Write as _;

use ferroce_embed::fabric::host_peers::HostPeers;
use ferroce_rdma_cm::{PortSpace, RdmaCm, Rejection};
use ferroce_units::{Duration, Instant};

/// A file is written at most once in this time, however many connections come and go.
const INTERVAL: Duration = Duration::from_ms(100);
/// Connections that are listed; of others only their number is.
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
    let mut text = String::new();
    for listener in cm.listeners() {
        let (space, address) = (space_name(listener.port_space), listener.address);
        let unread = listener.unread;
        let _ = writeln!(
            text,
            "listener   {space} {address}, {unread} requests unread"
        );
    }
    for connection in cm.connections().take(MAX_LISTED) {
        let space = space_name(connection.port_space);
        let name = |address: Option<_>| {
            address.map_or("-".to_owned(), |it: std::net::SocketAddr| it.to_string())
        };
        let (address, peer) = (name(connection.address), name(connection.peer));
        let _ = writeln!(
            text,
            "connection {space} {address} {peer} {:?}",
            connection.state
        );
    }
    let others = cm.connections().count().saturating_sub(MAX_LISTED);
    if others != 0 {
        let _ = writeln!(text, "connection and {others} more");
    }
    for Rejection {
        from,
        to,
        service,
        reason,
    } in cm.rejections()
    {
        let name = reason.name().unwrap_or("unknown reason");
        let service = service.0;
        let _ = writeln!(
            text,
            "rejected   {from} to {to}, service {service:#x}: {name} ({})",
            reason.0
        );
    }
    text
}

fn space_name(space: PortSpace) -> &'static str {
    match space {
        PortSpace::Tcp => "tcp  ",
        PortSpace::Udp => "udp  ",
        PortSpace::Ib => "ib   ",
        PortSpace::Ipoib => "ipoib",
    }
}
