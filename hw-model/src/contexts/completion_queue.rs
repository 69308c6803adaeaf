//! Completion queues: CQE writer, overrun check, arming.

use ferroce_spec::context::CqContext;
use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::{Cqe, CqeStatus, owner_at};
use ferroce_spec::eqe::EventType;
use ferroce_units::{Duration, Instant};

use crate::cache::Cache;
use crate::config::CacheShape;
use crate::contexts::completion_resize::{ModifyError, move_entries};
use crate::contexts::timers::Timers;
use crate::dma::Dma;
use crate::host_interface::event_queue::{ASYNC_EQN, Event};
use crate::limits::LOG_MAX_RING;
use crate::numbering::{CreateError, FreeNumbers};
use crate::ports::host::{DmaError, Host};

/// `CqContext.state`: overrun or DMA error; nothing more is written.
const STATE_ERROR: u8 = 1;
/// `CqContext.armed`: any CQE raises the event.
const ARMED_ANY: u8 = 1;
/// `CqContext.armed`: a solicited or failed CQE raises the event.
const ARMED_SOLICITED: u8 = 2;

/// A CQE for a completion queue; the queue sets index, time stamp and owner bit.
#[derive(Debug, Clone, Copy)]
pub struct CompletionEntry {
    /// Completion queue.
    pub cqn: u32,
    /// The entry.
    pub cqe: Cqe,
    /// When the host sees the data that was written for it before.
    pub after: Instant,
}

/// All completion queues: a cache in front of the CQ context table.
#[derive(Debug)]
pub struct CompletionQueues {
    cache: Cache<CqContext>,
    created: Vec<bool>,
    free: FreeNumbers,
    /// Events that wait for more CQEs (moderation), by CQN.
    moderated: Timers,
}

impl CompletionQueues {
    /// Returns the number of miss registers, and the total time for which they were in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.cache.miss_registers()
    }

    /// Returns a table without queues.
    pub fn new(shape: CacheShape) -> Self {
        let cache = Cache::new(shape, Counter::cqc_hits, Counter::cqc_misses);
        Self {
            cache,
            created: Vec::new(),
            free: FreeNumbers::default(),
            moderated: Timers::default(),
        }
    }

    /// Sets the address of the table to `base` and its size to `1 << log_entries` entries.
    pub fn reset(&mut self, base: u64, log_entries: u8) {
        self.cache.reset(base);
        let entries = if base == 0 { 0 } else { 1u32 << log_entries };
        self.created = vec![false; entries as usize];
        self.free = FreeNumbers::new(0..entries, 0..entries);
        self.moderated = Timers::new(entries as usize);
    }

    /// Creates a queue with the number that software has chosen, or with the last number that was
    /// freed; returns its number.
    pub fn create<H: Host>(
        &mut self,
        context: CqContext,
        chosen: Option<u32>,
        dma: &mut Dma<'_, H>,
    ) -> Result<u32, CreateError> {
        let cqn = self.free.take(chosen)?;
        let fresh = CqContext {
            base: context.base,
            consumer_record: context.consumer_record,
            log_size: context.log_size,
            eqn: context.eqn,
            doorbell_slot: context.doorbell_slot,
            moderation_count: context.moderation_count,
            moderation_us: context.moderation_us,
            ..CqContext::default()
        };
        if let Err(error) = self.cache.store(cqn, fresh, dma) {
            self.free.put_first(cqn);
            return Err(error.into());
        }
        self.created[cqn as usize] = true;
        Ok(cqn)
    }

    /// Returns true if queue `cqn` exists.
    pub fn exists(&self, cqn: u32) -> bool {
        self.created.get(cqn as usize).copied().unwrap_or(false)
    }

    /// Returns the context of an existing queue, to read or change it.
    #[inline]
    pub fn get_mut<H: Host>(
        &mut self,
        cqn: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<&mut CqContext, DmaError> {
        checked(self.cache.get_mut(cqn, dma)?)
    }

    /// Returns the number of CQEs that software has not taken yet, over all queues whose contexts
    /// are cached. `read_record` reads a consumer record.
    pub fn entries_waiting(&self, mut read_record: impl FnMut(u64) -> Option<u32>) -> u64 {
        let count = self.created.len() - self.free.count();
        let created = (0u32..).zip(&self.created).filter(|(_, created)| **created);
        let contexts = created
            .take(count)
            .filter_map(|(cqn, _)| self.cache.peek(cqn));
        contexts
            .map(|cq| {
                let consumer = read_record(cq.consumer_record).unwrap_or(cq.consumer);
                u64::from(cq.producer.wrapping_sub(consumer))
            })
            .sum()
    }

    /// Records that a QP or SRQ uses an existing queue.
    pub fn add_user<H: Host>(&mut self, cqn: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        let cq = self.get_mut(cqn, dma)?;
        cq.users = cq.users.saturating_add(1);
        Ok(())
    }

    /// Records that a QP or SRQ no longer uses queue `cqn`. The queue need not exist: the number
    /// may come from a context in host memory.
    pub fn remove_user<H: Host>(&mut self, cqn: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        if !self.exists(cqn) {
            return Ok(());
        }
        let cq = self.get_mut(cqn, dma)?;
        cq.users = cq.users.saturating_sub(1);
        Ok(())
    }

    /// Destroys an existing queue.
    pub fn destroy(&mut self, cqn: u32) {
        self.cache.invalidate(cqn);
        self.created[cqn as usize] = false;
        self.moderated.set(cqn, None);
        self.free.put_first(cqn);
    }

    /// Writes a CQE; returns the event that it raises.
    #[inline]
    pub fn write<H: Host>(
        &mut self,
        entry: &CompletionEntry,
        now: Instant,
        dma: &mut Dma<'_, H>,
    ) -> Option<Event> {
        let cqn = entry.cqn;
        if !self.exists(cqn) {
            return None;
        }
        // A context that cannot be read is treated like a queue that cannot be written.
        let Ok(cq) = self.cache.get_mut(cqn, dma).and_then(checked) else {
            return Some(Event::new(ASYNC_EQN, EventType::CQ_ERROR, cqn));
        };
        if cq.state == STATE_ERROR {
            return None;
        }
        if write_entry(cq, entry.cqe, now.as_ns(), dma).is_err() {
            cq.state = STATE_ERROR;
            dma.counters.add(Counter::cq_overruns, 1);
            return Some(Event::new(ASYNC_EQN, EventType::CQ_ERROR, cqn));
        }
        let urgent = entry.cqe.word.solicited() || entry.cqe.word.status() != CqeStatus::SUCCESS.0;
        if urgent {
            cq.solicited_producer = cq.producer;
        }
        let fires = cq.armed == ARMED_ANY || (cq.armed == ARMED_SOLICITED && urgent);
        if !is_moderated(cq) {
            return fires.then(|| completion_event(cq, cqn));
        }
        if fires || self.moderated.is_set(cqn) {
            moderate(&mut self.moderated, cq, cqn, now)
        } else {
            None
        }
    }

    /// Returns the time at which the next moderated event is due.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.moderated.next()
    }

    /// Takes a queue whose event has waited long enough for further CQEs.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        self.moderated.pop_due(now)
    }

    /// Returns the event of a queue that [`CompletionQueues::pop_due`] has returned.
    pub fn expire<H: Host>(&mut self, cqn: u32, dma: &mut Dma<'_, H>) -> Option<Event> {
        match self.get_mut(cqn, dma) {
            // The event may have been raised meanwhile because moderation was switched off.
            Ok(cq) if cq.armed == 0 || cq.producer == cq.notified_producer => None,
            Ok(cq) => Some(completion_event(cq, cqn)),
            Err(_) => Some(Event::new(ASYNC_EQN, EventType::CQ_ERROR, cqn)),
        }
    }

    /// Handles an arm doorbell; returns the event that is due immediately.
    pub fn arm<H: Host>(
        &mut self,
        now: Instant,
        cqn: u32,
        slot: u32,
        consumer: u32,
        solicited_only: bool,
        dma: &mut Dma<'_, H>,
    ) -> Result<Option<Event>, ArmError> {
        if !self.exists(cqn) {
            return Err(ArmError);
        }
        let cq = self.cache.get_mut(cqn, dma).and_then(checked);
        let cq = cq.map_err(|_| ArmError)?;
        if cq.doorbell_slot != slot {
            return Err(ArmError);
        }
        cq.consumer = consumer;
        cq.armed = if solicited_only {
            ARMED_SOLICITED
        } else {
            ARMED_ANY
        };
        let newest = if solicited_only {
            cq.solicited_producer
        } else {
            cq.producer
        };
        // Fires immediately if there is a CQE that software has not taken and no event has
        // announced.
        let behind = |index: u32| newest.wrapping_sub(index) as i32 > 0;
        let waiting = behind(consumer) && behind(cq.notified_producer);
        // CQEs that were taken without an event no longer need one; moderation does not count them.
        if consumer.wrapping_sub(cq.notified_producer) as i32 > 0 {
            cq.notified_producer = consumer;
        }
        Ok(match (waiting, is_moderated(cq)) {
            (false, _) => {
                self.moderated.set(cqn, None);
                None
            }
            (true, false) => Some(completion_event(cq, cqn)),
            (true, true) => moderate(&mut self.moderated, cq, cqn, now),
        })
    }

    /// Changes the ring and the moderation of an existing queue.
    ///
    /// CQEs that software has not taken move to the new ring; the old ring is not accessed any
    /// more. The consumer record stays at its address. The rest of the new ring is initialised as
    /// empty, because on an odd lap a zeroed entry would look valid.
    pub fn modify<H: Host>(
        &mut self,
        cqn: u32,
        input: &CqContext,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ModifyError> {
        let cq = self.get_mut(cqn, dma)?;
        if input.base != 0 {
            if cq.state == STATE_ERROR {
                return Err(ModifyError::Failed);
            }
            let waiting = cq.producer.wrapping_sub(input.consumer);
            if waiting > 1 << cq.log_size || waiting > 1 << input.log_size {
                return Err(ModifyError::DoesNotFit);
            }
            move_entries(cq, input, dma)?;
            cq.base = input.base;
            cq.log_size = input.log_size;
            cq.consumer = input.consumer;
        }
        cq.moderation_count = input.moderation_count;
        cq.moderation_us = input.moderation_us;
        Ok(())
    }
}

/// Checks a context. A context that software has overwritten with invalid values counts as
/// unreadable.
#[inline]
fn checked(cq: &mut CqContext) -> Result<&mut CqContext, DmaError> {
    if cq.log_size > LOG_MAX_RING {
        let (iova, length) = (cq.base, CqContext::SIZE);
        return Err(DmaError::refused(iova, length));
    }
    Ok(cq)
}

/// The arm doorbell does not belong to its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmError;

/// Returns true if events of this queue are moderated.
#[inline]
fn is_moderated(cq: &CqContext) -> bool {
    cq.moderation_count > 1 && cq.moderation_us != 0
}

/// Raises a requested event if it covers enough CQEs, otherwise sets a timer for it.
fn moderate(timers: &mut Timers, cq: &mut CqContext, cqn: u32, now: Instant) -> Option<Event> {
    let stands_for = cq.producer.wrapping_sub(cq.notified_producer);
    if stands_for >= u32::from(cq.moderation_count) {
        timers.set(cqn, None);
        return Some(completion_event(cq, cqn));
    }
    if !timers.is_set(cqn) {
        let deadline = now + Duration::from_us(u64::from(cq.moderation_us));
        timers.set(cqn, Some(deadline));
    }
    None
}

/// The CQE could not be written.
struct WriteError;

impl From<DmaError> for WriteError {
    fn from(_: DmaError) -> Self {
        WriteError
    }
}

fn write_entry<H: Host>(
    cq: &mut CqContext,
    mut cqe: Cqe,
    clock_ns: u64,
    dma: &mut Dma<'_, H>,
) -> Result<(), WriteError> {
    let size = 1u32 << cq.log_size;
    if cq.producer.wrapping_sub(cq.consumer) >= size {
        // A card checks for room in advance, long before the ring is full: the CQE does not wait
        // for this.
        let at = dma.at;
        cq.consumer = dma.read_value::<u32>(cq.consumer_record)?;
        dma.at = at;
        if cq.producer.wrapping_sub(cq.consumer) >= size {
            return Err(WriteError);
        }
    }
    cqe.timestamp = clock_ns;
    cqe.word
        .set_owner(owner_at(cq.producer, u32::from(cq.log_size)));
    let slot = u64::from(cq.producer & (size - 1));
    dma.write_descriptor(cq.base.wrapping_add(slot * Cqe::SIZE as u64), &cqe)?;
    cq.producer = cq.producer.wrapping_add(1);
    dma.counters.add(Counter::cqes, 1);
    Ok(())
}

fn completion_event(cq: &mut CqContext, cqn: u32) -> Event {
    cq.armed = 0;
    cq.notified_producer = cq.producer;
    Event::new(cq.eqn, EventType::COMPLETION, cqn)
}
