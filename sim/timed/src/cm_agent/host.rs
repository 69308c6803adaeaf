//! What the agent of a host knows: its device, its ports, and the other hosts.

use std::ops::RangeInclusive;

use ferroce_model::preset::Preset;
use ferroce_platform::numbered_hosts;
use ferroce_rdma_cm::{Address, Device, Errno, Host, ListenAddress, PortSpace};
use ferroce_wire::Gid;

/// Ports that the programs of a host can have at a time.
const MAX_PORTS: usize = 512;
/// Ports for callers that do not ask for a certain one, as Linux has them.
const EPHEMERAL_PORTS: RangeInclusive<u16> = 32_768..=60_999;
/// The path MTU of 4096 bytes, numbered as in the verbs; half as many bytes have one number less.
const MTU_4096: u32 = 5;

/// A claim of a port.
#[derive(Debug, Clone, Copy)]
struct Claim {
    space: PortSpace,
    port: u16,
    address: ListenAddress,
    is_shared: bool,
}

impl Claim {
    /// Returns true if two claims cannot both be. Ports for every address exclude those of any
    /// version of IP, which is more than Linux does.
    fn excludes(&self, other: &Self) -> bool {
        let is_one = |claim: &Self| matches!(claim.address, ListenAddress::Gid(_));
        let is_common = self.address == other.address || !is_one(self) || !is_one(other);
        is_common
            && (self.space, self.port) == (other.space, other.port)
            && !(self.is_shared && other.is_shared)
    }
}

/// The surroundings of an agent.
pub struct AgentHost {
    hosts: usize,
    device: Device,
    claims: Vec<Claim>,
    next_port: u16,
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
            claims: Vec::new(),
            next_port: *EPHEMERAL_PORTS.start(),
        }
    }

    /// Returns true if the host has this address.
    pub fn owns(&self, gid: Gid) -> bool {
        let mut addresses = self.device.addresses.iter();
        addresses.any(|address| address.gid == gid)
    }

    fn claim(&mut self, claim: Claim) -> Result<u16, Errno> {
        if self.claims.len() >= MAX_PORTS {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if self.claims.iter().any(|other| other.excludes(&claim)) {
            return Err(Errno::EADDRINUSE);
        }
        self.claims.push(claim);
        Ok(claim.port)
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
        let claim = |port| Claim {
            space,
            port,
            address,
            is_shared: share,
        };
        if let Some(port) = port {
            return self.claim(claim(port));
        }
        for _ in EPHEMERAL_PORTS {
            let port = self.next_port;
            self.next_port = match port == *EPHEMERAL_PORTS.end() {
                true => *EPHEMERAL_PORTS.start(),
                false => port + 1,
            };
            match self.claim(claim(port)) {
                Err(Errno::EADDRINUSE) => {}
                claimed => return claimed,
            }
        }
        Err(Errno::EADDRNOTAVAIL)
    }

    fn release_port(&mut self, space: PortSpace, port: u16, address: ListenAddress) {
        let is_it =
            |claim: &Claim| (claim.space, claim.port, claim.address) == (space, port, address);
        if let Some(place) = self.claims.iter().position(is_it) {
            self.claims.swap_remove(place);
        }
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
