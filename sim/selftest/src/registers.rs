//! Stage `registers`: written bits are stored, and read-only bits do not change.

use ferroce_driver::bus::Bus;
use ferroce_spec::register::{
    COMMAND_QUEUE_LOG_SIZE_MAX, COUNTERS_OFFSET, Capability, ContractVersion, Control,
    MSIX_TABLE_OFFSET, REGISTERS, Register, RegisterAccess, Status, UNMAPPED_READ, offset,
};

use super::bench::Bench;
use super::hint;
use super::outcome::{Failure, Outcome};

/// Lowest bit of a command queue base: it is aligned to 64 bytes.
const LOW_BIT: u32 = 6;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    disable(bench)?;
    let bus = bench.bus.clone();
    let patterns = check_base(&*bus)?;
    bench.figure("patterns", patterns);
    check_halves(&*bus)?;
    check_log_size(&*bus)?;
    let read_only = check_read_only(&*bus)?;
    bench.figure("read_only_registers", read_only);
    check_write_only(&*bus)?;
    let holes = check_holes(&*bus)?;
    bench.figure("unmapped_dwords", holes);
    Ok(())
}

/// Disables the function, because the registers of the command queue are only writable then.
fn disable(bench: &mut Bench) -> Result<(), Failure> {
    let bus = &*bench.bus;
    let is_enabled = || Status::from_bits(bus.read32(offset::status)).enabled();
    if !is_enabled() {
        return Ok(());
    }
    bus.write32(offset::control, Control::default().bits());
    if bench
        .wait(bench.timeouts.register, || !is_enabled())
        .is_some()
    {
        bench.note("the function was already enabled: a previous driver did not reset it");
        return Ok(());
    }
    Err(
        Failure::new("status.enabled stays one although control.enable was cleared")
            .look_at("the control register: do writes reach the register block at all?")
            .look_at_all(hint::of_read(bus.read32(offset::status).into(), 4)),
    )
}

fn base_patterns() -> impl Iterator<Item = u64> {
    let mask = u64::MAX << LOW_BIT;
    let walking = (LOW_BIT..64).flat_map(move |bit| [1 << bit, !(1 << bit) & mask]);
    let checkers = [0, mask, 0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa];
    let own_address = [0x0123_4567_89ab_cdc0, 0xfedc_ba98_7654_3200];
    walking
        .chain(checkers.map(|pattern| pattern & mask))
        .chain(own_address)
}

fn check_base(bus: &dyn Bus) -> Result<usize, Failure> {
    let register = offset::command_queue_base;
    let (mut stuck_at_0, mut stuck_at_1, mut first) = (0, 0, None);
    let mut count = 0;
    for pattern in base_patterns() {
        bus.write64(register, pattern);
        let read = bus.read64(register);
        stuck_at_0 |= pattern & !read;
        stuck_at_1 |= !pattern & read;
        if read != pattern && first.is_none() {
            first = Some((pattern, read));
        }
        count += 1;
    }
    let Some((pattern, read)) = first else {
        return Ok(count);
    };
    let failure = Failure::new(format!(
        "wrote {pattern:#018x} to command_queue_base, read {read:#018x}"
    ));
    // All patterns together show which bits were always wrong.
    let (only_0, only_1) = (stuck_at_0 & !stuck_at_1, stuck_at_1 & !stuck_at_0);
    Err(if read == u64::MAX {
        failure.look_at_all(hint::of_read(read, 8))
    } else if read == pattern.rotate_left(32) {
        failure.look_at("the halves of a 64-bit write are swapped: order of the two dwords")
    } else if read == pattern.swap_bytes() {
        failure.look_at("the bytes are reversed: byte order of the register block")
    } else if stuck_at_0 & stuck_at_1 == 0 {
        failure.look_at(stuck(only_0, only_1))
    } else {
        failure.look_at(
            "bits change together: address decode (does another register answer?), byte enables, \
             lane order",
        )
    })
}

fn stuck(at_0: u64, at_1: u64) -> String {
    let mut text = Vec::new();
    for (mask, level) in [(at_0, "zero"), (at_1, "one")] {
        if mask != 0 {
            text.push(format!("bits {mask:#018x} are stuck at {level}"));
        }
    }
    let mut text = text.join(", ");
    if at_1 == 0 && at_0 == u64::MAX << LOW_BIT {
        text += ": the register takes no write. Do writes arrive (posted write path)?";
    } else if at_1 == 0 && at_0 | (1u64 << at_0.trailing_zeros()).wrapping_sub(1) == u64::MAX {
        text += ": the register is too narrow, or only the low half of a 64-bit write arrives";
    } else {
        text +=
            ": the flip-flops of these bits, or their lane between PCIe core and register block";
    }
    text
}

/// Checks that 32-bit and 64-bit accesses read the same value.
fn check_halves(bus: &dyn Bus) -> Result<(), Failure> {
    const VALUE: u64 = 0x1357_9bdf_0246_8ac0;
    let register = offset::command_queue_base;
    bus.write64(register, VALUE);
    let halves = [bus.read32(register), bus.read32(register + 4)];
    if halves != [VALUE as u32, (VALUE >> 32) as u32] {
        return Err(Failure::new(format!(
            "a 64-bit write of {VALUE:#018x} reads as {:#010x} and {:#010x} in two halves",
            halves[0], halves[1]
        ))
        .look_at("32-bit reads at offsets 0 and 4 modulo 8: lane selection"));
    }
    bus.write32(register, !VALUE as u32 & u32::MAX << LOW_BIT);
    bus.write32(register + 4, !(VALUE >> 32) as u32);
    let (expected, read) = (!VALUE & u64::MAX << LOW_BIT, bus.read64(register));
    if read != expected {
        return Err(Failure::new(format!(
            "two 32-bit writes of {expected:#018x} read as {read:#018x}"
        ))
        .look_at("32-bit writes: first and last byte enables, lane selection of the upper dword"));
    }
    bus.write64(register, 0);
    Ok(())
}

fn check_log_size(bus: &dyn Bus) -> Result<(), Failure> {
    for value in 0..=COMMAND_QUEUE_LOG_SIZE_MAX {
        bus.write32(offset::command_queue_log_size, value);
        let read = bus.read32(offset::command_queue_log_size);
        if read != value {
            return Err(Failure::new(format!(
                "wrote {value} to command_queue_log_size, read {read:#x}"
            ))
            .look_at("width of the register; 32-bit writes at offset 0 modulo 8"));
        }
        let base = bus.read64(offset::command_queue_base);
        if base != 0 {
            return Err(Failure::new(format!(
                "a write to command_queue_log_size has changed command_queue_base to {base:#x}"
            ))
            .look_at("address decode of the register block"));
        }
    }
    bus.write32(offset::command_queue_log_size, 0);
    Ok(())
}

fn read(bus: &dyn Bus, at: u32, width: u32) -> u64 {
    match width {
        8 => bus.read64(at),
        _ => bus.read32(at).into(),
    }
}

fn elements(register: &Register) -> impl Iterator<Item = u32> + use<> {
    let (first, width) = (register.offset, register.width);
    (0..register.count).map(move |index| first + index * width)
}

/// Checks that writing the complement does not change read-only bits.
fn check_read_only(bus: &dyn Bus) -> Result<usize, Failure> {
    let is_constant = |register: &&Register| {
        register.access == RegisterAccess::ReadOnly
            && ![offset::clock, offset::status].contains(&register.offset)
    };
    let mut count = 0;
    for register in REGISTERS.iter().filter(is_constant) {
        for at in elements(register) {
            let before = read(bus, at, register.width);
            match register.width {
                8 => bus.write64(at, !before),
                _ => bus.write32(at, !before as u32),
            }
            let after = read(bus, at, register.width);
            if after != before {
                return Err(Failure::new(format!(
                    "{} is read-only, but a write has changed it from {before:#x} to {after:#x}",
                    register.name
                ))
                .look_at("the write decoder of the register block"));
            }
            count += 1;
        }
    }
    Ok(count)
}

fn check_write_only(bus: &dyn Bus) -> Result<(), Failure> {
    let version = ContractVersion::from_bits(bus.read32(offset::contract_version));
    let is_write_only = |register: &&Register| {
        register.access == RegisterAccess::WriteOnly
            && (register.offset != offset::page_fault_answer || version.has_page_fault_answer())
    };
    for register in REGISTERS.iter().filter(is_write_only) {
        for at in elements(register) {
            let value = read(bus, at, register.width);
            if value != 0 {
                return Err(Failure::new(format!(
                    "{} (offset {at:#x}) is write-only and must read zero, but reads {value:#x}",
                    register.name
                ))
                .look_at(
                    "the read decoder: every offset needs an answer, a missing one makes the \
                          PCIe core answer all ones",
                ));
            }
        }
    }
    Ok(())
}

/// Returns dwords below the MSI-X table that belong to no register.
fn holes(capability: Capability) -> impl Iterator<Item = u32> {
    let counters = u32::from(capability.counters());
    let is_register = |at: u32| {
        REGISTERS.iter().any(|register| {
            let end = register.offset + register.width * register.count;
            (register.offset..end).contains(&at)
        })
    };
    let below = (0..COUNTERS_OFFSET)
        .step_by(4)
        .filter(move |at| !is_register(*at));
    let behind = (COUNTERS_OFFSET + 8 * counters..MSIX_TABLE_OFFSET).step_by(4);
    below.chain(behind)
}

fn check_holes(bus: &dyn Bus) -> Result<usize, Failure> {
    let capability = Capability::from_bits(bus.read64(offset::capability));
    let mut count = 0;
    for at in holes(capability) {
        let value = bus.read32(at);
        if value != UNMAPPED_READ {
            return Err(Failure::new(format!(
                "offset {at:#x} has no register and must read all ones, but reads {value:#x}"
            ))
            .look_at(
                "address decode: too few address bits are compared, so that a register \
                      appears twice",
            ));
        }
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_move_each_bit_both_ways() {
        let ones = base_patterns().fold(0, |all, pattern| all | pattern);
        let zeros = base_patterns().fold(0, |all, pattern| all | !pattern);
        assert_eq!(ones, u64::MAX << LOW_BIT);
        assert_eq!(zeros, u64::MAX);
        assert!(base_patterns().all(|pattern| pattern % 64 == 0));
    }

    #[test]
    fn kinds_of_stuck_bits_are_distinguished() {
        assert!(stuck(u64::MAX << LOW_BIT, 0).contains("takes no write"));
        assert!(stuck(0xffff << 48, 0).contains("too narrow"));
        assert!(stuck(1 << 12, 0).contains("0x0000000000001000 are stuck at zero: the flip"));
        assert!(stuck(0, 1 << 12).contains("stuck at one"));
    }
}
