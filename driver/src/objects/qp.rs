//! Queue pairs: creation, transitions, query, multicast, destruction.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferroce_qp::{QpState, Service};
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::QpContext;
use ferroce_spec::doorbell::DoorbellKind;
use parking_lot::{Mutex, MutexGuard};

use crate::attributes::{ModifyQp, QueuePairAttributes};
use crate::dma::DmaBuffer;
use crate::error::Error;
use crate::identifier::Qpn;
use crate::objects::cq::CompletionQueue;
use crate::objects::device::Device;
use crate::objects::pd::ProtectionDomain;
use crate::objects::qp_config::{QueuePairCapacity, QueuePairConfig, ReceiveSource, Shapes};
use crate::objects::srq::SharedReceiveQueue;
use crate::objects::transition::{attributes, input};
use crate::objects::xrcd::XrcDomain;
use crate::rings::batch::QueueDoorbell;
use crate::rings::demux::ReceiveShadows;
use crate::rings::doorbell::Slot;
use crate::rings::doorbell_check::{CheckDoorbells, Doorbell};
use crate::rings::receive_queue::ReceiveQueue;
use crate::rings::ring::Ring;
use crate::rings::send_queue::{SendQueue, SendRules};
use crate::service::Addressing;
use crate::use_count::Lease;

/// A queue pair.
pub struct QueuePair {
    device: Arc<Device>,
    number: Qpn,
    service: Service,
    capacity: QueuePairCapacity,
    signal_all: bool,
    parents: Parents,
    send: Option<SendQueue>,
    receive: Option<ReceiveQueue>,
    /// Locked before the queues: a thread that has locked one of those must not wait for it.
    control: Mutex<Control>,
}

/// Objects that a QP belongs to.
#[derive(Default)]
struct Parents {
    pd: Option<Arc<ProtectionDomain>>,
    send_cq: Option<Arc<CompletionQueue>>,
    receive_cq: Option<Arc<CompletionQueue>>,
    shared: Option<Arc<SharedReceiveQueue>>,
    xrc_domain: Option<Arc<XrcDomain>>,
}

impl Parents {
    fn of(pd: &Arc<ProtectionDomain>, config: &QueuePairConfig) -> Self {
        let (receive_cq, shared) = match &config.receive {
            ReceiveSource::Own { cq, .. } => (Some(Arc::clone(cq)), None),
            ReceiveSource::Shared { cq, queue } => (Some(Arc::clone(cq)), Some(Arc::clone(queue))),
            ReceiveSource::None => (None, None),
        };
        Self {
            pd: Some(Arc::clone(pd)),
            send_cq: Some(Arc::clone(&config.send_cq)),
            receive_cq,
            shared,
            xrc_domain: None,
        }
    }

    fn leases(&self) -> Result<Vec<Lease>, Error> {
        let leases = [
            self.pd.as_ref().map(|pd| pd.lease()),
            self.send_cq.as_ref().map(|cq| cq.lease()),
            self.receive_cq.as_ref().map(|cq| cq.lease()),
            self.shared.as_ref().map(|queue| queue.lease()),
            self.xrc_domain.as_ref().map(|domain| domain.lease()),
        ];
        leases.into_iter().flatten().collect()
    }

    /// Returns a context with the numbers of these objects.
    fn context(&self, service: Service) -> QpContext {
        let cqn = |cq: &Option<Arc<CompletionQueue>>| cq.as_ref().map(|cq| cq.number().0);
        let send_cqn = cqn(&self.send_cq);
        let mut context = QpContext {
            service: service.into(),
            pd: self.pd.as_ref().map_or(0, |pd| pd.number()),
            send_cqn: send_cqn.unwrap_or(0),
            // The receive CQ of an XRC initiator is never used.
            receive_cqn: cqn(&self.receive_cq).or(send_cqn).unwrap_or(0),
            srqn: self.shared.as_ref().map_or(0, |queue| queue.number().0),
            xrcd: self.xrc_domain.as_ref().map_or(0, |domain| domain.number()),
            ..QpContext::default()
        };
        context.shape.set_uses_srq(self.shared.is_some());
        context
    }

    /// Returns the CQs, each once.
    fn cqs(&self) -> impl Iterator<Item = &Arc<CompletionQueue>> {
        let receive_cq = self.receive_cq.as_ref();
        let other = receive_cq.filter(|receive_cq| {
            let send_cq = self.send_cq.as_ref();
            send_cq.is_none_or(|send_cq| !Arc::ptr_eq(send_cq, receive_cq))
        });
        self.send_cq.iter().chain(other)
    }

    /// Removes a QP and its entries from the CQs.
    fn disconnect(&self, number: Qpn) {
        for cq in self.cqs() {
            cq.remove_queue(number);
        }
    }
}

struct Control {
    /// State that software has requested; the device may have moved the QP on to SQE or ERR.
    state: QpState,
    /// Leases of the parents; `None` when the QP is destroyed.
    leases: Option<Vec<Lease>>,
    /// Multicast groups to which the QP is attached.
    groups: BTreeSet<[u8; 16]>,
}

impl Control {
    fn new(leases: Vec<Lease>) -> Mutex<Self> {
        Mutex::new(Self {
            state: QpState::Reset,
            leases: Some(leases),
            groups: BTreeSet::new(),
        })
    }

    fn check(&self) -> Result<(), Error> {
        self.leases.as_ref().map(|_| ()).ok_or(Error::Destroyed)
    }
}

/// Rings and doorbell slots of a QP.
struct Resources {
    shapes: Shapes,
    buffer: Arc<DmaBuffer>,
    send_slot: Slot,
    receive_slot: Option<Slot>,
}

impl Resources {
    fn new(device: &Arc<Device>, shapes: Shapes) -> Result<Self, Error> {
        let send_slot = device.allocate_slot()?;
        let receive_slot = shapes.receive.map(|_| device.allocate_slot());
        let receive_slot = receive_slot.transpose()?;
        let buffer = DmaBuffer::new(device.space(), shapes.buffer_size())?;
        Ok(Self {
            shapes,
            buffer: Arc::new(buffer),
            send_slot,
            receive_slot,
        })
    }

    fn describe(&self, context: &mut QpContext) {
        let uses_srq = context.shape.uses_srq();
        context.shape = self.shapes.context();
        context.shape.set_uses_srq(uses_srq);
        context.send_base = self.buffer.iova();
        context.send_doorbell_slot = self.send_slot.number();
        if let Some(slot) = &self.receive_slot {
            context.receive_base = self.buffer.iova() + self.shapes.send_size() as u64;
            context.receive_doorbell_slot = slot.number();
        }
    }

    /// Creates the queues of QP `number` and adds them to its CQs.
    fn connect(
        self,
        device: &Device,
        number: Qpn,
        rules: SendRules,
        parents: &Parents,
    ) -> (SendQueue, Option<ReceiveQueue>) {
        let (bus, shapes) = (device.bus(), &self.shapes);
        let send_size = shapes.send_size();
        let ring = Ring::new(&self.buffer, 0, send_size);
        let kind = DoorbellKind::SEND_QUEUE;
        let push = device.queue_push(&self.send_slot, number);
        let doorbell = QueueDoorbell::new(bus, self.send_slot, kind, number.0);
        let (send, send_shadow) = SendQueue::new(doorbell, push, ring, shapes.send, rules);
        let own = self.receive_slot.zip(shapes.receive).map(|(slot, shape)| {
            let ring = Ring::new(&self.buffer, send_size, shape.ring_size());
            let kind = DoorbellKind::RECEIVE_QUEUE;
            let doorbell = QueueDoorbell::new(bus, slot, kind, number.0);
            ReceiveQueue::new(doorbell, ring, shape)
        });
        let shared = parents.shared.as_ref();
        let receives = match &own {
            Some((_, shadow)) => Some(ReceiveShadows::Own(Arc::clone(shadow))),
            None => shared.map(|queue| ReceiveShadows::Shared(Arc::clone(queue.tags()))),
        };
        if let Some(cq) = &parents.send_cq {
            cq.add_queue(number, Some(send_shadow), None);
        }
        if let Some(cq) = &parents.receive_cq {
            cq.add_queue(number, None, receives);
        }
        (send, own.map(|(queue, _)| queue))
    }
}

impl QueuePair {
    /// Creates a QP in RESET.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for sizes that the device does not have, objects of another
    /// device, or receives that the service does not have; [`Error::NotSupported`] for a service
    /// that the device does not have; [`Error::NoResources`], and errors of the device:
    /// [`Error::Command`] also for a second GSI.
    pub fn create(
        pd: &Arc<ProtectionDomain>,
        config: &QueuePairConfig,
    ) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        config.check(device)?;
        let limits = device.limits();
        let shapes = Shapes::new(limits, config)?;
        let parents = Parents::of(pd, config);
        let leases = parents.leases()?;
        let resources = Resources::new(device, shapes)?;
        let mut context = parents.context(config.service);
        resources.describe(&mut context);
        let blocks_own_multicast = config.blocks_own_multicast;
        context.shape.set_blocks_own_multicast(blocks_own_multicast);
        let rules = SendRules {
            addressing: Addressing::of(config.service),
            operations: device.capabilities().send_operations(config.service),
            signal_all: config.signal_all,
        };
        let (number, (send, receive)) = device.create_qp(&context, |number| {
            resources.connect(device, number, rules, &parents)
        })?;
        let qp = Arc::new(Self {
            device: Arc::clone(device),
            number,
            service: config.service,
            capacity: shapes.capacity(),
            signal_all: config.signal_all,
            parents,
            send: Some(send),
            receive,
            control: Control::new(leases),
        });
        device.doorbell_checks().add(&qp);
        Ok(qp)
    }

    /// Creates an XRC target QP in RESET. It has no queues, no CQs and no protection domain: those
    /// are the properties of the shared receive queue that the peer names.
    ///
    /// # Errors
    ///
    /// [`Error::NoResources`], and errors of the device.
    pub fn create_xrc_target(domain: &Arc<XrcDomain>) -> Result<Arc<Self>, Error> {
        let device = domain.device();
        let service = Service::XrcTarget;
        let parents = Parents {
            xrc_domain: Some(Arc::clone(domain)),
            ..Parents::default()
        };
        let leases = parents.leases()?;
        let context = parents.context(service);
        let (number, ()) = device.create_qp(&context, |_| ())?;
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            number,
            service,
            capacity: QueuePairCapacity::default(),
            signal_all: false,
            parents,
            send: None,
            receive: None,
            control: Control::new(leases),
        }))
    }

    /// Returns the QP number.
    pub fn number(&self) -> Qpn {
        self.number
    }

    /// Returns the transport service.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Returns the actual capacity.
    pub fn capacity(&self) -> QueuePairCapacity {
        self.capacity
    }

    /// Returns true if all send work requests are signaled.
    pub fn signal_all(&self) -> bool {
        self.signal_all
    }

    /// Returns the protection domain; XRC targets have none.
    pub fn pd(&self) -> Option<&Arc<ProtectionDomain>> {
        self.parents.pd.as_ref()
    }

    /// Returns the CQ of the send queue; XRC targets have none.
    pub fn send_cq(&self) -> Option<&Arc<CompletionQueue>> {
        self.parents.send_cq.as_ref()
    }

    /// Returns the CQ of the receives; XRC QPs have none.
    pub fn receive_cq(&self) -> Option<&Arc<CompletionQueue>> {
        self.parents.receive_cq.as_ref()
    }

    /// Returns the shared receive queue, if the QP uses one. For XRC targets, the peer chooses it.
    pub fn shared_receive_queue(&self) -> Option<&Arc<SharedReceiveQueue>> {
        self.parents.shared.as_ref()
    }

    /// Returns the XRC domain of an XRC target.
    pub fn xrc_domain(&self) -> Option<&Arc<XrcDomain>> {
        self.parents.xrc_domain.as_ref()
    }

    /// Returns the send queue; XRC targets have none.
    #[inline]
    pub fn send_queue(&self) -> Option<&SendQueue> {
        self.send.as_ref()
    }

    /// Returns the QP's own receive queue, if it has one.
    #[inline]
    pub fn receive_queue(&self) -> Option<&ReceiveQueue> {
        self.receive.as_ref()
    }

    /// Returns the state that software has requested. The device may have moved the QP on to SQE or
    /// ERR; only [`QueuePair::query`] returns the current state.
    pub fn software_state(&self) -> QpState {
        self.control.lock().state
    }

    /// Changes the state or attributes.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a transition or an attribute that the service does not have;
    /// [`Error::Command`] when the QP is not in the state from which the transition begins, or an
    /// attribute is out of its range; [`Error::Destroyed`].
    pub fn modify(&self, transition: &ModifyQp) -> Result<(), Error> {
        let mut control = self.control.lock();
        control.check()?;
        if *transition == ModifyQp::ToReset {
            return self.modify_to_reset(&mut control);
        }
        let (target, input) = input(self.service, transition)?;
        self.device.modify_qp(self.number, &input)?;
        control.state = target;
        self.open_queues(target);
        Ok(())
    }

    /// Moves the QP to RESET: first disables posting, then stops the device, then removes the
    /// remaining work requests and completions.
    fn modify_to_reset(&self, control: &mut Control) -> Result<(), Error> {
        self.open_queues(QpState::Reset);
        let (_, input) = input(self.service, &ModifyQp::ToReset)?;
        self.flush_shared_receive(control);
        if let Err(error) = self.device.modify_qp(self.number, &input) {
            self.open_queues(control.state);
            return Err(error);
        }
        control.state = QpState::Reset;
        if let Some(send) = &self.send {
            send.reset();
        }
        if let Some(receive) = &self.receive {
            receive.reset();
        }
        for cq in self.parents.cqs() {
            cq.reset_queue(self.number);
        }
        Ok(())
    }

    /// Makes the device complete the WQE of a shared receive queue that the QP has taken for a
    /// message that has begun. RESET and destruction of the QP would lose it: only its completion
    /// identifies the WQE and frees its slot.
    fn flush_shared_receive(&self, control: &mut Control) {
        let receives = control.state.accepts_requests();
        // Flushing has a cost: it completes all sends as well, for which a CQ may be too small. (A
        // target has none.)
        let needed = match (&self.parents.shared, &self.parents.receive_cq) {
            (Some(queue), Some(cq)) => receives && queue.has_taken(cq),
            _ => receives && self.service == Service::XrcTarget,
        };
        if !needed {
            return;
        }
        // Events about the error state are no longer of use.
        self.device.mute_qp(self.number);
        let flushed = input(self.service, &ModifyQp::ToErr)
            .and_then(|(_, input)| self.device.modify_qp(self.number, &input));
        self.device.unmute_qp(self.number);
        match flushed {
            Ok(()) => control.state = QpState::Err,
            Err(error) => tracing::debug!(qpn = self.number.0, %error, "QP not flushed"),
        }
    }

    /// Allows posting in the states of IBTA vol 1, 10.3.1: receives from INIT on, sends from RTS
    /// on; in the error states both are accepted, and the device flushes them.
    fn open_queues(&self, state: QpState) {
        if let Some(send) = &self.send {
            send.set_open(!matches!(
                state,
                QpState::Reset | QpState::Init | QpState::Rtr
            ));
        }
        if let Some(receive) = &self.receive {
            receive.set_open(state != QpState::Reset);
        }
    }

    /// Queries the device for the QP's current attributes.
    ///
    /// # Errors
    ///
    /// Errors of the device, [`Error::BadAnswer`] for a state that does not exist,
    /// [`Error::Destroyed`].
    pub fn query(&self) -> Result<QueuePairAttributes, Error> {
        let control = self.control.lock();
        control.check()?;
        attributes(&self.device.query_qp(self.number)?)
    }

    /// Attaches the QP to a multicast group. It succeeds if the QP is already attached.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless it is a UD QP, errors of the device, [`Error::Destroyed`].
    pub fn attach_multicast(&self, gid: [u8; 16]) -> Result<(), Error> {
        let mut control = self.check_multicast()?;
        self.set_multicast(CommandOpcode::ATTACH_MULTICAST, gid)?;
        control.groups.insert(gid);
        Ok(())
    }

    /// Detaches the QP from a multicast group.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::attach_multicast`]; [`Error::Command`] when it is not attached.
    pub fn detach_multicast(&self, gid: [u8; 16]) -> Result<(), Error> {
        let mut control = self.check_multicast()?;
        self.set_multicast(CommandOpcode::DETACH_MULTICAST, gid)?;
        control.groups.remove(&gid);
        Ok(())
    }

    fn check_multicast(&self) -> Result<MutexGuard<'_, Control>, Error> {
        if self.service != Service::UnreliableDatagram {
            let what = "multicast of a service other than UD";
            return Err(Error::InvalidArgument { what });
        }
        let control = self.control.lock();
        control.check()?;
        Ok(control)
    }

    fn set_multicast(&self, opcode: CommandOpcode, gid: [u8; 16]) -> Result<(), Error> {
        self.device.set_multicast(opcode, self.number, gid)
    }

    /// Destroys the QP. Its completions are no longer polled; completions of XRC targets are,
    /// because they belong to the shared receive queue.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while it is attached to a multicast group, errors of the device,
    /// [`Error::Destroyed`] the second time.
    pub fn destroy(&self) -> Result<(), Error> {
        let mut control = self.control.lock();
        control.check()?;
        if !control.groups.is_empty() && !self.device.is_dead() {
            return Err(Error::Busy);
        }
        self.open_queues(QpState::Reset);
        self.flush_shared_receive(&mut control);
        let result = self
            .device
            .destroy_qp(self.number, || self.parents.disconnect(self.number));
        match result {
            Ok(()) => control.leases = None,
            Err(_) => self.open_queues(control.state),
        }
        result
    }

    /// Detaches the QP from all multicast groups, so that it can be destroyed.
    fn detach_all(&self) {
        let groups = std::mem::take(&mut self.control.lock().groups);
        for gid in groups {
            if let Err(error) = self.set_multicast(CommandOpcode::DETACH_MULTICAST, gid) {
                tracing::debug!(qpn = self.number.0, %error, "QP not detached");
            }
        }
    }
}

impl CheckDoorbells for QueuePair {
    fn check_doorbells(&self) -> Result<Doorbell, Error> {
        // During a transition to RESET, the indices of driver and device differ.
        let Some(_control) = self.control.try_lock() else {
            return Ok(Doorbell::NotAsked);
        };
        let send = self.send.as_ref();
        let receive = self.receive.as_ref();
        let send_due = send.and_then(SendQueue::due_doorbell);
        let receive_due = receive.and_then(ReceiveQueue::due_doorbell);
        if send_due.is_none() && receive_due.is_none() {
            return Ok(Doorbell::NotAsked);
        }
        let context = self.device.query_qp(self.number)?;
        let send = send.zip(send_due);
        let send = send.map(|(queue, due)| queue.compare_doorbell(due, context.send_producer));
        let receive = receive.zip(receive_due);
        let receive =
            receive.map(|(queue, due)| queue.compare_doorbell(due, context.receive_producer));
        Ok(send.max(receive).unwrap_or(Doorbell::NotAsked))
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.detach_all();
        match self.destroy() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => {
                tracing::warn!(qpn = self.number.0, %error, "QP not destroyed");
                self.device.forget_qp(self.number);
                self.parents.disconnect(self.number);
            }
        }
    }
}
