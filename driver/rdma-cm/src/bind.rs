//! Addresses and ports of ids, and listeners.

use core::net::SocketAddr;

use ferroce_cm::{Listen, ListenAddress, MAX_BACKLOG, PortSpace};

use crate::abi;
use crate::body::Body;
use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::host::{Device, Host};
use crate::id::{Attachment, Id, State};
use crate::port_table::in_use;
use crate::rdma_cm::RdmaCm;
use crate::sockaddr;

impl RdmaCm {
    /// BIND_IP
    pub(crate) fn bind_ip(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::BindIp = body.parse()?;
        let address = sockaddr::parse_given(&command.address)?;
        self.id(channel, command.id)?;
        self.bind(host, command.id, address)
    }

    /// BIND
    pub(crate) fn bind_addr(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::Bind = body.parse()?;
        if command.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        let address = sockaddr::parse_sized(&command.address, command.address_size)?;
        self.id(channel, command.id)?;
        self.bind(host, command.id, address)
    }

    /// Binds an id to an address, to the device with that address, and to a port. With the wildcard
    /// address no device is chosen yet. With port 0 an ephemeral port is allocated immediately.
    ///
    /// # Errors
    ///
    /// EINVAL unless it is idle; EADDRNOTAVAIL if no device has the address; errors of
    /// [`Host::claim_port`].
    pub(crate) fn bind(
        &mut self,
        host: &mut impl Host,
        handle: u32,
        address: SocketAddr,
    ) -> Result<(), Errno> {
        let id = self.ids.get_mut(&handle).ok_or(Errno::ENOENT)?;
        id.expect_state(State::Idle)?;
        let attachment = match address.ip().is_unspecified() {
            true => None,
            // The kernel refuses the IPOIB port space on RoCE.
            false if id.port_space == PortSpace::Ipoib => return Err(Errno::EINVAL),
            false => {
                let found = local(host.devices(), &address);
                Some(found.ok_or(Errno::EADDRNOTAVAIL)?)
            }
        };
        let wanted = listen_address(id, &address);
        let port = Some(address.port()).filter(|port| *port != 0);
        let port = host.claim_port(id.port_space, port, wanted, id.options.is_reuse)?;
        id.claim = Some((port, wanted));
        id.source = Some(sockaddr::with_port(&address, port));
        id.attachment = attachment;
        id.state = State::AddrBound;
        Ok(())
    }

    /// LISTEN
    pub(crate) fn listen(
        &mut self,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<(), Errno> {
        let command: abi::Listen = body.parse()?;
        let handle = command.id;
        if self.id(channel, handle)?.state != State::AddrBound {
            // An idle id is bound to the IPv4 wildcard address; in any other state LISTEN is
            // refused.
            let any = SocketAddr::from(([0, 0, 0, 0], 0));
            self.bind(host, handle, any)?;
        }
        let id = self.id(channel, handle)?;
        let (Some(source), Some((port, claimed))) = (id.source, id.claim) else {
            return Err(Errno::EINVAL);
        };
        let backlog = match command.backlog {
            backlog @ 1..=MAX_BACKLOG => backlog,
            _ => MAX_BACKLOG,
        };
        let (port_space, is_reuse) = (id.port_space, id.options.is_reuse);
        let address = listen_address(id, &source);
        // Ids that share a port can be bound, but only one that has it alone can listen.
        if is_reuse && self.is_port_shared(handle, port, claimed) {
            return Err(in_use(claimed, claimed));
        }
        let listener = self.cm.listen(&Listen {
            port_space,
            port,
            address,
            backlog,
        })?;
        self.by_listener.insert(listener, handle);
        let id = self.id(channel, handle)?;
        id.listener = Some(listener);
        id.backlog = backlog as usize;
        id.state = State::Listen;
        Ok(())
    }
}

/// Returns the address on which an id bound to `address` listens. `[::]` includes IPv4 unless an
/// option says otherwise; `0.0.0.0` is IPv4 only.
fn listen_address(id: &Id, address: &SocketAddr) -> ListenAddress {
    let is_family_only = id.options.is_family_only.unwrap_or(address.is_ipv4());
    match address {
        _ if !address.ip().is_unspecified() => ListenAddress::Gid(sockaddr::gid(address)),
        _ if !is_family_only => ListenAddress::Any,
        SocketAddr::V4(_) => ListenAddress::AnyIpv4,
        SocketAddr::V6(_) => ListenAddress::AnyIpv6,
    }
}

/// Returns the device that has an address, and the index of its GID. If no device has a loopback
/// address in its table, it belongs to the first device.
pub(crate) fn local(devices: &[Device], address: &SocketAddr) -> Option<Attachment> {
    let gid = sockaddr::gid(address);
    Attachment::find(devices, gid).or_else(|| {
        let first = devices.get(..1).filter(|_| sockaddr::is_loopback(gid))?;
        let is_same = |found: &Attachment| sockaddr::is_same_version(found.gid, gid);
        Attachment::all(first)
            .find(is_same)
            .or_else(|| Attachment::all(first).next())
    })
}
