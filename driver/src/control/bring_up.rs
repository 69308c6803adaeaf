//! Steps of bring-up and teardown that need registers only.

use core::time::Duration;

use ferroce_spec::command::{CommandOpcode, DeviceCapabilities};
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::personality::Personality;
use ferroce_spec::register::{
    CONTRACT_MAJOR, Capability, ContractVersion, Control, MAGIC, UNMAPPED_READ,
};

use crate::bus::Bus;
use crate::capabilities::{Capabilities, Limits};
use crate::control::command::CommandQueue;
use crate::control::mmio;
use crate::error::Error;

/// Iterations of waiting for a register between two checks of the clock.
const TURNS_PER_CHECK: u32 = 64;
/// Argument of the NOP with which bring-up tests the command queue.
const NOP_ARGUMENT: u64 = 0x0123_4567_89ab_cdef;

/// Register values of a device before bring-up.
pub(crate) struct Identity {
    pub(crate) version: ContractVersion,
    pub(crate) capability: Capability,
}

/// Checks that the device is a Ferroce device with a version of the contract that this driver
/// supports.
pub(crate) fn identify(bus: &dyn Bus) -> Result<Identity, Error> {
    let magic = mmio::MAGIC.read(bus);
    if magic != MAGIC {
        return Err(Error::NotFerroce { magic });
    }
    let version = mmio::CONTRACT_VERSION.read(bus);
    if version.major() != CONTRACT_MAJOR {
        return Err(Error::WrongVersion {
            major: version.major(),
            minor: version.minor(),
        });
    }
    let capability = mmio::CAPABILITY.read(bus);
    if !capability.present() {
        let what = "the capability register";
        return Err(Error::BadAnswer { what });
    }
    Ok(Identity {
        version,
        capability,
    })
}

/// Returns the MAC address of the port. The device need not be open; its state does not change.
///
/// # Errors
///
/// [`Error::NotFerroce`], [`Error::WrongVersion`], [`Error::BadAnswer`]: it is not a Ferroce device
/// with a supported version.
pub fn port_mac(bus: &dyn Bus) -> Result<[u8; 6], Error> {
    identify(bus)?;
    let [_, _, mac @ ..] = mmio::PORT_MAC.read(bus).to_be_bytes();
    Ok(mac)
}

/// Reads the counters of the device behind a bus, in the order of their registers.
///
/// # Errors
///
/// As [`port_mac`].
pub fn read_counters(bus: &dyn Bus) -> Result<Vec<u64>, Error> {
    let count = u32::from(identify(bus)?.capability.counters());
    let counters = (0..count).take(COUNTERS.len());
    Ok(counters
        .map(|index| mmio::read_counter(bus, index))
        .collect())
}

/// Resets the function.
pub(crate) fn reset(bus: &dyn Bus, timeout: Duration) -> Result<(), Error> {
    let mut control = Control::default();
    control.set_reset(true);
    mmio::CONTROL.write(bus, control);
    wait_for(bus, timeout, "finish its reset", || {
        !mmio::CONTROL.read(bus).reset() && mmio::STATUS.read(bus).ready()
    })
}

/// Starts the command queue.
pub(crate) fn enable(bus: &dyn Bus, timeout: Duration) -> Result<(), Error> {
    let mut control = Control::default();
    control.set_enable(true);
    mmio::CONTROL.write(bus, control);
    wait_for(bus, timeout, "enable itself", || {
        mmio::STATUS.read(bus).enabled()
    })
}

fn wait_for(
    bus: &dyn Bus,
    timeout: Duration,
    what: &'static str,
    mut done: impl FnMut() -> bool,
) -> Result<(), Error> {
    let deadline = bus.now() + timeout;
    let mut turn = 0u32;
    loop {
        if bus.is_gone() || mmio::STATUS.read(bus).bits() == UNMAPPED_READ {
            return Err(Error::DeviceDead);
        }
        if done() {
            return Ok(());
        }
        turn = turn.wrapping_add(1);
        if turn % TURNS_PER_CHECK == 0 && bus.now() > deadline {
            return Err(Error::RegisterTimeout { what });
        }
        bus.relax();
    }
}

/// Checks that the command queue works.
pub(crate) fn check_commands(commands: &CommandQueue) -> Result<(), Error> {
    let result = commands.execute(CommandOpcode::NOP, NOP_ARGUMENT)?;
    if result != NOP_ARGUMENT {
        let what = "the result of a NOP";
        return Err(Error::BadAnswer { what });
    }
    Ok(())
}

/// Returns the capabilities, completed from the registers.
pub(crate) fn describe(
    bus: &dyn Bus,
    capability: Capability,
    limits: &Limits,
    answer: &DeviceCapabilities,
    event_queues: u16,
) -> Capabilities {
    let described = limits.capabilities(answer);
    // Queues need mappings as well.
    let mapped_regions = bus.mapping_limit().map_or(u32::MAX, |limit| limit / 2);
    let page_faults = bus.page_faults().is_some();
    let raises_page_faults = answer.features.on_demand_paging();
    let identity = mmio::DEVICE_ID.read(bus);
    let [_, _, mac @ ..] = mmio::PORT_MAC.read(bus).to_be_bytes();
    Capabilities {
        vendor_id: identity & 0xffff,
        part_id: identity >> 16,
        hardware_version: mmio::HARDWARE_REVISION.read(bus),
        personality: Personality(capability.personality()),
        port_mac: mac,
        ports: capability.ports().max(1),
        completion_vectors: event_queues.saturating_sub(1).max(1),
        max_mr: described.max_mr.min(mapped_regions),
        on_demand_paging: bus.address_space().is_some() && (!page_faults || raises_page_faults),
        page_faults,
        ..described
    }
}
