//! Commands on CQs.

use ferroce_spec::command::{CommandEntry, CommandStatus};
use ferroce_spec::context::CqContext;
use ferroce_spec::eqe::EventType;
use ferroce_spec::register::VECTOR_COUNT;

use crate::blocks::Blocks;
use crate::command::{CommandProcessor, Failure, chosen_number};
use crate::contexts::completion_resize::ModifyError;
use crate::limits::LOG_MAX_RING;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;

impl From<ModifyError> for Failure {
    fn from(error: ModifyError) -> Self {
        match error {
            ModifyError::DoesNotFit => Self::parameter(core::mem::offset_of!(CqContext, log_size)),
            ModifyError::Failed => Self::new(CommandStatus::BAD_STATE),
            ModifyError::Dma(error) => error.into(),
        }
    }
}

impl<H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'_, '_, H, T, P, B> {
    pub(super) fn create_cq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let context: CqContext = self.input(entry)?;
        check_ring(&context)?;
        if context.consumer_record % 4 != 0 {
            return Err(Failure::parameter(core::mem::offset_of!(
                CqContext,
                consumer_record
            )));
        }
        if context.eqn >= u32::from(VECTOR_COUNT)
            || self
                .blocks
                .host_interface
                .event_queues()
                .get(context.eqn)
                .is_none()
        {
            return Err(Failure::parameter(core::mem::offset_of!(CqContext, eqn)));
        }
        let mut dma = self.turn.dma();
        let cqs = &mut self.blocks.contexts.cqs;
        let cqn = cqs.create(context, chosen_number(self.config, entry), &mut dma)?;
        Ok(u64::from(cqn))
    }

    pub(super) fn query_cq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let cqn = self.existing_cq(entry.argument)?;
        let mut dma = self.turn.dma();
        let context = *self.blocks.contexts.cqs.get_mut(cqn, &mut dma)?;
        self.output(entry, &context)
    }

    pub(super) fn destroy_cq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let cqn = self.existing_cq(entry.argument)?;
        let mut dma = self.turn.dma();
        if self.blocks.contexts.cqs.get_mut(cqn, &mut dma)?.users != 0 {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.blocks.contexts.cqs.destroy(cqn);
        let gone = [EventType::COMPLETION, EventType::CQ_ERROR];
        let events = &mut self.blocks.host_interface;
        events.withdraw(cqn, |kind| gone.contains(&kind));
        Ok(0)
    }

    pub(super) fn modify_cq(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let cqn = self.existing_cq(entry.argument)?;
        let context: CqContext = self.input(entry)?;
        if context.base != 0 && !self.config.cq_resize {
            return Err(Failure::new(CommandStatus::NOT_SUPPORTED));
        }
        check_ring(&context)?;
        let mut dma = self.turn.dma();
        self.blocks.contexts.cqs.modify(cqn, &context, &mut dma)?;
        Ok(0)
    }

    pub(super) fn existing_cq(&self, argument: u64) -> Result<u32, Failure> {
        match u32::try_from(argument) {
            Ok(cqn) if self.blocks.contexts.cqs.exists(cqn) => Ok(cqn),
            _ => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }
}

/// Refuses an invalid CQ ring.
fn check_ring(context: &CqContext) -> Result<(), Failure> {
    Failure::parameter_if(
        context.base % 64 != 0,
        core::mem::offset_of!(CqContext, base),
    )?;
    Failure::parameter_if(
        context.log_size > LOG_MAX_RING,
        core::mem::offset_of!(CqContext, log_size),
    )
}
