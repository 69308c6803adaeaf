//! Stage `bring-up`: the driver opens the device, as every program does.

use std::sync::Arc;

use ferroce_driver::bus::Bus;
use ferroce_driver::{AddressVector, Device, DeviceConfig, GidEntry};
use ferroce_spec::register::VECTOR_COUNT;
use ferroce_wire::{Gid, Mac};

use super::bench::{Bench, Opened};
use super::hint;
use super::observed::Observed;
use super::outcome::{Failure, Outcome};

/// UDP source port of the frames: RoCEv2 peers choose one of 0xc000 to 0xffff.
const UDP_SOURCE_PORT: u16 = 0xc001;
const HOP_LIMIT: u8 = 64;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let observed = Arc::new(Observed::new(Arc::clone(&bench.bus)));
    let config = DeviceConfig {
        command_timeout: bench.timeouts.command,
        reset_timeout: bench.timeouts.register,
        // Event queue 0 has the remaining vector.
        completion_vectors: VECTOR_COUNT - 1,
        ..DeviceConfig::default()
    };
    let bus: Arc<dyn Bus> = observed.clone();
    let device = Device::open_with(bus, &config).map_err(|error| {
        hint::of_driver("the driver cannot open the device", &error, &*bench.bus)
    })?;
    show(bench, &device);
    let path = set_address(bench, &device)?;
    let pd = device
        .alloc_pd()
        .map_err(|error| hint::of_driver("no protection domain", &error, &*bench.bus))?;
    bench.opened = Some(Opened {
        pd,
        device,
        observed,
        path,
    });
    Ok(())
}

fn show(bench: &mut Bench, device: &Device) {
    let limits = device.capabilities();
    bench.figure("firmware", limits.firmware_version.clone());
    bench.figure("qps", limits.max_qp);
    bench.figure("cqs", limits.max_cq);
    bench.figure("mrs", limits.max_mr);
    bench.figure("completion_vectors", limits.completion_vectors);
    bench.figure("gids", limits.max_gids);
    bench.figure("device_memory_bytes", limits.device_memory_length);
    for (is_there, what) in [
        (limits.reliable_connected, "RC"),
        (limits.unreliable_datagram, "UD"),
        (limits.unreliable_connected, "UC"),
        (limits.atomics, "atomics"),
    ] {
        if !is_there {
            bench.note(format!(
                "the device has no {what}; what needs it is left out"
            ));
        }
    }
    if !device.link_is_up() {
        bench.note("the port has no link: loopback works only inside the card");
    }
}

/// Gives the device the link-local address of its MAC; returns the path to itself.
fn set_address(bench: &Bench, device: &Device) -> Result<AddressVector, Failure> {
    let mac = device.capabilities().port_mac;
    let gid = Gid::link_local(Mac(mac)).0;
    let entry = GidEntry {
        gid,
        mac,
        vlan: None,
    };
    let failed = |what: &str, error| hint::of_driver(what, &error, &*bench.bus);
    device
        .set_gid(0, &entry)
        .map_err(|error| failed("entry 0 of the GID table", error))?;
    let read = device
        .gid(0)
        .map_err(|error| failed("entry 0 of the GID table", error))?;
    if read != entry {
        return Err(Failure::new(format!(
            "entry 0 of the GID table was written as {entry:?} and reads {read:?}"
        ))
        .look_at("mailboxes: all bytes of the input read, all of the output written?"));
    }
    Ok(AddressVector {
        dest_gid: gid,
        dest_mac: mac,
        source_gid_index: 0,
        hop_limit: HOP_LIMIT,
        udp_source_port: UDP_SOURCE_PORT,
        ..AddressVector::default()
    })
}
