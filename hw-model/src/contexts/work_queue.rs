//! Send and receive queue of one queue pair: ring positions, and the WQEs on the chip.

use std::collections::VecDeque;

use ferroce_spec::counter::Counter;
use ferroce_spec::wqe::{BLOCK_SIZE, DataSegment, DatagramSegment};
use ferroce_units::Instant;
use zerocopy::IntoBytes;

use crate::contexts::pushed_wqes::PushedWqes;
use crate::dma::Dma;
use crate::ports::host::{DmaError, Host};
use crate::wqe::scatter_list::ScatterList;
use crate::wqe::{SendPayload, SendWqe, WqeRecord};

/// Returns true if `producer` may follow the producer index `last` in a ring of `1 << log_size`
/// entries whose next entry to take is `consumer`. Indices are free-running.
#[inline]
pub fn is_next(producer: u32, last: u32, consumer: u32, log_size: u8) -> bool {
    let ahead = producer.wrapping_sub(consumer);
    ahead <= 1 << log_size && ahead >= last.wrapping_sub(consumer)
}

/// The NIC's view of the send queue. Indices are free-running, in blocks of 64 bytes.
#[derive(Debug, Default)]
pub struct SendQueue {
    /// IOVA of the ring.
    pub base: u64,
    /// Base-2 logarithm of the blocks of the ring.
    pub log_blocks: u8,
    /// Producer index of the last doorbell.
    pub producer: u32,
    /// Index of the next WQE to fetch.
    pub fetched: u32,
    /// WQEs that were pushed and not executed yet.
    pub pushed: PushedWqes,
    outstanding: VecDeque<SendWqe>,
    /// Number of records of completed WQEs that can be released.
    released: u32,
    /// Position of the last requested WQE: the packets of a message follow each other.
    cursor: usize,
}

impl SendQueue {
    /// Returns an empty queue whose ring is at `base`.
    pub fn new(base: u64, log_blocks: u8) -> Self {
        Self {
            base,
            log_blocks,
            ..Self::default()
        }
    }

    /// Returns the IOVA of the block at `index`.
    pub fn address(&self, index: u32) -> u64 {
        let slot = u64::from(index & (self.size() - 1));
        self.base.wrapping_add(slot * BLOCK_SIZE as u64)
    }

    /// Returns the number of blocks that were rung but not fetched.
    pub fn waiting(&self) -> u32 {
        self.producer.wrapping_sub(self.fetched)
    }

    /// Returns true if a producer index is plausible: not before the last one, and at most a ring
    /// ahead of the next WQE to fetch.
    pub fn accepts(&self, producer: u32) -> bool {
        is_next(producer, self.producer, self.fetched, self.log_blocks)
    }

    /// Returns the number of blocks in the ring.
    pub fn size(&self) -> u32 {
        1 << self.log_blocks
    }

    /// Keeps a WQE until it is retired or the ring wraps around to its place: then software has
    /// seen it complete, or does not care.
    #[inline]
    pub fn keep(&mut self, wqe: SendWqe) {
        let size = self.size();
        while let Some(front) = self.outstanding.front() {
            if wqe.index.wrapping_sub(front.index) < size {
                break;
            }
            self.forget_front();
        }
        self.outstanding.push_back(wqe);
    }

    /// Returns the payload of the WQE at `index`.
    #[inline]
    pub fn payload(&mut self, index: u32) -> Option<&SendPayload> {
        Some(&self.find(index)?.payload)
    }

    /// Returns the destination of the datagram of the WQE at `index`.
    #[inline]
    pub fn datagram(&mut self, index: u32) -> Option<&DatagramSegment> {
        self.find(index)?.datagram.as_deref()
    }

    #[inline]
    fn find(&mut self, index: u32) -> Option<&SendWqe> {
        if self
            .outstanding
            .get(self.cursor)
            .is_none_or(|wqe| wqe.index != index)
        {
            let next = self.cursor + 1;
            self.cursor = match self.outstanding.get(next) {
                Some(wqe) if wqe.index == index => next,
                _ => self.outstanding.iter().position(|wqe| wqe.index == index)?,
            };
        }
        Some(&self.outstanding[self.cursor])
    }

    /// Drops the WQE at `index` and all before it.
    #[inline]
    pub fn retire(&mut self, index: u32) {
        while let Some(front) = self.outstanding.front() {
            if (front.index.wrapping_sub(index) as i32) > 0 {
                break;
            }
            self.forget_front();
        }
    }

    #[inline]
    fn forget_front(&mut self) {
        if let Some(wqe) = self.outstanding.pop_front() {
            self.released += u32::from(wqe.record == WqeRecord::Kept);
            self.cursor = self.cursor.saturating_sub(1);
        }
    }

    /// Returns true, once, if the WQE at `index` must be read again for its response.
    #[inline]
    pub fn take_missing(&mut self, index: u32) -> bool {
        self.find(index);
        match self.outstanding.get_mut(self.cursor) {
            Some(wqe) if wqe.index == index && wqe.record == WqeRecord::Missing => {
                wqe.record = WqeRecord::Unneeded;
                true
            }
            _ => false,
        }
    }

    /// Takes the number of records of completed WQEs.
    #[inline]
    pub fn take_released(&mut self) -> u32 {
        std::mem::take(&mut self.released)
    }

    /// Drops all WQEs and restarts at index 0 (the QP goes to RESET).
    pub fn reset(&mut self) {
        (self.producer, self.fetched) = (0, 0);
        self.pushed.clear();
        while !self.outstanding.is_empty() {
            self.forget_front();
        }
        self.cursor = 0;
    }
}

/// Source of a receive WQE of a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedOrigin {
    /// The queue.
    pub srqn: u32,
    /// Software's tag of the WQE.
    pub tag: u32,
    /// Protection domain of the buffers.
    pub pd: u32,
    /// XRC: the CQ of its completion.
    pub cqn: Option<u32>,
}

/// A receive WQE on the chip.
#[derive(Debug)]
pub struct ReceiveWqe {
    /// Free-running index of the entry in the receive queue; for a shared WQE, the number that the
    /// queue pair has taken before.
    pub index: u32,
    /// Its buffers.
    pub list: ScatterList,
    /// True if it comes from a shared receive queue.
    pub shared: Option<SharedOrigin>,
    /// When it arrives from host memory.
    pub ready: Instant,
}

/// When, and how many, receive WQEs of a queue pair are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveFetch {
    /// Maximum number per DMA read.
    pub batch: u32,
    /// Fetch when fewer than this are left; 0: when one is needed.
    pub ahead: u32,
}

/// The NIC's view of the receive queue. Indices are free-running, in entries.
#[derive(Debug, Default)]
pub struct ReceiveQueue {
    /// IOVA of the ring.
    pub base: u64,
    /// Base-2 logarithm of the entries of the ring.
    pub log_entries: u8,
    /// Base-2 logarithm of the bytes of an entry.
    pub log_stride: u8,
    /// Producer index of the last doorbell.
    pub producer: u32,
    /// Index of the next entry to fetch.
    pub fetched: u32,
    prefetched: VecDeque<ReceiveWqe>,
    in_use: VecDeque<ReceiveWqe>,
    /// WQEs taken from a shared receive queue so far.
    adopted: u32,
}

impl ReceiveQueue {
    /// Returns an empty queue whose ring is at `base`.
    pub fn new(base: u64, log_entries: u8, log_stride: u8) -> Self {
        Self {
            base,
            log_entries,
            log_stride,
            ..Self::default()
        }
    }

    /// Returns true if a producer index is plausible: not before the last one, and at most a ring
    /// ahead of the next WQE to use.
    pub fn accepts(&self, producer: u32) -> bool {
        is_next(producer, self.producer, self.consumer(), self.log_entries)
    }

    /// Returns the index of the next receive WQE to use.
    pub fn consumer(&self) -> u32 {
        self.fetched.wrapping_sub(self.prefetched.len() as u32)
    }

    /// Takes the next receive WQE, fetching WQEs according to `policy`; `None`: there is none.
    #[inline]
    pub fn take<H: Host>(
        &mut self,
        policy: ReceiveFetch,
        dma: &mut Dma<'_, H>,
    ) -> Result<Option<&ReceiveWqe>, DmaError> {
        let counter = if self.prefetched.is_empty() {
            Counter::receive_wqe_misses
        } else {
            Counter::receive_wqe_hits
        };
        if self.prefetched.is_empty() {
            self.fetch(policy.batch, dma)?;
        }
        let Some(wqe) = self.prefetched.pop_front() else {
            return Ok(None);
        };
        dma.counters.add(counter, 1);
        dma.at = dma.at.max(wqe.ready);
        if self.prefetched.len() < policy.ahead as usize {
            // A prefetch: no packet waits for these WQEs. If the read fails, the packet that needs
            // them fails.
            let at = dma.at;
            let _ = self.fetch(policy.batch, dma);
            dma.at = at;
        }
        self.in_use.push_back(wqe);
        Ok(self.in_use.back())
    }

    /// Keeps a WQE that was taken from a shared receive queue; returns its index.
    pub fn adopt(&mut self, shared: SharedOrigin, list: ScatterList) -> u32 {
        let index = self.adopted;
        self.adopted = index.wrapping_add(1);
        self.in_use.push_back(ReceiveWqe {
            index,
            list,
            shared: Some(shared),
            ready: Instant::ZERO,
        });
        index
    }

    /// Returns a receive WQE that was taken.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&ReceiveWqe> {
        self.in_use.iter().find(|wqe| wqe.index == index)
    }

    /// Drops a receive WQE that has completed; returns its origin if it was shared.
    #[inline]
    pub fn retire(&mut self, index: u32) -> Option<SharedOrigin> {
        if self.in_use.front().is_some_and(|wqe| wqe.index == index) {
            return self.in_use.pop_front()?.shared;
        }
        let position = self.in_use.iter().position(|wqe| wqe.index == index)?;
        self.in_use.remove(position)?.shared
    }

    /// Takes the index of the next receive WQE without reading the WQE (flush).
    pub fn take_for_flush(&mut self) -> Option<u32> {
        if let Some(wqe) = self.prefetched.pop_front() {
            return Some(wqe.index);
        }
        let index = self.fetched;
        (index != self.producer).then(|| {
            self.fetched = index.wrapping_add(1);
            index
        })
    }

    /// Drops all WQEs and restarts at index 0 (the QP goes to RESET).
    pub fn reset(&mut self) {
        (self.producer, self.fetched) = (0, 0);
        self.prefetched.clear();
        self.in_use.clear();
        self.adopted = 0;
    }

    /// Reads entries up to the producer index, the end of the ring, or `batch`.
    fn fetch<H: Host>(&mut self, batch: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        const MAX_BATCH_BYTES: usize = 4096;
        let size = 1u32 << self.log_entries;
        let slot = self.fetched & (size - 1);
        let stride = 1usize << self.log_stride;
        let count = self
            .producer
            .wrapping_sub(self.fetched)
            .min(size - slot)
            .min(batch)
            .min((MAX_BATCH_BYTES / stride) as u32);
        if count == 0 {
            return Ok(());
        }
        let mut segments = [DataSegment::default(); MAX_BATCH_BYTES / DataSegment::SIZE];
        let each = stride / DataSegment::SIZE;
        let segments = &mut segments[..each * count as usize];
        dma.read(
            self.base.wrapping_add(u64::from(slot) * stride as u64),
            segments.as_mut_bytes(),
        )?;
        for entry in segments.chunks_exact(each) {
            let list = ScatterList::from_receive(entry);
            self.prefetched.push_back(ReceiveWqe {
                index: self.fetched,
                list,
                shared: None,
                ready: dma.at,
            });
            self.fetched = self.fetched.wrapping_add(1);
        }
        Ok(())
    }
}
