//! Shared receive queues: contexts, rings, and the WQEs that queue pairs take.

use std::collections::VecDeque;

use ferroce_spec::context::SrqContext;
use ferroce_spec::counter::Counter;
use ferroce_spec::wqe::{DataSegment, LOG_MAX_SHARED_RECEIVE_STRIDE, SharedReceiveSegment};
use ferroce_units::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

use crate::cache::Cache;
use crate::config::CacheShape;
use crate::contexts::work_queue::{ReceiveFetch, SharedOrigin, is_next};
use crate::dma::Dma;
use crate::limits::LOG_MAX_RING;
use crate::numbering::{CreateError, FreeNumbers};
use crate::ports::host::{DmaError, Host};
use crate::wqe::scatter_list::ScatterList;

/// Base-2 logarithms of the stride: the head and at least one data segment.
pub const LOG_STRIDES: core::ops::RangeInclusive<u8> = 5..=LOG_MAX_SHARED_RECEIVE_STRIDE;

/// State of an entry of the SRQ context table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Slot {
    /// No queue.
    #[default]
    Free,
    /// A queue that works.
    Live,
    /// A queue whose ring or context could not be read: no more WQEs are taken from it.
    Failed,
}

/// Reason why no WQE was taken from a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeError {
    /// It has no entry.
    Empty,
    /// It has just failed: the caller raises the event.
    Failed,
    /// It failed before or does not exist.
    Unusable,
}

/// A WQE that was taken, and its side effects.
#[derive(Debug)]
pub struct Taken {
    /// Its source.
    pub shared: SharedOrigin,
    /// Its buffers.
    pub list: ScatterList,
    /// Fewer entries than the limit are left, for the first time since the limit was set.
    pub reached_limit: bool,
}

/// A prefetched entry.
#[derive(Debug)]
struct Fetched {
    tag: u32,
    list: ScatterList,
    /// When it arrives from host memory.
    ready: Instant,
}

/// All shared receive queues: a cache in front of the SRQ context table.
#[derive(Debug)]
pub struct SharedReceiveQueues {
    cache: Cache<SrqContext>,
    slots: Vec<Slot>,
    /// By SRQN: entries from the consumer index on.
    fetched: Vec<VecDeque<Fetched>>,
    free: FreeNumbers,
}

impl SharedReceiveQueues {
    /// Returns the number of miss registers, and the total time for which they were in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.cache.miss_registers()
    }

    /// Returns a table without queues.
    pub fn new(shape: CacheShape) -> Self {
        Self {
            cache: Cache::new(shape, Counter::srqc_hits, Counter::srqc_misses),
            slots: Vec::new(),
            fetched: Vec::new(),
            free: FreeNumbers::default(),
        }
    }

    /// Sets the address of the table to `base` and its size to `1 << log_entries` entries.
    pub fn reset(&mut self, base: u64, log_entries: u8) {
        self.cache.reset(base);
        let entries = if base == 0 { 0 } else { 1u32 << log_entries };
        self.slots = vec![Slot::Free; entries as usize];
        self.fetched.clear();
        self.fetched.resize_with(entries as usize, VecDeque::new);
        // SRQN 0 is never allocated: it means "none" in fields that may name a queue.
        self.free = FreeNumbers::new(1..entries, 1..entries);
    }

    /// Creates a queue with the number that software has chosen, or with the last number that was
    /// freed; returns its number.
    pub fn create<H: Host>(
        &mut self,
        context: &SrqContext,
        chosen: Option<u32>,
        dma: &mut Dma<'_, H>,
    ) -> Result<u32, CreateError> {
        let srqn = self.free.take(chosen)?;
        let fresh = SrqContext {
            producer: 0,
            consumer: 0,
            users: 0,
            ..*context
        };
        if let Err(error) = self.cache.store(srqn, fresh, dma) {
            self.free.put_first(srqn);
            return Err(error.into());
        }
        self.slots[srqn as usize] = Slot::Live;
        Ok(srqn)
    }

    /// Returns true if queue `srqn` exists.
    pub fn exists(&self, srqn: u32) -> bool {
        self.slots
            .get(srqn as usize)
            .is_some_and(|slot| *slot != Slot::Free)
    }

    /// Returns the context of an existing queue, to read or change it.
    pub fn get_mut<H: Host>(
        &mut self,
        srqn: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<&mut SrqContext, DmaError> {
        checked(self.cache.get_mut(srqn, dma)?)
    }

    /// Records that a QP uses an existing queue.
    pub fn add_user<H: Host>(&mut self, srqn: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        let srq = self.get_mut(srqn, dma)?;
        srq.users = srq.users.saturating_add(1);
        Ok(())
    }

    /// Records that a QP no longer uses an existing queue.
    pub fn remove_user<H: Host>(
        &mut self,
        srqn: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), DmaError> {
        let srq = self.get_mut(srqn, dma)?;
        srq.users = srq.users.saturating_sub(1);
        Ok(())
    }

    /// Returns the queue that an XRC request names, if target QPs of `xrcd` may use it.
    pub fn of_domain<H: Host>(
        &mut self,
        srqn: u32,
        xrcd: u32,
        dma: &mut Dma<'_, H>,
    ) -> Option<&SrqContext> {
        if !self.exists(srqn) {
            return None;
        }
        let context = self.cache.get(srqn, dma).ok()?;
        (xrcd != 0 && context.xrcd == xrcd).then_some(context)
    }

    /// Destroys an existing queue.
    pub fn destroy(&mut self, srqn: u32) {
        self.cache.invalidate(srqn);
        self.slots[srqn as usize] = Slot::Free;
        self.fetched[srqn as usize].clear();
        self.free.put_first(srqn);
    }

    /// Handles a doorbell: sets the new producer index; `None`: it does not belong to the queue.
    pub fn ring<H: Host>(
        &mut self,
        srqn: u32,
        doorbell_slot: u32,
        producer: u32,
        dma: &mut Dma<'_, H>,
    ) -> Option<()> {
        if !self.exists(srqn) {
            return None;
        }
        let srq = self.get_mut(srqn, dma).ok()?;
        let fits = is_next(producer, srq.producer, srq.consumer, srq.log_size);
        if srq.doorbell_slot != doorbell_slot || !fits {
            return None;
        }
        srq.producer = producer;
        Some(())
    }

    /// Takes the next WQE, fetching WQEs according to `policy`. Its slot in the ring is free from
    /// then on.
    pub fn take<H: Host>(
        &mut self,
        srqn: u32,
        policy: ReceiveFetch,
        dma: &mut Dma<'_, H>,
    ) -> Result<Taken, TakeError> {
        if self.slots.get(srqn as usize) != Some(&Slot::Live) {
            return Err(TakeError::Unusable);
        }
        let fetched = &mut self.fetched[srqn as usize];
        match take_entry(&mut self.cache, srqn, fetched, policy, dma) {
            Ok(Some(taken)) => Ok(taken),
            Ok(None) => Err(TakeError::Empty),
            Err(_) => {
                self.slots[srqn as usize] = Slot::Failed;
                Err(TakeError::Failed)
            }
        }
    }
}

/// Checks a context. A context that software has overwritten with invalid values counts as
/// unreadable.
fn checked(srq: &mut SrqContext) -> Result<&mut SrqContext, DmaError> {
    let stride_fits = LOG_STRIDES.contains(&srq.log_stride);
    if srq.log_size > LOG_MAX_RING || !stride_fits {
        let (iova, length) = (srq.base, SrqContext::SIZE);
        return Err(DmaError::refused(iova, length));
    }
    Ok(srq)
}

fn take_entry<H: Host>(
    cache: &mut Cache<SrqContext>,
    srqn: u32,
    fetched: &mut VecDeque<Fetched>,
    policy: ReceiveFetch,
    dma: &mut Dma<'_, H>,
) -> Result<Option<Taken>, DmaError> {
    let srq = checked(cache.get_mut(srqn, dma)?)?;
    let left = srq.producer.wrapping_sub(srq.consumer);
    if left == 0 {
        return Ok(None);
    }
    let counter = if fetched.is_empty() {
        Counter::receive_wqe_misses
    } else {
        Counter::receive_wqe_hits
    };
    if fetched.is_empty() {
        fetch(srq, fetched, policy.batch, dma)?;
    }
    let Some(entry) = fetched.pop_front() else {
        return Ok(None);
    };
    dma.counters.add(counter, 1);
    dma.at = dma.at.max(entry.ready);
    srq.consumer = srq.consumer.wrapping_add(1);
    if fetched.len() < policy.ahead as usize {
        // A prefetch: no packet waits for these WQEs. If the read fails, the packet that needs them
        // fails.
        let at = dma.at;
        let _ = fetch(srq, fetched, policy.batch, dma);
        dma.at = at;
    }
    let reached_limit = left - 1 < u32::from(srq.limit);
    if reached_limit {
        srq.limit = 0;
    }
    let Fetched { tag, list, .. } = entry;
    let shared = SharedOrigin {
        srqn,
        tag,
        pd: srq.pd,
        cqn: (srq.xrcd != 0).then_some(srq.cqn),
    };
    Ok(Some(Taken {
        shared,
        list,
        reached_limit,
    }))
}

/// Reads the entries after the `fetched` ones, up to the producer index, the end of the ring, or
/// `batch`.
fn fetch<H: Host>(
    srq: &SrqContext,
    fetched: &mut VecDeque<Fetched>,
    batch: u32,
    dma: &mut Dma<'_, H>,
) -> Result<(), DmaError> {
    const MAX_BATCH_BYTES: usize = 4096;
    let first = srq.consumer.wrapping_add(fetched.len() as u32);
    let size = 1u32 << srq.log_size;
    let slot = first & (size - 1);
    let stride = 1usize << srq.log_stride;
    let count = srq
        .producer
        .wrapping_sub(first)
        .min(size - slot)
        .min(batch)
        .min((MAX_BATCH_BYTES / stride) as u32);
    if count == 0 {
        return Ok(());
    }
    let mut bytes = [0u8; MAX_BATCH_BYTES];
    let bytes = &mut bytes[..stride * count as usize];
    let iova = srq.base.wrapping_add(u64::from(slot) << srq.log_stride);
    dma.read(iova, bytes)?;
    for entry in bytes.chunks_exact(stride) {
        let (tag, list) = decode(entry);
        let ready = dma.at;
        fetched.push_back(Fetched { tag, list, ready });
    }
    Ok(())
}

/// Returns the tag and the buffers of an entry.
fn decode(entry: &[u8]) -> (u32, ScatterList) {
    const MOST: usize = (1 << LOG_MAX_SHARED_RECEIVE_STRIDE) / DataSegment::SIZE;
    let (head, rest) = entry.split_at(SharedReceiveSegment::SIZE.min(entry.len()));
    let tag = SharedReceiveSegment::read_from_bytes(head).map_or(0, |head| head.tag);
    let mut segments = [DataSegment::default(); MOST];
    let count = rest.len() / DataSegment::SIZE;
    segments[..count]
        .as_mut_bytes()
        .copy_from_slice(&rest[..count * DataSegment::SIZE]);
    (tag, ScatterList::from_receive(&segments[..count]))
}
