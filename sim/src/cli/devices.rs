//! `ferroce devices`: the device, and who is on the fabric.

use std::fs;
use std::net::Ipv6Addr;

use clap::Args;
use ferroce_sim::fabric::registry::{Occupant, Registry};
use ferroce_sim::host::HostIdentity;
use ferroce_sim::runtime_directory;
use ferroce_wire::{Gid, Mac};

/// List the device, the hosts of the fabric and the programs on them.
#[derive(Debug, Args)]
pub struct Devices {}

impl Devices {
    /// Prints the list.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let host = HostIdentity::from_environment().map_err(|error| error.to_string())?;
        let gids: Vec<Gid> = host.gids.iter().map(|entry| Gid(entry.gid)).collect();
        println!("device ferroce0, port 1 (RoCEv2)");
        println!("fabric {}", directory.display());
        println!();
        let occupants = registry.occupants();
        let mut hosts: Vec<(String, Mac, Vec<Gid>)> = vec![(host.name, Mac(host.mac), gids)];
        for occupant in &occupants {
            let identity = &occupant.identity;
            if !hosts
                .iter()
                .any(|(name, mac, _)| (name, *mac) == (&identity.host, identity.mac))
            {
                hosts.push((identity.host.clone(), identity.mac, identity.gids.clone()));
            }
        }
        for (index, (name, mac, gids)) in hosts.iter().enumerate() {
            let this = if index == 0 { "  (this one)" } else { "" };
            println!("host {name}  {mac}{this}");
            for (index, gid) in gids.iter().enumerate() {
                println!("  gid {index:2}  {}", address(*gid));
            }
            let here = |occupant: &&Occupant| {
                (&occupant.identity.host, occupant.identity.mac) == (name, *mac)
            };
            for occupant in occupants.iter().filter(here) {
                println!("  {}", line(occupant));
            }
        }
        if occupants.is_empty() {
            println!();
            println!("No program uses the device now. Start one: ferroce run -- PROGRAM");
        }
        Ok(())
    }
}

fn line(occupant: &Occupant) -> String {
    let first = u32::from(occupant.place) << 16;
    let last = first | 0xffff;
    let pid = occupant.pid;
    format!(
        "pid {pid}  {}  QPNs {first:#08x}-{last:#08x}",
        program_name(pid)
    )
}

/// Name of a process as the kernel has it; a dash if it is not visible from here.
pub fn program_name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "-".to_owned(), |name| name.trim_end().to_owned())
}

fn address(gid: Gid) -> String {
    let v6: Ipv6Addr = gid.to_ipv6();
    gid.to_ipv4()
        .map_or_else(|| v6.to_string(), |v4| format!("::ffff:{v4}"))
}
