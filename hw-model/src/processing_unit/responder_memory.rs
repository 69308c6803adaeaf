//! Executes the memory operations of the transport: checks keys and accesses memory.

use std::ops::Range;

use ferroce_spec::context::AccessRights;
use ferroce_spec::counter::Counter;
use ferroce_spec::eqe::EventType;
use ferroce_spec::wqe::DataSegment;
use ferroce_transport::{Access as RemoteAccess, AtomicOperation, MemoryAnswer, MemoryOp};
use ferroce_wire::{Qpn, RKey};

use crate::contexts::fault_log::FaultLog;
use crate::contexts::queue_pair::{QueuePair, uses_srq};
use crate::contexts::shared_receive_queue::{SharedReceiveQueues, TakeError};
use crate::contexts::work_queue::ReceiveFetch;
use crate::contexts::wqe_records::WqeRecords;
use crate::dma::{ATOMIC_BYTES, Dma};
use crate::ports::host::Host;
use crate::processing_unit::global_route_header::{global_route_header, is_ipv4};
use crate::translation::memory_unit::MemoryUnit;
use crate::translation::memory_unit::atomic::dma_atomic;
use crate::translation::memory_unit::window::Binder;
use crate::translation::mpt::Access;
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;
use crate::wqe::SendPayload;
use crate::wqe::scatter_list::ScatterList;

/// The blocks that a processing unit uses while it works on a packet.
pub struct MemoryBlocks<'a, 'd, H: Host, M> {
    /// Keys and translations.
    pub memory: &'a mut MemoryUnit<M>,
    /// Shared receive queues.
    pub srqs: &'a mut SharedReceiveQueues,
    /// The DMA engine.
    pub dma: &'a mut Dma<'d, H>,
    /// How receive WQEs are fetched.
    pub receive_fetch: ReceiveFetch,
    /// Fault injection: the receive queues look empty.
    pub withholds_receives: bool,
    /// WQEs of READs and atomics in flight.
    pub wqe_records: &'a mut WqeRecords,
    /// An event of a shared receive queue, and its number.
    pub srq_event: Option<(EventType, u32)>,
}

/// The bytes of a packet.
#[derive(Debug)]
pub struct PacketBytes<'a> {
    /// All of it.
    pub frame: &'a [u8],
    /// Start of the IP header.
    pub ip: usize,
    /// The payload.
    pub payload: Range<usize>,
}

impl<'a> PacketBytes<'a> {
    #[inline]
    fn payload(&self) -> &'a [u8] {
        &self.frame[self.payload.clone()]
    }
}

/// Executes a memory operation of the transport.
#[inline]
pub fn execute<H: Host, M: TranslationTable>(
    operation: MemoryOp,
    qp: &mut QueuePair,
    packet: &PacketBytes<'_>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    match operation {
        MemoryOp::Validate {
            r_key,
            virtual_address,
            length,
            access,
            srqn,
        } => {
            let length = u64::from(length);
            let access = remote_access(qp, srqn, r_key, virtual_address, length, access, blocks);
            validate(qp, access, blocks)
        }
        MemoryOp::TakeReceive | MemoryOp::TakeShared { .. } if blocks.withholds_receives => {
            MemoryAnswer::NoReceive
        }
        MemoryOp::TakeReceive if uses_srq(&qp.context) => take_shared(qp, qp.context.srqn, blocks),
        MemoryOp::TakeReceive => take_own(qp, blocks),
        MemoryOp::TakeShared { srqn } => {
            let known = blocks.srqs.of_domain(srqn, qp.context.xrcd, blocks.dma);
            if known.is_some() {
                take_shared(qp, srqn, blocks)
            } else {
                MemoryAnswer::Invalid
            }
        }
        MemoryOp::WriteRemote {
            r_key,
            virtual_address,
            length,
            srqn,
        } => {
            let (length, access) = (u64::from(length), RemoteAccess::Write);
            let access = remote_access(qp, srqn, r_key, virtual_address, length, access, blocks);
            write_remote(qp, access, packet.payload(), blocks)
        }
        MemoryOp::WriteReceive {
            receive, offset, ..
        } => write_receive(qp, receive, offset, packet.payload(), blocks),
        MemoryOp::WriteGrh { receive } => {
            let ip = &packet.frame[packet.ip..];
            qp.header_is_ipv4 = is_ipv4(ip);
            write_receive(qp, receive, 0, &global_route_header(ip), blocks)
        }
        MemoryOp::WriteReadResponse {
            request, offset, ..
        } => write_response(qp, request, offset, packet.payload(), blocks),
        MemoryOp::WriteAtomicResult { request, value } => {
            write_response(qp, request, 0, &value.to_ne_bytes(), blocks)
        }
        MemoryOp::Invalidate { r_key, srqn } => invalidate(qp, r_key, srqn, blocks),
        other => execute_at_once(other, qp, packet, blocks),
    }
}

/// Executes an atomic, a FLUSH or an ATOMIC WRITE.
#[inline(never)]
fn execute_at_once<H: Host, M: TranslationTable>(
    operation: MemoryOp,
    qp: &mut QueuePair,
    packet: &PacketBytes<'_>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    match operation {
        MemoryOp::Atomic {
            r_key,
            virtual_address,
            operation,
            srqn,
        } => {
            let (length, access) = (ATOMIC_BYTES as u64, RemoteAccess::Atomic);
            let access = remote_access(qp, srqn, r_key, virtual_address, length, access, blocks);
            atomic(qp, access, operation, blocks)
        }
        MemoryOp::Flush {
            r_key,
            virtual_address,
            length,
            access,
            srqn,
        } => {
            let length = u64::from(length);
            let access = remote_access(qp, srqn, r_key, virtual_address, length, access, blocks);
            flush(qp, access, blocks)
        }
        MemoryOp::WriteAtomically {
            r_key,
            virtual_address,
            srqn,
        } => {
            let (length, access) = (ATOMIC_BYTES as u64, RemoteAccess::Write);
            let access = remote_access(qp, srqn, r_key, virtual_address, length, access, blocks);
            write_atomically(qp, access, packet.payload(), blocks)
        }
        // The caller passes no other operation.
        _ => MemoryAnswer::Failed,
    }
}

/// Checks an access of a peer without accessing memory.
#[inline]
fn validate<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    access: Option<Access>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    let Some(access) = access else {
        return MemoryAnswer::Invalid;
    };
    match blocks.memory.validate(&access, blocks.dma) {
        Ok(()) => MemoryAnswer::Valid,
        Err(fault) => {
            refuse(qp, &access, &fault, blocks.memory);
            match fault {
                ProtectionFault::Rights { .. } => MemoryAnswer::Forbidden,
                _ => MemoryAnswer::Invalid,
            }
        }
    }
}

/// Writes data of a peer to local memory.
#[inline]
fn write_remote<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    access: Option<Access>,
    bytes: &[u8],
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    let Some(access) = access else {
        return MemoryAnswer::Failed;
    };
    let written = blocks.memory.write(&access, bytes, blocks.dma);
    if let Err(fault) = &written {
        refuse(qp, &access, fault, blocks.memory);
    }
    outcome(&written)
}

/// Returns the protection domain in which a request of the peer is executed: the domain of the
/// queue pair, or of the shared receive queue that an XRC request names. `None`: the XRC domain of
/// the queue pair has no such queue.
#[inline]
pub fn protection_domain<H: Host>(
    qp: &QueuePair,
    srqn: Option<u32>,
    srqs: &mut SharedReceiveQueues,
    dma: &mut Dma<'_, H>,
) -> Option<u32> {
    match srqn {
        None => Some(qp.pd()),
        Some(srqn) => Some(srqs.of_domain(srqn, qp.context.xrcd, dma)?.pd),
    }
}

/// Returns the access of a peer to `length` bytes of memory at `address`, or to a whole region.
#[inline]
fn remote_access<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    srqn: Option<u32>,
    r_key: RKey,
    address: u64,
    length: u64,
    access: RemoteAccess,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> Option<Access> {
    let pd = protection_domain(qp, srqn, blocks.srqs, blocks.dma)?;
    let range = Access {
        pd,
        key: r_key.0,
        address,
        length,
        rights: remote_rights(access),
        qpn: qp.qpn.value(),
    };
    match access {
        RemoteAccess::Flush { region: true, .. } => whole_region(qp, range, blocks),
        _ => Some(range),
    }
}

/// Executes an atomic operation permitted by `access`, after earlier ones of the queue pair.
fn atomic<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    access: Option<Access>,
    operation: AtomicOperation,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    let operation = dma_atomic(operation);
    blocks.dma.at = blocks.dma.at.max(qp.progress.executed);
    let Some(access) = access else {
        return MemoryAnswer::Failed;
    };
    match blocks.memory.atomic(&access, operation, blocks.dma) {
        Ok(executed) => {
            qp.progress.executed = executed.until;
            MemoryAnswer::Atomic(executed.original)
        }
        Err(fault) => {
            refuse(qp, &access, &fault, blocks.memory);
            failure(&fault)
        }
    }
}

/// Returns the access to the whole region of `access`; `None`: there is none with this key.
#[cold]
fn whole_region<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    access: Access,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> Option<Access> {
    let whole = blocks.memory.whole_region(access, blocks.dma);
    whole
        .inspect_err(|fault| refuse(qp, &access, fault, blocks.memory))
        .ok()
}

/// Makes earlier writes of the peer visible, after earlier atomics of the queue pair.
#[cold]
fn flush<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    access: Option<Access>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    blocks.dma.at = blocks.dma.at.max(qp.progress.executed);
    let Some(access) = access else {
        return MemoryAnswer::Failed;
    };
    let flushed = blocks.memory.flush(&access, blocks.dma);
    if let Err(fault) = &flushed {
        refuse(qp, &access, fault, blocks.memory);
    }
    qp.progress.executed = blocks.dma.at;
    outcome(&flushed)
}

/// Writes the payload of an ATOMIC WRITE, after earlier atomics of the queue pair.
#[cold]
fn write_atomically<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    access: Option<Access>,
    payload: &[u8],
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    blocks.dma.at = blocks.dma.at.max(qp.progress.executed);
    let (Some(access), Ok(value)) = (access, payload.try_into()) else {
        return MemoryAnswer::Failed;
    };
    let written = blocks.memory.write_atomically(&access, value, blocks.dma);
    if let Err(fault) = &written {
        refuse(qp, &access, fault, blocks.memory);
    }
    outcome(&written)
}

/// Invalidates a key at the request of the peer.
fn invalidate<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    r_key: RKey,
    srqn: Option<u32>,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    let Some(pd) = protection_domain(qp, srqn, blocks.srqs, blocks.dma) else {
        return MemoryAnswer::Failed;
    };
    let qpn = qp.qpn.value();
    let binder = Binder { pd, qpn };
    let invalidated = blocks
        .memory
        .invalidate_remotely(binder, r_key.0, blocks.dma);
    if let Err(fault) = &invalidated {
        let access = Access {
            pd,
            key: r_key.0,
            address: 0,
            length: 0,
            rights: AccessRights::default(),
            qpn,
        };
        refuse(qp, &access, fault, blocks.memory);
    }
    outcome(&invalidated)
}

/// Takes a WQE of the queue pair's own receive queue.
#[inline]
fn take_own<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    match qp.receive.take(blocks.receive_fetch, blocks.dma) {
        Ok(Some(wqe)) => {
            blocks.dma.counters.add(Counter::receive_wqes, 1);
            qp.notes.found_receive(qp.qpn.value());
            MemoryAnswer::Receive {
                id: wqe.index,
                capacity: wqe.list.length(),
            }
        }
        Ok(None) => MemoryAnswer::NoReceive,
        Err(_) => MemoryAnswer::ReceiveError,
    }
}

/// Takes a WQE of a shared receive queue.
fn take_shared<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    srqn: u32,
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    match blocks.srqs.take(srqn, blocks.receive_fetch, blocks.dma) {
        Ok(taken) => {
            blocks.dma.counters.add(Counter::receive_wqes, 1);
            qp.notes.found_receive(qp.qpn.value());
            if taken.reached_limit {
                blocks.srq_event = Some((EventType::SRQ_LIMIT, srqn));
            }
            let capacity = taken.list.length();
            let id = qp.receive.adopt(taken.shared, taken.list);
            MemoryAnswer::Receive { id, capacity }
        }
        Err(TakeError::Empty) => MemoryAnswer::NoReceive,
        Err(TakeError::Failed) => {
            blocks.srq_event = Some((EventType::SRQ_ERROR, srqn));
            MemoryAnswer::ReceiveError
        }
        Err(TakeError::Unusable) => MemoryAnswer::ReceiveError,
    }
}

/// Writes to the buffers of a receive WQE, with their protection domain.
#[inline]
fn write_receive<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    receive: u32,
    offset: u32,
    bytes: &[u8],
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    let Some(wqe) = qp.receive.get(receive) else {
        return MemoryAnswer::Failed;
    };
    let pd = wqe.shared.map_or(qp.pd(), |shared| shared.pd);
    let written = blocks
        .memory
        .scatter(pd, &wqe.list, offset, bytes, blocks.dma);
    if let Err(fault) = &written {
        note_list(&mut qp.faults, qp.qpn, &wqe.list, fault, blocks.memory);
    }
    outcome(&written)
}

/// Writes the data of a READ or atomic response.
#[inline]
fn write_response<H: Host, M: TranslationTable>(
    qp: &mut QueuePair,
    request: u32,
    offset: u32,
    bytes: &[u8],
    blocks: &mut MemoryBlocks<'_, '_, H, M>,
) -> MemoryAnswer {
    let pd = qp.pd();
    if qp.send.take_missing(request) {
        let iova = qp.send.address(request);
        blocks.wqe_records.read_again(iova, blocks.dma);
    }
    match qp.send.payload(request) {
        Some(SendPayload::Memory(list)) => {
            let written = blocks.memory.scatter(pd, list, offset, bytes, blocks.dma);
            if let Err(fault) = &written {
                note_list(&mut qp.faults, qp.qpn, list, fault, blocks.memory);
            }
            outcome(&written)
        }
        _ => MemoryAnswer::Failed,
    }
}

/// Records that a request of the peer is refused.
#[cold]
fn refuse<M: TranslationTable>(
    qp: &mut QueuePair,
    access: &Access,
    fault: &ProtectionFault,
    memory: &MemoryUnit<M>,
) {
    let region = memory.known_bounds(access.key);
    qp.faults.note_request(access, fault, region);
}

/// Records that memory of a local scatter list cannot be used.
#[cold]
pub(crate) fn note_list<M: TranslationTable>(
    faults: &mut FaultLog,
    qpn: Qpn,
    list: &ScatterList,
    fault: &ProtectionFault,
    memory: &MemoryUnit<M>,
) {
    let piece = piece_of(list, fault);
    let region = piece.and_then(|piece| memory.known_bounds(piece.l_key));
    faults.note_local(qpn.value(), fault, piece, region);
}

/// Returns the element of a scatter list that caused a fault, for messages.
fn piece_of(list: &ScatterList, fault: &ProtectionFault) -> Option<DataSegment> {
    let is_meant = |piece: &DataSegment| match *fault {
        ProtectionFault::InvalidKey { key }
        | ProtectionFault::ProtectionDomain { key }
        | ProtectionFault::Rights { key } => piece.l_key == key,
        ProtectionFault::Bounds { address, .. } | ProtectionFault::Page { address } => {
            address.wrapping_sub(piece.address) < u64::from(piece.length)
        }
        _ => false,
    };
    list.pieces(0, list.length()).find(is_meant)
}

fn outcome(result: &Result<(), ProtectionFault>) -> MemoryAnswer {
    match result {
        Ok(()) => MemoryAnswer::Done,
        Err(fault) => failure(fault),
    }
}

#[cold]
fn failure(fault: &ProtectionFault) -> MemoryAnswer {
    match fault {
        ProtectionFault::NotPresent(_) => MemoryAnswer::NotPresent,
        _ => MemoryAnswer::Failed,
    }
}

/// Returns the right of a memory region that a remote access needs.
fn remote_rights(access: RemoteAccess) -> AccessRights {
    let mut rights = AccessRights::default();
    match access {
        RemoteAccess::Write => rights.set_remote_write(true),
        RemoteAccess::Read => rights.set_remote_read(true),
        RemoteAccess::Atomic => rights.set_remote_atomic(true),
        RemoteAccess::Flush {
            global, persistent, ..
        } => {
            rights.set_flush_global(global);
            rights.set_flush_persistent(persistent);
        }
    }
    rights
}
