//! The command queue.

use core::time::Duration;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ferroce_spec::command::{
    CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, LOG_MAX_MAILBOX,
    MAILBOX_ALIGNMENT, ShortModifyQp, input_size, output_size,
};
use ferroce_spec::register::UNMAPPED_READ;
use parking_lot::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bus::Bus;
use crate::control::event::Dispatch;
use crate::control::mmio;
use crate::dma::{DmaBuffer, DmaSpace};
use crate::error::Error;

/// Time limit of a command. A device that does not execute it is dead; it is not retried, because
/// the device may still use the entry and the mailboxes.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Iterations of waiting between two checks of the clock and of the status register.
const TURNS_PER_CHECK: u32 = 64;
/// Base-2 logarithm of the entries of the command queue. Commands are executed one at a time; a
/// few entries make the ring wrap visible in a debugger.
const LOG_ENTRIES: u32 = 4;

const INPUT_OFFSET: usize = 4096;
const OUTPUT_OFFSET: usize = INPUT_OFFSET + (1 << LOG_MAX_MAILBOX);
const BUFFER_SIZE: usize = OUTPUT_OFFSET + (1 << LOG_MAX_MAILBOX);
const COMPLETION_OFFSET: usize = offset_of!(CommandEntry, completion);

const _: () = assert!(CommandEntry::SIZE << LOG_ENTRIES <= INPUT_OFFSET);
const _: () = assert!(INPUT_OFFSET as u64 % MAILBOX_ALIGNMENT == 0);
const _: () = assert!(OUTPUT_OFFSET as u64 % MAILBOX_ALIGNMENT == 0);
const _: () = assert!(COMPLETION_OFFSET + 8 == CommandEntry::SIZE);

/// The command queue with one input and one output mailbox.
///
/// One command runs at a time; the others wait at the lock. While it waits, the bus runs
/// (`Bus::relax`), so event handlers may run on this thread: they must not issue commands.
pub(crate) struct CommandQueue {
    bus: Arc<dyn Bus>,
    dispatch: Arc<Dispatch>,
    timeout: Duration,
    ring: Mutex<CommandRing>,
}

struct CommandRing {
    /// The ring, then the input mailbox, then the output mailbox.
    buffer: DmaBuffer,
    /// Commands posted, modulo 2^32.
    posted: u32,
}

impl CommandQueue {
    /// Allocates the queue and writes its address to the registers. The function is disabled.
    pub(crate) fn new(
        bus: &Arc<dyn Bus>,
        space: &Arc<DmaSpace>,
        dispatch: &Arc<Dispatch>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let buffer = DmaBuffer::new(space, BUFFER_SIZE)?;
        mmio::COMMAND_QUEUE_BASE.write(&**bus, buffer.iova());
        mmio::COMMAND_QUEUE_LOG_SIZE.write(&**bus, LOG_ENTRIES);
        Ok(Self {
            bus: Arc::clone(bus),
            dispatch: Arc::clone(dispatch),
            timeout,
            ring: Mutex::new(CommandRing { buffer, posted: 0 }),
        })
    }

    /// Executes a command without input and output structures; returns its result.
    pub(crate) fn execute(&self, opcode: CommandOpcode, argument: u64) -> Result<u64, Error> {
        debug_assert_eq!((input_size(opcode), output_size(opcode)), (0, 0));
        self.run(opcode, argument, 0, &mut self.ring.lock())
    }

    /// Executes a command with an input structure; returns its result.
    pub(crate) fn execute_with<T: IntoBytes + Immutable>(
        &self,
        opcode: CommandOpcode,
        argument: u64,
        input: &T,
    ) -> Result<u64, Error> {
        let length = size_of::<T>();
        debug_assert!(length == input_size(opcode) || length == ShortModifyQp::SIZE);
        let mut ring = self.ring.lock();
        ring.buffer.store(INPUT_OFFSET, input);
        self.run(opcode, argument, length, &mut ring)
    }

    /// Executes a command that returns an output structure.
    pub(crate) fn query<T: FromBytes + IntoBytes>(
        &self,
        opcode: CommandOpcode,
        argument: u64,
    ) -> Result<T, Error> {
        debug_assert_eq!(output_size(opcode), size_of::<T>());
        let mut ring = self.ring.lock();
        self.run(opcode, argument, 0, &mut ring)?;
        Ok(ring.buffer.load(OUTPUT_OFFSET))
    }

    fn run(
        &self,
        opcode: CommandOpcode,
        argument: u64,
        input_length: usize,
        ring: &mut CommandRing,
    ) -> Result<u64, Error> {
        if self.dispatch.health().is_dead() {
            return Err(Error::DeviceDead);
        }
        let place = (ring.posted % (1 << LOG_ENTRIES)) as usize * CommandEntry::SIZE;
        let entry = entry(opcode, argument, input_length, &ring.buffer);
        ring.buffer.store(place, &entry);
        ring.posted = ring.posted.wrapping_add(1);
        fence(Ordering::Release);
        mmio::COMMAND_QUEUE_DOORBELL.write(&*self.bus, ring.posted);
        let completion = self.wait(opcode, &ring.buffer, place)?;
        match CommandStatus(completion.status()) {
            CommandStatus::SUCCESS => {
                let entry: CommandEntry = ring.buffer.load(place);
                Ok(entry.result)
            }
            status => {
                let syndrome = completion.syndrome();
                tracing::debug!(?opcode, argument, ?status, syndrome, "command refused");
                Err(Error::Command {
                    opcode,
                    status,
                    syndrome,
                })
            }
        }
    }

    /// Waits until the device returns the entry. If it does not in time, the device counts as dead:
    /// it may still use the entry and the mailboxes, so they are not used again.
    fn wait(
        &self,
        opcode: CommandOpcode,
        buffer: &DmaBuffer,
        place: usize,
    ) -> Result<CommandCompletion, Error> {
        let word = &buffer.words()[(place + COMPLETION_OFFSET) / 8];
        let deadline = self.bus.now() + self.timeout;
        let mut turn = 0u32;
        loop {
            let completion = CommandCompletion::from_bits(word.load(Ordering::Acquire));
            if !completion.device_owned() {
                return Ok(completion);
            }
            turn = turn.wrapping_add(1);
            if turn % TURNS_PER_CHECK == 0 {
                if self.bus.now() > deadline {
                    break;
                }
                if has_stopped(&*self.bus) {
                    self.dispatch.device_gone();
                    return Err(Error::DeviceDead);
                }
            }
            self.bus.relax();
        }
        tracing::error!(?opcode, "the device does not answer");
        self.dispatch.device_gone();
        Err(Error::CommandTimeout { opcode })
    }
}

/// Returns the entry of a command with `input_length` bytes of input.
fn entry(
    opcode: CommandOpcode,
    argument: u64,
    input_length: usize,
    buffer: &DmaBuffer,
) -> CommandEntry {
    let mut completion = CommandCompletion::default();
    completion.set_device_owned(true);
    let mut entry = CommandEntry {
        opcode,
        argument,
        completion,
        ..CommandEntry::default()
    };
    // Sizes of the contract's structures; all are far below the mailbox size.
    if input_length > 0 {
        entry.input_iova = buffer.iova() + INPUT_OFFSET as u64;
        entry.input_length = input_length as u32;
    }
    if output_size(opcode) > 0 {
        entry.output_iova = buffer.iova() + OUTPUT_OFFSET as u64;
        entry.output_length = 1 << LOG_MAX_MAILBOX;
    }
    entry
}

/// Returns true if the device, which was enabled, has stopped, was reset by another program, or is
/// gone.
pub(crate) fn has_stopped(bus: &dyn Bus) -> bool {
    let status = mmio::STATUS.read(bus);
    let gone = status.bits() == UNMAPPED_READ;
    if status.fatal() && !gone {
        let syndrome = mmio::FATAL_SYNDROME.read(bus);
        tracing::error!(syndrome, "the device has stopped");
    }
    gone || status.fatal() || !status.enabled()
}
