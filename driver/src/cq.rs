//! Completion queues. Polling is hot path.

use crate::completion::{CompletionOpcode, CompletionStatus, WorkCompletion};
use crate::cq_ring::CqRings;
use crate::demux::{Demux, ReceiveShadows};
use crate::device::Device;
use crate::doorbell::Slot;
use crate::error::Error;
use crate::event::{CqHandler, CqHandlers};
use crate::identifier::{Cqn, Qpn, Srqn};
use crate::shadow::SendShadow;
use crate::tags::TagTable;
use crate::use_count::{Lease, UseCount};
use ferroce_spec::context::CqContext;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Bit of [`CqeWord::opcode`](ferroce_spec::cqe::CqeWord::opcode) that tells receive from send.
const RECEIVE_BIT: u8 = 0x80;

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
    rings: Arc<CqRings>,
    state: Mutex<CqState>,
    /// Held while the ring is replaced, and by whoever must not meet that.
    control: Mutex<Control>,
    handlers: Arc<CqHandlers>,
    users: UseCount,
}

/// What commands change.
#[derive(Default)]
struct Control {
    destroyed: bool,
    moderation_count: u16,
    moderation_us: u16,
}

/// What the CQ's lock protects.
pub struct CqState {
    rings: Arc<CqRings>,
    consumer: u32,
    /// CQEs that one call takes or skips at most. Zero while the ring is being replaced.
    budget: u32,
    demux: Demux,
    /// CQEs that named no outstanding work request.
    skipped: u64,
}

/// A locked CQ.
pub struct Poller<'a> {
    state: MutexGuard<'a, CqState>,
}

impl Iterator for Poller<'_> {
    type Item = WorkCompletion;

    /// Takes the next completion. There may be more after `None`.
    #[inline]
    fn next(&mut self) -> Option<WorkCompletion> {
        self.state.next()
    }
}

impl CqState {
    #[inline]
    fn next(&mut self) -> Option<WorkCompletion> {
        // A device that writes garbage faster than we skip it does not keep us here for ever.
        for _ in 0..self.budget {
            let cqe = self.rings.current().read(self.consumer)?;
            self.consumer = self.consumer.wrapping_add(1);
            let completion = self.resolve(&cqe);
            self.rings.publish(self.consumer);
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
        let word = cqe.word;
        let (wr_id, opcode, srqn) = if word.opcode() & RECEIVE_BIT == 0 {
            let retired = self.demux.retire_send(cqe)?;
            (retired.wr_id, retired.opcode, None)
        } else if word.shared() {
            let (wr_id, srqn) = self.demux.retire_shared(cqe)?;
            (wr_id, receive_opcode(word.opcode()), srqn)
        } else {
            let wr_id = self.demux.retire_receive(cqe)?;
            (wr_id, receive_opcode(word.opcode()), None)
        };
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
            srqn,
            with_grh: word.with_grh(),
            ipv4: word.ipv4(),
            solicited: word.solicited(),
            timestamp_ns: cqe.timestamp,
        })
    }

    /// Removes the entries that `goes` points out; the others keep their order. Places in shared
    /// receive queues that the removed ones name are free again.
    ///
    /// The device writes no more of those. What it writes meanwhile lies behind the entries that
    /// are looked at here.
    fn remove_entries(&mut self, mut goes: impl FnMut(&mut Demux, &Cqe) -> bool) {
        let ring = self.rings.current();
        let begin = self.consumer;
        let mut end = begin;
        while end.wrapping_sub(begin) < ring.size() && ring.read(end).is_some() {
            end = end.wrapping_add(1);
        }
        let mut from = end;
        let mut to = end;
        while from != begin {
            from = from.wrapping_sub(1);
            let Some(cqe) = ring.read(from) else {
                continue;
            };
            if goes(&mut self.demux, &cqe) {
                if cqe.word.shared() {
                    self.demux.retire_shared(&cqe);
                }
                continue;
            }
            to = to.wrapping_sub(1);
            if to != from {
                ring.relocate(from, to);
            }
        }
        if to != begin {
            self.consumer = to;
            self.rings.publish(to);
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

/// Base-2 logarithm of a ring that holds `entries`.
fn log_size(device: &Device, entries: u32) -> Result<u32, Error> {
    let what = "number of CQ entries";
    let size = entries.checked_next_power_of_two();
    size.filter(|&size| entries > 0 && size <= 1 << device.limits().log_cqes)
        .map(u32::trailing_zeros)
        .ok_or(Error::InvalidArgument { what })
}

impl CompletionQueue {
    /// Creates a CQ.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a size or a vector that the device does not have,
    /// [`Error::NoResources`], and what the device answers.
    pub fn create(device: &Arc<Device>, config: CompletionQueueConfig) -> Result<Arc<Self>, Error> {
        let log_size = log_size(device, config.entries)?;
        let eqn = device.completion_eqn(config.vector)?;
        let slot = device.allocate_slot()?;
        let rings = Arc::new(CqRings::new(device.space(), log_size)?);
        let ring = rings.current();
        let context = CqContext {
            base: ring.iova(),
            consumer_record: rings.record_iova(),
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
        let state = CqState {
            budget: ring.size(),
            rings: Arc::clone(&rings),
            consumer: 0,
            demux: Demux::default(),
            skipped: 0,
        };
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            number,
            slot,
            rings,
            state: Mutex::new(state),
            control: Mutex::default(),
            handlers,
            users: UseCount::default(),
        }))
    }

    /// Entries that it was really given.
    pub fn entries(&self) -> u32 {
        self.rings.current().size()
    }

    /// Number.
    pub fn number(&self) -> Cqn {
        self.number
    }

    /// Addresses in this process of the entries, as long as the CQ is not resized: who waits for a
    /// completion may watch them instead of polling.
    pub fn entry_addresses(&self) -> Range<usize> {
        self.rings.current().addresses()
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
        if !self.rings.has_entry() {
            self.relax();
            if !self.rings.has_entry() {
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
        Poller {
            state: self.state.lock(),
        }
    }

    /// Whether there is nothing to poll now. Does not lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.rings.has_entry()
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
        let armed = &self.handlers.armed;
        if !solicited_only {
            armed.store(true, Ordering::SeqCst);
        }
        if armed.load(Ordering::SeqCst) {
            self.ring_doorbell(DoorbellKind::CQ_ARM);
            return;
        }
        self.ring_doorbell(DoorbellKind::CQ_ARM_SOLICITED);
        // Another thread may have asked for any completion since, and the doorbell above may have
        // replaced its. Both have a full fence between what they wrote and what they read.
        fence(Ordering::SeqCst);
        if armed.load(Ordering::SeqCst) {
            self.ring_doorbell(DoorbellKind::CQ_ARM);
        }
    }

    fn ring_doorbell(&self, kind: DoorbellKind) {
        // An older index, because another thread polls, makes the event come early, never late.
        let value = DoorbellValue::new(kind, self.number.0, self.rings.consumer());
        fence(Ordering::SeqCst);
        self.device.bus().doorbell(self.slot.number(), value.bits());
    }

    /// CQEs that the device has written and that named no outstanding work request.
    pub fn skipped(&self) -> u64 {
        self.state.lock().skipped
    }

    /// Gives the CQ at least `entries` entries. Completions that wait are kept; nobody finds any
    /// while the device moves them.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a size that the device does not have,
    /// [`Error::NoResources`], [`Error::Destroyed`], and what the device answers:
    /// [`Error::Command`] when the waiting completions do not fit.
    pub fn resize(&self, entries: u32) -> Result<(), Error> {
        let log_size = log_size(&self.device, entries)?;
        let control = self.control.lock();
        if control.destroyed {
            return Err(Error::Destroyed);
        }
        // The lock of the CQ is not held while the command runs, because event handlers run
        // meanwhile and may poll.
        let consumer = {
            let mut state = self.state.lock();
            if self.rings.current().log_size() == log_size {
                return Ok(());
            }
            state.budget = 0;
            state.consumer
        };
        let result = self.replace_ring(log_size, consumer, &control);
        let mut state = self.state.lock();
        if result.is_ok() {
            self.rings.set_current(log_size);
        }
        state.budget = self.rings.current().size();
        result
    }

    /// Lets the device move to a ring of another size.
    fn replace_ring(&self, log_size: u32, consumer: u32, control: &Control) -> Result<(), Error> {
        let ring = self.rings.other(self.device.space(), log_size, consumer)?;
        let input = CqContext {
            base: ring.iova(),
            consumer_record: self.rings.record_iova(),
            log_size: log_size as u8,
            consumer,
            doorbell_slot: self.slot.number(),
            moderation_count: control.moderation_count,
            moderation_us: control.moderation_us,
            ..CqContext::default()
        };
        self.device.modify_cq(self.number, &input)
    }

    /// Lets one event stand for up to `count` completions, and wait up to `period_us` for them.
    /// Zero: each completion has its event.
    ///
    /// # Errors
    ///
    /// What the device answers, [`Error::Destroyed`].
    pub fn modify_moderation(&self, count: u16, period_us: u16) -> Result<(), Error> {
        let mut control = self.control.lock();
        if control.destroyed {
            return Err(Error::Destroyed);
        }
        let input = CqContext {
            consumer: self.rings.consumer(),
            moderation_count: count,
            moderation_us: period_us,
            ..CqContext::default()
        };
        self.device.modify_cq(self.number, &input)?;
        control.moderation_count = count;
        control.moderation_us = period_us;
        Ok(())
    }

    /// Destroys the CQ. Its handlers are not called any more, except where a call has begun.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while QPs or shared receive queues use it, [`Error::Destroyed`], and what
    /// the device answers.
    pub fn destroy(&self) -> Result<(), Error> {
        let mut control = self.control.lock();
        if control.destroyed {
            return Err(Error::Destroyed);
        }
        if !self.users.close() {
            return Err(Error::Busy);
        }
        let result = self.device.destroy_cq(self.number);
        match result {
            Ok(()) => control.destroyed = true,
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
        receive: Option<ReceiveShadows>,
    ) {
        self.state.lock().demux.add(qpn, send, receive);
    }

    /// Removes a QP and its entries. The device writes nothing more for it.
    pub(crate) fn remove_queue(&self, qpn: Qpn) {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        state.remove_entries(|_, cqe| cqe.qpn == qpn.0);
        state.demux.remove(qpn);
    }

    /// Removes the entries of a QP and forgets its work requests. The device writes nothing more
    /// for it until it leaves RESET.
    pub(crate) fn reset_queue(&self, qpn: Qpn) {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        state.remove_entries(|_, cqe| cqe.qpn == qpn.0);
        state.demux.reset(qpn);
    }

    /// CQEs that wait here for QPs that take their receives from the queue with these tags.
    pub(crate) fn waiting_shared(&self, tags: &Arc<TagTable>) -> u32 {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        let (begin, ring) = (state.consumer, Arc::clone(&state.rings));
        let waiting = (0..ring.current().size())
            .map_while(|step| ring.current().read(begin.wrapping_add(step)))
            .filter(|cqe| state.demux.takes_from(cqe, tags));
        waiting.count() as u32
    }

    /// Adds an XRC shared receive queue.
    pub(crate) fn add_shared(&self, srqn: Srqn, tags: &Arc<TagTable>) {
        self.state.lock().demux.add_shared(srqn, tags);
    }

    /// Removes an XRC shared receive queue and its entries. The device writes nothing more for
    /// it.
    pub(crate) fn remove_shared(&self, srqn: Srqn) {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        state.remove_entries(|demux, cqe| demux.is_of_shared(cqe, srqn));
        state.demux.remove_shared(srqn);
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        match self.destroy() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => {
                tracing::warn!(cqn = self.number.0, %error, "CQ not destroyed");
                self.device.forget_cq(self.number);
            }
        }
    }
}
