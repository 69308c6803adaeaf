//! Send queue: writes work requests into WQEs and rings the doorbell. Hot path.

use std::sync::Arc;

use ferroce_spec::context::AccessRights;
use ferroce_spec::wqe::{
    AddressPath, AtomicSegment, BLOCK_SIZE, BindSegment, ControlSegment, ControlWord,
    DatagramSegment, FlushSegment, InlineHeader, MAX_DATA_SEGMENTS, MAX_INLINE,
    RemoteAddressSegment, SendOpcode,
};
use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::completion::CompletionOpcode;
use crate::error::PostError;
use crate::request::{
    DataSegment, Destination, FlushKind, RemoteAddress, SendData, SendOperation, SendRequest,
    WindowBinding,
};
use crate::rings::batch::{Batch, QueueDoorbell, QueueState};
use crate::rings::doorbell_check::{self, Doorbell, DoorbellMark, RungState};
use crate::rings::push::QueuePush;
use crate::rings::ring::{Ring, RingWriter};
use crate::rings::shadow::{PostedSend, SendShadow, outstanding};
use crate::service::{Addressing, SendOperations};

const WORDS_PER_BLOCK: usize = BLOCK_SIZE / 8;
/// Blocks of a WQE are counted with 4 bits in the shadow.
const MAX_BLOCKS: u32 = 15;

/// Sizes of a send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendShape {
    /// Maximum number of outstanding work requests.
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    /// Base-2 logarithm of the blocks of the ring.
    pub(crate) log_blocks: u8,
}

/// Limits for [`SendShape::new`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendLimits {
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    pub(crate) max_blocks_per_wqe: u32,
    pub(crate) log_blocks: u8,
    pub(crate) addressing: Addressing,
}

impl SendShape {
    /// Returns the smallest ring for `max_wr` work requests of `max_sge` elements or `max_inline`
    /// bytes, with the actual maximums of that ring. `None` when the limits do not allow it.
    pub(crate) fn new(
        max_wr: u32,
        max_sge: u32,
        max_inline: u32,
        limits: &SendLimits,
    ) -> Option<Self> {
        if max_sge > limits.max_sge || max_inline > limits.max_inline {
            return None;
        }
        let head = head_size(limits.addressing);
        let operands = operands_size(limits.addressing);
        let blocks = blocks_per_wqe(head, operands, max_sge, max_inline);
        if blocks > limits.max_blocks_per_wqe.min(MAX_BLOCKS) {
            return None;
        }
        let ring = max_wr
            .max(1)
            .checked_mul(blocks)?
            .checked_next_power_of_two()?;
        let log_blocks = ring.trailing_zeros() as u8;
        if log_blocks > limits.log_blocks {
            return None;
        }
        let room = blocks as usize * BLOCK_SIZE - head;
        let sge = ((room - operands) / DataSegment::SIZE).min(MAX_DATA_SEGMENTS) as u32;
        let inline = (room - InlineHeader::SIZE).min(MAX_INLINE) as u32;
        Some(Self {
            max_wr: if max_wr == 0 { 0 } else { ring / blocks },
            max_sge: sge.min(limits.max_sge),
            max_inline: inline.min(limits.max_inline),
            log_blocks,
        })
    }
}

/// Returns the size of the largest segments before the inline data of a WQE. (Local operations
/// have no data, and fit one block.)
fn head_size(addressing: Addressing) -> usize {
    let address = match addressing {
        Addressing::Datagram => DatagramSegment::SIZE,
        Addressing::Connected | Addressing::Xrc => RemoteAddressSegment::SIZE,
    };
    ControlSegment::SIZE + address
}

/// Returns the size of an atomic's segments between head and data. Its result may be scattered over
/// as many elements as the data of other requests.
fn operands_size(addressing: Addressing) -> usize {
    match addressing {
        Addressing::Datagram => 0,
        Addressing::Connected | Addressing::Xrc => AtomicSegment::SIZE,
    }
}

/// Returns the number of blocks of the largest WQE with these sizes.
fn blocks_per_wqe(head: usize, operands: usize, max_sge: u32, max_inline: u32) -> u32 {
    let elements = operands + max_sge.max(1) as usize * DataSegment::SIZE;
    let inline = if max_inline == 0 {
        0
    } else {
        InlineHeader::SIZE + max_inline as usize
    };
    (head + elements.max(inline)).div_ceil(BLOCK_SIZE) as u32
}

const _: () = assert!(ControlSegment::SIZE + BindSegment::SIZE <= BLOCK_SIZE);

/// A send queue. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct SendQueue(Arc<Mutex<SendState>>);

/// State protected by the queue's lock.
pub struct SendState {
    doorbell: QueueDoorbell,
    /// Push state, if the queue can push as an alternative to the doorbell.
    push: Option<Box<QueuePush>>,
    ring: Ring,
    shadow: Arc<SendShadow>,
    shape: SendShape,
    addressing: Addressing,
    operations: SendOperations,
    signal_all: bool,
    /// True if the QP's state allows posting.
    open: bool,
    /// Next block to write, and work requests posted; both free-running.
    producer: u32,
    posted: u32,
    /// Bytes of the newest WQE.
    newest_size: u32,
    /// Producer index and work requests at the last doorbell or push.
    rung_producer: u32,
    rung_posted: u32,
    /// Work requests retired, at the last check.
    retired: u32,
    doorbell_mark: DoorbellMark,
}

/// What a send queue holds, for explanations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendBacklog {
    /// Work requests posted so far, free-running.
    pub posted: u32,
    /// Work requests whose entries no completion has freed.
    pub outstanding: u32,
    /// Outstanding work requests that make a completion on success.
    pub signaled: u32,
    /// True if no further work request fits.
    pub is_full: bool,
}

/// Send work requests posted to a queue; [`SendBatch::abort`] withdraws them.
pub type SendBatch<'a> = Batch<'a, SendState>;

/// Rules of the QP's service and configuration for its send queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendRules {
    pub(crate) addressing: Addressing,
    pub(crate) operations: SendOperations,
    pub(crate) signal_all: bool,
}

impl SendQueue {
    pub(crate) fn new(
        doorbell: QueueDoorbell,
        push: Option<QueuePush>,
        ring: Ring,
        shape: SendShape,
        rules: SendRules,
    ) -> (Self, Arc<SendShadow>) {
        let shadow = Arc::new(SendShadow::new(shape.log_blocks));
        let state = SendState {
            doorbell,
            push: push.map(Box::new),
            ring,
            shadow: Arc::clone(&shadow),
            shape,
            addressing: rules.addressing,
            operations: rules.operations,
            signal_all: rules.signal_all,
            open: false,
            producer: 0,
            posted: 0,
            newest_size: 0,
            rung_producer: 0,
            rung_posted: 0,
            retired: 0,
            doorbell_mark: DoorbellMark::default(),
        };
        (Self(Arc::new(Mutex::new(state))), shadow)
    }

    /// Locks the queue for posting.
    #[inline]
    pub fn lock(&self) -> SendBatch<'_> {
        Batch {
            state: self.0.lock(),
        }
    }

    /// Allows or forbids posting.
    pub(crate) fn set_open(&self, open: bool) {
        self.0.lock().open = open;
    }

    /// Discards all work requests. None of them may complete any more.
    pub(crate) fn reset(&self) {
        let mut state = self.0.lock();
        state.open = false;
        state.ring.clear();
        state.producer = 0;
        state.posted = 0;
        state.rung_producer = 0;
        state.rung_posted = 0;
        state.retired = 0;
        state.doorbell_mark = DoorbellMark::default();
        if let Some(push) = &mut state.push {
            push.reset();
        }
    }
}

impl SendQueue {
    /// Returns what the queue holds.
    pub fn backlog(&self) -> SendBacklog {
        let state = self.0.lock();
        let outstanding = outstanding(state.posted, state.shadow.retired_count());
        let mut index = state.shadow.retired_index();
        let mut signaled = 0;
        for _ in 0..outstanding {
            let first = state.ring.read(index as usize * WORDS_PER_BLOCK, 1).next();
            let control = ControlWord::from_bits(first.unwrap_or_default() as u32);
            signaled += u32::from(control.signaled());
            index = index.wrapping_add(u32::from(control.blocks()).max(1));
        }
        SendBacklog {
            posted: state.posted,
            outstanding,
            signaled,
            is_full: outstanding >= state.shape.max_wr,
        }
    }

    /// Returns the producer index that was rung, if the device must be queried for it.
    pub(crate) fn due_doorbell(&self) -> Option<u32> {
        doorbell_check::due(&self.0)
    }

    /// Compares the index with the device's.
    pub(crate) fn compare_doorbell(&self, due: u32, in_device: u32) -> Doorbell {
        doorbell_check::compare(&self.0, due, in_device)
    }
}

impl RungState for SendState {
    fn rung(&mut self) -> (&QueueDoorbell, u32, &mut DoorbellMark) {
        let Self {
            doorbell,
            rung_producer,
            doorbell_mark,
            ..
        } = self;
        (doorbell, *rung_producer, doorbell_mark)
    }
}

impl SendBatch<'_> {
    /// Writes one work request into the queue.
    ///
    /// # Errors
    ///
    /// Any [`PostError`]. Earlier work requests of the batch stay posted.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.state.post(request)
    }

    /// Returns the number of 64-byte blocks of the push that will notify the device; zero: the
    /// doorbell.
    pub fn push_blocks(&mut self) -> usize {
        self.state.push_blocks()
    }

    /// Withdraws all work requests that the device has not been notified of.
    pub fn abort(mut self) {
        self.state.producer = self.state.rung_producer;
        self.state.posted = self.state.rung_posted;
    }
}

/// Bytes that an ATOMIC WRITE writes.
const ATOMIC_WRITE_BYTES: usize = 8;

/// Segments of a WQE between control and data, as the operation needs them.
enum Middle<'a> {
    None,
    Remote(RemoteAddress),
    Atomic(RemoteAddress, u64, u64),
    Flush(RemoteAddress, u32, FlushKind),
    Bind(&'a WindowBinding),
}

/// Direction of a work request's data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// Sent to the peer, so the data may be inline.
    Sent,
    /// Received from the peer: the data of a READ, or the original value of an atomic.
    Received,
    /// No data: the operation is local.
    None,
}

/// Segments of an operation's WQE.
struct Plan<'a> {
    opcode: SendOpcode,
    completion: CompletionOpcode,
    immediate: [u8; 4],
    middle: Middle<'a>,
    payload: Payload,
}

impl<'a> Plan<'a> {
    #[inline]
    fn new(operation: &'a SendOperation) -> Self {
        use CompletionOpcode as Done;
        use SendOpcode as Op;
        let plan = |opcode, completion, immediate, middle, payload| Self {
            opcode,
            completion,
            immediate,
            middle,
            payload,
        };
        let send =
            |opcode, immediate| plan(opcode, Done::Send, immediate, Middle::None, Payload::Sent);
        match *operation {
            SendOperation::Send => send(Op::SEND, [0; 4]),
            SendOperation::SendImmediate(immediate) => send(Op::SEND_IMMEDIATE, immediate),
            SendOperation::SendInvalidate(key) => send(Op::SEND_INVALIDATE, key.0.to_le_bytes()),
            SendOperation::RdmaWrite(remote) => {
                let middle = Middle::Remote(remote);
                plan(
                    Op::RDMA_WRITE,
                    Done::RdmaWrite,
                    [0; 4],
                    middle,
                    Payload::Sent,
                )
            }
            SendOperation::RdmaWriteImmediate(remote, immediate) => {
                let (opcode, middle) = (Op::RDMA_WRITE_IMMEDIATE, Middle::Remote(remote));
                plan(opcode, Done::RdmaWrite, immediate, middle, Payload::Sent)
            }
            SendOperation::RdmaRead(remote) => {
                let (middle, payload) = (Middle::Remote(remote), Payload::Received);
                plan(Op::RDMA_READ, Done::RdmaRead, [0; 4], middle, payload)
            }
            SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                let (middle, payload) = (Middle::Atomic(remote, swap, compare), Payload::Received);
                plan(Op::COMPARE_SWAP, Done::CompareSwap, [0; 4], middle, payload)
            }
            SendOperation::FetchAdd { remote, add } => {
                let (middle, payload) = (Middle::Atomic(remote, add, 0), Payload::Received);
                plan(Op::FETCH_ADD, Done::FetchAdd, [0; 4], middle, payload)
            }
            SendOperation::Flush {
                remote,
                length,
                kind,
            } => {
                let middle = Middle::Flush(remote, length, kind);
                plan(Op::FLUSH, Done::Flush, [0; 4], middle, Payload::None)
            }
            SendOperation::AtomicWrite(remote) => {
                let (opcode, middle) = (Op::ATOMIC_WRITE, Middle::Remote(remote));
                plan(opcode, Done::AtomicWrite, [0; 4], middle, Payload::Sent)
            }
            SendOperation::LocalInvalidate(key) => {
                let (opcode, done) = (Op::LOCAL_INVALIDATE, Done::LocalInvalidate);
                let key = key.0.to_le_bytes();
                plan(opcode, done, key, Middle::None, Payload::None)
            }
            SendOperation::BindWindow(ref binding) => {
                let (opcode, done) = (Op::BIND_WINDOW, Done::BindMemoryWindow);
                plan(opcode, done, [0; 4], Middle::Bind(binding), Payload::None)
            }
        }
    }
}

impl Middle<'_> {
    fn size(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Remote(_) => RemoteAddressSegment::SIZE,
            Self::Atomic(..) => RemoteAddressSegment::SIZE + AtomicSegment::SIZE,
            Self::Flush(..) => RemoteAddressSegment::SIZE + FlushSegment::SIZE,
            Self::Bind(_) => BindSegment::SIZE,
        }
    }

    #[inline]
    fn write(&self, writer: &mut RingWriter<'_>) {
        let remote = match self {
            Self::None => return,
            Self::Remote(remote) | Self::Atomic(remote, ..) | Self::Flush(remote, ..) => remote,
            Self::Bind(binding) => return write_binding(binding, writer),
        };
        writer.push(remote.virtual_address);
        writer.push_halves(remote.r_key.0, 0);
        match self {
            Self::Atomic(_, swap_add, compare) => {
                writer.push(*swap_add);
                writer.push(*compare);
            }
            Self::Flush(_, length, kind) => {
                writer.push_halves(*length, kind.bits());
                writer.push(0);
            }
            _ => {}
        }
    }
}

/// Writes a [`BindSegment`].
fn write_binding(binding: &WindowBinding, writer: &mut RingWriter<'_>) {
    writer.push_halves(binding.r_key.0, binding.l_key.0);
    writer.push(binding.address);
    writer.push(binding.length);
    writer.push_halves(AccessRights::from(binding.access).bits(), 0);
}

/// Segments for the destination of a work request.
#[derive(Clone, Copy)]
struct Address<'a> {
    destination: &'a Destination<'a>,
    /// Bytes of the datagram segment.
    size: usize,
    /// XRC: the peer's shared receive queue.
    remote_srqn: u32,
}

impl<'a> Address<'a> {
    /// Returns `None` when requests of such a queue do not name their destination in this way.
    #[inline]
    fn new(
        addressing: Addressing,
        destination: &'a Destination<'a>,
        payload: Payload,
    ) -> Option<Self> {
        let (size, remote_srqn) = match (addressing, destination) {
            (Addressing::Connected, Destination::Connected) => (0, 0),
            (Addressing::Datagram, Destination::Datagram { .. }) => (DatagramSegment::SIZE, 0),
            (Addressing::Xrc, Destination::Xrc { srqn }) => (0, srqn.0),
            // A local operation has no destination.
            (Addressing::Xrc, Destination::Connected) if payload == Payload::None => (0, 0),
            _ => return None,
        };
        Some(Self {
            destination,
            size,
            remote_srqn,
        })
    }

    /// Writes a [`DatagramSegment`], if this is a datagram.
    #[inline]
    fn write(&self, writer: &mut RingWriter<'_>) {
        if let Destination::Datagram { path, qpn, q_key } = self.destination {
            writer.push_halves(*q_key, qpn.0 & 0xff_ffff);
            let path = AddressPath::from(*path);
            for word in path.as_bytes().chunks_exact(8) {
                writer.push(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            }
        }
    }
}

const _: () = assert!(AddressPath::SIZE % 8 == 0 && AddressPath::SIZE + 8 == DatagramSegment::SIZE);

impl SendState {
    #[inline]
    fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        if !self.open {
            return Err(PostError::InvalidState);
        }
        if outstanding(self.posted, self.retired) >= self.shape.max_wr {
            self.retired = self.shadow.retired_count();
            if outstanding(self.posted, self.retired) >= self.shape.max_wr {
                return Err(PostError::QueueFull);
            }
        }
        let plan = Plan::new(&request.operation);
        if !self.operations.contains(plan.opcode) {
            return Err(PostError::InvalidOperation);
        }
        let address = Address::new(self.addressing, &request.destination, plan.payload);
        let address = address.ok_or(PostError::InvalidOperation)?;
        let payload = self.payload_size(request, &plan)?;
        let size = ControlSegment::SIZE + address.size + plan.middle.size() + payload;
        let blocks = size.div_ceil(BLOCK_SIZE) as u32;
        self.write_wqe(request, &plan, address, blocks);
        self.shadow.remember(&PostedSend {
            wr_id: request.wr_id,
            index: self.producer,
            blocks,
            sequence: self.posted,
            opcode: plan.completion,
        });
        self.producer = self.producer.wrapping_add(blocks);
        self.posted = self.posted.wrapping_add(1);
        self.newest_size = size as u32;
        Ok(())
    }

    /// Returns the size of the data segments or of the inline header and payload, if they are
    /// allowed.
    #[inline]
    fn payload_size(&self, request: &SendRequest<'_>, plan: &Plan<'_>) -> Result<usize, PostError> {
        if plan.payload == Payload::None {
            return Ok(0);
        }
        match request.data {
            SendData::ScatterGather(segments) => {
                if segments.len() > self.shape.max_sge as usize {
                    return Err(PostError::TooManySegments);
                }
                Ok(segments.len() * DataSegment::SIZE)
            }
            SendData::Inline(pieces) => {
                if plan.payload != Payload::Sent {
                    return Err(PostError::InvalidOperation);
                }
                let length = pieces
                    .iter()
                    .fold(0, |sum: usize, piece| sum.saturating_add(piece.len()));
                // An ATOMIC WRITE carries its value in the WQE, whatever the queue has for payload.
                let least = match plan.opcode {
                    SendOpcode::ATOMIC_WRITE => ATOMIC_WRITE_BYTES,
                    _ => 0,
                };
                if length > least.max(self.shape.max_inline as usize) {
                    return Err(PostError::InlineTooLong);
                }
                Ok(InlineHeader::SIZE + length)
            }
        }
    }

    #[inline]
    fn write_wqe(
        &self,
        request: &SendRequest<'_>,
        plan: &Plan<'_>,
        address: Address<'_>,
        blocks: u32,
    ) {
        // The data arguments of a local operation are ignored.
        let data = match plan.payload {
            Payload::None => SendData::ScatterGather(&[]),
            _ => request.data,
        };
        let mut control = ControlWord::default();
        control.set_opcode(plan.opcode.0);
        control.set_blocks(blocks as u8);
        control.set_signaled(request.signaled || self.signal_all);
        control.set_solicited(request.solicited);
        control.set_fence(request.fence);
        match data {
            SendData::ScatterGather(segments) => control.set_data_segments(segments.len() as u8),
            SendData::Inline(_) => control.set_inline(true),
        }
        let mut writer = self.ring.writer(self.producer as usize * WORDS_PER_BLOCK);
        writer.push_halves(control.bits(), self.producer);
        writer.push_halves(u32::from_le_bytes(plan.immediate), address.remote_srqn);
        address.write(&mut writer);
        plan.middle.write(&mut writer);
        match data {
            SendData::ScatterGather(segments) => {
                for segment in segments {
                    writer.push(segment.address);
                    writer.push_halves(segment.length, segment.l_key);
                }
            }
            SendData::Inline(pieces) => {
                let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
                writer.push_bytes(length as u32, pieces);
            }
        }
    }
}

impl SendState {
    fn push_blocks(&mut self) -> usize {
        let words = (self.newest_size as usize).div_ceil(8);
        let first = self
            .producer
            .wrapping_sub(words.div_ceil(WORDS_PER_BLOCK) as u32);
        let is_only = self.posted.wrapping_sub(self.rung_posted) == 1;
        let Some(push) = self.push.as_mut().filter(|_| is_only) else {
            return 0;
        };
        let words = self.ring.read(first as usize * WORDS_PER_BLOCK, words);
        if push.is_idle(self.shadow.retired_index()) {
            push.blocks(words)
        } else {
            0
        }
    }

    /// Notifies the device of the posted work requests, by push or doorbell.
    #[cold]
    fn push_or_ring(&mut self) {
        let first = self.rung_producer;
        let is_only = self.posted.wrapping_sub(self.rung_posted) == 1;
        self.publish();
        let Some(push) = &mut self.push else {
            return self.doorbell.ring(self.producer);
        };
        let words = (self.newest_size as usize).div_ceil(8);
        let words = self.ring.read(first as usize * WORDS_PER_BLOCK, words);
        let is_pushed =
            is_only && push.is_idle(self.shadow.retired_index()) && push.push(words, self.producer);
        if !is_pushed {
            push.rang(self.producer);
            self.doorbell.ring(self.producer);
        }
    }

    /// Allows everything posted to complete from now on.
    #[inline]
    fn publish(&mut self) {
        self.rung_producer = self.producer;
        self.rung_posted = self.posted;
        self.shadow.publish(self.producer);
    }
}

impl QueueState for SendState {
    #[inline]
    fn ring_doorbell(&mut self) {
        if self.producer == self.rung_producer {
            return;
        }
        if self.push.is_some() {
            return self.push_or_ring();
        }
        self.publish();
        self.doorbell.ring(self.producer);
    }
}
