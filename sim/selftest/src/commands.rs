//! Stage `commands`: the command queue, with a separate ring.

use ferroce_spec::command::{CommandEntry, CommandOpcode, CommandStatus};
use ferroce_spec::counter::Counter;
use ferroce_spec::register::{Status, offset};

use super::bench::Bench;
use super::command_ring::CommandRing;
use super::outcome::{Failure, Outcome};
use super::reset::reset;

/// Ring sizes to test.
const LOG_SIZES: [u32; 3] = [0, 2, 5];
/// Laps of each ring; the test runs a little longer.
const LAPS: u32 = 3;
/// An opcode that no command has.
const UNKNOWN: CommandOpcode = CommandOpcode(0xfffe);

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let mut commands = 0;
    for log_size in LOG_SIZES {
        commands += check_ring(bench, log_size)?;
    }
    bench.figure("commands", commands);
    bench.figure("rings", LOG_SIZES.len());
    Ok(())
}

/// Runs a ring for several laps. Returns the number of commands.
fn check_ring(bench: &Bench, log_size: u32) -> Result<u32, Failure> {
    reset(bench)?;
    let bus = &*bench.bus;
    let mut ring = CommandRing::new(bench, log_size)?;
    let size = 1u32 << log_size;
    for _ in 0..size * LAPS + 1 {
        check_batch(bench, &mut ring, 1)?;
    }
    // Several commands for one doorbell.
    check_batch(bench, &mut ring, size)?;
    check_unknown(bench, &mut ring)?;
    check_batch(bench, &mut ring, size)?;
    ring.check_guard()?;
    check_counts(bench, ring.posted())?;
    // The memory of the ring is freed next: the device must have released it.
    reset(bench)?;
    if Status::from_bits(bus.read32(offset::status)).enabled() {
        return Err(Failure::new("the function is still enabled after a reset")
            .look_at("control.enable must be cleared by control.reset"));
    }
    Ok(ring.posted())
}

/// Returns an argument that distinguishes commands and bytes.
fn argument(index: u32) -> u64 {
    0x0123_4567_89ab_cdef ^ u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn check_batch(bench: &Bench, ring: &mut CommandRing, count: u32) -> Result<(), Failure> {
    let first = ring.posted();
    for _ in 0..count {
        ring.post(CommandOpcode::NOP, argument(ring.posted()));
    }
    ring.ring_doorbell();
    for index in first..first + count {
        let what = format!("NOP number {index}");
        let entry = ring.wait(bench, index, &what)?;
        check_nop(&entry, index, &what)?;
    }
    let consumer = bench.bus.read32(offset::command_queue_consumer);
    if consumer != ring.posted() {
        return Err(Failure::new(format!(
            "command_queue_consumer reads {consumer} after {} commands",
            ring.posted()
        ))
        .look_at("the register: it counts commands completed, modulo 2^32"));
    }
    Ok(())
}

fn check_nop(entry: &CommandEntry, index: u32, what: &str) -> Result<(), Failure> {
    let status = CommandStatus(entry.completion.status());
    if status != CommandStatus::SUCCESS {
        return Err(Failure::new(format!(
            "{what} ended with {status:?}, syndrome {:#x}",
            entry.completion.syndrome()
        ))
        .look_at("the entry as the device has read it: byte order, and which 64 bytes"));
    }
    let expected = argument(index);
    if entry.result == expected {
        return Ok(());
    }
    let failure = Failure::new(format!(
        "{what}: the result is {:#018x}, not its argument {expected:#018x}",
        entry.result
    ));
    Err(if entry.result == expected.swap_bytes() {
        failure.look_at("byte order of DMA reads or writes")
    } else if (0..index).any(|other| entry.result == argument(other)) {
        failure.look_at(
            "that is the argument of an earlier command: an old entry was read (a read that \
             overtakes, a cache), or the wrong one (index modulo size)",
        )
    } else if entry.result == 0 {
        failure.look_at(
            "the word before the completion was not written, or not before it: order of posted \
             writes, byte enables of a write of 16 bytes",
        )
    } else {
        failure.look_at("lanes of the DMA data path")
    })
}

fn check_unknown(bench: &Bench, ring: &mut CommandRing) -> Result<(), Failure> {
    let index = ring.post(UNKNOWN, 0);
    ring.ring_doorbell();
    let entry = ring.wait(bench, index, "an unknown command")?;
    let status = CommandStatus(entry.completion.status());
    if status == CommandStatus::BAD_OPCODE {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the unknown command {:#x} ended with {status:?}, not with BAD_OPCODE",
        UNKNOWN.0
    ))
    .look_at("the default case of the command decoder"))
}

fn check_counts(bench: &Bench, posted: u32) -> Result<(), Failure> {
    let counts = bench.counters();
    for (counter, expected) in [
        (Counter::commands, u64::from(posted)),
        (Counter::command_errors, 1),
        (Counter::dma_errors, 0),
    ] {
        let value = counts.get(counter);
        if value != expected {
            return Err(Failure::new(format!(
                "the counter {counter:?} reads {value}, not {expected}, after {posted} commands of \
                 which one was wrong"
            ))
            .look_at("where the block counts, and which counter register it drives"));
        }
    }
    Ok(())
}
