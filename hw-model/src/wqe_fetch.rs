//! WQE fetch: reads blocks of 64 bytes from a send queue's ring and hands WQEs to the transport.

use crate::datagram;
use crate::dma::Dma;
use crate::host::Host;
use crate::nic::MAX_GIDS;
use crate::queue_pair::QueuePair;
use crate::wqe::{SendPayload, SendWqe, WqeError, block_count, decode};
use ferroce_spec::context::AddressEntry;
use ferroce_spec::counter::Counter;
use ferroce_spec::wqe::{BLOCK_SIZE, MAX_BLOCKS};
use ferroce_transport::{
    CompletionStatus, Destination, Instant, QpState, SendOperation, SendRequest,
};

/// The fetch engine and its line buffer.
#[derive(Debug)]
pub struct WqeFetch {
    buffer: Box<[u8]>,
}

impl WqeFetch {
    /// An engine that reads up to `blocks` blocks at a time, at least one whole WQE.
    pub fn new(blocks: u32) -> Self {
        let blocks = (blocks as usize).max(MAX_BLOCKS);
        Self {
            buffer: vec![0; blocks * BLOCK_SIZE].into_boxed_slice(),
        }
    }

    /// Fetches one batch of WQEs of `qp`. True: something was fetched.
    pub fn fetch<H: Host>(
        &mut self,
        now: Instant,
        qp: &mut QueuePair,
        gids: &[AddressEntry; MAX_GIDS],
        dma: &mut Dma<'_, H>,
    ) -> bool {
        let runs = matches!(
            qp.transport.state(),
            QpState::Rts | QpState::Sqe | QpState::Err
        );
        if !runs || qp.send.waiting() == 0 || !qp.transport.can_accept_send() {
            return false;
        }
        let blocks = qp
            .send
            .waiting()
            .min((self.buffer.len() / BLOCK_SIZE) as u32);
        let bytes = &mut self.buffer[..blocks as usize * BLOCK_SIZE];
        dma.counters.add(Counter::wqe_fetches, 1);
        dma.counters.add(Counter::wqe_blocks, u64::from(blocks));
        if read_blocks(qp, bytes, dma).is_err() {
            reject(now, qp, CompletionStatus::LocalQpOperation);
            return true;
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() && qp.transport.can_accept_send() {
            match accept(now, qp, gids, rest) {
                Ok(used) => rest = &rest[used..],
                // The rest of this WQE was rung but lies behind the batch: next time.
                Err(WqeError::Blocks(b))
                    if usize::from(b) <= MAX_BLOCKS
                        && b > 0
                        && u32::from(b) <= qp.send.waiting() =>
                {
                    break;
                }
                Err(error) => {
                    dma.counters.add(Counter::wqe_errors, 1);
                    let status = match error {
                        WqeError::Length => CompletionStatus::LocalLength,
                        _ => CompletionStatus::LocalQpOperation,
                    };
                    reject(now, qp, status);
                    break;
                }
            }
        }
        true
    }
}

/// Reads `bytes` of the ring from the fetch index on, around its end.
fn read_blocks<H: Host>(
    qp: &QueuePair,
    bytes: &mut [u8],
    dma: &mut Dma<'_, H>,
) -> Result<(), crate::host::DmaError> {
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
    gids: &[AddressEntry; MAX_GIDS],
    rest: &[u8],
) -> Result<usize, WqeError> {
    let available = (rest.len() / BLOCK_SIZE) as u32;
    let blocks = block_count(rest, qp.send.fetched, available)?;
    let used = usize::from(blocks) * BLOCK_SIZE;
    let (request, wqe) = decode(&rest[..used], qp.transport.service())?;
    qp.send.fetched = qp.send.fetched.wrapping_add(u32::from(blocks));
    let goes_nowhere = wqe
        .datagram
        .as_ref()
        .is_some_and(|segment| !datagram::is_possible(&segment.path, gids));
    let id = request.id;
    post(now, qp, request, wqe);
    if goes_nowhere {
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

/// A WQE that cannot be executed: it completes with `status` and the QP fails. Where the next WQE
/// starts is not known then, so that only this one completes for what was rung.
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
    let payload = SendPayload::Memory(crate::scatter_list::ScatterList::new(&[]));
    let wqe = SendWqe {
        index,
        payload,
        datagram: None,
    };
    post(now, qp, request, wqe);
    qp.transport.fail_send(now, index, status);
}
