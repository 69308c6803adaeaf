//! Stage `reset`: a reset ends, and leaves the state that the contract defines.

use std::time::Duration;

use ferroce_driver::bus::Bus;
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::register::{
    COUNTERS_OFFSET, Capability, Control, REGISTERS, Register, RegisterAccess, Status, offset,
};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome};

/// Number of consecutive resets.
const RESETS: u32 = 16;
/// Limit of the contract.
const LONGEST: Duration = Duration::from_secs(1);
/// Registers that a reset does not change, whatever their value.
const KEPT: [u32; 4] = [
    offset::contract_version,
    offset::hardware_revision,
    offset::capability,
    offset::port_mac,
];
/// Registers whose value after a reset is chosen by the maker of the card.
const CHOSEN: [u32; 2] = [offset::roce_accl, offset::roce_accl_reorder_time];

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let bus = bench.bus.clone();
    let kept = KEPT.map(|at| bus.read64(at & !7));
    let mut longest = Duration::ZERO;
    for _ in 0..RESETS {
        bus.write64(offset::command_queue_base, 0x5a5a_5a5a_5a5a_5a40);
        bus.write32(offset::command_queue_log_size, 5);
        longest = longest.max(reset(bench)?);
        check_registers(&*bus)?;
        check_counters(&*bus)?;
        if KEPT.map(|at| bus.read64(at & !7)) != kept {
            return Err(Failure::new("a reset has changed an identity register")
                .look_at(
                    "contract_version, hardware_revision, capability, port_mac: constants, or \
                          loaded once after configuration",
                )
                .into());
        }
    }
    bench.figure("resets", RESETS);
    bench.figure("longest_us", longest.as_secs_f64() * 1e6);
    if longest > LONGEST {
        bench.note(format!(
            "a reset took {longest:?}; the contract allows one second"
        ));
    }
    Ok(())
}

/// Resets the function. Returns the duration.
pub(super) fn reset(bench: &Bench) -> Result<Duration, Failure> {
    let bus = &*bench.bus;
    let mut control = Control::default();
    control.set_reset(true);
    bus.write32(offset::control, control.bits());
    let is_done = || {
        let control = Control::from_bits(bus.read32(offset::control));
        !control.reset() && Status::from_bits(bus.read32(offset::status)).ready()
    };
    bench.wait(bench.timeouts.register, is_done).ok_or_else(|| {
        let (control, status) = (bus.read32(offset::control), bus.read32(offset::status));
        Failure::new(format!(
            "the reset has not ended within {:?}: control reads {control:#x}, status {status:#x}",
            bench.timeouts.register
        ))
        .look_at_all(hint::of_read(control.into(), 4))
        .look_at(
            "what the reset waits for: DMA reads whose completion never comes (is there a \
             completion time-out?), a PLL that does not lock, a block that never says that it is \
             idle",
        )
    })
}

fn check_registers(bus: &dyn Bus) -> Result<(), Failure> {
    let capability = Capability::from_bits(bus.read64(offset::capability));
    let has_roce_accl = capability.roce_accl();
    let is_checked = |register: &&Register| {
        register.access != RegisterAccess::WriteOnly
            && (register.offset < offset::roce_accl_select || has_roce_accl)
            && register.offset != offset::clock
            && !KEPT.contains(&register.offset)
            && !CHOSEN.contains(&register.offset)
    };
    for register in REGISTERS.iter().filter(is_checked) {
        let (expected, ignored) = if register.offset == offset::status {
            let mut ready = Status::default();
            ready.set_ready(true);
            let mut link = Status::default();
            link.set_link_up(true);
            (ready.bits().into(), u64::from(link.bits()))
        } else {
            (register.reset, 0)
        };
        let value = match register.width {
            8 => bus.read64(register.offset),
            _ => bus.read32(register.offset).into(),
        };
        if value & !ignored != expected {
            return Err(Failure::new(format!(
                "after a reset {} reads {value:#x}, not {expected:#x}",
                register.name
            ))
            .look_at(
                "does the reset of the function (control.reset) reach this register, or only \
                      the reset of PCIe?",
            ));
        }
    }
    Ok(())
}

/// Checks that all counters are zero, except that frames of other hosts may already be counted
/// again.
fn check_counters(bus: &dyn Bus) -> Result<(), Failure> {
    let capability = Capability::from_bits(bus.read64(offset::capability));
    let known = COUNTERS.iter().take(capability.counters().into());
    for (index, counter) in (0..).zip(known) {
        let value = bus.read64(COUNTERS_OFFSET + 8 * index);
        if value != 0 && !counter.name.starts_with("rx_") {
            return Err(Failure::new(format!(
                "after a reset the counter {} reads {value}",
                counter.name
            ))
            .look_at("the reset of the counters; a block that goes on working after the reset"));
        }
    }
    Ok(())
}
