//! Remembers the fault of a queue pair until a completion reports it in the detail of its CQE. Each
//! kind of fault of a queue pair is logged once, at level info.

use ferroce_spec::context::AccessRights;
use ferroce_spec::cqe::{CqeStatus, VendorError};
use ferroce_spec::wqe::DataSegment;
use ferroce_transport::{Note, RemoteAccess};
use ferroce_wire::{Extension, Operation, RequestExtension, TransportHeaders};

use crate::translation::mpt::Access;
use crate::translation::protection::ProtectionFault;

/// Target of the log lines with the reasons.
pub(crate) const TARGET: &str = "ferroce::fault";

/// First byte and length of a memory region.
pub type Region = (u64, u64);

/// The fault of a queue pair that no completion has reported yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultLog {
    /// `NONE`: nothing is known beyond the status.
    detail: VendorError,
    /// The detail that was logged last.
    said: VendorError,
    /// True if a packet had no destination.
    is_lost: bool,
    /// True if software moved the queue pair to the error state.
    is_moved: bool,
}

impl FaultLog {
    /// Records that memory of a WQE of this queue pair cannot be used. Nothing is recorded of an
    /// access that is only put off, here and in the next function.
    #[cold]
    pub fn note_local(
        &mut self,
        qpn: u32,
        fault: &ProtectionFault,
        piece: Option<DataSegment>,
        region: Option<Region>,
    ) {
        let detail = match fault {
            ProtectionFault::InvalidKey { .. } => VendorError::LOCAL_KEY,
            ProtectionFault::ProtectionDomain { .. } => VendorError::LOCAL_DOMAIN,
            ProtectionFault::Bounds { .. } => VendorError::LOCAL_BOUNDS,
            ProtectionFault::Rights { .. } => VendorError::LOCAL_RIGHTS,
            ProtectionFault::Binding { .. } | ProtectionFault::Alignment { .. } => {
                VendorError::LOCAL_BINDING
            }
            ProtectionFault::QueuePair { .. } => VendorError::LOCAL_QUEUE_PAIR,
            ProtectionFault::Page { .. } | ProtectionFault::Dma(_) => VendorError::LOCAL_PAGE,
            ProtectionFault::NotPresent(_) => return,
        };
        let is_new = self.note(detail);
        if !is_new {
            return;
        }
        let key = piece.map_or(0, |piece| piece.l_key);
        match *fault {
            ProtectionFault::Bounds { address, length } => {
                let outside = outside(address, length, region);
                tracing::info!(target: TARGET, qpn,
                    "scatter list: {length} bytes at {address:#x}, lkey {key:#x}: {outside}");
            }
            fault => {
                let place = piece.map(|piece| {
                    let (address, length) = (piece.address, piece.length);
                    format!(" ({length} bytes at {address:#x})")
                });
                let place = place.unwrap_or_default();
                tracing::info!(target: TARGET, qpn, "memory of this side: {fault}{place}");
            }
        }
    }

    /// Records that a request of the peer is refused because of the memory that it names.
    #[cold]
    pub fn note_request(
        &mut self,
        access: &Access,
        fault: &ProtectionFault,
        region: Option<Region>,
    ) {
        let detail = match fault {
            ProtectionFault::InvalidKey { .. } => VendorError::REQUEST_KEY,
            ProtectionFault::ProtectionDomain { .. } => VendorError::REQUEST_DOMAIN,
            ProtectionFault::Bounds { .. } => VendorError::REQUEST_BOUNDS,
            ProtectionFault::Rights { .. } => VendorError::REQUEST_RIGHTS,
            ProtectionFault::Binding { .. } => VendorError::REQUEST_BINDING,
            ProtectionFault::QueuePair { .. } => VendorError::REQUEST_QUEUE_PAIR,
            ProtectionFault::Alignment { .. } => VendorError::REQUEST_ALIGNMENT,
            ProtectionFault::Page { .. } | ProtectionFault::Dma(_) => VendorError::REQUEST_PAGE,
            ProtectionFault::NotPresent(_) => return,
        };
        if !self.note(detail) {
            return;
        }
        let operation = operation(access.rights);
        let (length, address, key) = (access.length, access.address, access.key);
        let why = match fault {
            ProtectionFault::Bounds { .. } => outside(address, length, region),
            ProtectionFault::Rights { .. } => {
                format!("the region has no {}", right(access.rights))
            }
            fault => fault.to_string(),
        };
        tracing::info!(target: TARGET, qpn = access.qpn,
            "the peer's {operation} of {length} bytes at {address:#x}, rkey {key:#x}: {why}");
    }

    /// Records that a request of the peer has ended the queue pair before any memory was checked.
    #[cold]
    pub fn note_refusal(
        &mut self,
        qpn: u32,
        headers: &TransportHeaders,
        access: RemoteAccess,
        note: Option<Note>,
    ) {
        if self.detail != VendorError::NONE {
            return;
        }
        let Some(opcode) = headers.bth.opcode.parse() else {
            return;
        };
        let missing = missing_right(opcode.operation, access);
        let detail = match missing {
            Some(_) => VendorError::REQUEST_QP_RIGHTS,
            None => VendorError::REQUEST_INVALID,
        };
        if !self.note(detail) {
            return;
        }
        match missing {
            Some(right) => {
                tracing::info!(target: TARGET, qpn,
                    "the peer's {opcode}: qp_access_flags of this QP lack {right}");
            }
            None => {
                let why = note.and_then(refusal);
                let why = why.unwrap_or_else(|| misfit(opcode.operation, headers.extension));
                tracing::info!(target: TARGET, qpn, "the peer's {opcode} does not fit: {why}");
            }
        }
    }

    /// Records the detail of a WQE that is not executed.
    #[cold]
    pub fn note_wqe(&mut self, detail: VendorError) {
        self.note(detail);
    }

    /// Records that a packet has no destination: no station has its address, or that station lacks
    /// its QPN.
    #[cold]
    pub fn note_lost(&mut self, qpn: u32, dest_qp: u32, gid: [u8; 16]) {
        if self.is_lost {
            return;
        }
        self.is_lost = true;
        let address = std::net::Ipv6Addr::from(gid);
        let address = match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => address.to_string(),
        };
        tracing::info!(target: TARGET, qpn,
            "packets to QP {:#x} at {address} are lost: no host has that address, or no program \
             there such a QP", dest_qp);
    }

    /// Records that software moves the queue pair to the error state.
    pub fn note_moved(&mut self) {
        self.is_moved = true;
    }

    /// Stores a detail; returns true if it was not logged yet.
    fn note(&mut self, detail: VendorError) -> bool {
        self.detail = detail;
        std::mem::replace(&mut self.said, detail) != detail
    }

    /// Takes the detail of a completion in error.
    #[cold]
    pub fn take(&mut self, status: CqeStatus, is_send: bool) -> VendorError {
        let known = match status {
            CqeStatus::WR_FLUSH if self.is_moved => return VendorError::FLUSH_MOVED,
            CqeStatus::WR_FLUSH => return VendorError::FLUSH,
            CqeStatus::REMOTE_INVALID_REQUEST if is_send => VendorError::NAK_INVALID_REQUEST,
            CqeStatus::REMOTE_ACCESS => VendorError::NAK_ACCESS,
            CqeStatus::REMOTE_OPERATION => VendorError::NAK_OPERATION,
            CqeStatus::BAD_RESPONSE => VendorError::RESPONSE,
            CqeStatus::RETRY_EXCEEDED if self.is_lost => VendorError::NO_STATION,
            CqeStatus::RETRY_EXCEEDED => VendorError::NO_ANSWER,
            CqeStatus::RNR_RETRY_EXCEEDED => VendorError::NO_RECEIVE,
            CqeStatus::LOCAL_LENGTH if is_send => VendorError::WQE_LENGTH,
            CqeStatus::LOCAL_LENGTH => VendorError::RECEIVE_LENGTH,
            _ => VendorError::NONE,
        };
        let noted = std::mem::take(&mut self.detail);
        match known {
            VendorError::NONE if noted != VendorError::NONE => noted,
            VendorError::NONE if is_send => VendorError::WQE_FORMAT,
            VendorError::NONE => VendorError::RECEIVE_FETCH,
            known => known,
        }
    }
}

/// Returns the access right that a queue pair does not grant to its peer.
fn missing_right(operation: Operation, access: RemoteAccess) -> Option<&'static str> {
    use Operation::{
        AtomicWrite, CompareSwap, FetchAdd, Flush, RdmaReadRequest, RdmaWrite, RdmaWriteImmediate,
    };
    match operation {
        Flush if !access.flush_global => Some("IBV_ACCESS_FLUSH_GLOBAL"),
        Flush if !access.flush_persistent => Some("IBV_ACCESS_FLUSH_PERSISTENT"),
        RdmaWrite | RdmaWriteImmediate | AtomicWrite if !access.write => {
            Some("IBV_ACCESS_REMOTE_WRITE")
        }
        RdmaReadRequest if !access.read => Some("IBV_ACCESS_REMOTE_READ"),
        CompareSwap | FetchAdd if !access.atomic => Some("IBV_ACCESS_REMOTE_ATOMIC"),
        _ => None,
    }
}

/// Describes the refusals that the transport has noted.
fn refusal(note: Note) -> Option<String> {
    match note {
        Note::LongMessage { length, capacity } => Some(format!(
            "the message has at least {length} bytes, the receive {capacity}"
        )),
        Note::TooManyFetches { limit } => Some(format!(
            "more READs and atomics at a time than max_dest_rd_atomic of this QP, {limit}; right: \
             max_rd_atomic of the peer at most that"
        )),
        _ => None,
    }
}

/// Describes what may be wrong with a request that is refused before any memory is checked, as far
/// as the request shows it.
fn misfit(operation: Operation, extension: Extension) -> String {
    const ALIGNMENT: u64 = 8; // IBTA vol 1, 9.4.5
    let atomic = match extension {
        Extension::AtomicEth(atomic) | Extension::Xrc(_, RequestExtension::AtomicEth(atomic)) => {
            Some(atomic.virtual_address)
        }
        _ => None,
    };
    if let Some(address) = atomic
        && address % ALIGNMENT != 0
    {
        return format!("the address {address:#x} is no multiple of {ALIGNMENT}");
    }
    let possible = match operation {
        Operation::Send | Operation::SendImmediate | Operation::SendInvalidate => {
            "it is out of order"
        }
        Operation::RdmaReadRequest | Operation::CompareSwap | Operation::FetchAdd => {
            "length, or order"
        }
        _ => "length, alignment or order",
    };
    possible.to_owned()
}

/// Describes where an access exceeds its region.
fn outside(address: u64, length: u64, region: Option<Region>) -> String {
    let Some((start, size)) = region else {
        return "outside of the memory region".to_owned();
    };
    let (end, limit) = (
        u128::from(address) + u128::from(length),
        u128::from(start) + u128::from(size),
    );
    if address < start {
        format!(
            "begins {} bytes before the region of {size} bytes at {start:#x}",
            start - address
        )
    } else {
        format!(
            "ends {} bytes beyond the region of {size} bytes at {start:#x}",
            end.saturating_sub(limit)
        )
    }
}

/// Returns the operation that needs a right.
fn operation(rights: AccessRights) -> &'static str {
    match () {
        () if rights.remote_write() => "RDMA WRITE",
        () if rights.remote_read() => "RDMA READ",
        () if rights.remote_atomic() => "atomic",
        () if rights.flush_global() || rights.flush_persistent() => "FLUSH",
        () => "SEND with invalidate",
    }
}

/// Returns the verbs.h flag of a right.
fn right(rights: AccessRights) -> &'static str {
    match () {
        () if rights.remote_write() => "IBV_ACCESS_REMOTE_WRITE",
        () if rights.remote_read() => "IBV_ACCESS_REMOTE_READ",
        () if rights.flush_persistent() => "IBV_ACCESS_FLUSH_PERSISTENT",
        () if rights.flush_global() => "IBV_ACCESS_FLUSH_GLOBAL",
        () => "IBV_ACCESS_REMOTE_ATOMIC",
    }
}

#[cfg(test)]
mod tests {
    use ferroce_wire::{AtomicEth, RKey};

    use super::*;

    #[test]
    fn what_lies_outside_is_counted() {
        let region = Some((0x1000, 100));
        let said = |address, length| outside(address, length, region);
        assert!(said(0x1000, 132).starts_with("ends 32 bytes beyond"));
        assert!(said(0x0ff0, 8).starts_with("begins 16 bytes before"));
        assert!(said(u64::MAX, 1).contains("beyond"));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let atomic = |virtual_address| {
            Extension::AtomicEth(AtomicEth {
                virtual_address,
                r_key: RKey(1),
                swap_or_add: 1,
                compare: 0,
            })
        };
        let said = |operation, extension| misfit(operation, extension);
        let odd = said(Operation::FetchAdd, atomic(0x1004));
        assert_eq!(odd, "the address 0x1004 is no multiple of 8");
        let even = said(Operation::FetchAdd, atomic(0x1008));
        assert_eq!(even, "length, or order");
        let note = |note| refusal(note).unwrap_or_default();
        let long = note(Note::LongMessage {
            length: 64,
            capacity: 16,
        });
        assert!(long.contains("64 bytes, the receive 16"), "{long}");
        let many = note(Note::TooManyFetches { limit: 4 });
        assert!(many.contains("max_dest_rd_atomic of this QP, 4"), "{many}");
    }

    /// Goal: a detail is reported once, and only by a status of the same side.
    #[test]
    fn a_detail_goes_with_the_completion_of_its_side() {
        let mut log = FaultLog::default();
        log.note_wqe(VendorError::WQE_FETCH);
        let status = CqeStatus::LOCAL_QP_OPERATION;
        assert_eq!(log.take(CqeStatus::WR_FLUSH, true), VendorError::FLUSH);
        assert_eq!(log.take(status, true), VendorError::WQE_FETCH);
        assert_eq!(log.take(status, true), VendorError::WQE_FORMAT);
        log.note_wqe(VendorError::REQUEST_KEY);
        assert_eq!(
            log.take(CqeStatus::REMOTE_ACCESS, true),
            VendorError::NAK_ACCESS
        );
        let retry = CqeStatus::RETRY_EXCEEDED;
        assert_eq!(log.take(retry, true), VendorError::NO_ANSWER);
        log.note_lost(1, 2, [0; 16]);
        assert_eq!(log.take(retry, true), VendorError::NO_STATION);
    }
}
