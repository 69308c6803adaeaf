//! WQE fetch: reads blocks of 64 bytes from a send queue's ring and passes WQEs to the transport.

use std::collections::VecDeque;

use ferroce_spec::counter::Counter;
use ferroce_spec::cqe::VendorError;
use ferroce_spec::wqe::{BLOCK_SIZE, MAX_BLOCKS};
use ferroce_transport::{CompletionStatus, Destination, QpState, SendOperation, SendRequest};
use ferroce_units::{Duration, Instant};
use ferroce_wire::Qpn;

use crate::contexts::gid_table::GidTable;
use crate::contexts::pushed_wqes::NextWqes;
use crate::contexts::queue_pair::QueuePair;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::contexts::wqe_records::WqeRecords;
use crate::counters::Counters;
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::time::edge::Edge;
use crate::time::timing::{Stage, Timing, Work};
use crate::transmit::datagram;
use crate::wqe::{SendPayload, SendWqe, WqeError, WqeRecord, block_count, decode};

/// A fetch in flight.
#[derive(Debug)]
struct Fetch {
    /// Index of the queue pair.
    qp: u32,
    /// Its QPN, to detect that the entry was reused.
    qpn: Qpn,
    /// The buffer for the blocks.
    slot: usize,
    /// Number of blocks.
    blocks: u32,
}

/// The fetch engine: a few concurrent fetches, each with its own buffer, and at most one for each
/// queue pair.
#[derive(Debug)]
pub struct WqeFetch {
    buffers: Vec<Box<[u8]>>,
    free: Vec<usize>,
    under_way: Edge<Fetch>,
    /// Queue pairs that wait for a buffer.
    waiting: VecDeque<u32>,
    /// Total time of the fetches.
    busy: Duration,
}

impl WqeFetch {
    /// Returns an engine with `slots` buffers that reads up to `blocks` blocks at a time, at least
    /// one whole WQE.
    pub fn new(blocks: u32, slots: usize) -> Self {
        let blocks = (blocks as usize).max(MAX_BLOCKS);
        let slots = slots.max(1);
        Self {
            buffers: vec![vec![0; blocks * BLOCK_SIZE].into_boxed_slice(); slots],
            free: (0..slots).collect(),
            under_way: Edge::new(slots),
            waiting: VecDeque::new(),
            busy: Duration::ZERO,
        }
    }

    /// Fetches one batch of WQEs of `qp`. Returns true if something was fetched or is in flight.
    #[inline]
    pub fn fetch<H: Host, T: Timing>(
        &mut self,
        now: Instant,
        qp: &mut QueuePair,
        gids: &GidTable,
        records: &mut WqeRecords,
        dma: &mut Dma<'_, H>,
        timing: &mut T,
    ) -> bool {
        let runs = matches!(
            qp.transport.state(),
            QpState::Rts | QpState::Sqe | QpState::Err
        );
        let idle = !runs || qp.fetching || qp.send.waiting() == 0;
        if idle || !qp.transport.can_accept_send() {
            return false;
        }
        let Some(slot) = self.free.last().copied() else {
            self.await_buffer(qp);
            return false;
        };
        let buffer = &mut self.buffers[slot];
        let most = (buffer.len() / BLOCK_SIZE) as u32;
        let mut blocks = qp.send.waiting().min(most);
        let mut is_pushed = false;
        if !qp.send.pushed.is_empty() {
            (blocks, is_pushed) = take_pushed(qp, blocks, buffer, dma.counters);
        }
        let bytes = &mut buffer[..blocks as usize * BLOCK_SIZE];
        // WQEs that were fetched before are sent meanwhile: the cursor of the queue pair does not
        // move.
        let start = dma.at;
        let is_read = if is_pushed {
            Ok(())
        } else {
            read_blocks(qp, bytes, dma)
        };
        let arrival = std::mem::replace(&mut dma.at, start);
        if is_read.is_err() {
            qp.faults.note_wqe(VendorError::WQE_FETCH);
            reject(now, qp, CompletionStatus::LocalQpOperation);
            return true;
        }
        let work = Work {
            bytes: bytes.len() as u32,
            messages: blocks,
            continues_read: false,
        };
        let ready = timing.reserve(now, arrival, Stage::Fetch, work);
        if ready <= now {
            accept_batch(now, qp, gids, bytes, records, dma.counters);
            return true;
        }
        self.free.pop();
        self.busy = self.busy + (ready - now);
        qp.fetching = true;
        let fetch = Fetch {
            qp: qp.index,
            qpn: qp.qpn,
            slot,
            blocks,
        };
        self.under_way.push(ready, fetch);
        true
    }

    /// Lets a queue pair wait until a buffer is free.
    pub fn await_buffer(&mut self, qp: &mut QueuePair) {
        qp.fetching = true;
        self.waiting.push_back(qp.index);
    }

    /// Passes the WQEs of a completed fetch to the transport; returns the index of their queue
    /// pair, which may have been destroyed meanwhile.
    pub fn land(
        &mut self,
        now: Instant,
        qps: &mut QueuePairs,
        gids: &GidTable,
        records: &mut WqeRecords,
        counters: &mut Counters,
    ) -> Option<u32> {
        let fetch = self.under_way.pop(now)?;
        self.free.push(fetch.slot);
        // A queue pair that was reset or destroyed since then no longer waits for it.
        let owner = qps.find(fetch.qpn).filter(|qp| qp.fetching);
        if let Some(qp) = owner {
            qp.fetching = false;
            let bytes = &self.buffers[fetch.slot][..fetch.blocks as usize * BLOCK_SIZE];
            accept_batch(now, qp, gids, bytes, records, counters);
        }
        Some(fetch.qp)
    }

    /// Takes the next queue pair that waits for a buffer.
    pub fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    /// Returns the number of free buffers.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns true if no fetch is in flight and no queue pair waits for a buffer.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }

    /// Returns the number of buffers, and the total time of the fetches.
    pub fn usage(&self) -> (usize, Duration) {
        (self.buffers.len(), self.busy)
    }

    /// Returns the number of fetches in flight.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns the number of queue pairs that wait for a buffer.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the time at which the next fetch ends.
    #[inline]
    pub fn next_delivery(&self) -> Option<Instant> {
        self.under_way.next_delivery()
    }

    /// Forgets all fetches (reset).
    pub fn clear(&mut self) {
        self.under_way.clear(drop);
        self.waiting.clear();
        self.free = (0..self.buffers.len()).collect();
    }
}

/// Posts the WQEs of a batch of blocks while the transport takes them.
#[inline]
fn accept_batch(
    now: Instant,
    qp: &mut QueuePair,
    gids: &GidTable,
    bytes: &[u8],
    records: &mut WqeRecords,
    counters: &mut Counters,
) {
    let mut rest = bytes;
    while !rest.is_empty() && qp.transport.can_accept_send() {
        match accept(now, qp, gids, rest, records) {
            Ok(used) => rest = &rest[used..],
            // The rest of this WQE was rung but is beyond the batch: next time.
            Err(WqeError::Blocks(b))
                if usize::from(b) <= MAX_BLOCKS && b > 0 && u32::from(b) <= qp.send.waiting() =>
            {
                qp.send.pushed.ignore(counters);
                break;
            }
            Err(error) => {
                counters.add(Counter::wqe_errors, 1);
                let status = match error {
                    WqeError::Length => CompletionStatus::LocalLength,
                    _ => CompletionStatus::LocalQpOperation,
                };
                reject(now, qp, status);
                break;
            }
        }
    }
}

/// Copies the next pushed WQEs of a queue pair into `buffer` while they fit. Returns the number of
/// blocks, at most `blocks`, and whether they are already there.
#[cold]
fn take_pushed(
    qp: &mut QueuePair,
    blocks: u32,
    buffer: &mut [u8],
    counters: &mut Counters,
) -> (u32, bool) {
    let mut taken = 0;
    while taken == 0 || qp.send.pushed.first_fits(blocks - taken) {
        let (fetched, rung) = (
            qp.send.fetched.wrapping_add(taken),
            qp.send.waiting() - taken,
        );
        match qp.send.pushed.next(fetched, rung, counters) {
            NextWqes::Pushed(wqe) => {
                let place = &mut buffer[taken as usize * BLOCK_SIZE..];
                place[..wqe.bytes().len()].copy_from_slice(wqe.bytes());
                taken += wqe.blocks();
            }
            NextWqes::InRing(before) if taken == 0 => return (blocks.min(before), false),
            NextWqes::InRing(_) => break,
        }
    }
    (taken, true)
}

/// Reads `bytes` of the ring from the fetch index on, wrapping at its end.
fn read_blocks<H: Host>(
    qp: &QueuePair,
    bytes: &mut [u8],
    dma: &mut Dma<'_, H>,
) -> Result<(), crate::ports::host::DmaError> {
    dma.counters.add(Counter::wqe_fetches, 1);
    let blocks = (bytes.len() / BLOCK_SIZE) as u64;
    dma.counters.add(Counter::wqe_blocks, blocks);
    let slot = (qp.send.fetched & (qp.send.size() - 1)) as usize;
    let until_end = (qp.send.size() as usize - slot) * BLOCK_SIZE;
    let split = bytes.len().min(until_end);
    let (head, tail) = bytes.split_at_mut(split);
    dma.read(qp.send.base.wrapping_add((slot * BLOCK_SIZE) as u64), head)?;
    if !tail.is_empty() {
        dma.read(qp.send.base, tail)?;
    }
    Ok(())
}

/// Posts the WQE at the start of `rest`; returns its bytes.
#[inline]
fn accept(
    now: Instant,
    qp: &mut QueuePair,
    gids: &GidTable,
    rest: &[u8],
    records: &mut WqeRecords,
) -> Result<usize, WqeError> {
    let available = (rest.len() / BLOCK_SIZE) as u32;
    let blocks = block_count(rest, qp.send.fetched, available)?;
    let used = usize::from(blocks) * BLOCK_SIZE;
    let (request, mut wqe) = decode(&rest[..used], qp.transport.service())?;
    if request.operation.fetches() {
        wqe.record = records.take();
    }
    qp.send.fetched = qp.send.fetched.wrapping_add(u32::from(blocks));
    let goes_nowhere = wqe
        .datagram
        .as_ref()
        .is_some_and(|segment| !datagram::is_possible(&segment.path, gids));
    let id = request.id;
    post(now, qp, request, wqe);
    if goes_nowhere {
        qp.faults.note_wqe(VendorError::WQE_ROUTE);
        qp.transport
            .fail_send(now, id, CompletionStatus::LocalQpOperation);
    }
    Ok(used)
}

#[inline]
fn post(now: Instant, qp: &mut QueuePair, request: SendRequest, wqe: SendWqe) {
    qp.send.keep(wqe);
    qp.transport.post_send(now, request);
}

/// Rejects a WQE that cannot be executed: it completes with `status` and the QP fails. The start of
/// the next WQE is then unknown, so only this one completes of all that were rung.
fn reject(now: Instant, qp: &mut QueuePair, status: CompletionStatus) {
    let index = qp.send.fetched;
    qp.send.fetched = qp.send.producer;
    let operation = SendOperation::Send;
    let request = SendRequest {
        id: index,
        operation,
        length: 0,
        signaled: true,
        solicited: false,
        fence: false,
        destination: Destination::Connected,
    };
    let payload = SendPayload::Memory(crate::wqe::scatter_list::ScatterList::new(&[]));
    let wqe = SendWqe {
        index,
        payload,
        datagram: None,
        record: WqeRecord::Unneeded,
    };
    post(now, qp, request, wqe);
    qp.transport.fail_send(now, index, status);
}
