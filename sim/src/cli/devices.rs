//! `ferroce devices`: the devices, and the programs on the fabric.

use std::fs;
use std::net::Ipv6Addr;

use clap::Args;
use ferroce_embed::fabric::registry::{Injected, Occupant, Registry};
use ferroce_embed::runtime_directory;
use ferroce_platform::host::{self, HostIdentity, device_name, devices_from_environment};
use ferroce_wire::{Gid, Mac};
use serde_json::{Value, json};

use super::json::JsonOption;

/// List the devices, the hosts of the fabric and the programs on them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce devices
  ferroce devices --json")]
pub struct Devices {
    #[command(flatten)]
    json: JsonOption,
}

/// A device of a host, as each program there sees it.
struct Device {
    host: String,
    number: u8,
    mac: Mac,
    gids: Vec<Gid>,
}

impl Device {
    fn of_this_host(identity: HostIdentity) -> Self {
        Self {
            host: identity.name,
            number: identity.device,
            mac: Mac(identity.mac),
            gids: identity.gids.iter().map(|entry| Gid(entry.gid)).collect(),
        }
    }

    fn of(occupant: &Occupant) -> Self {
        let identity = &occupant.identity;
        Self {
            host: identity.host.clone(),
            number: identity.device,
            mac: identity.mac,
            gids: identity.gids.clone(),
        }
    }

    fn is_used_by(&self, occupant: &Occupant) -> bool {
        let identity = &occupant.identity;
        (&self.host, self.number, self.mac) == (&identity.host, identity.device, identity.mac)
    }
}

impl Devices {
    /// Prints the list.
    pub fn execute(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let count = devices_from_environment().map_err(|error| error.to_string())?;
        let occupants = registry.occupants();
        let mut devices: Vec<_> = (0..count)
            .map(host::of_device)
            .map(|identity| identity.map(Device::of_this_host))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        for occupant in occupants.iter().rev() {
            let listed = devices
                .iter_mut()
                .find(|device| device.is_used_by(occupant));
            match listed {
                // The GIDs that the client's driver has configured on a served function.
                Some(device) => device.gids.clone_from(&occupant.identity.gids),
                None => devices.push(Device::of(occupant)),
            }
        }
        let this = devices[0].host.clone();
        // Stable sort: this host comes first, and its devices stay in order.
        devices.sort_by_key(|device| (device.host != this, device.host.clone(), device.number));
        if self.json.prepare()? {
            println!("fabric {}", directory.display());
            print(&this, &devices, &occupants, registry);
        }
        let result = || {
            let devices = devices.iter();
            let devices = devices.map(|device| described(device, &occupants, registry));
            json!({
                "fabric": directory.to_string_lossy(),
                "this_host": this,
                "devices": devices.collect::<Value>(),
            })
        };
        self.json.write("devices", result)
    }
}

fn print(this: &str, devices: &[Device], occupants: &[Occupant], registry: &Registry) {
    let mut host = None;
    for device in devices {
        if host != Some(&device.host) {
            host = Some(&device.host);
            let mark = if device.host == this {
                "  (this one)"
            } else {
                ""
            };
            println!("\nhost {}{mark}", device.host);
        }
        print_device(device, occupants, registry);
    }
    if occupants.is_empty() {
        println!("\nNo program uses the device now. Start one: ferroce run -- PROGRAM");
    }
}

/// Returns a device and its programs as JSON.
fn described(device: &Device, occupants: &[Occupant], registry: &Registry) -> Value {
    let users = occupants.iter();
    let users = users.filter(|occupant| device.is_used_by(occupant));
    let programs = users.map(|occupant| {
        json!({
            "pid": occupant.pid,
            "program": program_name(occupant.pid),
            "first_qpn": u32::from(occupant.place) << 16,
            "fault": fault(registry.injected(occupant.place)),
        })
    });
    let gids = device.gids.iter().map(|gid| address(*gid));
    json!({
        "host": device.host,
        "device": device_name(device.number),
        "mac": device.mac.to_string(),
        "gids": gids.collect::<Vec<_>>(),
        "programs": programs.collect::<Value>(),
    })
}

fn fault(injected: Injected) -> Option<&'static str> {
    match injected {
        _ if injected.is_removed() => Some("removed"),
        _ if injected.is_device_fatal() => Some("stopped"),
        _ if injected.is_port_down() => Some("port down"),
        _ => None,
    }
}

fn print_device(device: &Device, occupants: &[Occupant], registry: &Registry) {
    println!(
        "  device {}  {}  port 1 (RoCEv2)",
        device_name(device.number),
        device.mac
    );
    for (index, gid) in device.gids.iter().enumerate() {
        println!("    gid {index:2}  {}", address(*gid));
    }
    for occupant in occupants
        .iter()
        .filter(|occupant| device.is_used_by(occupant))
    {
        println!("    {}", line(occupant, registry.injected(occupant.place)));
    }
}

fn line(occupant: &Occupant, injected: Injected) -> String {
    let first = u32::from(occupant.place) << 16;
    let last = first | 0xffff;
    let pid = occupant.pid;
    let fault = fault(injected).map_or(String::new(), |fault| format!("  {fault}"));
    format!(
        "pid {pid}  {}  QPNs {first:#08x}-{last:#08x}{fault}",
        program_name(pid)
    )
}

/// Returns the kernel's name of a process; a dash if it is not visible from here.
pub fn program_name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "-".to_owned(), |name| name.trim_end().to_owned())
}

fn address(gid: Gid) -> String {
    let v6: Ipv6Addr = gid.to_ipv6();
    gid.to_ipv4()
        .map_or_else(|| v6.to_string(), |v4| format!("::ffff:{v4}"))
}
