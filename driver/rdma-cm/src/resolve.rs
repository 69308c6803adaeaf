//! Resolves a destination to a device, and to a path. Neither takes time here: the events are
//! queued immediately.

use core::net::SocketAddr;

use ferroce_cm::{Path, PortSpace};
use ferroce_wire::Gid;
use ferroce_wire::cm::CmTimeout;

use crate::abi;
use crate::bind::local;
use crate::body::Body;
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::event;
use crate::host::Host;
use crate::id::{Attachment, Id, State};
use crate::rdma_cm::RdmaCm;
use crate::sockaddr;

/// Packet lifetime on RoCE, as in Linux: 4.096 us times 2 to the power of this.
const ROCE_PACKET_LIFETIME: u8 = 16;
/// Hop Limit of routes without a hop-limit metric.
const HOP_LIMIT: u8 = 64;
const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// The location of a destination, and the source address.
struct Route {
    attachment: Attachment,
    source: Gid,
    remote_gid: Gid,
}

impl RdmaCm {
    /// RESOLVE_IP
    pub(crate) fn resolve_ip(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::ResolveIp = body.parse()?;
        let source = sockaddr::parse(&command.source)?;
        let destination = sockaddr::parse_given(&command.destination)?;
        self.resolve(host, channel, command.id, source, destination)
    }

    /// RESOLVE_ADDR
    pub(crate) fn resolve_addr(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::ResolveAddr = body.parse()?;
        if command.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        let source = match command.source_size {
            0 => None,
            size => Some(sockaddr::parse_sized(&command.source, size)?),
        };
        let destination = sockaddr::parse_sized(&command.destination, command.destination_size)?;
        self.resolve(host, channel, command.id, source, destination)
    }

    /// Finds the device and the source address for a destination. An id without a port first gets
    /// an ephemeral one. Queues ADDR_RESOLVED, or ADDR_ERROR with the reason.
    fn resolve(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        handle: u32,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), Errno> {
        let state = self.id(channel, handle)?.state;
        self.expect_event_room(channel)?;
        if state != State::AddrBound {
            let source = source.unwrap_or_else(|| sockaddr::any(&destination));
            self.bind(host, handle, source)?;
        }
        let id = self.id(channel, handle)?;
        let source = id.source.ok_or(Errno::EINVAL)?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(Errno::EINVAL);
        }
        id.destination = Some(destination);
        let (event, status) = match find_route(host, id, &source, &destination) {
            Ok(route) => {
                id.attachment = Some(route.attachment);
                id.source = Some(sockaddr::with_gid(&source, route.source));
                id.remote_gid = route.remote_gid;
                id.state = State::AddrResolved;
                (event::ADDR_RESOLVED, 0)
            }
            Err(errno) => (event::ADDR_ERROR, errno.to_status()),
        };
        self.report(handle, event, status, &[], abi::zeroed());
        Ok(())
    }

    /// RESOLVE_ROUTE: on RoCE the path does not need an answer of a subnet manager.
    pub(crate) fn resolve_route(&mut self, channel: ChannelId, body: &Body) -> Result<(), Errno> {
        let command: abi::ResolveRoute = body.parse()?;
        let (id, attachment) = self.attached_id(channel, command.id)?;
        id.expect_state(State::AddrResolved)?;
        self.expect_event_room(channel)?;
        let (id, _) = self.attached_id(channel, command.id)?;
        id.path = Some(path(id, attachment));
        id.state = State::RouteResolved;
        self.report(command.id, event::ROUTE_RESOLVED, 0, &[], abi::zeroed());
        Ok(())
    }
}

/// Returns the device for a destination.
fn find_route(
    host: &mut impl Host,
    id: &Id,
    source: &SocketAddr,
    destination: &SocketAddr,
) -> Result<Route, Errno> {
    if id.port_space == PortSpace::Ipoib {
        return Err(Errno::EINVAL);
    }
    let to = sockaddr::gid(destination);
    let is_loopback = destination.ip().is_unspecified() || sockaddr::is_loopback(to);
    let port = destination.port();
    let elsewhere = is_loopback
        .then(|| host.host_on_loopback(id.port_space, port, loopback_like(destination)))
        .flatten();
    let (to, is_here) = (elsewhere.unwrap_or(to), is_loopback && elsewhere.is_none());
    let own = if is_here {
        own_loopback(host, source, destination)
    } else {
        Attachment::find(host.devices(), to)
    };
    let (attachment, from) = match (id.attachment, own) {
        // The id was bound to an address.
        (Some(attachment), _) => (attachment, sockaddr::gid(source)),
        (None, Some(own)) if is_here => (own, loopback_like(destination)),
        (None, Some(own)) => (own, own.gid),
        (None, None) => {
            let found = nearest(host, to)?;
            (found, found.gid)
        }
    };
    let remote_gid = match own {
        Some(own) => own.gid,
        None => to,
    };
    if own.is_none() && !to.is_multicast() {
        host.resolve(attachment.gid, to)?;
    }
    Ok(Route {
        attachment,
        source: from,
        remote_gid,
    })
}

/// Returns the location of the loopback address, or of the wildcard address as a destination.
fn own_loopback(
    host: &impl Host,
    source: &SocketAddr,
    destination: &SocketAddr,
) -> Option<Attachment> {
    let loopback = sockaddr::with_gid(source, loopback_like(destination));
    local(host.devices(), &loopback)
}

/// Returns the destination itself, or the loopback address in place of the wildcard address.
fn loopback_like(destination: &SocketAddr) -> Gid {
    match destination {
        _ if !destination.ip().is_unspecified() => sockaddr::gid(destination),
        SocketAddr::V4(_) => Gid::from_ipv4(core::net::Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => Gid(core::net::Ipv6Addr::LOCALHOST.octets()),
    }
}

/// Returns the first source address from which a destination is reachable. Addresses of the same IP
/// version and scope are tried before addresses of another scope.
///
/// # Errors
///
/// ENETUNREACH if no device has an address of that version; otherwise the host's error for the
/// first one.
fn nearest(host: &mut impl Host, to: Gid) -> Result<Attachment, Errno> {
    let candidates = Attachment::all(host.devices()).filter(|found| {
        let is_usable = to.is_multicast() || !sockaddr::is_loopback(found.gid);
        is_usable && sockaddr::is_same_version(found.gid, to)
    });
    let mut candidates: Vec<Attachment> = candidates.collect();
    // The sort is stable: among equals, the order of the devices decides.
    candidates.sort_by_key(|found| {
        let is_other_scope = found.gid.is_link_local() != to.is_link_local();
        (sockaddr::is_loopback(found.gid), is_other_scope)
    });
    if to.is_multicast() {
        return candidates.first().copied().ok_or(Errno::ENETUNREACH);
    }
    let mut reason = Errno::ENETUNREACH;
    for (place, candidate) in candidates.into_iter().enumerate() {
        match host.resolve(candidate.gid, to) {
            Ok(()) => return Ok(candidate),
            Err(errno) if place == 0 => reason = errno,
            Err(_) => {}
        }
    }
    Err(reason)
}

/// Returns the path between the addresses of an id, chosen as in Linux on RoCE.
fn path(id: &Id, attachment: Attachment) -> Path {
    // Half of the local ACK timeout that the program requests (IBTA vol 1, 12.7.34).
    let wanted = id.options.ack_timeout.filter(|timeout| *timeout != 0);
    let lifetime = wanted.map_or(ROCE_PACKET_LIFETIME, |timeout| timeout.min(31) - 1);
    Path {
        mtu: attachment.mtu,
        flow_label: flow_label(id),
        traffic_class: id.options.traffic_class.unwrap_or(0),
        hop_limit: HOP_LIMIT,
        packet_lifetime: CmTimeout::new(lifetime),
        local_ack_timeout: CmTimeout::new((lifetime + 1).min(31)),
        ..Path::new(attachment.gid, id.remote_gid)
    }
}

/// Returns the flow label in the source address, or one computed from both ports, which spreads
/// connections over the UDP source ports.
fn flow_label(id: &Id) -> u32 {
    let asked = match id.source {
        Some(SocketAddr::V6(source)) => source.flowinfo() & FLOW_LABEL_MASK,
        _ => 0,
    };
    let port = |address: Option<SocketAddr>| address.map_or(0, |it| u32::from(it.port()));
    match asked {
        0 => (port(id.source) * 31 + port(id.destination)) & FLOW_LABEL_MASK,
        asked => asked,
    }
}
