//! Event queues: drains the rings and dispatches events to their handlers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use ferroce_spec::context::EqContext;
use ferroce_spec::cqe::owner_at;
use ferroce_spec::eqe::{Eqe, EqeWord, EventType};
use ferroce_spec::register::EventQueueDoorbell;
use parking_lot::Mutex;

use crate::bus::{Bus, BusError};
use crate::control::health::Health;
use crate::control::mmio;
use crate::control::page_fault::PageFaults;
use crate::dma::{DmaBuffer, DmaSpace};
use crate::error::Error;
use crate::identifier::{Cqn, Qpn, Srqn};

/// Number of times that one interrupt re-checks its event queue after arming it. Later events raise
/// another interrupt.
const MAX_DRAIN_ROUNDS: u32 = 4;
/// Interrupts that one call of the handler serves when others arrive meanwhile on other threads.
const MAX_INTERRUPTS_SERVED: u32 = 1024;
/// An EQE is two words: number and sequence, page and [`EqeWord`].
const WORDS_PER_EQE: usize = Eqe::SIZE / 8;

const _: () = assert!(WORDS_PER_EQE == 2 && offset_of!(Eqe, number) == 0);
const _: () = assert!(offset_of!(Eqe, word) == 12);

/// An event that no work completion reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A QP went to the error state for a local reason.
    QpFatal(Qpn),
    /// A QP went to the error state because of an invalid request.
    QpRequestError(Qpn),
    /// A QP went to the error state because of a protection error.
    QpAccessError(Qpn),
    /// The first packet arrived while the QP was in RTR.
    CommunicationEstablished(Qpn),
    /// The send queue has drained in SQD.
    SqDrained(Qpn),
    /// The QP in error has taken its last WQE from the shared receive queue.
    LastWqeReached(Qpn),
    /// A CQ has overrun or could not be written.
    CqError(Cqn),
    /// A shared receive queue has fewer entries left than its limit; the limit is now off.
    SrqLimit(Srqn),
    /// A shared receive queue failed.
    SrqError(Srqn),
    /// The port came up.
    PortActive,
    /// The port went down.
    PortError,
    /// The host has set or cleared this entry of the GID table.
    GidChange(u16),
    /// The device has stopped.
    DeviceFatal,
}

/// Called with each asynchronous event, under the conditions of
/// [`InterruptHandler`](crate::bus::InterruptHandler). It must not issue commands and not post.
pub type AsyncEventHandler = Arc<dyn Fn(AsyncEvent) + Send + Sync>;

/// Called on an event of a CQ, under the same conditions; it may poll and arm CQs.
pub type CqHandler = Arc<dyn Fn() + Send + Sync>;

/// Handlers of a CQ, and its armed state.
pub(crate) struct CqHandlers {
    /// True if the CQ is armed for any completion, and the event has not come yet.
    pub(crate) armed: AtomicBool,
    /// True if an event was requested, for any or for a solicited completion, and has not come yet.
    pub(crate) is_requested: AtomicBool,
    /// True if the CQ has overrun or cannot be written.
    pub(crate) has_failed: AtomicBool,
    /// Requests for events so far.
    pub(crate) requests: AtomicU32,
    pub(crate) on_event: Option<CqHandler>,
    pub(crate) on_error: Option<CqHandler>,
}

/// Maps numbers in EQEs to handlers.
pub(crate) struct Dispatch {
    health: Health,
    page_faults: PageFaults,
    cqs: Mutex<BTreeMap<u32, Arc<CqHandlers>>>,
    qps: Mutex<BTreeSet<u32>>,
    srqs: Mutex<BTreeSet<u32>>,
    on_async: Mutex<Option<AsyncEventHandler>>,
    /// True if the end of the device has been reported.
    end_is_reported: AtomicBool,
    /// Events that name no object of this driver, or are unknown.
    skipped: AtomicU64,
}

impl Dispatch {
    pub(crate) fn new(health: &Health, bus: &Arc<dyn Bus>) -> Arc<Self> {
        Arc::new(Self {
            health: health.clone(),
            page_faults: PageFaults::new(bus),
            cqs: Mutex::default(),
            qps: Mutex::default(),
            srqs: Mutex::default(),
            on_async: Mutex::default(),
            end_is_reported: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
        })
    }

    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) fn page_faults(&self) -> &PageFaults {
        &self.page_faults
    }

    pub(crate) fn set_async_handler(&self, handler: Option<AsyncEventHandler>) {
        *self.on_async.lock() = handler;
    }

    /// Adds a CQ; returns true if the number was free.
    pub(crate) fn add_cq(&self, number: Cqn, handlers: &Arc<CqHandlers>) -> bool {
        let mut cqs = self.cqs.lock();
        if cqs.contains_key(&number.0) {
            return false;
        }
        cqs.insert(number.0, Arc::clone(handlers));
        true
    }

    pub(crate) fn remove_cq(&self, number: Cqn) {
        self.cqs.lock().remove(&number.0);
    }

    /// Adds a QP; returns true if the number was free.
    pub(crate) fn add_qp(&self, number: Qpn) -> bool {
        self.qps.lock().insert(number.0)
    }

    pub(crate) fn remove_qp(&self, number: Qpn) {
        self.qps.lock().remove(&number.0);
    }

    /// Adds a shared receive queue; returns true if the number was free.
    pub(crate) fn add_srq(&self, number: Srqn) -> bool {
        self.srqs.lock().insert(number.0)
    }

    pub(crate) fn remove_srq(&self, number: Srqn) {
        self.srqs.lock().remove(&number.0);
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Calls the handler of one event. No lock is held during the call.
    fn dispatch(&self, event: EventType, number: u32, page: u32) {
        let known = match event {
            EventType::PAGE_FAULT => {
                self.page_faults.serve(number, page);
                true
            }
            EventType::COMPLETION => self.completion(number),
            EventType::CQ_ERROR => self.cq_error(number),
            EventType::DEVICE_FATAL => {
                self.device_gone();
                true
            }
            _ => match self.async_event(event, number) {
                Some(event) => {
                    self.call_async(event);
                    true
                }
                None => false,
            },
        };
        if !known {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(?event, number, "event skipped");
        }
    }

    fn cq(&self, number: u32) -> Option<Arc<CqHandlers>> {
        self.cqs.lock().get(&number).cloned()
    }

    /// Calls the handler of an event of a CQ. Returns false if there is no such CQ.
    pub(crate) fn completion(&self, number: u32) -> bool {
        let Some(handlers) = self.cq(number) else {
            return false;
        };
        handlers.armed.store(false, Ordering::Release);
        handlers.is_requested.store(false, Ordering::Release);
        if let Some(on_event) = &handlers.on_event {
            on_event();
        }
        true
    }

    fn cq_error(&self, number: u32) -> bool {
        let Some(handlers) = self.cq(number) else {
            return false;
        };
        handlers.has_failed.store(true, Ordering::Release);
        if let Some(on_error) = &handlers.on_error {
            on_error();
        }
        self.call_async(AsyncEvent::CqError(Cqn(number)));
        // Threads that wait for completions, which will not come, wake up.
        self.completion(number)
    }

    fn async_event(&self, event: EventType, number: u32) -> Option<AsyncEvent> {
        let qpn = || self.qps.lock().contains(&number).then_some(Qpn(number));
        let srqn = || self.srqs.lock().contains(&number).then_some(Srqn(number));
        Some(match event {
            EventType::QP_FATAL => AsyncEvent::QpFatal(qpn()?),
            EventType::QP_REQUEST_ERROR => AsyncEvent::QpRequestError(qpn()?),
            EventType::QP_ACCESS_ERROR => AsyncEvent::QpAccessError(qpn()?),
            EventType::COMMUNICATION_ESTABLISHED => AsyncEvent::CommunicationEstablished(qpn()?),
            EventType::SEND_QUEUE_DRAINED => AsyncEvent::SqDrained(qpn()?),
            EventType::LAST_WQE_REACHED => AsyncEvent::LastWqeReached(qpn()?),
            EventType::SRQ_LIMIT => AsyncEvent::SrqLimit(srqn()?),
            EventType::SRQ_ERROR => AsyncEvent::SrqError(srqn()?),
            EventType::PORT_ACTIVE => AsyncEvent::PortActive,
            EventType::PORT_ERROR => AsyncEvent::PortError,
            EventType::GID_CHANGE => AsyncEvent::GidChange(u16::try_from(number).ok()?),
            _ => return None,
        })
    }

    /// Marks the device as dead. Reports that once, and wakes all threads that wait for
    /// completions, which will not come.
    pub(crate) fn device_gone(&self) {
        self.health.mark_dead();
        if self.end_is_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        self.call_async(AsyncEvent::DeviceFatal);
        let cqs: Vec<u32> = self.cqs.lock().keys().copied().collect();
        for number in cqs {
            self.completion(number);
        }
    }

    fn call_async(&self, event: AsyncEvent) {
        let handler = self.on_async.lock().clone();
        if let Some(handler) = handler {
            handler(event);
        }
    }
}

thread_local! {
    /// Event queues interrupted from inside, while this thread serves event queues.
    static DEFERRED: RefCell<Option<Vec<Arc<EventQueue>>>> = const { RefCell::new(None) };
}

/// Marks that this thread serves event queues, until it is dropped.
struct Serving;

impl Serving {
    /// Defers the queue when this thread is already serving; otherwise marks the thread as serving.
    /// (A thread that is ending and has no thread-local storage serves inner calls at once.)
    fn defer(queue: &Arc<EventQueue>) -> bool {
        let deferred = DEFERRED.try_with(|deferred| match &mut *deferred.borrow_mut() {
            Some(queues) => {
                if !queues.iter().any(|other| Arc::ptr_eq(other, queue)) {
                    queues.push(Arc::clone(queue));
                }
                true
            }
            deferred => {
                *deferred = Some(Vec::new());
                false
            }
        });
        deferred.unwrap_or(false)
    }

    fn take_deferred(&self) -> Option<Arc<EventQueue>> {
        let next = DEFERRED.try_with(|deferred| deferred.borrow_mut().as_mut()?.pop());
        next.ok().flatten()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        DEFERRED.try_with(|deferred| deferred.take()).ok();
    }
}

/// One event queue.
pub(crate) struct EventQueue {
    number: u16,
    bus: Arc<dyn Bus>,
    buffer: DmaBuffer,
    log_size: u32,
    dispatch: Arc<Dispatch>,
    /// True if an interrupt has come and is not being served yet.
    requested: AtomicBool,
    /// Index of an event that waited at the last check of the device.
    waiting: Mutex<Option<u32>>,
    /// Consumer index. The holder of the lock serves the queue. Other threads only try the lock, so
    /// that a handler that gets here again cannot deadlock.
    consumer: Mutex<u32>,
}

impl EventQueue {
    pub(crate) fn new(
        number: u16,
        log_size: u32,
        bus: &Arc<dyn Bus>,
        space: &Arc<DmaSpace>,
        dispatch: &Arc<Dispatch>,
    ) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            number,
            bus: Arc::clone(bus),
            buffer: DmaBuffer::new(space, Eqe::SIZE << log_size)?,
            log_size,
            dispatch: Arc::clone(dispatch),
            requested: AtomicBool::new(false),
            waiting: Mutex::new(None),
            consumer: Mutex::new(0),
        }))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the context for creating this queue on the device.
    pub(crate) fn context(&self) -> EqContext {
        EqContext {
            base: self.buffer.iova(),
            log_size: self.log_size as u8,
            vector: self.number,
            ..EqContext::default()
        }
    }

    /// Connects the interrupt and arms the queue.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), BusError> {
        let queue = Arc::clone(self);
        let handler = Arc::new(move || queue.interrupt());
        self.bus.set_interrupt_handler(self.number, Some(handler))?;
        self.arm(0);
        Ok(())
    }

    /// Disconnects the interrupt.
    pub(crate) fn stop(&self) {
        if let Err(error) = self.bus.set_interrupt_handler(self.number, None) {
            tracing::debug!(vector = self.number, %error, "cannot clear interrupt handler");
        }
    }

    /// Serves the queue, or leaves it to the thread that is doing so.
    ///
    /// A bus may call this from inside a register write or a doorbell, so from inside itself. An
    /// inner call only defers the queue; the outermost call on the thread serves it, so that the
    /// stack stays flat and queues do not multiply each other's work.
    fn interrupt(self: &Arc<Self>) {
        self.requested.store(true, Ordering::SeqCst);
        if Serving::defer(self) {
            return;
        }
        let serving = Serving;
        let mut budget = MAX_INTERRUPTS_SERVED;
        let mut next = Some(Arc::clone(self));
        while let Some(queue) = next {
            queue.serve_requests(&mut budget);
            next = serving.take_deferred();
        }
        if budget == 0 {
            tracing::warn!(vector = self.number, "interrupts without end");
        }
        // Events that the device reported before it was gone were served above.
        if self.bus.is_gone() {
            self.dispatch.device_gone();
        }
    }

    /// Serves an event that has waited since the last call: its interrupt was lost, because the
    /// device interrupts only once for events that are not consumed.
    pub(crate) fn recover_interrupt(self: &Arc<Self>) {
        // A queue that is being served has an interrupt.
        let Some(consumer) = self.consumer.try_lock().map(|consumer| *consumer) else {
            return;
        };
        let waiting = self.peek(consumer).map(|_| consumer);
        let waited = std::mem::replace(&mut *self.waiting.lock(), waiting);
        if waiting.is_some() && waiting == waited {
            tracing::warn!(vector = self.number, "an interrupt was lost");
            self.interrupt();
        }
    }

    fn serve_requests(&self, budget: &mut u32) {
        while *budget > 0 {
            // Either the try_lock below sees the lock free, or its holder sees `requested` in its
            // next iteration: both sides have a full fence between their store and their load.
            fence(Ordering::SeqCst);
            if !self.requested.load(Ordering::SeqCst) {
                return;
            }
            let Some(mut consumer) = self.consumer.try_lock() else {
                return;
            };
            self.requested.store(false, Ordering::SeqCst);
            self.serve(&mut consumer);
            *budget -= 1;
        }
    }

    fn serve(&self, consumer: &mut u32) {
        for _ in 0..MAX_DRAIN_ROUNDS {
            self.drain(consumer);
            self.arm(*consumer);
            if self.peek(*consumer).is_none() {
                return;
            }
        }
    }

    /// Dispatches the events in the ring, at most one lap.
    fn drain(&self, consumer: &mut u32) {
        for _ in 0..1u32 << self.log_size {
            let Some((event, number, page)) = self.peek(*consumer) else {
                return;
            };
            *consumer = consumer.wrapping_add(1);
            self.dispatch.dispatch(event, number, page);
        }
    }

    /// Returns the event at `index`, with number and page, if the device has written it.
    fn peek(&self, index: u32) -> Option<(EventType, u32, u32)> {
        let place = (index as usize & ((1 << self.log_size) - 1)) * WORDS_PER_EQE;
        let words = &self.buffer.words()[place..][..WORDS_PER_EQE];
        let last = words[1].load(Ordering::Acquire);
        let word = EqeWord::from_bits((last >> 32) as u32);
        if word.owner() != owner_at(index, self.log_size) {
            return None;
        }
        let number = words[0].load(Ordering::Relaxed) as u32;
        Some((EventType(word.event()), number, last as u32))
    }

    fn arm(&self, consumer: u32) {
        let Some(register) = mmio::EVENT_QUEUE_DOORBELL.element(self.number) else {
            return;
        };
        let mut doorbell = EventQueueDoorbell::default();
        doorbell.set_consumer_index(consumer & 0xff_ffff);
        doorbell.set_arm(true);
        register.write(&*self.bus, doorbell);
    }
}
