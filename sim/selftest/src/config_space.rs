//! Stage `config`: PCI configuration space (PCI Local Bus 3.0, chapter 6; PCIe base, chapter 7).

use std::collections::BTreeMap;

use ferroce_driver::bus::Bus;
use ferroce_spec::register::{
    Capability, DEVICE_ID, MSIX_PENDING_OFFSET, MSIX_TABLE_OFFSET, VECTOR_COUNT, VENDOR_ID, offset,
};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome, Stop};

const ID: u32 = 0x00;
const COMMAND: u32 = 0x04;
const CLASS: u32 = 0x08;
const HEADER_TYPE: u32 = 0x0c;
const BAR0: u32 = 0x10;
const CAPABILITIES_POINTER: u32 = 0x34;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_BUS_MASTER: u32 = 1 << 2;
const STATUS_CAPABILITIES: u32 = 1 << 20;
/// Error bits of the status register, with their names.
const STATUS_ERRORS: [(u32, &str); 5] = [
    (24, "master data parity error"),
    (27, "signaled target abort"),
    (28, "received target abort"),
    (29, "received master abort"),
    (31, "detected parity error"),
];
/// Base class of network controllers.
const CLASS_NETWORK: u32 = 0x02;

const CAPABILITY_POWER: u8 = 0x01;
const CAPABILITY_PCIE: u8 = 0x10;
const CAPABILITY_MSIX: u8 = 0x11;
/// Maximum number of capabilities that fit after the header; a longer list is a loop.
const CAPABILITIES_MAX: usize = 48;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let bus = bench.bus.clone();
    let Some(id) = bus.config_read(ID) else {
        let why = "this bus has no configuration space";
        return Err(Stop::NotApplicable(why.to_owned()));
    };
    check_id(id)?;
    bench.figure("id", format!("{VENDOR_ID:04x}:{DEVICE_ID:04x}"));
    check_header(bench, &*bus)?;
    check_bars(bench, &*bus)?;
    let capabilities = capabilities(&*bus)?;
    let names = capabilities.keys().map(|id| capability_name(*id));
    bench.figure("capabilities", names.collect::<Vec<_>>().join(", "));
    for (id, what) in [
        (CAPABILITY_POWER, "power management"),
        (CAPABILITY_PCIE, "PCI Express"),
        (CAPABILITY_MSIX, "MSI-X"),
    ] {
        if !capabilities.contains_key(&id) {
            return Err(
                Failure::new(format!("there is no {what} capability ({id:#04x})"))
                    .look_at("the settings of the PCIe hard IP; the chain of next pointers")
                    .into(),
            );
        }
    }
    check_msix(bench, &*bus, capabilities[&CAPABILITY_MSIX])?;
    show_link(bench, &*bus, capabilities[&CAPABILITY_PCIE]);
    Ok(())
}

fn read(bus: &dyn Bus, offset: u32) -> u32 {
    bus.config_read(offset).unwrap_or(u32::MAX)
}

fn check_id(id: u32) -> Result<(), Failure> {
    let expected = u32::from(DEVICE_ID) << 16 | u32::from(VENDOR_ID);
    if id == expected {
        return Ok(());
    }
    let (vendor, device) = (id & 0xffff, id >> 16);
    let what = format!(
        "vendor and device are {vendor:04x}:{device:04x}, not {VENDOR_ID:04x}:{DEVICE_ID:04x}"
    );
    Err(Failure::new(what)
        .look_at_all(hint::of_read(id.into(), 4))
        .look_at("the bitstream that is loaded, and the identifiers in its PCIe hard IP"))
}

fn check_header(bench: &mut Bench, bus: &dyn Bus) -> Result<(), Failure> {
    let command = read(bus, COMMAND);
    bench.figure("command", format!("{:#06x}", command & 0xffff));
    for (bit, what) in [
        (COMMAND_MEMORY, "memory decoding (bit 1)"),
        (COMMAND_BUS_MASTER, "bus master (bit 2)"),
    ] {
        if command & bit == 0 {
            return Err(
                Failure::new(format!("{what} is off in the command register")).look_at(
                    "the driver that opens the device should set it; setpci -s BDF COMMAND shows it",
                ),
            );
        }
    }
    for (bit, name) in STATUS_ERRORS {
        if command >> bit & 1 == 1 {
            bench.note(format!("the status register remembers: {name}"));
        }
    }
    if command & STATUS_CAPABILITIES == 0 {
        return Err(
            Failure::new("the status register says that there is no capability list")
                .look_at("bit 4 of the status register, which must be one"),
        );
    }
    let class = read(bus, CLASS) >> 8;
    bench.figure("class", format!("{class:06x}"));
    bench.figure("revision", read(bus, CLASS) & 0xff);
    if class >> 16 != CLASS_NETWORK {
        bench.note(format!(
            "class {class:06x} is not a network controller (02xxxx)"
        ));
    }
    let header = read(bus, HEADER_TYPE) >> 16 & 0x7f;
    if header != 0 {
        return Err(Failure::new(format!(
            "header type {header} is not that of an endpoint (0)"
        ))
        .look_at("the PCIe hard IP: endpoint, not bridge"));
    }
    Ok(())
}

fn check_bars(bench: &mut Bench, bus: &dyn Bus) -> Result<(), Failure> {
    let capability = Capability::from_bits(bus.read64(offset::capability));
    for bar in [0, 2, 4] {
        let (low, high) = (read(bus, BAR0 + 4 * bar), read(bus, BAR0 + 4 * bar + 4));
        if low & 1 != 0 {
            return Err(Failure::new(format!("BAR{bar} is an I/O BAR ({low:#x})"))
                .look_at("the BAR settings of the PCIe hard IP: memory, 64 bits"));
        }
        let is_64_bit = low >> 1 & 3 == 2;
        let address = u64::from(low & !0xf) | if is_64_bit { u64::from(high) << 32 } else { 0 };
        // A model behind a socket is not enumerated; its client finds the regions by the protocol.
        if low != 0 && address == 0 && capability.present() && capability.polled_doorbells() {
            bench.note(format!(
                "BAR{bar} has no address: this model is not enumerated"
            ));
            continue;
        }
        if low == 0 || address == 0 {
            return Err(Failure::new(format!(
                "BAR{bar} is not there or has no address ({low:#x})"
            ))
            .look_at("the BAR settings of the PCIe hard IP")
            .look_at(
                "dmesg: \"can't assign\": no room below the bridge; a rescan, or \
                          pci=realloc",
            ));
        }
    }
    Ok(())
}

fn capability_name(id: u8) -> String {
    match id {
        CAPABILITY_POWER => "power management".to_owned(),
        CAPABILITY_PCIE => "PCIe".to_owned(),
        CAPABILITY_MSIX => "MSI-X".to_owned(),
        0x05 => "MSI".to_owned(),
        0x09 => "vendor".to_owned(),
        id => format!("{id:#04x}"),
    }
}

/// Returns the offsets of the capabilities by ID.
fn capabilities(bus: &dyn Bus) -> Result<BTreeMap<u8, u32>, Failure> {
    let mut found = BTreeMap::new();
    let mut at = read(bus, CAPABILITIES_POINTER) & 0xfc;
    for _ in 0..CAPABILITIES_MAX {
        if at == 0 {
            return Ok(found);
        }
        if at < 0x40 {
            return Err(Failure::new(format!(
                "a capability pointer leads into the header ({at:#x})"
            ))
            .look_at("the next pointer of the capability before it"));
        }
        let header = read(bus, at);
        found.entry(header as u8).or_insert(at);
        at = header >> 8 & 0xfc;
    }
    Err(Failure::new("the capability list has no end")
        .look_at("a next pointer that leads back; all-ones reads"))
}

fn check_msix(bench: &mut Bench, bus: &dyn Bus, at: u32) -> Result<(), Failure> {
    let vectors = (read(bus, at) >> 16 & 0x7ff) + 1;
    let (table, pending) = (read(bus, at + 4), read(bus, at + 8));
    bench.figure("msix_vectors", vectors);
    if vectors > u32::from(VECTOR_COUNT) {
        return Err(Failure::new(format!(
            "MSI-X has {vectors} vectors, the contract {VECTOR_COUNT} at most"
        ))
        .look_at("the table size in the MSI-X capability: vectors minus one"));
    }
    for (word, offset, what) in [
        (table, MSIX_TABLE_OFFSET, "table"),
        (pending, MSIX_PENDING_OFFSET, "pending bits"),
    ] {
        if word != offset {
            return Err(Failure::new(format!(
                "the MSI-X {what} is at BAR{} offset {:#x}, not at BAR0 offset {offset:#x}",
                word & 7,
                word & !7
            ))
            .look_at("offset and BIR in the MSI-X capability of the PCIe hard IP"));
        }
    }
    Ok(())
}

/// Shows speed and width of the link, if there is one.
fn show_link(bench: &mut Bench, bus: &dyn Bus, at: u32) {
    let capability = read(bus, at + 0x0c);
    let status = read(bus, at + 0x10) >> 16;
    let (speed, width) = (status & 0xf, status >> 4 & 0x3f);
    let (best_speed, best_width) = (capability & 0xf, capability >> 4 & 0x3f);
    if speed == 0 || width == 0 {
        return;
    }
    let rate = |code: u32| match code {
        1 => "2.5".to_owned(),
        2 => "5".to_owned(),
        code @ 3..=6 => (1u32 << code).to_string(),
        code => format!("code {code},"),
    };
    bench.figure("link", format!("{} GT/s x{width}", rate(speed)));
    if speed < best_speed || width < best_width {
        bench.note(format!(
            "the link could be {} GT/s x{best_width}: another slot, or bad lanes",
            rate(best_speed)
        ));
    }
    let control = read(bus, at + 8);
    bench.figure("mps_bytes", 128u32 << (control >> 5 & 7));
    bench.figure("mrrs_bytes", 128u32 << (control >> 12 & 7));
}
