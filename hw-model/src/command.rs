//! Command processor: fetches commands from the command queue, runs them, writes the outcome.

mod completion_queue;
mod device;
mod memory;
mod modify_qp;
mod multicast;
mod queue_pair;
mod shared_receive_queue;

use ferroce_spec::command::{
    CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, input_size, output_size,
};
use ferroce_spec::counter::Counter;
use ferroce_spec::register::FatalSyndrome;
use ferroce_units::Instant;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::blocks::Blocks;
use crate::host_interface::dma::Dma;
use crate::nic::Nic;
use crate::ports::host::{DmaError, Host};
use crate::ports::port::Port;
use crate::time::timing::Timing;

/// Commands that are run before packets have their turn again.
const COMMANDS_PER_TURN: u32 = 16;

/// Byte offset of the part of a command entry that the device writes.
const OUTCOME_OFFSET: u64 = core::mem::offset_of!(CommandEntry, result) as u64;

/// What the device writes into a command entry; its last word gives the entry back.
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct Outcome {
    result: u64,
    completion: CommandCompletion,
}

/// Why a command failed: status and syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How the command ends.
    pub status: CommandStatus,
    /// Detail for the reader of a log.
    pub syndrome: u32,
}

impl Failure {
    /// A failure without detail.
    pub const fn new(status: CommandStatus) -> Self {
        Self {
            status,
            syndrome: 0,
        }
    }

    /// A field of the input is out of its range.
    pub const fn parameter(offset: usize) -> Self {
        Self {
            status: CommandStatus::BAD_PARAMETER,
            syndrome: offset as u32,
        }
    }

    /// Refuses an input whose field at `offset` is bad.
    pub fn parameter_if(bad: bool, offset: usize) -> Result<(), Self> {
        match bad {
            true => Err(Self::parameter(offset)),
            false => Ok(()),
        }
    }
}

impl From<DmaError> for Failure {
    fn from(_: DmaError) -> Self {
        Self::new(CommandStatus::DMA_ERROR)
    }
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Runs commands that are waiting. True: something was run.
    #[inline]
    pub(crate) fn run_commands<H: Host>(
        &mut self,
        now: Instant,
        host: &mut H,
        port: &mut P,
    ) -> bool {
        let mut ran = false;
        for _ in 0..COMMANDS_PER_TURN {
            let queue = self.bar.commands;
            if !self.bar.is_enabled() || queue.consumer == queue.producer {
                break;
            }
            if self.run_command(now, host, port).is_err() {
                self.bar.stop(FatalSyndrome::COMMAND_QUEUE_DMA);
            }
            self.bar.commands.consumer = queue.consumer.wrapping_add(1);
            ran = true;
        }
        ran
    }

    /// Runs one command. The error is that of the command queue itself.
    #[cold]
    fn run_command<H: Host>(
        &mut self,
        now: Instant,
        host: &mut H,
        port: &mut P,
    ) -> Result<(), DmaError> {
        let queue = self.bar.commands;
        let slot = queue.consumer & ((1 << queue.log_size) - 1);
        let iova = queue
            .base
            .wrapping_add(u64::from(slot) * CommandEntry::SIZE as u64);
        let entry: CommandEntry = self.dma(host).read_value(iova)?;
        if !entry.completion.device_owned() {
            return Ok(());
        }
        let outcome = self.execute(now, &entry, host, port);
        self.counters.add(Counter::commands, 1);
        let mut completion = CommandCompletion::default();
        if let Err(failure) = outcome {
            self.counters.add(Counter::command_errors, 1);
            completion.set_status(failure.status.0);
            completion.set_syndrome(failure.syndrome);
        }
        let outcome = Outcome {
            result: outcome.unwrap_or(0),
            completion,
        };
        self.dma(host)
            .write_descriptor(iova.wrapping_add(OUTCOME_OFFSET), &outcome)
    }

    /// Checks the mailboxes of a command and runs it; the value is its result.
    fn execute<H: Host>(
        &mut self,
        now: Instant,
        entry: &CommandEntry,
        host: &mut H,
        port: &mut P,
    ) -> Result<u64, Failure> {
        let fits = entry.input_length as usize == input_size(entry.opcode)
            && entry.output_length as usize >= output_size(entry.opcode);
        if !fits {
            return Err(Failure::new(CommandStatus::BAD_MAILBOX));
        }
        match entry.opcode {
            CommandOpcode::NOP => Ok(entry.argument),
            CommandOpcode::QUERY_DEVICE => self.query_device(entry, host),
            CommandOpcode::SET_CONTEXT_TABLES => self.set_context_tables(entry, host),
            CommandOpcode::SET_ADDRESS => self.set_address(entry, host, port),
            CommandOpcode::QUERY_ADDRESS => self.query_address(entry, host),
            CommandOpcode::CREATE_EQ => self.create_eq(entry, host),
            CommandOpcode::QUERY_EQ => self.query_eq(entry, host),
            CommandOpcode::MODIFY_EQ => self.modify_eq(entry, host),
            CommandOpcode::DESTROY_EQ => self.destroy_eq(entry),
            CommandOpcode::CREATE_CQ => self.create_cq(entry, host),
            CommandOpcode::QUERY_CQ => self.query_cq(entry, host),
            CommandOpcode::MODIFY_CQ => self.modify_cq(entry, host),
            CommandOpcode::DESTROY_CQ => self.destroy_cq(entry, host),
            CommandOpcode::CREATE_QP => self.create_qp(entry, host),
            CommandOpcode::QUERY_QP => self.query_qp(entry, host),
            CommandOpcode::MODIFY_QP => self.modify_qp(now, entry, host, port),
            CommandOpcode::DESTROY_QP => self.destroy_qp(now, entry, host, port),
            CommandOpcode::ATTACH_MULTICAST => self.attach_multicast(entry, host, port),
            CommandOpcode::DETACH_MULTICAST => self.detach_multicast(entry, host, port),
            CommandOpcode::CREATE_SRQ => self.create_srq(entry, host),
            CommandOpcode::QUERY_SRQ => self.query_srq(entry, host),
            CommandOpcode::MODIFY_SRQ => self.modify_srq(entry, host),
            CommandOpcode::DESTROY_SRQ => self.destroy_srq(entry, host),
            CommandOpcode::CREATE_MR => self.create_mr(entry, host),
            CommandOpcode::QUERY_MR => self.query_mr(entry, host),
            CommandOpcode::DESTROY_MR => self.destroy_mr(entry, host),
            CommandOpcode::MODIFY_MR => self.modify_mr(entry, host),
            _ => Err(Failure::new(CommandStatus::BAD_OPCODE)),
        }
    }

    /// The DMA engine, for one command.
    pub(crate) fn dma<'a, H: Host>(&'a mut self, host: &'a mut H) -> Dma<'a, H> {
        Dma::new(host, &mut self.counters, self.now)
    }

    /// Reads the input mailbox of a command.
    pub(crate) fn input<V, H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<V, Failure>
    where
        V: FromBytes + IntoBytes + Default,
    {
        Ok(self.dma(host).read_value(entry.input_iova)?)
    }

    /// Writes the output mailbox of a command.
    pub(crate) fn output<V, H: Host>(
        &mut self,
        entry: &CommandEntry,
        value: &V,
        host: &mut H,
    ) -> Result<u64, Failure>
    where
        V: IntoBytes + Immutable,
    {
        self.dma(host).write_value(entry.output_iova, value)?;
        Ok(0)
    }
}
