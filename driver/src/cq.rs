//! Completion queues. Polling is hot path.

use crate::completion::{CompletionOpcode, CompletionStatus, WorkCompletion};
use crate::device::Device;
use crate::dma::DmaBuffer;
use crate::doorbell::Slot;
use crate::error::Error;
use crate::event::{CqHandler, CqHandlers};
use crate::identifier::{Cqn, Qpn};
use crate::shadow::{ReceiveShadow, SendShadow};
use crate::use_count::{Lease, UseCount};
use ferroce_spec::context::CqContext;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus, CqeWord, owner_at};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, MutexGuard, RawMutex};
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

const WORDS_PER_CQE: usize = Cqe::SIZE / 8;
/// A CQN and a QPN have 24 bits.
const NUMBER_MASK: u32 = 0xff_ffff;
/// Bit of [`CqeWord::opcode`] that tells receive from send.
const RECEIVE_BIT: u8 = 0x80;

// The four words of a CQE, as `CqRing::read` takes them apart.
const _: () = assert!(WORDS_PER_CQE == 4);
const _: () = assert!(offset_of!(Cqe, qpn) == 0 && offset_of!(Cqe, wqe_index) == 4);
const _: () = assert!(offset_of!(Cqe, byte_count) == 8 && offset_of!(Cqe, immediate) == 12);
const _: () = assert!(offset_of!(Cqe, timestamp) == 16);
const _: () = assert!(offset_of!(Cqe, source_qpn) == 24 && offset_of!(Cqe, word) == 28);

/// How a CQ shall be.
#[derive(Clone, Default)]
pub struct CompletionQueueConfig {
    /// Entries, at least; rounded up to a power of two.
    pub entries: u32,
    /// Completion vector, below [`Capabilities`](crate::Capabilities)`::completion_vectors`.
    pub vector: u16,
    /// Called with each completion event, from whichever thread; the CQ is not armed any more.
    pub on_event: Option<CqHandler>,
    /// Called when the CQ has overrun or cannot be written.
    pub on_error: Option<CqHandler>,
}

/// A completion queue.
pub struct CompletionQueue {
    device: Arc<Device>,
    number: Cqn,
    slot: Slot,
    ring: Arc<CqRing>,
    state: Arc<Mutex<CqState>>,
    handlers: Arc<CqHandlers>,
    users: UseCount,
    destroyed: AtomicBool,
}

/// The ring, as pollers see it also without the lock.
struct CqRing {
    /// The entries, then the consumer record.
    buffer: DmaBuffer,
    log_size: u32,
    /// Consumer index; changed under the lock only.
    consumer: AtomicU32,
}

/// What the CQ's lock protects.
pub struct CqState {
    ring: Arc<CqRing>,
    consumer: u32,
    queues: QueueMap,
    /// CQEs that named no outstanding work request.
    skipped: u64,
}

/// A locked CQ.
pub struct LockedCq<G: Deref<Target = CqState> + DerefMut> {
    state: G,
}

/// A locked CQ that borrows it.
pub type Poller<'a> = LockedCq<MutexGuard<'a, CqState>>;

/// A locked CQ that holds it by itself, from `ibv_start_poll` to `ibv_end_poll`.
pub type OwnedPoller = LockedCq<ArcMutexGuard<RawMutex, CqState>>;

impl<G: Deref<Target = CqState> + DerefMut> LockedCq<G> {
    /// Takes the next completion.
    #[inline]
    pub fn next(&mut self) -> Option<WorkCompletion> {
        self.state.next()
    }
}

impl CqRing {
    fn size(&self) -> u32 {
        1 << self.log_size
    }

    /// The entry at `index`, when the device has written it.
    #[inline]
    fn read(&self, index: u32) -> Option<Cqe> {
        let place = (index as usize & ((1 << self.log_size) - 1)) * WORDS_PER_CQE;
        let words = self.buffer.words().get(place..place + WORDS_PER_CQE)?;
        // The device writes the word with the owner bit last (release), so it is read first.
        let last = words[3].load(Ordering::Acquire);
        let word = CqeWord::from_bits((last >> 32) as u32);
        if word.owner() != owner_at(index, self.log_size) {
            return None;
        }
        let first = words[0].load(Ordering::Relaxed);
        let second = words[1].load(Ordering::Relaxed);
        Some(Cqe {
            qpn: first as u32 & NUMBER_MASK,
            wqe_index: (first >> 32) as u32,
            byte_count: second as u32,
            immediate: ((second >> 32) as u32).to_le_bytes(),
            timestamp: words[2].load(Ordering::Relaxed),
            source_qpn: last as u32 & NUMBER_MASK,
            word,
        })
    }

    fn has_entry(&self) -> bool {
        self.read(self.consumer.load(Ordering::Relaxed)).is_some()
    }

    /// Moves the entry at `from` to `to`, which may lie on another lap.
    fn relocate(&self, from: u32, to: u32) {
        let mask = self.size() as usize - 1;
        let words = self.buffer.words();
        let from = &words[(from as usize & mask) * WORDS_PER_CQE..][..WORDS_PER_CQE];
        let target = &words[(to as usize & mask) * WORDS_PER_CQE..][..WORDS_PER_CQE];
        for (target, from) in target.iter().zip(from).take(WORDS_PER_CQE - 1) {
            target.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let last = from[WORDS_PER_CQE - 1].load(Ordering::Relaxed);
        let mut word = CqeWord::from_bits((last >> 32) as u32);
        word.set_owner(owner_at(to, self.log_size));
        let last = last & 0xffff_ffff | u64::from(word.bits()) << 32;
        target[WORDS_PER_CQE - 1].store(last, Ordering::Release);
    }

    /// Tells the device, and pollers without the lock, that all entries before `consumer` have
    /// been copied out.
    #[inline]
    fn publish(&self, consumer: u32) {
        self.consumer.store(consumer, Ordering::Relaxed);
        if let Some(record) = self.buffer.words().get(self.record_offset() / 8) {
            record.store(u64::from(consumer), Ordering::Release);
        }
    }

    fn record_offset(&self) -> usize {
        Cqe::SIZE << self.log_size
    }
}

/// The QPs that complete into a CQ, by QPN.
#[derive(Default)]
struct QueueMap {
    /// Sorted by QPN.
    entries: Vec<QueueEntry>,
    /// Where the last search ended.
    last: usize,
}

struct QueueEntry {
    qpn: u32,
    send: Option<Arc<SendShadow>>,
    receive: Option<Arc<ReceiveShadow>>,
}

impl QueueMap {
    #[inline]
    fn find(&mut self, qpn: u32) -> Option<&QueueEntry> {
        let hit = self.entries.get(self.last).is_some_and(|e| e.qpn == qpn);
        if !hit {
            self.last = self.entries.binary_search_by_key(&qpn, |e| e.qpn).ok()?;
        }
        self.entries.get(self.last)
    }

    /// Adds a QP, or the other side of it.
    fn add(
        &mut self,
        qpn: Qpn,
        send: Option<Arc<SendShadow>>,
        receive: Option<Arc<ReceiveShadow>>,
    ) {
        let place = self.entries.binary_search_by_key(&qpn.0, |e| e.qpn);
        let place = place.unwrap_or_else(|place| {
            let entry = QueueEntry {
                qpn: qpn.0,
                send: None,
                receive: None,
            };
            self.entries.insert(place, entry);
            place
        });
        let entry = &mut self.entries[place];
        entry.send = send.or(entry.send.take());
        entry.receive = receive.or(entry.receive.take());
    }

    fn remove(&mut self, qpn: Qpn) {
        self.entries.retain(|entry| entry.qpn != qpn.0);
        self.last = 0;
    }
}

impl CqState {
    #[inline]
    fn next(&mut self) -> Option<WorkCompletion> {
        // A device that writes garbage faster than we skip it does not keep us here for ever.
        for _ in 0..self.ring.size() {
            let cqe = self.ring.read(self.consumer)?;
            self.consumer = self.consumer.wrapping_add(1);
            let completion = self.resolve(&cqe);
            self.ring.publish(self.consumer);
            if completion.is_some() {
                return completion;
            }
            self.skip(&cqe);
        }
        None
    }

    #[cold]
    fn skip(&mut self, cqe: &Cqe) {
        self.skipped += 1;
        tracing::debug!(?cqe, "CQE skipped: no such outstanding work request");
    }

    /// The work completion of a CQE, when it names an outstanding work request.
    #[inline]
    fn resolve(&mut self, cqe: &Cqe) -> Option<WorkCompletion> {
        let queue = self.queues.find(cqe.qpn)?;
        let (wr_id, opcode) = if cqe.word.opcode() & RECEIVE_BIT == 0 {
            let retired = queue.send.as_ref()?.retire(cqe.wqe_index)?;
            (retired.wr_id, retired.opcode)
        } else {
            let wr_id = queue.receive.as_ref()?.retire(cqe.wqe_index)?;
            (wr_id, receive_opcode(cqe.word.opcode()))
        };
        let word = cqe.word;
        Some(WorkCompletion {
            wr_id,
            status: CompletionStatus::from(CqeStatus(word.status())),
            vendor_error: u32::from(word.vendor_error()),
            opcode,
            byte_length: cqe.byte_count,
            immediate: word.with_immediate().then_some(cqe.immediate),
            invalidated_key: word
                .with_invalidate()
                .then_some(u32::from_le_bytes(cqe.immediate)),
            qpn: Qpn(cqe.qpn),
            source_qpn: Qpn(cqe.source_qpn),
            with_grh: word.with_grh(),
            solicited: word.solicited(),
            timestamp_ns: cqe.timestamp,
        })
    }

    /// Removes all entries of a QP; the others keep their order.
    ///
    /// The device writes nothing more for the QP. What it writes for others meanwhile lies behind
    /// the entries that are looked at here.
    fn remove_entries(&mut self, qpn: Qpn) {
        let begin = self.consumer;
        let mut end = begin;
        while end.wrapping_sub(begin) < self.ring.size() && self.ring.read(end).is_some() {
            end = end.wrapping_add(1);
        }
        let mut from = end;
        let mut to = end;
        while from != begin {
            from = from.wrapping_sub(1);
            let keep = self.ring.read(from).is_some_and(|cqe| cqe.qpn != qpn.0);
            if keep {
                to = to.wrapping_sub(1);
                if to != from {
                    self.ring.relocate(from, to);
                }
            }
        }
        if to != begin {
            self.consumer = to;
            self.ring.publish(to);
        }
    }
}

#[inline]
fn receive_opcode(opcode: u8) -> CompletionOpcode {
    if CqeOpcode(opcode) == CqeOpcode::RECEIVE_RDMA_IMMEDIATE {
        CompletionOpcode::ReceiveRdmaWithImmediate
    } else {
        CompletionOpcode::Receive
    }
}

impl CompletionQueue {
    /// Creates a CQ.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a size or a vector that the device does not have,
    /// [`Error::NoResources`], and what the device answers.
    pub fn create(device: &Arc<Device>, config: CompletionQueueConfig) -> Result<Arc<Self>, Error> {
        let limits = device.limits();
        let log_size = match config.entries.checked_next_power_of_two() {
            Some(size) if config.entries > 0 && size <= 1 << limits.log_cqes => {
                size.trailing_zeros()
            }
            _ => {
                let what = "number of CQ entries";
                return Err(Error::InvalidArgument { what });
            }
        };
        let eqn = device.completion_eqn(config.vector)?;
        let slot = device.allocate_slot()?;
        let ring = CqRing {
            buffer: DmaBuffer::new(device.space(), (Cqe::SIZE << log_size) + 64)?,
            log_size,
            consumer: AtomicU32::new(0),
        };
        let context = CqContext {
            base: ring.buffer.iova(),
            consumer_record: ring.buffer.iova() + ring.record_offset() as u64,
            log_size: log_size as u8,
            eqn: u32::from(eqn),
            doorbell_slot: slot.number(),
            ..CqContext::default()
        };
        let handlers = Arc::new(CqHandlers {
            armed: AtomicBool::new(false),
            on_event: config.on_event,
            on_error: config.on_error,
        });
        let number = device.create_cq(&context, &handlers)?;
        let ring = Arc::new(ring);
        let state = CqState {
            ring: Arc::clone(&ring),
            consumer: 0,
            queues: QueueMap::default(),
            skipped: 0,
        };
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            number,
            slot,
            ring,
            state: Arc::new(Mutex::new(state)),
            handlers,
            users: UseCount::default(),
            destroyed: AtomicBool::new(false),
        }))
    }

    /// Entries that it was really given.
    pub fn entries(&self) -> u32 {
        self.ring.size()
    }

    /// Number.
    pub fn number(&self) -> Cqn {
        self.number
    }

    /// Device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Takes up to `max` completions and calls `each` with them, in order; returns how many.
    ///
    /// Finds it nothing, it lets the bus work once ([`Bus::relax`](crate::bus::Bus::relax)) and
    /// looks again. `each` runs with the CQ locked.
    #[inline]
    pub fn poll(&self, max: usize, mut each: impl FnMut(WorkCompletion)) -> usize {
        if !self.ring.has_entry() {
            self.relax();
            if !self.ring.has_entry() {
                return 0;
            }
        }
        let mut state = self.state.lock();
        let mut count = 0;
        while count < max {
            let Some(completion) = state.next() else {
                break;
            };
            each(completion);
            count += 1;
        }
        count
    }

    /// Locks the CQ for polling.
    #[inline]
    pub fn lock(&self) -> Poller<'_> {
        LockedCq {
            state: self.state.lock(),
        }
    }

    /// Locks the CQ for polling until the poller goes, wherever it is kept meanwhile.
    #[inline]
    pub fn lock_owned(&self) -> OwnedPoller {
        LockedCq {
            state: Mutex::lock_arc(&self.state),
        }
    }

    /// Whether there is nothing to poll now. Does not lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.ring.has_entry()
    }

    /// Lets the bus work. Call it when a poll has found nothing, without the CQ locked.
    #[inline]
    pub fn relax(&self) {
        self.device.bus().relax();
    }

    /// Asks for one event when a completion comes, or is there, that has not been polled.
    /// `solicited_only`: one that is solicited or failed.
    pub fn arm(&self, solicited_only: bool) {
        // The stronger request stands until its event has come (IBTA vol 1, 11.4.2.2).
        let any = !solicited_only || self.handlers.armed.load(Ordering::Acquire);
        if any {
            self.handlers.armed.store(true, Ordering::Release);
        }
        let kind = if any {
            DoorbellKind::CQ_ARM
        } else {
            DoorbellKind::CQ_ARM_SOLICITED
        };
        // An older index, because another thread polls, makes the event come early, never late.
        let consumer = self.ring.consumer.load(Ordering::Relaxed);
        let value = DoorbellValue::new(kind, self.number.0, consumer);
        fence(Ordering::Release);
        self.device.bus().doorbell(self.slot.number(), value.bits());
    }

    /// CQEs that the device has written and that named no outstanding work request.
    pub fn skipped(&self) -> u64 {
        self.state.lock().skipped
    }

    /// Destroys the CQ. Its handlers are not called any more, except where a call has begun.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while QPs use it, [`Error::Destroyed`], and what the device answers.
    pub fn destroy(&self) -> Result<(), Error> {
        if !self.users.close() {
            let destroyed = self.destroyed.load(Ordering::Acquire);
            return Err(if destroyed {
                Error::Destroyed
            } else {
                Error::Busy
            });
        }
        let result = self.device.destroy_cq(self.number);
        match result {
            Ok(()) => self.destroyed.store(true, Ordering::Release),
            Err(_) => self.users.reopen(),
        }
        result
    }

    /// Becomes a user.
    pub(crate) fn lease(&self) -> Result<Lease, Error> {
        self.users.acquire().ok_or(Error::Destroyed)
    }

    /// Adds a QP, or one side of it.
    pub(crate) fn add_queue(
        &self,
        qpn: Qpn,
        send: Option<Arc<SendShadow>>,
        receive: Option<Arc<ReceiveShadow>>,
    ) {
        self.state.lock().queues.add(qpn, send, receive);
    }

    /// Removes a QP and its entries. The device writes nothing more for it.
    pub(crate) fn remove_queue(&self, qpn: Qpn) {
        let mut state = self.state.lock();
        state.queues.remove(qpn);
        state.remove_entries(qpn);
    }

    /// Removes the entries of a QP and forgets its work requests. The device writes nothing more
    /// for it until it leaves RESET.
    pub(crate) fn reset_queue(&self, qpn: Qpn) {
        let mut state = self.state.lock();
        state.remove_entries(qpn);
        if let Some(queue) = state.queues.find(qpn.0) {
            if let Some(send) = &queue.send {
                send.reset();
            }
            if let Some(receive) = &queue.receive {
                receive.reset();
            }
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        if !self.destroyed.load(Ordering::Acquire) {
            if let Err(error) = self.destroy() {
                tracing::warn!(cqn = self.number.0, %error, "CQ not destroyed");
                self.device.forget_cq(self.number);
            }
        }
    }
}
