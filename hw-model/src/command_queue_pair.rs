//! Commands on CQs and QPs.

use crate::command::Failure;
use crate::dma::Dma;
use crate::host::Host;
use crate::modify_qp::transition;
use crate::nic::Nic;
use crate::path::Path;
use crate::port::Port;
use ferroce_spec::command::{CommandEntry, CommandStatus, ModifyQp};
use ferroce_spec::context::{CqContext, QpContext, QpStateCode, ServiceCode};
use ferroce_spec::doorbell::SLOTS;
use ferroce_spec::register::VECTOR_COUNT;
use ferroce_transport::{Instant, Transition};
use ferroce_wire::Qpn;

/// Base-2 logarithm of the largest ring of a CQ or a work queue.
const LOG_MAX_RING: u8 = 17;
/// Base-2 logarithms of the stride of a receive queue: 1 to 16 data segments.
const LOG_RECEIVE_STRIDES: core::ops::RangeInclusive<u8> = 4..=8;

impl<P: Port> Nic<P> {
    pub(crate) fn create_cq<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let context: CqContext = self.input(entry, host)?;
        if context.base % 64 != 0 {
            return Err(Failure::parameter(core::mem::offset_of!(CqContext, base)));
        }
        if context.consumer_record % 4 != 0 {
            return Err(Failure::parameter(core::mem::offset_of!(
                CqContext,
                consumer_record
            )));
        }
        if context.log_size > LOG_MAX_RING {
            return Err(Failure::parameter(core::mem::offset_of!(
                CqContext, log_size
            )));
        }
        if context.eqn >= u32::from(VECTOR_COUNT) || self.events.get(context.eqn).is_none() {
            return Err(Failure::parameter(core::mem::offset_of!(CqContext, eqn)));
        }
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        match self.cqs.create(context, &mut dma)? {
            Some(cqn) => Ok(u64::from(cqn)),
            None => Err(Failure::new(CommandStatus::NO_RESOURCES)),
        }
    }

    pub(crate) fn query_cq<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let cqn = self.existing_cq(entry.argument)?;
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        let context = *self.cqs.get_mut(cqn, &mut dma)?;
        self.output(entry, &context, host)
    }

    pub(crate) fn destroy_cq<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let cqn = self.existing_cq(entry.argument)?;
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        if self.cqs.get_mut(cqn, &mut dma)?.users != 0 {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.cqs.destroy(cqn);
        Ok(0)
    }

    fn existing_cq(&self, argument: u64) -> Result<u32, Failure> {
        match u32::try_from(argument) {
            Ok(cqn) if self.cqs.exists(cqn) => Ok(cqn),
            _ => Err(Failure::new(CommandStatus::NO_OBJECT)),
        }
    }

    pub(crate) fn create_qp<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let context: QpContext = self.input(entry, host)?;
        check_new_qp(&context)?;
        for (cqn, offset) in [
            (context.send_cqn, core::mem::offset_of!(QpContext, send_cqn)),
            (
                context.receive_cqn,
                core::mem::offset_of!(QpContext, receive_cqn),
            ),
        ] {
            if !self.cqs.exists(cqn) {
                return Err(Failure::parameter(offset));
            }
        }
        let units = u32::from(self.config.processing_units);
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        let Some(qpn) = self.qps.create(context, self.config.transport, &mut dma)? else {
            return Err(Failure::new(CommandStatus::NO_RESOURCES));
        };
        for cqn in [context.send_cqn, context.receive_cqn] {
            self.cqs.get_mut(cqn, &mut dma)?.users += 1;
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

    fn existing_qp(&mut self, argument: u64) -> Result<u32, Failure> {
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
        self.memory.release_windows(qp.qpn.value(), &mut dma);
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
            self.pay_debts(now, index, host, port);
        }
        let Some(qp) = self.qps.get_mut(index) else {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        };
        let transition = transition(qp.transport.state(), qp.transport.attributes(), &input)
            .map_err(|(status, syndrome)| Failure { status, syndrome })?;
        qp.transport.modify(now, transition).map_err(|_| Failure {
            status: CommandStatus::BAD_TRANSITION,
            syndrome: input.state,
        })?;
        if matches!(transition, Transition::Reset) {
            qp.reset_queues();
        }
        if let Some(path) = path {
            qp.path = Some(path);
            qp.context.path = input.context.path;
        }
        if input.mask.q_key() {
            qp.context.q_key = input.context.q_key;
        }
        self.after_command(now, index);
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
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
        self.pay_debts(now, index, host, port);
        let Some(qp) = self.qps.destroy(index) else {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        };
        self.scheduler.remove(index);
        self.timers.set(index, None);
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        for cqn in [qp.context.send_cqn, qp.context.receive_cqn] {
            let cq = self.cqs.get_mut(cqn, &mut dma)?;
            cq.users = cq.users.saturating_sub(1);
        }
        Ok(0)
    }
}

/// Refuses a QP context that no QP can have.
fn check_new_qp(context: &QpContext) -> Result<(), Failure> {
    let offset = |bad: bool, offset: usize| {
        if bad {
            Err(Failure::parameter(offset))
        } else {
            Ok(())
        }
    };
    if context.service != ServiceCode::RELIABLE_CONNECTED || context.shape.uses_srq() {
        return Err(Failure::new(CommandStatus::NOT_SUPPORTED));
    }
    let shape = context.shape;
    offset(
        shape.log_send_blocks() > LOG_MAX_RING
            || shape.log_receives() > LOG_MAX_RING
            || !LOG_RECEIVE_STRIDES.contains(&shape.log_receive_stride()),
        core::mem::offset_of!(QpContext, shape),
    )?;
    offset(
        context.send_base % 64 != 0,
        core::mem::offset_of!(QpContext, send_base),
    )?;
    offset(
        context.receive_base % 64 != 0,
        core::mem::offset_of!(QpContext, receive_base),
    )?;
    offset(
        context.send_doorbell_slot >= SLOTS,
        core::mem::offset_of!(QpContext, send_doorbell_slot),
    )?;
    offset(
        context.receive_doorbell_slot >= SLOTS,
        core::mem::offset_of!(QpContext, receive_doorbell_slot),
    )?;
    Ok(())
}
