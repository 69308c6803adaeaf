//! What the agent of a host knows: its device, its ports, and the other hosts.

use ferroce_model::preset::Preset;
use ferroce_platform::numbered_hosts;
use ferroce_rdma_cm::{Address, Device, Errno, Host, ListenAddress, PortSpace, PortTable};
use ferroce_wire::Gid;

/// The path MTU of 4096 bytes, numbered as in the verbs; half as many bytes have one number less.
const MTU_4096: u32 = 5;

/// The surroundings of an agent.
pub struct AgentHost {
    hosts: usize,
    device: Device,
    ports: PortTable,
}

impl AgentHost {
    /// Returns those of a host of a world with this many hosts.
    pub fn new((number, hosts): (usize, usize), preset: &Preset) -> Self {
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
                addresses: addresses.collect(),
            },
            ports: PortTable::new(),
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
}

/// Returns the host that has an address, of this many hosts.
pub fn of_address(gid: Gid, hosts: usize) -> Option<usize> {
    (0..hosts).find(|host| {
        let gids = numbered_hosts::of_host(*host).gids;
        gids.iter().any(|entry| entry.gid == gid.0)
    })
}
