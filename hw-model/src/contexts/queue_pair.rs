//! A queue pair: the transport state on the chip, and its work queues.

use ferroce_spec::context::{AccessRights, QpContext, QpShape, RetryAttributes, ServiceCode};
use ferroce_spec::wqe::AddressPath;
use ferroce_transport::{Config, Qp, QpState, Service};
use ferroce_units::Instant;
use ferroce_wire::Qpn;

use crate::contexts::fault_log::FaultLog;
use crate::contexts::note_log::NoteLog;
use crate::contexts::path::Path;
use crate::contexts::stalled::Stalled;
use crate::contexts::work_queue::{ReceiveQueue, SendQueue};
use crate::ports::port::Route;

/// One queue pair.
#[derive(Debug)]
pub struct QueuePair {
    /// Its number.
    pub qpn: Qpn,
    /// Its entry in the QP context table.
    pub index: u32,
    /// Attributes set by commands; [`QueuePair::image`] also has the changing parts.
    pub context: StaticContext,
    /// The protocol state machine.
    pub transport: Qp,
    /// Send queue.
    pub send: SendQueue,
    /// Receive queue.
    pub receive: ReceiveQueue,
    /// Headers below the transport; known from RTR on, or from the first datagram on.
    pub path: Option<Path>,
    /// UD: the address that `path` was built from.
    pub datagram_path: Option<Box<AddressPath>>,
    /// True if it is in the scheduler's list.
    pub scheduled: bool,
    /// True if a delayed ACK must follow the requests that were rung.
    pub acknowledge_behind: bool,
    /// True if it is in the list of queue pairs with a delayed ACK.
    pub holds_acknowledge: bool,
    /// The last header written into a receive buffer was IPv4 (UD).
    pub header_is_ipv4: bool,
    /// Packets that have to wait before they leave.
    pub stalled: Stalled,
    /// True if the first of them waits for a page of an on-demand region.
    pub awaits_page: bool,
    /// True if a fetch of WQEs is in progress.
    pub fetching: bool,
    /// The reason for its next completion in error.
    pub faults: FaultLog,
    /// What it has noticed about packets.
    pub notes: NoteLog,
    /// Simulated times that its parts have reached.
    pub progress: TimeProgress,
}

/// The part of a QP context that only commands change and that no other part of the queue pair
/// holds. It is small because there are many queue pairs, most of them idle.
#[derive(Debug, Clone, Copy)]
pub struct StaticContext {
    /// Transport service.
    pub service: ServiceCode,
    /// Processing unit that runs it.
    pub processing_unit: u8,
    /// Protection domain.
    pub pd: u32,
    /// CQ of the send queue.
    pub send_cqn: u32,
    /// CQ of the receive queue.
    pub receive_cqn: u32,
    /// Sizes of the rings.
    pub shape: QpShape,
    /// Shared receive queue, if used.
    pub srqn: u32,
    /// BAR2 slot of the send queue.
    pub send_doorbell_slot: u32,
    /// BAR2 slot of the receive queue.
    pub receive_doorbell_slot: u32,
    /// Index of the P_Key.
    p_key_index: u32,
    /// XRC domain.
    pub xrcd: u32,
    /// Path to the peer (RC, UC).
    pub path: AddressPath,
}

impl From<&QpContext> for StaticContext {
    fn from(context: &QpContext) -> Self {
        Self {
            service: context.service,
            processing_unit: context.processing_unit,
            pd: context.pd,
            send_cqn: context.send_cqn,
            receive_cqn: context.receive_cqn,
            shape: context.shape,
            srqn: context.srqn,
            send_doorbell_slot: context.send_doorbell_slot,
            receive_doorbell_slot: context.receive_doorbell_slot,
            p_key_index: context.p_key_index,
            xrcd: context.xrcd,
            path: context.path,
        }
    }
}

impl StaticContext {
    /// Returns the whole context, with the fields known here.
    fn widened(&self) -> QpContext {
        QpContext {
            service: self.service,
            processing_unit: self.processing_unit,
            pd: self.pd,
            send_cqn: self.send_cqn,
            receive_cqn: self.receive_cqn,
            shape: self.shape,
            srqn: self.srqn,
            send_doorbell_slot: self.send_doorbell_slot,
            receive_doorbell_slot: self.receive_doorbell_slot,
            p_key_index: self.p_key_index,
            xrcd: self.xrcd,
            path: self.path,
            ..QpContext::default()
        }
    }
}

/// Simulated times that the parts of a queue pair have reached: no packet overtakes an earlier one,
/// whichever waits for host memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeProgress {
    /// When the state after the last packet is available.
    pub ready: Instant,
    /// When the host sees all data that was written for it.
    pub visible: Instant,
    /// When its last atomic ends: a responder executes atomics one after the other.
    pub executed: Instant,
    /// When its last packet is ready for the MAC.
    pub departure: Instant,
    /// Time at which its last reported packet left the card (UC, UD).
    pub left: Instant,
}

impl QueuePair {
    pub(super) fn new(qpn: Qpn, index: u32, image: &QpContext, config: Config) -> Self {
        let context = StaticContext::from(image);
        let shape = context.shape;
        let mut send = SendQueue::default();
        if has_send_queue(&context) {
            send = SendQueue::new(image.send_base, shape.log_send_blocks());
        }
        let mut receive = ReceiveQueue::default();
        if has_receive_queue(&context) {
            let (entries, stride) = (shape.log_receives(), shape.log_receive_stride());
            receive = ReceiveQueue::new(image.receive_base, entries, stride);
        }
        let service = Service::try_from(context.service).unwrap_or_default();
        Self {
            qpn,
            index,
            context,
            transport: Qp::new(qpn, service, config),
            send,
            receive,
            path: None,
            datagram_path: None,
            scheduled: false,
            acknowledge_behind: false,
            holds_acknowledge: false,
            header_is_ipv4: false,
            stalled: Stalled::default(),
            awaits_page: false,
            fetching: false,
            faults: FaultLog::default(),
            notes: NoteLog::default(),
            progress: TimeProgress::default(),
        }
    }

    /// Returns true if it sends and receives datagrams.
    #[inline]
    pub fn is_datagram(&self) -> bool {
        let service = self.context.service;
        service == ServiceCode::UNRELIABLE_DATAGRAM || service == ServiceCode::GSI
    }

    /// Returns the route to the peer of a connected queue pair.
    pub fn peer(&self) -> Option<Route> {
        let dest_qp = self.transport.attributes().dest_qp;
        let path = self.path.as_ref().filter(|_| !self.is_datagram())?;
        Some(path.route(dest_qp))
    }

    /// Returns true if its requests complete when their last packet has left the card.
    pub fn is_unreliable(&self) -> bool {
        self.is_datagram() || self.context.service == ServiceCode::UNRELIABLE_CONNECTED
    }

    /// Returns true if it has a send queue.
    pub fn has_send_queue(&self) -> bool {
        has_send_queue(&self.context)
    }

    /// Returns true if it has its own receive queue.
    pub fn has_receive_queue(&self) -> bool {
        has_receive_queue(&self.context)
    }

    /// Returns the protection domain.
    #[inline]
    pub fn pd(&self) -> u32 {
        self.context.pd
    }

    /// Returns true if it sends nothing until a page is present. A queue pair in ERR does not wait.
    #[inline]
    pub fn waits_for_page(&self) -> bool {
        self.awaits_page && self.transport.state() != QpState::Err
    }

    /// Returns true if it may have something to send, to fetch or to flush.
    #[inline]
    pub fn has_work(&self) -> bool {
        if self.waits_for_page() {
            return false;
        }
        if !self.stalled.is_empty() || self.transport.has_transmit() || self.transport.has_local() {
            return true;
        }
        let receives_wait = self.receive.consumer() != self.receive.producer;
        let sends_wait = self.send.waiting() > 0 && !self.fetching;
        match self.transport.state() {
            QpState::Rts => sends_wait && self.transport.can_accept_send(),
            QpState::Sqe => sends_wait && self.transport.can_accept_send(),
            QpState::Err => sends_wait || receives_wait,
            _ => false,
        }
    }

    /// Returns true if its only work is to fetch WQEs.
    #[inline]
    pub fn has_only_sends_to_fetch(&self) -> bool {
        let sends = self.send.waiting() > 0 && !self.fetching;
        let rests = self.stalled.is_empty() && !self.transport.has_transmit();
        let runs = self.transport.state() == QpState::Rts && !self.transport.has_local();
        runs && sends && rests && !self.acknowledge_behind && self.transport.can_accept_send()
    }

    /// Resets the rings (RESET).
    pub fn reset_queues(&mut self) {
        self.send.reset();
        self.receive.reset();
        self.stalled.clear();
        self.awaits_page = false;
        self.fetching = false;
        self.faults = FaultLog::default();
        self.notes = NoteLog::default();
        self.path = None;
        self.datagram_path = None;
    }

    /// Returns the current context.
    pub fn image(&self) -> QpContext {
        let attributes = self.transport.attributes();
        let mut access = AccessRights::default();
        access.set_remote_read(attributes.access.read);
        access.set_remote_write(attributes.access.write);
        access.set_remote_atomic(attributes.access.atomic);
        access.set_flush_global(attributes.access.flush_global);
        access.set_flush_persistent(attributes.access.flush_persistent);
        let mut retry = RetryAttributes::default();
        retry.set_retry_count(attributes.retry_count.value());
        retry.set_rnr_retry(attributes.rnr_retry.value());
        retry.set_timeout(attributes.timeout.value());
        retry.set_min_rnr_timer(attributes.min_rnr_timer.code());
        QpContext {
            state: self.transport.state().into(),
            path_mtu: attributes.path_mtu.into(),
            port: attributes.port,
            access,
            retry,
            q_key: attributes.q_key.0,
            dest_qpn: attributes.dest_qp.value(),
            send_psn: self.transport.next_send_psn().value(),
            receive_psn: self.transport.next_receive_psn().value(),
            max_rd_atomic: attributes.max_rd_atomic,
            max_dest_rd_atomic: attributes.max_dest_rd_atomic,
            draining: u8::from(self.transport.is_draining()),
            send_base: self.send.base,
            receive_base: self.receive.base,
            send_producer: self.send.producer,
            send_fetched: self.send.fetched,
            receive_producer: self.receive.producer,
            receive_consumer: self.receive.consumer(),
            message_sequence: self.transport.msn().value(),
            ..self.context.widened()
        }
    }
}

/// Returns true if a queue pair with this context has a send queue.
pub fn has_send_queue(context: &StaticContext) -> bool {
    context.service != ServiceCode::XRC_TARGET
}

/// Returns true if a queue pair with this context has its own receive queue.
pub fn has_receive_queue(context: &StaticContext) -> bool {
    let is_xrc = [ServiceCode::XRC_INITIATOR, ServiceCode::XRC_TARGET].contains(&context.service);
    !is_xrc && !context.shape.uses_srq()
}

/// Returns true if a queue pair with this context takes its receives from the shared receive queue.
#[inline]
pub fn uses_srq(context: &StaticContext) -> bool {
    let is_xrc = [ServiceCode::XRC_INITIATOR, ServiceCode::XRC_TARGET].contains(&context.service);
    !is_xrc && context.shape.uses_srq()
}

/// Returns the CQs that a queue pair with this context uses.
pub fn completion_queues(context: &StaticContext) -> impl Iterator<Item = u32> + use<> {
    let receives = match context.service {
        ServiceCode::XRC_INITIATOR | ServiceCode::XRC_TARGET => None,
        _ => Some(context.receive_cqn),
    };
    let sends = has_send_queue(context).then_some(context.send_cqn);
    [sends, receives].into_iter().flatten()
}
