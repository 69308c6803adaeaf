//! Command processor: fetches commands from the command queue, runs them, writes their outcome.

mod completion_queue;
mod device;
mod memory;
mod modify_qp;
mod multicast;
mod queue_pair;
mod shared_receive_queue;

use ferroce_spec::command::{
    CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, MAILBOX_ALIGNMENT, NewNumber,
    ShortModifyQp, input_size, output_size,
};
use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::blocks::Blocks;
use crate::config::NicConfig;
use crate::datapath::Datapath;
use crate::host_interface::bar::CommandQueueRegisters;
use crate::numbering::CreateError;
use crate::ports::host::{DmaError, Host};
use crate::ports::port::Port;
use crate::time::timing::Timing;
use crate::time::turn::Turn;

/// Commands that are run before packets are processed again.
const COMMANDS_PER_TURN: u32 = 16;

/// Byte offset of the part of a command entry that the device writes.
const OUTCOME_OFFSET: u64 = core::mem::offset_of!(CommandEntry, result) as u64;

/// The part of a command entry that the device writes; the last word returns the entry to software.
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct Outcome {
    result: u64,
    completion: CommandCompletion,
}

/// The reason why a command failed: status and syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Status of the command.
    pub status: CommandStatus,
    /// Detail for the log.
    pub syndrome: u32,
}

impl Failure {
    /// Returns a failure without detail.
    pub const fn new(status: CommandStatus) -> Self {
        Self {
            status,
            syndrome: 0,
        }
    }

    /// Returns the failure of an input field that is out of range.
    pub const fn parameter(offset: usize) -> Self {
        Self {
            status: CommandStatus::BAD_PARAMETER,
            syndrome: offset as u32,
        }
    }

    /// Refuses an input if its field at `offset` is bad.
    pub fn parameter_if(bad: bool, offset: usize) -> Result<(), Self> {
        if bad {
            Err(Self::parameter(offset))
        } else {
            Ok(())
        }
    }
}

impl From<DmaError> for Failure {
    fn from(_: DmaError) -> Self {
        Self::new(CommandStatus::DMA_ERROR)
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Taken => Self::new(CommandStatus::BUSY),
            CreateError::NoNumber => Self::new(CommandStatus::NO_RESOURCES),
            CreateError::Dma(error) => error.into(),
        }
    }
}

/// The command processor and the blocks that it configures.
pub(crate) struct CommandProcessor<'a, 't, H: Host, T: Timing, P: Port, B: Blocks> {
    turn: &'a mut Turn<'t, H, T>,
    config: &'a NicConfig,
    blocks: &'a mut Datapath<P, B>,
    port: &'a mut P,
}

impl<'a, 't, H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'a, 't, H, T, P, B> {
    /// Returns the processor for one turn.
    pub fn new(
        turn: &'a mut Turn<'t, H, T>,
        config: &'a NicConfig,
        blocks: &'a mut Datapath<P, B>,
        port: &'a mut P,
    ) -> Self {
        Self {
            turn,
            config,
            blocks,
            port,
        }
    }

    /// Runs pending commands. Returns true if there were some.
    #[cold]
    pub fn step(&mut self) -> bool {
        let mut ran = false;
        for _ in 0..COMMANDS_PER_TURN {
            let Some(queue) = self.blocks.host_interface.next_command() else {
                break;
            };
            if self.run_command(queue).is_err() {
                let syndrome = FatalSyndrome::COMMAND_QUEUE_DMA;
                let events = &mut self.blocks.host_interface;
                events.fail(self.turn.now, self.turn.timing, syndrome);
            }
            self.blocks.host_interface.finish_command();
            ran = true;
        }
        ran
    }

    /// Runs the first command of the queue. The error is an error of the command queue itself.
    fn run_command(&mut self, queue: CommandQueueRegisters) -> Result<(), DmaError> {
        let slot = queue.consumer & ((1 << queue.log_size) - 1);
        let iova = queue
            .base
            .wrapping_add(u64::from(slot) * CommandEntry::SIZE as u64);
        let entry: CommandEntry = self.turn.dma().read_value(iova)?;
        if !entry.completion.device_owned() {
            self.turn.counters.add(Counter::command_errors, 1);
            return Ok(());
        }
        let outcome = self.execute(&entry);
        self.turn.counters.add(Counter::commands, 1);
        let mut completion = CommandCompletion::default();
        if let Err(failure) = outcome {
            self.turn.counters.add(Counter::command_errors, 1);
            completion.set_status(failure.status.0);
            completion.set_syndrome(failure.syndrome);
        }
        let outcome = Outcome {
            result: outcome.unwrap_or(0),
            completion,
        };
        self.turn
            .dma()
            .write_descriptor(iova.wrapping_add(OUTCOME_OFFSET), &outcome)
    }

    /// Checks the mailboxes of a command and runs it; returns its result.
    fn execute(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        if !has_good_mailboxes(entry) {
            return Err(Failure::new(CommandStatus::BAD_MAILBOX));
        }
        match entry.opcode {
            CommandOpcode::NOP => Ok(entry.argument),
            CommandOpcode::QUERY_DEVICE => self.query_device(entry),
            CommandOpcode::SET_CONTEXT_TABLES => self.set_context_tables(entry),
            CommandOpcode::SET_ADDRESS => self.set_address(entry),
            CommandOpcode::QUERY_ADDRESS => self.query_address(entry),
            CommandOpcode::CREATE_EQ => self.create_eq(entry),
            CommandOpcode::QUERY_EQ => self.query_eq(entry),
            CommandOpcode::MODIFY_EQ => self.modify_eq(entry),
            CommandOpcode::DESTROY_EQ => self.destroy_eq(entry),
            CommandOpcode::CREATE_CQ => self.create_cq(entry),
            CommandOpcode::QUERY_CQ => self.query_cq(entry),
            CommandOpcode::MODIFY_CQ => self.modify_cq(entry),
            CommandOpcode::DESTROY_CQ => self.destroy_cq(entry),
            CommandOpcode::CREATE_QP => self.create_qp(entry),
            CommandOpcode::QUERY_QP => self.query_qp(entry),
            CommandOpcode::MODIFY_QP => self.modify_qp(entry),
            CommandOpcode::DESTROY_QP => self.destroy_qp(entry),
            CommandOpcode::ATTACH_MULTICAST => self.attach_multicast(entry),
            CommandOpcode::DETACH_MULTICAST => self.detach_multicast(entry),
            CommandOpcode::CREATE_SRQ => self.create_srq(entry),
            CommandOpcode::QUERY_SRQ => self.query_srq(entry),
            CommandOpcode::MODIFY_SRQ => self.modify_srq(entry),
            CommandOpcode::DESTROY_SRQ => self.destroy_srq(entry),
            CommandOpcode::CREATE_MR => self.create_mr(entry),
            CommandOpcode::QUERY_MR => self.query_mr(entry),
            CommandOpcode::DESTROY_MR => self.destroy_mr(entry),
            CommandOpcode::MODIFY_MR => self.modify_mr(entry),
            CommandOpcode::SYNC_MR => self.sync_mr(entry),
            _ => Err(Failure::new(CommandStatus::BAD_OPCODE)),
        }
    }

    /// Reads the input mailbox of a command.
    pub(super) fn input<V>(&mut self, entry: &CommandEntry) -> Result<V, Failure>
    where
        V: FromBytes + IntoBytes + Default,
    {
        Ok(self.turn.dma().read_value(entry.input_iova)?)
    }

    /// Writes the output mailbox of a command.
    pub(super) fn output<V>(&mut self, entry: &CommandEntry, value: &V) -> Result<u64, Failure>
    where
        V: IntoBytes + Immutable,
    {
        self.turn.dma().write_value(entry.output_iova, value)?;
        Ok(0)
    }
}

/// Returns true if the mailboxes of a command have the right size and alignment.
fn has_good_mailboxes(entry: &CommandEntry) -> bool {
    let (input, output) = (input_size(entry.opcode), output_size(entry.opcode));
    let aligned = |size: usize, iova: u64| size == 0 || iova % MAILBOX_ALIGNMENT == 0;
    let length = entry.input_length as usize;
    (length == input || is_short_modify_qp(entry))
        && entry.output_length as usize >= output
        && aligned(input, entry.input_iova)
        && aligned(output, entry.output_iova)
}

/// Returns the number that software has chosen for a new object. A card that randomises its numbers
/// lacks this feature.
fn chosen_number(config: &NicConfig, entry: &CommandEntry) -> Option<u32> {
    let choice = NewNumber::from_bits(entry.argument).choice();
    choice.filter(|_| config.has_chosen_numbers())
}

/// Returns true for a MODIFY_QP from software that was written for contract 1.5 or earlier.
fn is_short_modify_qp(entry: &CommandEntry) -> bool {
    entry.opcode == CommandOpcode::MODIFY_QP && entry.input_length as usize == ShortModifyQp::SIZE
}
