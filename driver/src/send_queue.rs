//! Send queue: work requests into WQEs, and the doorbell. Hot path.

use crate::bus::Bus;
use crate::completion::CompletionOpcode;
use crate::doorbell::Slot;
use crate::error::PostError;
use crate::identifier::Qpn;
use crate::request::{DataSegment, RemoteAddress, SendData, SendOperation, SendRequest};
use crate::ring::{Ring, RingWriter};
use crate::shadow::{PostedSend, SendShadow, outstanding};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::wqe::{
    AtomicSegment, BLOCK_SIZE, ControlSegment, ControlWord, InlineHeader, MAX_DATA_SEGMENTS,
    MAX_INLINE, RemoteAddressSegment, SendOpcode,
};
use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, MutexGuard, RawMutex};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

const WORDS_PER_BLOCK: usize = BLOCK_SIZE / 8;
/// Blocks of a WQE are counted with 4 bits in the shadow.
const MAX_BLOCKS: u32 = 15;

/// Sizes of a send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendShape {
    /// Work requests that may be outstanding.
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    /// Base-2 logarithm of the blocks of the ring.
    pub(crate) log_blocks: u8,
}

/// Limits within which [`SendShape::new`] chooses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendLimits {
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    pub(crate) max_blocks_per_wqe: u32,
    pub(crate) log_blocks: u8,
}

impl SendShape {
    /// The smallest ring that holds `max_wr` work requests of `max_sge` elements or `max_inline`
    /// bytes; then whatever fits it. `None` when the limits do not allow it.
    pub(crate) fn new(
        max_wr: u32,
        max_sge: u32,
        max_inline: u32,
        limits: &SendLimits,
    ) -> Option<Self> {
        if max_sge > limits.max_sge || max_inline > limits.max_inline {
            return None;
        }
        let blocks = blocks_per_wqe(max_sge, max_inline);
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
        let room = blocks as usize * BLOCK_SIZE - ControlSegment::SIZE - RemoteAddressSegment::SIZE;
        let sge = (room / DataSegment::SIZE).min(MAX_DATA_SEGMENTS) as u32;
        let inline = (room - InlineHeader::SIZE).min(MAX_INLINE) as u32;
        Some(Self {
            max_wr: if max_wr == 0 { 0 } else { ring / blocks },
            max_sge: sge.min(limits.max_sge),
            max_inline: inline.min(limits.max_inline),
            log_blocks,
        })
    }
}

/// Blocks of the largest WQE of RC and UC with these sizes.
fn blocks_per_wqe(max_sge: u32, max_inline: u32) -> u32 {
    let gathered = max_sge as usize * DataSegment::SIZE;
    let inline = if max_inline == 0 {
        0
    } else {
        InlineHeader::SIZE + max_inline as usize
    };
    let atomic = AtomicSegment::SIZE + DataSegment::SIZE;
    let payload = gathered.max(inline).max(atomic);
    let size = ControlSegment::SIZE + RemoteAddressSegment::SIZE + payload;
    size.div_ceil(BLOCK_SIZE) as u32
}

/// A send queue. Cheap to clone; clones are the same queue.
#[derive(Clone)]
pub struct SendQueue(Arc<Mutex<SendState>>);

/// What the queue's lock protects.
pub struct SendState {
    qpn: Qpn,
    bus: Arc<dyn Bus>,
    slot: Slot,
    ring: Ring,
    shadow: Arc<SendShadow>,
    shape: SendShape,
    signal_all: bool,
    /// The QP's state allows posting.
    open: bool,
    /// Next block to write, and work requests posted; both free-running.
    producer: u32,
    posted: u32,
    /// The same, as the device was last told.
    rung_producer: u32,
    rung_posted: u32,
    /// Work requests retired, as last looked up.
    retired: u32,
}

/// Posted work requests that the device has not been told yet, with the queue locked.
///
/// [`SendBatch::ring`], or dropping the batch, tells the device all of them with one doorbell;
/// [`SendBatch::abort`] takes them back.
pub struct Batch<G: Deref<Target = SendState> + DerefMut> {
    state: G,
}

/// A batch that borrows its queue.
pub type SendBatch<'a> = Batch<MutexGuard<'a, SendState>>;

/// A batch that holds its queue by itself, from `ibv_wr_start` to `ibv_wr_complete`.
pub type OwnedSendBatch = Batch<ArcMutexGuard<RawMutex, SendState>>;

impl SendQueue {
    pub(crate) fn new(
        qpn: Qpn,
        bus: &Arc<dyn Bus>,
        slot: Slot,
        ring: Ring,
        shape: SendShape,
        signal_all: bool,
    ) -> (Self, Arc<SendShadow>) {
        let shadow = Arc::new(SendShadow::new(shape.log_blocks));
        let state = SendState {
            qpn,
            bus: Arc::clone(bus),
            slot,
            ring,
            shadow: Arc::clone(&shadow),
            shape,
            signal_all,
            open: false,
            producer: 0,
            posted: 0,
            rung_producer: 0,
            rung_posted: 0,
            retired: 0,
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

    /// Locks the queue for posting until the batch goes, wherever it is kept meanwhile. Somewhat
    /// dearer than [`SendQueue::lock`].
    #[inline]
    pub fn lock_owned(&self) -> OwnedSendBatch {
        Batch {
            state: Mutex::lock_arc(&self.0),
        }
    }

    /// Allows or forbids posting.
    pub(crate) fn set_open(&self, open: bool) {
        self.0.lock().open = open;
    }

    /// Forgets all work requests. No completion of them may come any more.
    pub(crate) fn reset(&self) {
        let mut state = self.0.lock();
        state.open = false;
        state.ring.clear();
        state.producer = 0;
        state.posted = 0;
        state.rung_producer = 0;
        state.rung_posted = 0;
        state.retired = 0;
    }
}

impl<G: Deref<Target = SendState> + DerefMut> Batch<G> {
    /// Writes one work request into the queue.
    ///
    /// # Errors
    ///
    /// Any [`PostError`]. The earlier ones of the batch stay posted.
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.state.post(request)
    }

    /// Tells the device everything posted so far.
    #[inline]
    pub fn ring(&mut self) {
        self.state.ring_doorbell();
    }

    /// Takes back everything that the device has not been told.
    pub fn abort(mut self) {
        self.state.producer = self.state.rung_producer;
        self.state.posted = self.state.rung_posted;
    }
}

impl<G: Deref<Target = SendState> + DerefMut> Drop for Batch<G> {
    #[inline]
    fn drop(&mut self) {
        self.state.ring_doorbell();
    }
}

/// Segments of a WQE between control and data.
enum Middle {
    None,
    Remote(RemoteAddress),
    Atomic(RemoteAddress, u64, u64),
}

/// What an operation needs in its WQE.
struct Plan {
    opcode: SendOpcode,
    completion: CompletionOpcode,
    immediate: [u8; 4],
    middle: Middle,
    /// The payload goes to the peer, so that it may be inline.
    sends_payload: bool,
}

impl Plan {
    #[inline]
    fn new(operation: &SendOperation) -> Self {
        use CompletionOpcode as Done;
        use SendOpcode as Op;
        let plan = |opcode, completion, immediate, middle, sends_payload| Self {
            opcode,
            completion,
            immediate,
            middle,
            sends_payload,
        };
        match *operation {
            SendOperation::Send => plan(Op::SEND, Done::Send, [0; 4], Middle::None, true),
            SendOperation::SendImmediate(immediate) => plan(
                Op::SEND_IMMEDIATE,
                Done::Send,
                immediate,
                Middle::None,
                true,
            ),
            SendOperation::SendInvalidate(key) => {
                let key = key.0.to_le_bytes();
                plan(Op::SEND_INVALIDATE, Done::Send, key, Middle::None, true)
            }
            SendOperation::RdmaWrite(remote) => {
                let middle = Middle::Remote(remote);
                plan(Op::RDMA_WRITE, Done::RdmaWrite, [0; 4], middle, true)
            }
            SendOperation::RdmaWriteImmediate(remote, immediate) => {
                let (opcode, middle) = (Op::RDMA_WRITE_IMMEDIATE, Middle::Remote(remote));
                plan(opcode, Done::RdmaWrite, immediate, middle, true)
            }
            SendOperation::RdmaRead(remote) => {
                let middle = Middle::Remote(remote);
                plan(Op::RDMA_READ, Done::RdmaRead, [0; 4], middle, false)
            }
            SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                let middle = Middle::Atomic(remote, swap, compare);
                plan(Op::COMPARE_SWAP, Done::CompareSwap, [0; 4], middle, false)
            }
            SendOperation::FetchAdd { remote, add } => {
                let middle = Middle::Atomic(remote, add, 0);
                plan(Op::FETCH_ADD, Done::FetchAdd, [0; 4], middle, false)
            }
        }
    }
}

impl Middle {
    fn size(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Remote(_) => RemoteAddressSegment::SIZE,
            Self::Atomic(..) => RemoteAddressSegment::SIZE + AtomicSegment::SIZE,
        }
    }

    #[inline]
    fn write(&self, writer: &mut RingWriter<'_>) {
        let (Self::Remote(remote) | Self::Atomic(remote, ..)) = self else {
            return;
        };
        writer.push(remote.virtual_address);
        writer.push_halves(remote.r_key.0, 0);
        if let Self::Atomic(_, swap_add, compare) = self {
            writer.push(*swap_add);
            writer.push(*compare);
        }
    }
}

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
        let payload = self.payload_size(request, &plan)?;
        let size = ControlSegment::SIZE + plan.middle.size() + payload;
        let blocks = size.div_ceil(BLOCK_SIZE) as u32;
        self.write_wqe(request, &plan, blocks);
        self.shadow.remember(&PostedSend {
            wr_id: request.wr_id,
            index: self.producer,
            blocks,
            sequence: self.posted,
            opcode: plan.completion,
        });
        self.producer = self.producer.wrapping_add(blocks);
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    /// Bytes of the data segments or of the inline header and payload, when they are allowed.
    #[inline]
    fn payload_size(&self, request: &SendRequest<'_>, plan: &Plan) -> Result<usize, PostError> {
        match request.data {
            SendData::ScatterGather(segments) => {
                if segments.len() > self.shape.max_sge as usize {
                    return Err(PostError::TooManySegments);
                }
                if matches!(plan.middle, Middle::Atomic(..)) && segments.len() > 1 {
                    return Err(PostError::TooManySegments);
                }
                Ok(segments.len() * DataSegment::SIZE)
            }
            SendData::Inline(pieces) => {
                if !plan.sends_payload {
                    return Err(PostError::InvalidOperation);
                }
                let length = pieces
                    .iter()
                    .fold(0, |sum: usize, piece| sum.saturating_add(piece.len()));
                if length > self.shape.max_inline as usize {
                    return Err(PostError::InlineTooLong);
                }
                Ok(InlineHeader::SIZE + length)
            }
        }
    }

    #[inline]
    fn write_wqe(&self, request: &SendRequest<'_>, plan: &Plan, blocks: u32) {
        let mut control = ControlWord::default();
        control.set_opcode(plan.opcode.0);
        control.set_blocks(blocks as u8);
        control.set_signaled(request.signaled || self.signal_all);
        control.set_solicited(request.solicited);
        control.set_fence(request.fence);
        match request.data {
            SendData::ScatterGather(segments) => control.set_data_segments(segments.len() as u8),
            SendData::Inline(_) => control.set_inline(true),
        }
        let mut writer = self.ring.writer(self.producer as usize * WORDS_PER_BLOCK);
        writer.push_halves(control.bits(), self.producer);
        writer.push_halves(u32::from_le_bytes(plan.immediate), 0);
        plan.middle.write(&mut writer);
        match request.data {
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

    #[inline]
    fn ring_doorbell(&mut self) {
        if self.producer == self.rung_producer {
            return;
        }
        self.rung_producer = self.producer;
        self.rung_posted = self.posted;
        self.shadow.publish(self.producer);
        let value = DoorbellValue::new(DoorbellKind::SEND_QUEUE, self.qpn.0, self.producer);
        // The WQEs are in memory before the device can hear of them.
        fence(Ordering::Release);
        self.bus.doorbell(self.slot.number(), value.bits());
    }
}
