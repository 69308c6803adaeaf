//! Stage `identity`: the registers that never change.

use ferroce_driver::bus::Bus;
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::doorbell::LOG_PAGES;
use ferroce_spec::register::{
    CONTRACT_MAJOR, CONTRACT_MINOR, Capability, DEVICE_ID, MAGIC, Status, VECTOR_COUNT, VENDOR_ID,
    offset,
};
use ferroce_wire::Mac;

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome};

/// Reads of the magic, to detect a marginal link.
const READS: u32 = 1000;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let bus = bench.bus.clone();
    check_magic(bench)?;
    bench.figure("magic_reads", READS);
    check_version(bench, &*bus)?;
    check_device_id(&*bus)?;
    bench.figure("revision", bus.read32(offset::hardware_revision));
    check_capability(bench, &*bus)?;
    check_mac(bench, &*bus)?;
    let status = Status::from_bits(bus.read32(offset::status));
    bench.figure("link", if status.link_up() { "up" } else { "down" });
    Ok(())
}

fn check_magic(bench: &mut Bench) -> Result<(), Failure> {
    for count in 1..=READS {
        let magic = bench.bus.read32(offset::magic);
        if magic == MAGIC {
            bench.was_there = true;
            continue;
        }
        let failure = Failure::new(format!("magic reads {magic:#010x}, not {MAGIC:#010x}"));
        return Err(if count > 1 {
            failure.look_at(format!(
                "the first {} reads were right: a marginal link (lspci -vv: correctable errors), \
                 or a clock crossing without synchroniser",
                count - 1
            ))
        } else {
            failure.look_at_all(hint::of_magic(magic))
        });
    }
    Ok(())
}

fn check_version(bench: &mut Bench, bus: &dyn Bus) -> Result<(), Failure> {
    let version = bus.read32(offset::contract_version);
    let (major, minor) = (version >> 16, version & 0xffff);
    bench.figure("contract", format!("{major}.{minor}"));
    if major != u32::from(CONTRACT_MAJOR) {
        return Err(Failure::new(format!(
            "the device speaks contract {major}.{minor}, this software {CONTRACT_MAJOR}.\
             {CONTRACT_MINOR}"
        ))
        .look_at_all(hint::of_read(version.into(), 4))
        .look_at("bitstream and software must be of the same major version: load the other one"));
    }
    if minor != u32::from(CONTRACT_MINOR) {
        bench.note(format!(
            "the device speaks contract {major}.{minor}, this software {CONTRACT_MAJOR}.\
             {CONTRACT_MINOR}; that is compatible"
        ));
    }
    Ok(())
}

fn check_device_id(bus: &dyn Bus) -> Result<(), Failure> {
    let id = bus.read32(offset::device_id);
    let expected = u32::from(DEVICE_ID) << 16 | u32::from(VENDOR_ID);
    if id == expected {
        return Ok(());
    }
    Err(
        Failure::new(format!("device_id reads {id:#010x}, not {expected:#010x}"))
            .look_at("the constant in the register block; it repeats that of the PCIe hard IP"),
    )
}

fn check_capability(bench: &mut Bench, bus: &dyn Bus) -> Result<(), Failure> {
    let bits = bus.read64(offset::capability);
    let halves = [
        bus.read32(offset::capability),
        bus.read32(offset::capability + 4),
    ];
    let joined = u64::from(halves[1]) << 32 | u64::from(halves[0]);
    if bits != joined {
        return Err(Failure::new(format!(
            "capability reads {bits:#018x} at once and {joined:#018x} in two halves"
        ))
        .look_at(
            "64-bit reads: does the register block answer both dwords of a request, in order?",
        ));
    }
    let capability = Capability::from_bits(bits);
    bench.figure("vectors", u32::from(capability.vectors()));
    bench.figure("counters", u32::from(capability.counters()));
    let pages = 1u64.checked_shl(capability.log_doorbell_pages().into());
    bench.figure("doorbell_pages", pages.unwrap_or(0));
    bench.figure("push_blocks", u32::from(capability.push_blocks()));
    let wrong = [
        (!capability.present(), "present"),
        (
            capability.log_doorbell_pages() > LOG_PAGES,
            "log_doorbell_pages",
        ),
        (
            !(1..=VECTOR_COUNT).contains(&capability.vectors().into()),
            "vectors",
        ),
        (
            !matches!(capability.push_blocks(), 0 | 1 | 2 | 4),
            "push_blocks",
        ),
        (capability.ports() == 0, "ports"),
    ];
    if let Some((_, field)) = wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        return Err(Failure::new(format!(
            "capability reads {bits:#018x}: {field} cannot be that"
        ))
        .look_at_all(hint::of_read(bits, 8))
        .look_at("the constants in the register block, by the programmer's reference"));
    }
    if usize::from(capability.counters()) != COUNTERS.len() {
        bench.note(format!(
            "the device has {} counters, this software knows {}",
            capability.counters(),
            COUNTERS.len()
        ));
    }
    if capability.polled_doorbells() {
        bench.note("doorbell pages are memory that a model polls: this is no card");
    }
    Ok(())
}

fn check_mac(bench: &mut Bench, bus: &dyn Bus) -> Result<(), Failure> {
    let bits = bus.read64(offset::port_mac);
    let [zero, zero_too, octets @ ..] = bits.to_be_bytes();
    let is_multicast = octets[0] & 1 == 1;
    if bits == 0 || [zero, zero_too] != [0, 0] || is_multicast {
        return Err(Failure::new(format!(
            "port_mac reads {bits:#x}: that is no MAC address of a port"
        ))
        .look_at(
            "the card's EEPROM or configuration; octet order: the first octet is in \
                          bits 47:40",
        ));
    }
    bench.figure("port_mac", Mac(octets).to_string());
    Ok(())
}
