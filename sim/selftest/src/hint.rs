//! Likely causes of wrong values.

use ferroce_driver::Error;
use ferroce_driver::bus::Bus;
use ferroce_spec::register::{FatalSyndrome, MAGIC, Status, UNMAPPED_READ, offset};

use super::outcome::Failure;

/// Returns hints for a register with an impossible value.
pub fn of_read(value: u64, width: u32) -> Vec<String> {
    let ones = u64::MAX >> (64 - 8 * width);
    let hints: &[&str] = match value {
        _ if value == ones => &[
            "all ones: no answer. Is the link up (lspci -vv: LnkSta), is memory decoding on \
             (command register, bit 1), is the function in D0, is the BAR mapped?",
            "was the bitstream loaded after the machine had enumerated the bus? Then the BARs are \
             not assigned: remove and rescan (/sys/bus/pci/devices/BDF/remove, /sys/bus/pci/rescan)",
        ],
        0 => &[
            "all zeros: something answers, but not the register block. Is its clock running and its \
             reset released; does BAR0 decode to it?",
        ],
        _ => &[],
    };
    hints.iter().map(|hint| (*hint).to_owned()).collect()
}

/// Returns hints for a wrong magic.
pub fn of_magic(value: u32) -> Vec<String> {
    let mut hints = of_read(value.into(), 4);
    if value == MAGIC.swap_bytes() {
        hints.push(
            "the bytes are reversed: the register block is big-endian, PCIe is little-endian"
                .to_owned(),
        );
    } else if value == MAGIC.rotate_left(16) {
        hints.push("the 16-bit halves are swapped: lane order of the register block".to_owned());
    } else if hints.is_empty() {
        hints
            .push("another bitstream, or another BAR: BAR0 offset 0 must read \"FROC\"".to_owned());
    }
    hints
}

/// Returns hints from status and syndrome of a device that does not answer.
pub fn of_silence(bus: &dyn Bus) -> Vec<String> {
    let bits = bus.read32(offset::status);
    if bits == UNMAPPED_READ {
        return of_read(bits.into(), 4);
    }
    let status = Status::from_bits(bits);
    let mut hints = Vec::new();
    if status.fatal() {
        let syndrome = FatalSyndrome(bus.read32(offset::fatal_syndrome));
        let name = syndrome.name().unwrap_or("unknown");
        hints.push(format!(
            "the function has stopped itself: fatal_syndrome {:#x} ({name})",
            syndrome.0
        ));
        if [
            FatalSyndrome::COMMAND_QUEUE_DMA,
            FatalSyndrome::EVENT_QUEUE_DMA,
            FatalSyndrome::CONTEXT_TABLE_DMA,
        ]
        .contains(&syndrome)
        {
            hints.push(DMA_REFUSED.to_owned());
        }
    } else if !status.enabled() {
        hints.push("status says that the function is not enabled".to_owned());
    }
    hints
}

/// Hint for DMA that does not arrive.
pub const DMA_REFUSED: &str = "DMA is refused by the host: bus master (command register, bit 2), \
     the address width of the DMA engine, IOMMU faults (dmesg | grep -i -e DMAR -e AMD-Vi)";

/// Returns the failure of a call of the driver.
pub fn of_driver(what: &str, error: &Error, bus: &dyn Bus) -> Failure {
    let failure = Failure::new(format!("{what}: {error}")).look_at_all(of_silence(bus));
    match error {
        Error::Command { syndrome, .. } => failure.look_at(format!(
            "the decoder of this command; of a BAD_PARAMETER the syndrome, {syndrome}, is the byte \
             offset of the field in the input"
        )),
        Error::BadAnswer { .. } => failure.look_at(
            "the output structure of the command in the programmer's reference, field by field",
        ),
        Error::Bus(error) => failure.look_at(format!(
            "not the device: this machine refused ({error}); locked memory (ulimit -l), IOMMU"
        )),
        Error::DeviceDead | Error::CommandTimeout { .. } => failure.look_at(
            "the command that was under way: does the card get stuck in it (its state machine), or \
             does its answer not arrive (DMA write)?",
        ),
        _ => failure,
    }
}
