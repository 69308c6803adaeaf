//! Stage `reset-dma`: a reset while the device reads and writes host memory.

use ferroce_spec::command::{CommandOpcode, CommandStatus};
use ferroce_spec::register::offset;

use super::bench::Bench;
use super::command_ring::CommandRing;
use super::outcome::{Failure, Outcome};
use super::reset::reset;

/// Number of resets, each a little later after the doorbell than the previous one.
const ROUNDS: u32 = 48;
/// Base-2 logarithm of the commands in flight.
const LOG_COMMANDS: u32 = 5;
const COMMANDS: u32 = 1 << LOG_COMMANDS;
/// Written to the ring after a reset: an invalid command that is owned by software.
const MARK: u64 = 0x5a5a_5a5a_5a5a_5a5a;

pub(super) fn run(bench: &mut Bench) -> Outcome {
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        interrupted += u32::from(check_reset(bench, round)?);
    }
    reset(bench)?;
    bench.figure("resets", ROUNDS);
    bench.figure("interrupted", interrupted);
    if interrupted == 0 {
        bench.note("each reset came when all commands were done: this device is too fast for it");
    }
    Ok(())
}

/// Resets the device `round` register reads after a doorbell for a ring full of commands, then runs
/// other commands in the same memory. Returns true if commands were still pending at the reset.
fn check_reset(bench: &Bench, round: u32) -> Result<bool, Failure> {
    let bus = &*bench.bus;
    reset(bench)?;
    let mut ring = CommandRing::new(bench, LOG_COMMANDS)?;
    post(&mut ring, round, 0);
    ring.ring_doorbell();
    for _ in 0..round {
        bus.read32(offset::magic);
    }
    reset(bench)?;
    let is_interrupted = ring.is_any_waiting();
    ring.fill(MARK);
    bench.stay_quiet();
    if let Some((at, value)) = ring.find_other_than(MARK) {
        return Err(Failure::new(format!(
            "{at} bytes into the ring of before the reset, {value:#x} was written after the reset \
             had ended"
        ))
        .look_at("control.reset may read zero only when all posted writes are on their way")
        .look_at("writes that wait in a queue of the DMA engine: the reset has to empty it"));
    }
    ring.restart(bench)?;
    post(&mut ring, round, 1);
    ring.ring_doorbell();
    (0..COMMANDS).try_for_each(|index| check(bench, &ring, round, index))?;
    ring.check_guard()?;
    Ok(is_interrupted)
}

/// Returns an argument that differs between rounds, before and after the reset, and between
/// commands.
fn argument(round: u32, after: u64, index: u32) -> u64 {
    u64::from(round) << 32 | after << 16 | u64::from(index) | 0x00c0_0000_0000_0000
}

fn post(ring: &mut CommandRing, round: u32, after: u64) {
    for index in 0..COMMANDS {
        ring.post(CommandOpcode::NOP, argument(round, after, index));
    }
}

/// Checks that the command posted after the reset was executed, and not the earlier one in its
/// slot.
fn check(bench: &Bench, ring: &CommandRing, round: u32, index: u32) -> Result<(), Failure> {
    let entry = ring.wait(bench, index, "a NOP after a reset under way")?;
    let status = CommandStatus(entry.completion.status());
    if status == CommandStatus::SUCCESS && entry.result == argument(round, 1, index) {
        return Ok(());
    }
    let failure = Failure::new(format!(
        "NOP number {index} after a reset under way ended with {status:?} and result {:#x}, not \
         {:#x}",
        entry.result,
        argument(round, 1, index)
    ));
    Err(if entry.result == argument(round, 0, index) {
        failure.look_at(
            "that is the command of before the reset: the completion of a read of before the \
             reset was taken. Tags need an epoch, or the reset has to wait for its reads",
        )
    } else {
        failure.look_at("state of the command queue that the reset does not reach")
    })
}
