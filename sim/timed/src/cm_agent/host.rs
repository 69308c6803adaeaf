//! The agent's view of its host: its device, its ports, and the other hosts.

use ferroce_host::numbered_hosts;
use ferroce_model::preset::Preset;
use ferroce_rdma_cm::{Address, Device, Errno, Host, ListenAddress, PortSpace, PortTable};
use ferroce_wire::Gid;

/// The path MTU of 4096 bytes, numbered as in verbs; half the bytes is one less.
const MTU_4096: u32 = 5;

/// The surroundings of an agent.
pub struct AgentHost {
    hosts: usize,
    device: Device,
    ports: PortTable,
    number: usize,
    /// Ports on which the hosts of the world listen.
    listening: Vec<Listening>,
}

/// A port on which a host listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    pub space: PortSpace,
    pub port: u16,
    pub host: usize,
}

impl AgentHost {
    /// Returns the surroundings of a host in a world with this many hosts.
    pub fn new(number: usize, hosts: usize, preset: &Preset) -> Self {
        let identity = numbered_hosts::of_host(number);
        let addresses = (0..).zip(&identity.gids).map(|(gid_index, entry)| Address {
            gid: Gid(entry.gid),
            gid_index,
        });
        let halvings = (4096 / preset.transport.path_mtu_bytes.clamp(256, 4096)).ilog2();
        Self {
            hosts,
            device: Device {
                node_guid: u64::from_be_bytes(identity.node_guid),
                // The first device of a program, as `ibv_get_device_index` counts.
                index: 1,
                port_num: 1,
                active_mtu: (MTU_4096 - halvings) as u8,
                has_flush: true,
                addresses: addresses.collect(),
            },
            ports: PortTable::of_host(number),
            number,
            listening: Vec::new(),
        }
    }

    /// Sets the ports on which the hosts of the world listen.
    pub fn set_listening(&mut self, listening: Vec<Listening>) {
        self.listening = listening;
    }

    /// Returns the host of the world that loopback means for a port: this one or another one that
    /// listens there, or the only other host, which may be about to listen.
    fn on_loopback(&self, space: PortSpace, port: u16) -> usize {
        let listeners = self.listening.iter();
        let mut listeners = listeners.filter(|one| (one.space, one.port) == (space, port));
        if listeners.clone().any(|one| one.host == self.number) {
            self.number
        } else {
            match (listeners.next(), self.hosts) {
                (Some(one), _) => one.host,
                (None, 2) => 1 - self.number,
                (None, _) => self.number,
            }
        }
    }

    /// Returns true if the host has this address.
    pub fn owns(&self, gid: Gid) -> bool {
        let mut addresses = self.device.addresses.iter();
        addresses.any(|address| address.gid == gid)
    }
}

impl Host for AgentHost {
    fn devices(&self) -> &[Device] {
        std::slice::from_ref(&self.device)
    }

    fn claim_port(
        &mut self,
        space: PortSpace,
        port: Option<u16>,
        address: ListenAddress,
        share: bool,
    ) -> Result<u16, Errno> {
        self.ports.claim(space, port, address, share)
    }

    fn release_port(&mut self, space: PortSpace, port: u16, address: ListenAddress) {
        self.ports.release(space, port, address);
    }

    fn resolve(&mut self, _from: Gid, to: Gid) -> Result<(), Errno> {
        of_address(to, self.hosts)
            .map(drop)
            .ok_or(Errno::EHOSTUNREACH)
    }

    fn host_on_loopback(&self, space: PortSpace, port: u16, loopback: Gid) -> Option<Gid> {
        let host = self.on_loopback(space, port);
        let gids = numbered_hosts::of_host(host).gids;
        let mut gids = gids.iter().map(|entry| Gid(entry.gid));
        let is_same_version = |gid: &Gid| gid.to_ipv4().is_some() == loopback.to_ipv4().is_some();
        (host != self.number)
            .then(|| gids.find(is_same_version))
            .flatten()
    }
}

/// Returns the host that has an address, of this many hosts.
pub fn of_address(gid: Gid, hosts: usize) -> Option<usize> {
    (0..hosts).find(|host| {
        let gids = numbered_hosts::of_host(*host).gids;
        gids.iter().any(|entry| entry.gid == gid.0)
    })
}
