//! What the communication manager knows of this process: its devices, and the ports of its host.

use std::sync::Arc;

use ferroce_embed::fabric::host_peers::{HostPeers, Receivers};
use ferroce_embed::fabric::registry::{PortAddress, PortError, ServicePort};
use ferroce_rdma_cm::{Address, Device, Errno, Host, ListenAddress, PortSpace, PortTable};
use ferroce_wire::Gid;
use ferroce_wire::cm::ServiceId;

use super::gsi::Gsi;
use crate::adapter::Adapter;
use crate::address::Neighbours as _;
use crate::identity;

/// The largest path MTU, numbered as in the verbs: 4096 bytes.
const MAX_PATH_MTU: u8 = 5;

/// The devices of this process, and the ports of its host.
pub struct ProcessHost {
    devices: Vec<Device>,
    adapters: Vec<Arc<Adapter>>,
    peers: Option<HostPeers>,
    /// Ports of a process that shares its address with no other.
    own_ports: PortTable,
}

impl ProcessHost {
    /// Returns the host of these devices; `peers`: on a fabric.
    pub fn new(links: &[Gsi], peers: Option<HostPeers>) -> Self {
        Self {
            devices: links.iter().map(|link| device(link.adapter())).collect(),
            adapters: links.iter().map(|link| link.adapter().clone()).collect(),
            peers,
            own_ports: PortTable::new(),
        }
    }

    /// Returns true if this process refuses a request for a service, for which it has no listener.
    pub fn refuses(&self, to: Gid, service: ServiceId) -> bool {
        let (space, port) = ((service.0 >> 16) as u16, service.0 as u16);
        self.peers
            .is_none_or(|peers| peers.refuses(to, space, port))
    }

    /// Returns true if the process that a datagram is for has ended, and this one answers for it.
    pub fn answers_for(&self, to: Gid, tag: u8) -> bool {
        self.peers
            .is_none_or(|peers| !peers.is_alive(tag) && peers.is_first(to))
    }

    /// Returns true if a host of this machine has the address, and none of its processes a
    /// communication manager: a kernel would refuse.
    pub fn is_deserted(&self, to: Gid) -> bool {
        let peers = self.peers.as_ref();
        peers.is_some_and(|peers| peers.receivers(to) == Receivers::None)
    }

    /// Removes a failed device: no id gets it any more.
    pub fn remove_device(&mut self, node_guid: u64) {
        self.devices.retain(|device| device.node_guid != node_guid);
    }

    /// Returns this process and the others of its host, on a fabric.
    pub fn peers(&self) -> Option<HostPeers> {
        self.peers
    }
}

impl Host for ProcessHost {
    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn claim_port(
        &mut self,
        space: PortSpace,
        port: Option<u16>,
        address: ListenAddress,
        share: bool,
    ) -> Result<u16, Errno> {
        let Some(peers) = self.peers else {
            return self.own_ports.claim(space, port, address, share);
        };
        let wanted = ServicePort {
            is_shared: share,
            ..service_port(space, port.unwrap_or(0), address)
        };
        let claimed = match port {
            Some(port) => peers.claim_port(&wanted).map(|()| port),
            None => peers.claim_ephemeral_port(&wanted),
        };
        claimed.map_err(|error| match error {
            PortError::InUse => Errno::EADDRINUSE,
            // As `cma_check_port` of Linux reports it.
            PortError::InUseOnAny | PortError::Full => Errno::EADDRNOTAVAIL,
        })
    }

    fn release_port(&mut self, space: PortSpace, port: u16, address: ListenAddress) {
        match self.peers {
            Some(peers) => peers.release_port(&service_port(space, port, address)),
            None => self.own_ports.release(space, port, address),
        }
    }

    fn resolve(&mut self, _from: Gid, to: Gid) -> Result<(), Errno> {
        let mut adapters = self.adapters.iter();
        if adapters.any(|adapter| adapter.resolve_mac(to.0).is_some()) {
            return Ok(());
        }
        tracing::warn!(address = %to, "no host of the fabric has this address, and none answers");
        Err(Errno::EHOSTUNREACH)
    }
}

/// Returns the entry of a device, as verbs show it.
fn device(adapter: &Adapter) -> Device {
    let host = adapter.host();
    let addresses = (0..).zip(&host.gids).map(|(gid_index, entry)| Address {
        gid: Gid(entry.gid),
        gid_index,
    });
    Device {
        node_guid: u64::from_be_bytes(host.node_guid),
        index: identity::device_index(host.device) as u32,
        port_num: 1,
        active_mtu: adapter.active_mtu(MAX_PATH_MTU),
        has_flush: adapter
            .device()
            .is_ok_and(|device| device.capabilities().flush),
        addresses: addresses.collect(),
    }
}

fn service_port(space: PortSpace, port: u16, address: ListenAddress) -> ServicePort {
    ServicePort {
        space: space as u16,
        port,
        address: match address {
            ListenAddress::Gid(gid) => PortAddress::One(gid),
            ListenAddress::AnyIpv4 => PortAddress::AnyIpv4,
            ListenAddress::AnyIpv6 => PortAddress::AnyIpv6,
            ListenAddress::Any => PortAddress::Any,
        },
        is_shared: false,
    }
}
