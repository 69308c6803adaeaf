//! Commands on shared receive queues.

use ferroce_spec::command::{CommandEntry, CommandStatus};
use ferroce_spec::context::SrqContext;
use ferroce_spec::doorbell::is_slot_of_queue;
use ferroce_spec::eqe::EventType;

use crate::blocks::Blocks;
use crate::command::{CommandProcessor, Failure, chosen_number};
use crate::contexts::shared_receive_queue::LOG_STRIDES;
use crate::limits::LOG_MAX_RING;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;

impl<H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'_, '_, H, T, P, B> {
    pub(super) fn create_srq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let context: SrqContext = self.input(entry)?;
        check_new_srq(&context)?;
        let is_xrc = context.xrcd != 0;
        if is_xrc && !self.blocks.contexts.cqs.exists(context.cqn) {
            return Err(Failure::parameter(core::mem::offset_of!(SrqContext, cqn)));
        }
        let mut dma = self.turn.dma();
        let srqs = &mut self.blocks.contexts.srqs;
        let srqn = srqs.create(&context, chosen_number(self.config, entry), &mut dma)?;
        if is_xrc {
            self.blocks.contexts.cqs.add_user(context.cqn, &mut dma)?;
        }
        Ok(u64::from(srqn))
    }

    pub(super) fn query_srq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let srqn = self.existing_srq(entry.argument)?;
        let mut dma = self.turn.dma();
        let context = *self.blocks.contexts.srqs.get_mut(srqn, &mut dma)?;
        self.output(entry, &context)
    }

    /// Sets the limit. The event is raised when an entry is taken while fewer entries are left.
    pub(super) fn modify_srq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let srqn = self.existing_srq(entry.argument)?;
        let input: SrqContext = self.input(entry)?;
        let mut dma = self.turn.dma();
        let context = self.blocks.contexts.srqs.get_mut(srqn, &mut dma)?;
        // IBTA vol 1, 11.2.3.3: a limit above the size of the queue is refused.
        if u32::from(input.limit) > 1 << context.log_size {
            return Err(Failure::parameter(core::mem::offset_of!(SrqContext, limit)));
        }
        context.limit = input.limit;
        Ok(0)
    }

    pub(super) fn destroy_srq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let srqn = self.existing_srq(entry.argument)?;
        let mut dma = self.turn.dma();
        let context = *self.blocks.contexts.srqs.get_mut(srqn, &mut dma)?;
        if context.users != 0 {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.blocks.contexts.srqs.destroy(srqn);
        let gone = [EventType::SRQ_LIMIT, EventType::SRQ_ERROR];
        let events = &mut self.blocks.host_interface;
        events.withdraw(srqn, |kind| gone.contains(&kind));
        if context.xrcd != 0 {
            self.blocks
                .contexts
                .cqs
                .remove_user(context.cqn, &mut dma)?;
        }
        Ok(0)
    }

    fn existing_srq(&self, argument: u64) -> Result<u32, Failure> {
        match u32::try_from(argument) {
            Ok(srqn) if self.blocks.contexts.srqs.exists(srqn) => Ok(srqn),
            _ => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }
}

/// Refuses an invalid SRQ context.
fn check_new_srq(context: &SrqContext) -> Result<(), Failure> {
    Failure::parameter_if(
        context.base % 64 != 0,
        core::mem::offset_of!(SrqContext, base),
    )?;
    Failure::parameter_if(
        context.log_size > LOG_MAX_RING,
        core::mem::offset_of!(SrqContext, log_size),
    )?;
    Failure::parameter_if(
        !LOG_STRIDES.contains(&context.log_stride),
        core::mem::offset_of!(SrqContext, log_stride),
    )?;
    Failure::parameter_if(
        u32::from(context.limit) > 1 << context.log_size,
        core::mem::offset_of!(SrqContext, limit),
    )?;
    Failure::parameter_if(
        !is_slot_of_queue(context.doorbell_slot),
        core::mem::offset_of!(SrqContext, doorbell_slot),
    )
}
