//! Completion queues. Polling is on the hot path.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use ferroce_spec::context::CqContext;
use ferroce_spec::cqe::{Cqe, CqeOpcode, CqeStatus, VendorError};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::personality::Personality;
use parking_lot::{Mutex, MutexGuard};

use crate::bus::PolledQueue;
use crate::completion::{CompletionOpcode, CompletionStatus, WorkCompletion};
use crate::control::event::{CqHandler, CqHandlers};
use crate::control::health::Health;
use crate::error::Error;
use crate::identifier::{Cqn, Qpn, Srqn};
use crate::objects::device::Device;
use crate::rings::cq_ring::CqRings;
use crate::rings::demux::{Demux, ReceiveShadows};
use crate::rings::doorbell::Slot;
use crate::rings::doorbell_check::{CheckDoorbells, Doorbell, DoorbellMark};
use crate::rings::shadow::SendShadow;
use crate::rings::tags::TagTable;
use crate::use_count::{Lease, UseCount};

/// Bit of [`CqeWord::opcode`](ferroce_spec::cqe::CqeWord::opcode) that distinguishes receive from
/// send.
const RECEIVE_BIT: u8 = 0x80;
/// After this many checks in which the device has not seen a request for an event, the driver
/// raises the event itself. At the first check, the doorbell may still be in flight.
const CHECKS_BEFORE_EVENT: u32 = 2;

/// Configuration of a CQ.
#[derive(Clone, Default)]
pub struct CompletionQueueConfig {
    /// Minimum number of entries; rounded up to a power of two.
    pub entries: u32,
    /// Completion vector, below [`Capabilities`](crate::Capabilities)`::completion_vectors`.
    pub vector: u16,
    /// Called with each completion event, on any thread; the CQ is no longer armed then.
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
    /// Held while the ring is replaced, and by operations that must not overlap with that.
    control: Mutex<Control>,
    handlers: Arc<CqHandlers>,
    /// State of the doorbell that arms the CQ; its index counts the requests.
    doorbell_mark: Mutex<DoorbellMark>,
    users: UseCount,
}

/// State changed by commands.
#[derive(Default)]
struct Control {
    destroyed: bool,
    moderation_count: u16,
    moderation_us: u16,
}

/// State protected by the CQ's lock.
pub struct CqState {
    /// Of the device: it chooses the values of `vendor_err`.
    personality: Personality,
    rings: Arc<CqRings>,
    consumer: u32,
    /// Maximum number of CQEs that one call takes or skips. Zero while the ring is being replaced.
    budget: u32,
    demux: Demux,
    /// CQEs that named no outstanding work request.
    skipped: u64,
    /// Of the device.
    health: Health,
}

/// A locked CQ.
pub struct Poller<'a> {
    state: MutexGuard<'a, CqState>,
}

impl Iterator for Poller<'_> {
    type Item = WorkCompletion;

    /// Takes the next completion. More may follow after `None`.
    #[inline]
    fn next(&mut self) -> Option<WorkCompletion> {
        self.state.next()
    }
}

impl CqState {
    #[inline]
    fn next(&mut self) -> Option<WorkCompletion> {
        let completion = self.next_written();
        if completion.is_none() && self.health.is_dead() {
            return self.next_of_dead_device();
        }
        completion
    }

    /// Flushes what the device had not completed before it died.
    #[cold]
    fn next_of_dead_device(&mut self) -> Option<WorkCompletion> {
        // The device may have written a CQE since the poll, and then died. While the ring is being
        // replaced, the driver cannot check that.
        let written = self.next_written();
        if written.is_some() || self.budget == 0 {
            return written;
        }
        let cqe = self.demux.flush_oldest()?;
        self.resolve(&cqe)
    }

    /// Takes the next completion that the device has written.
    #[inline]
    fn next_written(&mut self) -> Option<WorkCompletion> {
        // Bounds the loop for a device that writes garbage faster than it is skipped.
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

    /// Returns the work completion of a CQE, if it names an outstanding work request.
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
        let status = CompletionStatus::from(CqeStatus(word.status()));
        let mut vendor_error = 0;
        if status != CompletionStatus::Success {
            let detail = VendorError(word.vendor_error());
            vendor_error = self.personality.vendor_error(detail);
            status.explain(detail, vendor_error, wr_id, cqe.qpn);
        }
        Some(WorkCompletion {
            wr_id,
            status,
            vendor_error,
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

    /// Removes the entries for which `goes` returns true; the others keep their order. Slots in
    /// shared receive queues that the removed entries name become free.
    ///
    /// The device writes no more entries of that kind. Entries that it writes meanwhile come after
    /// the entries examined here.
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

/// Returns the base-2 logarithm of the size of a ring for `entries`.
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
    /// [`Error::NoResources`], and errors of the device.
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
            is_requested: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            on_event: config.on_event,
            on_error: config.on_error,
        });
        let number = device.create_cq(&context, &handlers)?;
        let state = CqState {
            personality: device.capabilities().personality,
            budget: ring.size(),
            rings: Arc::clone(&rings),
            consumer: 0,
            demux: Demux::default(),
            skipped: 0,
            health: device.health().clone(),
        };
        let cq = Arc::new(Self {
            device: Arc::clone(device),
            number,
            slot,
            rings,
            state: Mutex::new(state),
            control: Mutex::default(),
            handlers,
            doorbell_mark: Mutex::default(),
            users: UseCount::default(),
        });
        device.doorbell_checks().add(&cq);
        Ok(cq)
    }

    /// Returns the actual number of entries.
    pub fn entries(&self) -> u32 {
        self.rings.current().size()
    }

    /// Returns the CQ number.
    pub fn number(&self) -> Cqn {
        self.number
    }

    /// Returns the addresses of the entries in this process, valid until the CQ is resized: a
    /// thread that waits for a completion may watch them instead of polling.
    pub fn entry_addresses(&self) -> Range<usize> {
        self.rings.current().addresses()
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Takes up to `max` completions, calls `each` with them in order, and returns their number.
    /// After the end of the device it flushes the work requests that have no completion.
    ///
    /// On an empty poll, it runs the bus once ([`Bus::relax`](crate::bus::Bus::relax)) and polls
    /// again. `each` runs with the CQ locked.
    #[inline]
    pub fn poll(&self, max: usize, mut each: impl FnMut(WorkCompletion)) -> usize {
        if !self.rings.has_entry() {
            self.relax();
            if !self.rings.has_entry() && !self.device.is_dead() {
                return 0;
            }
        } else {
            self.note_poll();
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

    /// Returns true if the CQ has overrun or cannot be written: no more completions will come.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.handlers.has_failed.load(Ordering::Acquire)
    }

    /// Returns true if there is nothing to poll. Does not lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.rings.has_entry()
    }

    /// Returns the number of completions taken so far, free-running. Does not lock.
    pub fn taken(&self) -> u32 {
        self.rings.consumer()
    }

    /// Runs the bus. Call it after an empty poll, without the CQ locked.
    #[inline]
    pub fn relax(&self) {
        self.device.bus().relax();
    }

    /// Reports a poll that is not empty to the bus. [`Self::poll`] does this itself.
    #[inline]
    pub fn note_poll(&self) {
        self.device.bus().note_poll();
    }

    /// Requests one event for the next completion, or for one that is present and unpolled.
    pub fn arm(&self) {
        self.note_request();
        self.handlers.armed.store(true, Ordering::SeqCst);
        self.ring_doorbell(DoorbellKind::CQ_ARM);
    }

    /// Does the same as [`Self::arm`] for a completion that is solicited or failed.
    pub fn arm_solicited(&self) {
        self.note_request();
        // The stronger request stays in force until its event has come (IBTA vol 1, 11.4.2.2).
        let armed = &self.handlers.armed;
        if armed.load(Ordering::SeqCst) {
            return self.ring_doorbell(DoorbellKind::CQ_ARM);
        }
        self.ring_doorbell(DoorbellKind::CQ_ARM_SOLICITED);
        // Another thread may have requested any completion since, and the doorbell above may have
        // replaced its doorbell. Both threads have a full fence between their store and their load.
        fence(Ordering::SeqCst);
        if armed.load(Ordering::SeqCst) {
            self.ring_doorbell(DoorbellKind::CQ_ARM);
        }
    }

    fn note_request(&self) {
        self.handlers.requests.fetch_add(1, Ordering::Relaxed);
        self.handlers.is_requested.store(true, Ordering::Relaxed);
    }

    fn ring_doorbell(&self, kind: DoorbellKind) {
        // An older index, because another thread polls, makes the event come early, never late.
        let value = DoorbellValue::new(kind, self.number.0, self.rings.consumer());
        fence(Ordering::SeqCst);
        self.device.bus().doorbell(self.slot.number(), value.bits());
    }

    /// Returns the number of CQEs that the device has written and that named no outstanding work
    /// request.
    pub fn skipped(&self) -> u64 {
        self.state.lock().skipped
    }

    /// Resizes the CQ to at least `entries` entries. Waiting completions are kept; polls are empty
    /// while the device moves them.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if the device has no resize, [`Error::InvalidArgument`] for a size
    /// that it does not have, [`Error::NoResources`], [`Error::Destroyed`], and errors of the
    /// device: [`Error::Command`] when the waiting completions do not fit.
    pub fn resize(&self, entries: u32) -> Result<(), Error> {
        if !self.device.limits().features.cq_resize() {
            let what = "resizing a CQ";
            return Err(Error::NotSupported { what });
        }
        let log_size = log_size(&self.device, entries)?;
        let control = self.control.lock();
        if control.destroyed {
            return Err(Error::Destroyed);
        }
        // The command runs without the lock of the CQ, because event handlers run meanwhile and may
        // poll.
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

    /// Makes the device use a ring of another size.
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

    /// Sets event moderation: one event stands for up to `count` completions, and waits up to
    /// `period_us` for them. Zero: each completion has its event.
    ///
    /// # Errors
    ///
    /// Errors of the device, [`Error::Destroyed`].
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

    /// Destroys the CQ. Its handlers are no longer called, except for calls that have begun.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while QPs or shared receive queues use it, [`Error::Destroyed`], and errors
    /// of the device.
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

    /// Adds a user.
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

    /// Removes a QP and its entries. The device writes no more entries for it.
    pub(crate) fn remove_queue(&self, qpn: Qpn) {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        state.remove_entries(|_, cqe| cqe.qpn == qpn.0);
        state.demux.remove(qpn);
    }

    /// Removes the entries of a QP and discards its work requests. The device writes no more
    /// entries for it until it leaves RESET.
    pub(crate) fn reset_queue(&self, qpn: Qpn) {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        state.remove_entries(|_, cqe| cqe.qpn == qpn.0);
        state.demux.reset(qpn);
    }

    /// Returns the number of waiting CQEs of QPs whose receives come from the queue with these
    /// tags.
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

    /// Removes an XRC shared receive queue and its entries. The device writes no more entries for
    /// it.
    pub(crate) fn remove_shared(&self, srqn: Srqn) {
        let _no_resize = self.control.lock();
        let mut state = self.state.lock();
        state.remove_entries(|demux, cqe| demux.is_of_shared(cqe, srqn));
        state.demux.remove_shared(srqn);
    }
}

impl CheckDoorbells for CompletionQueue {
    /// If the device has not seen a request for an event, raises the event here: programs expect
    /// events without completions (`ibv_get_cq_event(3)`), and request the next one.
    fn check_doorbells(&self) -> Result<Doorbell, Error> {
        let handlers = &*self.handlers;
        let requests = handlers.requests.load(Ordering::Relaxed);
        let rests = self.doorbell_mark.lock().is_due(requests);
        if !rests || !handlers.is_requested.load(Ordering::Relaxed) {
            return Ok(Doorbell::NotAsked);
        }
        let is_armed = self.device.query_cq(self.number)?.armed != 0;
        let in_device = requests.wrapping_sub(u32::from(!is_armed));
        let mut mark = self.doorbell_mark.lock();
        let outcome = mark.compare(requests, in_device);
        if mark.lost_rings() < CHECKS_BEFORE_EVENT {
            return Ok(outcome);
        }
        drop(mark);
        tracing::warn!(cqn = self.number.0, "the doorbell that arms a CQ was lost");
        self.device.dispatch().completion(self.number.0);
        Ok(outcome)
    }
}

impl PolledQueue for CompletionQueue {
    fn number(&self) -> Cqn {
        self.number
    }

    fn is_empty(&self) -> bool {
        !self.rings.has_entry()
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
