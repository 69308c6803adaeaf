//! Commands on QPs.

use ferroce_spec::command::{CommandEntry, CommandStatus, ModifyQp};
use ferroce_spec::context::{QpContext, QpStateCode, ServiceCode};
use ferroce_spec::doorbell::SLOTS;
use ferroce_transport::Transition;
use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::blocks::Blocks;
use crate::command::Failure;
use crate::command::modify_qp::transition;
use crate::contexts::path::Path;
use crate::contexts::queue_pair::{
    StaticContext, completion_queues, has_receive_queue, has_send_queue, service_of, uses_srq,
};
use crate::host_interface::dma::Dma;
use crate::limits::LOG_MAX_RING;
use crate::nic::Nic;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;

/// Base-2 logarithms of the stride of a receive queue: 1 to 16 data segments.
const LOG_RECEIVE_STRIDES: core::ops::RangeInclusive<u8> = 4..=8;

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    pub(crate) fn create_qp<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let context: QpContext = self.input(entry, host)?;
        let known = StaticContext::from(&context);
        check_new_qp(&context, &known)?;
        if let Some(cqn) = completion_queues(&known).find(|cqn| !self.cqs.exists(*cqn)) {
            let is_send = has_send_queue(&known) && cqn == context.send_cqn;
            return Err(Failure::parameter(match is_send {
                true => core::mem::offset_of!(QpContext, send_cqn),
                false => core::mem::offset_of!(QpContext, receive_cqn),
            }));
        }
        let srqn = uses_srq(&known).then_some(context.srqn);
        if srqn.is_some_and(|srqn| !self.srqs.exists(srqn)) {
            return Err(Failure::parameter(core::mem::offset_of!(QpContext, srqn)));
        }
        let units = u32::from(self.config.processing_units);
        let mut dma = Dma::new(host, &mut self.counters, self.now);
        let Some(qpn) = self.qps.create(context, self.config.transport, &mut dma)? else {
            return Err(Failure::new(CommandStatus::NO_RESOURCES));
        };
        for cqn in completion_queues(&known) {
            self.cqs.add_user(cqn, &mut dma)?;
        }
        if let Some(srqn) = srqn {
            self.srqs.add_user(srqn, &mut dma)?;
        }
        if let Some(qp) = self
            .qps
            .index_of(qpn)
            .and_then(|index| self.qps.get_mut(index))
        {
            qp.context.processing_unit = (qp.index % units) as u8;
        }
        Ok(u64::from(qpn.value()))
    }

    pub(crate) fn existing_qp(&mut self, argument: u64) -> Result<u32, Failure> {
        let qpn = u32::try_from(argument).ok().filter(|qpn| *qpn < 1 << 24);
        let index = qpn.and_then(|qpn| self.qps.index_of(Qpn::new(qpn)));
        match index {
            Some(index) if self.qps.get_mut(index).is_some() => Ok(index),
            _ => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }

    pub(crate) fn query_qp<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let index = self.existing_qp(entry.argument)?;
        let image = self
            .qps
            .get_mut(index)
            .map(|qp| qp.image())
            .unwrap_or_default();
        self.output(entry, &image, host)
    }

    pub(crate) fn modify_qp<H: Host>(
        &mut self,
        now: Instant,
        entry: &CommandEntry,
        host: &mut H,
        port: &mut P,
    ) -> Result<u64, Failure> {
        let index = self.existing_qp(entry.argument)?;
        let input: ModifyQp = self.input(entry, host)?;
        let path = self.path_of(&input)?;
        if input.state == u32::from(QpStateCode::RESET.0) {
            self.flush_pending_acks(now, index, host, port);
        }
        let Some(qp) = self.qps.get_mut(index) else {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        };
        let transition = transition(
            qp.transport.service(),
            qp.transport.state(),
            qp.transport.attributes(),
            &input,
        )
        .map_err(|(status, syndrome)| Failure { status, syndrome })?;
        qp.transport.modify(now, transition).map_err(|_| Failure {
            status: CommandStatus::BAD_TRANSITION,
            syndrome: input.state,
        })?;
        if matches!(transition, Transition::Reset) {
            qp.reset_queues();
        }
        if matches!(transition, Transition::Rtr { .. }) {
            port.queue_pair_ready(qp.qpn);
        }
        if let Some(path) = path {
            qp.path = Some(path);
            qp.context.path = input.context.path;
        }
        if matches!(transition, Transition::Reset) {
            self.forget(index);
        }
        self.after_command(now, index);
        let mut dma = Dma::new(host, &mut self.counters, self.now);
        self.qps.store(index, &mut dma)?;
        Ok(0)
    }

    /// The path of a MODIFY_QP, if it carries one.
    fn path_of(&self, input: &ModifyQp) -> Result<Option<Path>, Failure> {
        if !input.mask.path() {
            return Ok(None);
        }
        let path = &input.context.path;
        let offset =
            core::mem::offset_of!(ModifyQp, context) + core::mem::offset_of!(QpContext, path);
        let source = self.gids.get(usize::from(path.source_gid_index));
        match source.and_then(|source| Path::new(source, path)) {
            Some(path) => Ok(Some(path)),
            None => Err(Failure::parameter(offset)),
        }
    }

    pub(crate) fn destroy_qp<H: Host>(
        &mut self,
        now: Instant,
        entry: &CommandEntry,
        host: &mut H,
        port: &mut P,
    ) -> Result<u64, Failure> {
        let index = self.existing_qp(entry.argument)?;
        // ibv_destroy_qp(3): it fails if the queue pair is attached to a multicast group.
        if self.multicast.is_attached(index) {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.flush_pending_acks(now, index, host, port);
        self.forget(index);
        let Some(qp) = self.qps.destroy(index) else {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        };
        self.scheduler.remove(index);
        self.timers.set(index, None);
        let mut dma = Dma::new(host, &mut self.counters, self.now);
        self.memory.release_windows(qp.qpn.value(), &mut dma);
        for cqn in completion_queues(&qp.context) {
            self.cqs.remove_user(cqn, &mut dma)?;
        }
        if uses_srq(&qp.context) {
            self.srqs.remove_user(qp.context.srqn, &mut dma)?;
        }
        Ok(0)
    }
}

/// Refuses a QP context that no QP can have.
fn check_new_qp(context: &QpContext, known: &StaticContext) -> Result<(), Failure> {
    if service_of(context.service).is_none() {
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
        context.send_doorbell_slot >= SLOTS,
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
        context.receive_doorbell_slot >= SLOTS,
        core::mem::offset_of!(QpContext, receive_doorbell_slot),
    )
}
