//! Queue pairs: creation, transitions, query, destruction.

use crate::attributes::{
    InitAttributes, InitUpdate, ModifyQp, PathMtu, QpState, QueuePairAttributes, RtrAttributes,
    RtsAttributes, RtsUpdate, SqdUpdate,
};
use crate::cq::CompletionQueue;
use crate::device::Device;
use crate::dma::DmaBuffer;
use crate::error::Error;
use crate::identifier::Qpn;
use crate::pd::ProtectionDomain;
use crate::receive_queue::{ReceiveQueue, ReceiveShape};
use crate::ring::Ring;
use crate::send_queue::{SendLimits, SendQueue, SendShape};
use crate::use_count::Lease;
use ferroce_spec::command::{ANY_STATE, ModifyQp as ModifyQpInput, QpAttributeMask};
use ferroce_spec::context::{PathMtuCode, QpContext, QpShape, ServiceCode};
use ferroce_spec::wqe::BLOCK_SIZE;
use parking_lot::Mutex;
use std::sync::Arc;

/// PSNs, QPNs: 24 bits.
const MASK_24: u32 = 0xff_ffff;

/// Transport service of a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Service {
    /// Reliable connected.
    #[default]
    ReliableConnected,
    /// Unreliable connected.
    UnreliableConnected,
    /// Unreliable datagram.
    UnreliableDatagram,
}

/// How a QP shall be.
#[derive(Clone)]
pub struct QueuePairConfig {
    /// Transport service.
    pub service: Service,
    /// CQ of the send queue.
    pub send_cq: Arc<CompletionQueue>,
    /// CQ of the receive queue.
    pub receive_cq: Arc<CompletionQueue>,
    /// Send work requests outstanding.
    pub max_send_wr: u32,
    /// Receive work requests outstanding.
    pub max_recv_wr: u32,
    /// Scatter/gather elements of a send work request.
    pub max_send_sge: u32,
    /// Scatter/gather elements of a receive work request.
    pub max_recv_sge: u32,
    /// Bytes of an inline payload.
    pub max_inline_data: u32,
    /// All send work requests are signaled.
    pub signal_all: bool,
}

/// What a QP was really given: at least what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairCapacity {
    /// Send work requests outstanding.
    pub max_send_wr: u32,
    /// Receive work requests outstanding.
    pub max_recv_wr: u32,
    /// Scatter/gather elements of a send work request.
    pub max_send_sge: u32,
    /// Scatter/gather elements of a receive work request.
    pub max_recv_sge: u32,
    /// Bytes of an inline payload.
    pub max_inline_data: u32,
}

/// A queue pair.
pub struct QueuePair {
    pd: Arc<ProtectionDomain>,
    send_cq: Arc<CompletionQueue>,
    receive_cq: Arc<CompletionQueue>,
    number: Qpn,
    service: Service,
    capacity: QueuePairCapacity,
    signal_all: bool,
    send: SendQueue,
    receive: ReceiveQueue,
    control: Mutex<Control>,
}

struct Control {
    /// State into which software has brought the QP; the device may have gone on to ERR.
    state: QpState,
    /// PD, send CQ and receive CQ; gone when the QP is destroyed.
    leases: Option<[Lease; 3]>,
}

/// Sizes of both queues, and where they lie in the QP's buffer.
struct Shapes {
    send: SendShape,
    receive: ReceiveShape,
}

impl Shapes {
    fn new(device: &Device, config: &QueuePairConfig) -> Result<Self, Error> {
        let limits = device.limits();
        let send_limits = SendLimits {
            max_sge: limits.max_sge,
            max_inline: limits.max_inline,
            max_blocks_per_wqe: limits.max_send_blocks,
            log_blocks: limits.log_send_blocks,
        };
        let send = SendShape::new(
            config.max_send_wr,
            config.max_send_sge,
            config.max_inline_data,
            &send_limits,
        );
        let receive = ReceiveShape::new(
            config.max_recv_wr,
            config.max_recv_sge,
            limits.max_sge,
            limits.log_receives,
        );
        Ok(Self {
            send: send.ok_or(Error::InvalidArgument {
                what: "size of the send queue",
            })?,
            receive: receive.ok_or(Error::InvalidArgument {
                what: "size of the receive queue",
            })?,
        })
    }

    fn send_size(&self) -> usize {
        BLOCK_SIZE << self.send.log_blocks
    }

    /// The receive ring lies behind the send ring, whose size is a multiple of 64.
    fn buffer_size(&self) -> usize {
        self.send_size() + self.receive.ring_size()
    }

    fn context(&self) -> QpShape {
        let mut shape = QpShape::default();
        shape.set_log_send_blocks(self.send.log_blocks);
        shape.set_log_receives(self.receive.log_entries);
        shape.set_log_receive_stride(self.receive.log_stride);
        shape
    }

    fn capacity(&self) -> QueuePairCapacity {
        QueuePairCapacity {
            max_send_wr: self.send.max_wr,
            max_recv_wr: self.receive.max_wr,
            max_send_sge: self.send.max_sge,
            max_recv_sge: self.receive.max_sge,
            max_inline_data: self.send.max_inline,
        }
    }
}

impl QueuePair {
    /// Creates a QP in RESET.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for sizes that the device does not have or CQs of another
    /// device, [`Error::NotSupported`] for a service that it does not have,
    /// [`Error::NoResources`], and what the device answers.
    pub fn create(
        pd: &Arc<ProtectionDomain>,
        config: &QueuePairConfig,
    ) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        if config.service != Service::ReliableConnected {
            let what = "transport services other than RC";
            return Err(Error::NotSupported { what });
        }
        let same = |cq: &CompletionQueue| Arc::ptr_eq(cq.device(), device);
        if !same(&config.send_cq) || !same(&config.receive_cq) {
            let what = "a CQ of another device";
            return Err(Error::InvalidArgument { what });
        }
        let shapes = Shapes::new(device, config)?;
        let leases = [
            pd.lease()?,
            config.send_cq.lease()?,
            config.receive_cq.lease()?,
        ];
        let send_slot = device.allocate_slot()?;
        let receive_slot = device.allocate_slot()?;
        let buffer = Arc::new(DmaBuffer::new(device.space(), shapes.buffer_size())?);
        let context = QpContext {
            service: ServiceCode::RELIABLE_CONNECTED,
            pd: pd.number(),
            send_cqn: config.send_cq.number().0,
            receive_cqn: config.receive_cq.number().0,
            send_base: buffer.iova(),
            receive_base: buffer.iova() + shapes.send_size() as u64,
            shape: shapes.context(),
            send_doorbell_slot: send_slot.number(),
            receive_doorbell_slot: receive_slot.number(),
            ..QpContext::default()
        };
        let send_ring = Ring::new(&buffer, 0, shapes.send_size());
        let receive_ring = Ring::new(&buffer, shapes.send_size(), shapes.receive.ring_size());
        let bus = device.bus();
        let (number, (send, receive)) = device.create_qp(&context, |number| {
            let (shape, all) = (shapes.send, config.signal_all);
            let (send, send_shadow) = SendQueue::new(number, bus, send_slot, send_ring, shape, all);
            let (receive, receive_shadow) =
                ReceiveQueue::new(number, bus, receive_slot, receive_ring, shapes.receive);
            let (send_cq, receive_cq) = (&config.send_cq, &config.receive_cq);
            send_cq.add_queue(number, Some(send_shadow), None);
            receive_cq.add_queue(number, None, Some(receive_shadow));
            (send, receive)
        })?;
        let control = Control {
            state: QpState::Reset,
            leases: Some(leases),
        };
        Ok(Arc::new(Self {
            pd: Arc::clone(pd),
            send_cq: Arc::clone(&config.send_cq),
            receive_cq: Arc::clone(&config.receive_cq),
            number,
            service: config.service,
            capacity: shapes.capacity(),
            signal_all: config.signal_all,
            send,
            receive,
            control: Mutex::new(control),
        }))
    }

    /// Number.
    pub fn number(&self) -> Qpn {
        self.number
    }

    /// Transport service.
    pub fn service(&self) -> Service {
        self.service
    }

    /// What it was really given.
    pub fn capacity(&self) -> QueuePairCapacity {
        self.capacity
    }

    /// Whether all send work requests are signaled.
    pub fn signal_all(&self) -> bool {
        self.signal_all
    }

    /// Protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// CQ of the send queue.
    pub fn send_cq(&self) -> &Arc<CompletionQueue> {
        &self.send_cq
    }

    /// CQ of the receive queue.
    pub fn receive_cq(&self) -> &Arc<CompletionQueue> {
        &self.receive_cq
    }

    /// The send queue.
    #[inline]
    pub fn send_queue(&self) -> &SendQueue {
        &self.send
    }

    /// The receive queue.
    #[inline]
    pub fn receive_queue(&self) -> &ReceiveQueue {
        &self.receive
    }

    /// State into which software has brought the QP. The device may have gone on to ERR; only
    /// [`QueuePair::query`] knows.
    pub fn software_state(&self) -> QpState {
        self.control.lock().state
    }

    /// Changes state or attributes.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when the QP is not in the state from which the transition begins, or an
    /// attribute is out of its range; [`Error::Destroyed`].
    pub fn modify(&self, transition: &ModifyQp) -> Result<(), Error> {
        let mut control = self.control.lock();
        if control.leases.is_none() {
            return Err(Error::Destroyed);
        }
        if *transition == ModifyQp::ToReset {
            return self.modify_to_reset(&mut control);
        }
        let (target, input) = input(transition);
        self.pd.device().modify_qp(self.number, &input)?;
        control.state = target;
        self.open_queues(target);
        Ok(())
    }

    /// Brings the QP to RESET: first nobody posts, then the device stops, then everything that is
    /// left of its work is removed.
    fn modify_to_reset(&self, control: &mut Control) -> Result<(), Error> {
        self.open_queues(QpState::Reset);
        let (_, input) = input(&ModifyQp::ToReset);
        if let Err(error) = self.pd.device().modify_qp(self.number, &input) {
            self.open_queues(control.state);
            return Err(error);
        }
        control.state = QpState::Reset;
        self.send.reset();
        self.receive.reset();
        self.send_cq.reset_queue(self.number);
        if !Arc::ptr_eq(&self.send_cq, &self.receive_cq) {
            self.receive_cq.reset_queue(self.number);
        }
        Ok(())
    }

    /// Allows posting where IBTA vol 1, 10.3.1 does: receives from INIT on, sends from RTS on; in
    /// the error states both are accepted, and the device flushes them.
    fn open_queues(&self, state: QpState) {
        let sends = !matches!(state, QpState::Reset | QpState::Init | QpState::Rtr);
        self.send.set_open(sends);
        self.receive.set_open(state != QpState::Reset);
    }

    /// Asks the device what the QP is now.
    ///
    /// # Errors
    ///
    /// What the device answers, [`Error::BadAnswer`] for a state that does not exist,
    /// [`Error::Destroyed`].
    pub fn query(&self) -> Result<QueuePairAttributes, Error> {
        let control = self.control.lock();
        if control.leases.is_none() {
            return Err(Error::Destroyed);
        }
        let device = self.pd.device();
        attributes(&device.query_qp(self.number)?)
    }

    /// Destroys the QP. None of its completions will be seen any more.
    ///
    /// # Errors
    ///
    /// What the device answers, [`Error::Destroyed`] the second time.
    pub fn destroy(&self) -> Result<(), Error> {
        let mut control = self.control.lock();
        if control.leases.is_none() {
            return Err(Error::Destroyed);
        }
        self.send.set_open(false);
        self.receive.set_open(false);
        let result = self.pd.device().destroy_qp(self.number, || {
            self.send_cq.remove_queue(self.number);
            self.receive_cq.remove_queue(self.number);
        });
        match result {
            Ok(()) => control.leases = None,
            Err(_) => self.open_queues(control.state),
        }
        result
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        match self.destroy() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => {
                tracing::warn!(qpn = self.number.0, %error, "QP not destroyed");
                self.pd.device().forget_qp(self.number);
                self.send_cq.remove_queue(self.number);
                self.receive_cq.remove_queue(self.number);
            }
        }
    }
}

/// Collects attributes for a MODIFY_QP, and the mask that says which.
#[derive(Default)]
struct Attributes {
    mask: QpAttributeMask,
    context: QpContext,
}

macro_rules! setters {
    ( $(
        $name:ident($value:ident: $kind:ty): $set_mask:ident, |$context:ident| $store:expr;
    )* ) => {
        impl Attributes {
            $(
                fn $name(&mut self, $value: impl Into<Option<$kind>>) {
                    if let Some($value) = $value.into() {
                        self.mask.$set_mask(true);
                        let $context = &mut self.context;
                        $store;
                    }
                }
            )*
        }
    };
}

setters! {
    access(value: crate::QpAccess): set_access, |c| c.access = value.into();
    p_key_index(value: u16): set_p_key, |c| c.p_key_index = value.into();
    port(value: u8): set_port, |c| c.port = value;
    path(value: crate::AddressVector): set_path, |c| c.path = (&value).into();
    path_mtu(value: PathMtu): set_path_mtu, |c| c.path_mtu = PathMtuCode(value as u8);
    timeout(value: u8): set_timeout, |c| c.retry.set_timeout(value & 0x1f);
    retry_count(value: u8): set_retry_count, |c| c.retry.set_retry_count(value & 7);
    rnr_retry(value: u8): set_rnr_retry, |c| c.retry.set_rnr_retry(value & 7);
    rq_psn(value: u32): set_receive_psn, |c| c.receive_psn = value & MASK_24;
    sq_psn(value: u32): set_send_psn, |c| c.send_psn = value & MASK_24;
    max_rd_atomic(value: u8): set_max_rd_atomic, |c| c.max_rd_atomic = value;
    max_dest_rd_atomic(value: u8): set_max_dest_rd_atomic, |c| c.max_dest_rd_atomic = value;
    min_rnr_timer(value: u8): set_min_rnr_timer, |c| c.retry.set_min_rnr_timer(value & 0x1f);
    dest_qpn(value: Qpn): set_dest_qpn, |c| c.dest_qpn = value.0 & MASK_24;
}

impl Attributes {
    fn init(&mut self, init: &InitAttributes) {
        self.p_key_index(init.p_key_index);
        self.port(init.port);
        self.access(init.access);
    }

    fn init_update(&mut self, update: &InitUpdate) {
        self.p_key_index(update.p_key_index);
        self.port(update.port);
        self.access(update.access);
    }

    fn rtr(&mut self, rtr: &RtrAttributes) {
        self.path_mtu(rtr.path_mtu);
        self.dest_qpn(rtr.dest_qpn);
        self.rq_psn(rtr.rq_psn);
        self.max_dest_rd_atomic(rtr.max_dest_rd_atomic);
        self.min_rnr_timer(rtr.min_rnr_timer);
        self.path(rtr.path);
        self.access(rtr.access);
        self.p_key_index(rtr.p_key_index);
    }

    fn rts(&mut self, rts: &RtsAttributes) {
        self.sq_psn(rts.sq_psn);
        self.timeout(rts.timeout);
        self.retry_count(rts.retry_count);
        self.rnr_retry(rts.rnr_retry);
        self.max_rd_atomic(rts.max_rd_atomic);
        self.access(rts.access);
        self.min_rnr_timer(rts.min_rnr_timer);
    }

    fn rts_update(&mut self, update: &RtsUpdate) {
        self.access(update.access);
        self.min_rnr_timer(update.min_rnr_timer);
    }

    fn sqd_update(&mut self, update: &SqdUpdate) {
        self.p_key_index(update.p_key_index);
        self.port(update.port);
        self.access(update.access);
        self.path(update.path);
        self.timeout(update.timeout);
        self.retry_count(update.retry_count);
        self.rnr_retry(update.rnr_retry);
        self.max_rd_atomic(update.max_rd_atomic);
        self.max_dest_rd_atomic(update.max_dest_rd_atomic);
        self.min_rnr_timer(update.min_rnr_timer);
    }
}

/// The state to which a transition leads, and the command that makes it.
fn input(transition: &ModifyQp) -> (QpState, ModifyQpInput) {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    let mut attributes = Attributes::default();
    let (from, to) = match transition {
        ModifyQp::ToReset => (None, Reset),
        ModifyQp::ToInit(init) => {
            attributes.init(init);
            (Some(Reset), Init)
        }
        ModifyQp::InitToInit(update) => {
            attributes.init_update(update);
            (Some(Init), Init)
        }
        ModifyQp::ToRtr(rtr) => {
            attributes.rtr(rtr);
            (Some(Init), Rtr)
        }
        ModifyQp::ToRts(rts) => {
            attributes.rts(rts);
            (Some(Rtr), Rts)
        }
        ModifyQp::UpdateRts(update) => {
            attributes.rts_update(update);
            (Some(Rts), Rts)
        }
        ModifyQp::ToSqd { notify_drained } => {
            attributes.mask.set_drained_event(*notify_drained);
            (Some(Rts), Sqd)
        }
        ModifyQp::SqdUpdate(update) => {
            attributes.sqd_update(update);
            (Some(Sqd), Sqd)
        }
        ModifyQp::SqdToRts(update) => {
            attributes.rts_update(update);
            (Some(Sqd), Rts)
        }
        ModifyQp::ToErr => (None, Err),
    };
    let input = ModifyQpInput {
        state: to as u32,
        current_state: from.map_or(ANY_STATE, |state| state as u32),
        mask: attributes.mask,
        reserved: 0,
        context: attributes.context,
    };
    (to, input)
}

fn attributes(context: &QpContext) -> Result<QueuePairAttributes, Error> {
    let state = QpState::from_code(context.state).ok_or(Error::BadAnswer { what: "QP state" })?;
    Ok(QueuePairAttributes {
        state,
        draining: context.draining != 0,
        path_mtu: PathMtu::from_number(context.path_mtu.0.into()),
        q_key: context.q_key,
        rq_psn: context.receive_psn & MASK_24,
        sq_psn: context.send_psn & MASK_24,
        dest_qpn: Qpn(context.dest_qpn & MASK_24),
        access: context.access.into(),
        path: (&context.path).into(),
        p_key_index: context.p_key_index as u16,
        max_rd_atomic: context.max_rd_atomic,
        max_dest_rd_atomic: context.max_dest_rd_atomic,
        min_rnr_timer: context.retry.min_rnr_timer(),
        port: context.port,
        timeout: context.retry.timeout(),
        retry_count: context.retry.retry_count(),
        rnr_retry: context.retry.rnr_retry(),
    })
}
