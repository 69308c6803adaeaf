//! Commands on QPs.

use ferroce_spec::command::{CommandEntry, CommandStatus, ModifyQp, ShortModifyQp};
use ferroce_spec::context::{QpContext, QpStateCode, ServiceCode};
use ferroce_spec::doorbell::is_slot_of_queue;
use ferroce_transport::{QpState, Service, Transition};
use ferroce_wire::Qpn;

use crate::blocks::Blocks;
use crate::command::modify_qp::transition;
use crate::command::{CommandProcessor, Failure, chosen_number, is_short_modify_qp};
use crate::completion::cqe_builder;
use crate::congestion::marked;
use crate::contexts::path::Path;
use crate::contexts::queue_pair::{
    StaticContext, completion_queues, has_receive_queue, has_send_queue, uses_srq,
};
use crate::contexts::queue_pair_table::GSI_INDEX;
use crate::limits::LOG_MAX_RING;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;

/// Base-2 logarithms of the stride of a receive queue: 1 to 16 data segments.
const LOG_RECEIVE_STRIDES: core::ops::RangeInclusive<u8> = 4..=8;

impl<H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'_, '_, H, T, P, B> {
    pub(super) fn create_qp(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let context: QpContext = self.input(entry)?;
        let known = StaticContext::from(&context);
        check_new_qp(&context, &known)?;
        if let Some(cqn) =
            completion_queues(&known).find(|cqn| !self.blocks.contexts.cqs.exists(*cqn))
        {
            let is_send = has_send_queue(&known) && cqn == context.send_cqn;
            return Err(Failure::parameter(if is_send {
                core::mem::offset_of!(QpContext, send_cqn)
            } else {
                core::mem::offset_of!(QpContext, receive_cqn)
            }));
        }
        let srqn = uses_srq(&known).then_some(context.srqn);
        if srqn.is_some_and(|srqn| !self.blocks.contexts.srqs.exists(srqn)) {
            return Err(Failure::parameter(core::mem::offset_of!(QpContext, srqn)));
        }
        let mut dma = self.turn.dma();
        let chosen = chosen_number(self.config, entry);
        let qps = &mut self.blocks.contexts.qps;
        let qpn = qps.create(context, chosen, self.config.transport, &mut dma)?;
        for cqn in completion_queues(&known) {
            self.blocks.contexts.cqs.add_user(cqn, &mut dma)?;
        }
        if let Some(srqn) = srqn {
            self.blocks.contexts.srqs.add_user(srqn, &mut dma)?;
        }
        if let Some(qp) = self.blocks.contexts.qps.find(qpn) {
            let scheduler = self.blocks.transmit.scheduler();
            qp.context.processing_unit = scheduler.place(qp.index);
        }
        Ok(u64::from(qpn.value()))
    }

    pub(super) fn existing_qp(&mut self, argument: u64) -> Result<u32, Failure> {
        let qpn = u32::try_from(argument).ok().filter(|qpn| *qpn < 1 << 24);
        let index = qpn.and_then(|qpn| self.blocks.contexts.qps.index_of(Qpn::new(qpn)));
        match index {
            Some(index) if self.blocks.contexts.qps.get_mut(index).is_some() => Ok(index),
            _ => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }

    pub(super) fn query_qp(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let index = self.existing_qp(entry.argument)?;
        let image = self
            .blocks
            .contexts
            .qps
            .get_mut(index)
            .map(|qp| qp.image())
            .unwrap_or_default();
        self.output(entry, &image)
    }

    pub(super) fn modify_qp(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let index = self.existing_qp(entry.argument)?;
        let input = if is_short_modify_qp(entry) {
            self.input::<ShortModifyQp>(entry)?.into()
        } else {
            self.input::<ModifyQp>(entry)?
        };
        let path = self.path_of(&input)?;
        if input.state == u32::from(QpStateCode::RESET.0) {
            self.flush_pending_ack(index);
        }
        let Some(qp) = self.blocks.contexts.qps.get_mut(index) else {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        };
        let transition = transition(
            qp.transport.service(),
            qp.transport.state(),
            qp.transport.attributes(),
            &input,
        )
        .map_err(|(status, syndrome)| Failure { status, syndrome })?;
        if matches!(transition, Transition::Rtr { .. }) {
            let seed = u64::from(qp.qpn.value());
            let recovery = self.blocks.host_interface.recovery(seed);
            qp.transport.set_recovery(&recovery);
        }
        if matches!(transition, Transition::Err) && qp.transport.state() != QpState::Err {
            qp.faults.note_moved();
        }
        qp.transport
            .modify(self.turn.now, transition)
            .map_err(|_| Failure {
                status: CommandStatus::BAD_TRANSITION,
                syndrome: input.state,
            })?;
        if matches!(transition, Transition::Reset) {
            qp.reset_queues();
        }
        if matches!(transition, Transition::Rtr { .. }) {
            self.port.queue_pair_ready(qp.qpn);
        }
        if qp.index == GSI_INDEX {
            self.port.set_gsi(qp.transport.state().accepts_requests());
        }
        if let Some(path) = path {
            qp.path = Some(path);
            qp.context.path = input.context.path;
        }
        if matches!(transition, Transition::Reset) {
            self.forget(index);
        }
        self.settle(index);
        let mut dma = self.turn.dma();
        self.blocks.contexts.qps.store(index, &mut dma)?;
        Ok(0)
    }

    /// Returns the path of a MODIFY_QP, if it carries one.
    fn path_of(&self, input: &ModifyQp) -> Result<Option<Path>, Failure> {
        if !input.mask.path() {
            return Ok(None);
        }
        let path = marked(input.context.path, self.blocks.congestion.is_some());
        let offset =
            core::mem::offset_of!(ModifyQp, context) + core::mem::offset_of!(QpContext, path);
        let source = self
            .blocks
            .contexts
            .gids
            .get(usize::from(path.source_gid_index));
        match source.and_then(|source| Path::new(source, &path)) {
            Some(path) => Ok(Some(path)),
            None => Err(Failure::parameter(offset)),
        }
    }

    pub(super) fn destroy_qp(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let index = self.existing_qp(entry.argument)?;
        // ibv_destroy_qp(3): it fails if the queue pair is attached to a multicast group.
        if self.blocks.receive.multicast().is_attached(index) {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.flush_pending_ack(index);
        self.forget(index);
        let Some(mut qp) = self.blocks.contexts.qps.destroy(index) else {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        };
        qp.reset_queues();
        let records = qp.send.take_released();
        self.blocks.contexts.wqe_records.give_back(records);
        if index == GSI_INDEX {
            self.port.set_gsi(false);
        }
        self.blocks.transmit.scheduler().remove(index);
        self.blocks.contexts.set_timer(index, None);
        let mut dma = self.turn.dma();
        self.blocks
            .translation
            .release_windows(qp.qpn.value(), &mut dma);
        for cqn in completion_queues(&qp.context) {
            self.blocks.contexts.cqs.remove_user(cqn, &mut dma)?;
        }
        if uses_srq(&qp.context) {
            self.blocks
                .contexts
                .srqs
                .remove_user(qp.context.srqn, &mut dma)?;
        }
        Ok(0)
    }

    /// Passes on what the queue pair at `index` reports after a command: it may have been flushed,
    /// or may now send.
    fn settle(&mut self, index: u32) {
        let (contexts, mut results) = self.blocks.contexts();
        results.settle_active(self.turn, contexts, index);
    }

    /// Sends the pending ACK of a queue pair before it is reset or destroyed.
    fn flush_pending_ack(&mut self, index: u32) {
        let (transmit, mut ports) = self.blocks.transmit(self.port);
        transmit.flush_pending_ack(self.turn, index, &mut ports);
    }

    /// Drops everything on the edges that belongs to a queue pair that is reset or destroyed:
    /// nothing more is sent, written or reported for it.
    fn forget(&mut self, index: u32) {
        let blocks = &mut *self.blocks;
        let Some(qp) = blocks.contexts.qps.get_mut(index) else {
            return;
        };
        blocks.transmit.forget(index);
        blocks.receive.forget(index);
        blocks.mac.forget(index);
        if let Some(congestion) = &mut blocks.congestion {
            congestion.forget(index);
        }
        blocks.completions.forget(qp.qpn);
        let number = qp.qpn.value();
        let events = &mut blocks.host_interface;
        events.withdraw(number, cqe_builder::is_of_queue_pair);
    }
}

/// Refuses an invalid QP context.
fn check_new_qp(context: &QpContext, known: &StaticContext) -> Result<(), Failure> {
    if Service::try_from(context.service).is_err() {
        return Err(Failure::new(CommandStatus::NOT_SUPPORTED));
    }
    let is_target = context.service == ServiceCode::XRC_TARGET;
    Failure::parameter_if(
        is_target && context.xrcd == 0,
        core::mem::offset_of!(QpContext, xrcd),
    )?;
    if has_send_queue(known) {
        check_send_queue(context)?;
    }
    if has_receive_queue(known) {
        check_receive_queue(context)?;
    }
    Ok(())
}

fn check_send_queue(context: &QpContext) -> Result<(), Failure> {
    Failure::parameter_if(
        context.shape.log_send_blocks() > LOG_MAX_RING,
        core::mem::offset_of!(QpContext, shape),
    )?;
    Failure::parameter_if(
        context.send_base % 64 != 0,
        core::mem::offset_of!(QpContext, send_base),
    )?;
    Failure::parameter_if(
        !is_slot_of_queue(context.send_doorbell_slot),
        core::mem::offset_of!(QpContext, send_doorbell_slot),
    )
}

fn check_receive_queue(context: &QpContext) -> Result<(), Failure> {
    let shape = context.shape;
    Failure::parameter_if(
        shape.log_receives() > LOG_MAX_RING
            || !LOG_RECEIVE_STRIDES.contains(&shape.log_receive_stride()),
        core::mem::offset_of!(QpContext, shape),
    )?;
    Failure::parameter_if(
        context.receive_base % 64 != 0,
        core::mem::offset_of!(QpContext, receive_base),
    )?;
    Failure::parameter_if(
        !is_slot_of_queue(context.receive_doorbell_slot),
        core::mem::offset_of!(QpContext, receive_doorbell_slot),
    )
}
