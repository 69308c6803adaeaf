//! Completion queue entries.
//!
//! The ring holds a power of two of 32-byte entries. The owner bit of an entry is one on the even
//! laps of the ring (the first lap is lap 0) and zero on the odd ones, so that a zeroed ring is
//! empty. The device writes the last eight bytes, which hold the owner bit, last.

use crate::layout::{layout, word};

crate::open_enum::open_enum! {
    /// What has completed.
    pub enum CqeOpcode: u8 {
        /// A SEND of any kind.
        SEND = 0x01,
        /// An RDMA WRITE of any kind.
        RDMA_WRITE = 0x02,
        /// An RDMA READ.
        RDMA_READ = 0x03,
        /// A compare and swap.
        COMPARE_SWAP = 0x04,
        /// A fetch and add.
        FETCH_ADD = 0x05,
        /// A local invalidate.
        LOCAL_INVALIDATE = 0x06,
        /// A bind of a memory window.
        BIND_WINDOW = 0x07,
        /// A NOP.
        NOP = 0x08,
        /// A FLUSH (contract 1.14).
        FLUSH = 0x09,
        /// An ATOMIC WRITE (contract 1.14).
        ATOMIC_WRITE = 0x0a,
        /// A receive WQE that a SEND consumed.
        RECEIVE = 0x80,
        /// A receive WQE that an RDMA WRITE with immediate consumed.
        RECEIVE_RDMA_IMMEDIATE = 0x81,
    }
}

crate::open_enum::open_enum! {
    /// How it has completed (IBTA vol 1, 11.6.2).
    pub enum CqeStatus: u8 {
        /// Success.
        SUCCESS = 0x00,
        /// Local length error: the message does not fit its buffers, or is too long.
        LOCAL_LENGTH = 0x01,
        /// Local QP operation error: the WQE is not consistent.
        LOCAL_QP_OPERATION = 0x02,
        /// Local protection error: a local key, its bounds or its rights do not allow the access.
        LOCAL_PROTECTION = 0x04,
        /// The QP was in the error state: the WQE was not executed.
        WR_FLUSH = 0x05,
        /// Memory management operation error: of a bind or a local invalidate.
        WINDOW_BIND = 0x06,
        /// The responder's answer was not consistent.
        BAD_RESPONSE = 0x07,
        /// Local access error: a receive buffer could not be written.
        LOCAL_ACCESS = 0x08,
        /// The responder refused the request as invalid.
        REMOTE_INVALID_REQUEST = 0x09,
        /// The responder refused the remote key, its bounds or its rights.
        REMOTE_ACCESS = 0x0a,
        /// The responder could not complete the operation.
        REMOTE_OPERATION = 0x0b,
        /// No answer, in all retries.
        RETRY_EXCEEDED = 0x0c,
        /// Receiver not ready, in all retries.
        RNR_RETRY_EXCEEDED = 0x0d,
        /// The function has stopped.
        FATAL = 0x13,
    }
}

crate::open_enum::open_enum! {
    /// Detail of a completion in error: `vendor_err` of verbs. A device may report zero.
    pub enum VendorError: u8 {
        /// Nothing more is known.
        NONE = 0x00,
        /// The lkey names no memory region, or one that was deregistered.
        LOCAL_KEY = 0x10,
        /// The lkey belongs to another protection domain than the QP.
        LOCAL_DOMAIN = 0x11,
        /// An element of the scatter list begins before or ends after its memory region.
        LOCAL_BOUNDS = 0x12,
        /// The memory region lacks IBV_ACCESS_LOCAL_WRITE, or for a bind IBV_ACCESS_MW_BIND.
        LOCAL_RIGHTS = 0x13,
        /// A page of the memory is gone, or the host refused the DMA.
        LOCAL_PAGE = 0x14,
        /// The window cannot be bound, or the key not invalidated, so or now.
        LOCAL_BINDING = 0x15,
        /// The window of type 2 is bound to another QP.
        LOCAL_QUEUE_PAIR = 0x16,
        /// The work request does not make sense for this QP.
        WQE_FORMAT = 0x20,
        /// The message is longer than 2 GiB, or, of a datagram, than the path MTU.
        WQE_LENGTH = 0x21,
        /// The work queue could not be read.
        WQE_FETCH = 0x22,
        /// The address handle's source GID does not exist, or is of the other IP version.
        WQE_ROUTE = 0x23,
        /// The message is longer than the receive buffers.
        RECEIVE_LENGTH = 0x30,
        /// The receive queue could not be read, or its entry makes no sense.
        RECEIVE_FETCH = 0x31,
        /// The peer's rkey names no memory region or window here, or one that is gone.
        REQUEST_KEY = 0x40,
        /// The peer's rkey belongs to another protection domain than this QP.
        REQUEST_DOMAIN = 0x41,
        /// The peer's access begins before or ends after the memory region.
        REQUEST_BOUNDS = 0x42,
        /// The memory region lacks the right for the peer's access.
        REQUEST_RIGHTS = 0x43,
        /// A page that the peer's request needs is gone, or the host refused the DMA.
        REQUEST_PAGE = 0x44,
        /// The key cannot be invalidated by the peer.
        REQUEST_BINDING = 0x45,
        /// The peer's rkey is of a window of type 2 that is bound to another QP.
        REQUEST_QUEUE_PAIR = 0x46,
        /// The peer's atomic does not lie at a multiple of eight bytes.
        REQUEST_ALIGNMENT = 0x47,
        /// The peer's request does not fit: order, length, or too many READs and atomics.
        REQUEST_INVALID = 0x48,
        /// qp_access_flags of this QP do not allow the peer's operation.
        REQUEST_QP_RIGHTS = 0x49,
        /// The peer answers "invalid request": its QP lacks the right, or its receive the room.
        NAK_INVALID_REQUEST = 0x50,
        /// The peer answers "remote access error": rkey, bounds or rights of its memory.
        NAK_ACCESS = 0x51,
        /// The peer answers "remote operational error": its receive buffer is wrong.
        NAK_OPERATION = 0x52,
        /// The peer's answer makes no sense.
        RESPONSE = 0x53,
        /// No valid answer: the peer's QP is not in RTR or RTS, not our peer, or rq_psn differs.
        NO_ANSWER = 0x58,
        /// No answer: no host has the address of the path, or no program there the QP.
        NO_STATION = 0x59,
        /// The peer had no receive posted, in all retries (rnr_retry).
        NO_RECEIVE = 0x5a,
        /// The QP was in the error state already; the completion before it says why.
        FLUSH = 0x60,
        /// Software moved the QP to the error state before the work request was executed.
        FLUSH_MOVED = 0x61,
    }
}

word! {
    /// Last word of a CQE.
    pub struct CqeWord: u32 {
        [7:0] opcode, set_opcode: u8, "A CqeOpcode. Not defined when the status is an error, \
             except that bit 7 distinguishes receive from send.";
        [15:8] status, set_status: u8, "A CqeStatus.";
        [23:16] vendor_error, set_vendor_error: u8, "Detail of an error: a VendorError, \
             as far as the device knows it.";
        flag [24] with_immediate, set_with_immediate, "The immediate field is valid.";
        flag [25] with_invalidate, set_with_invalidate,
            "The immediate field holds the remote key that was invalidated (little-endian).";
        flag [26] with_grh, set_with_grh, "The first 40 bytes of the buffer hold the IP header.";
        flag [29] ipv4, set_ipv4, "With `with_grh`: that IP header is IPv4, in bytes 20 to 39.";
        flag [28] shared, set_shared, "`wqe_index` is the tag of a shared receive WQE.";
        flag [27] solicited, set_solicited, "The sender asked for a solicited event.";
        flag [31] owner, set_owner, "One on even laps of the ring.";
    }
}

layout! {
    /// Completion queue entry.
    pub struct Cqe: 32 {
        0x00 qpn: u32, "QPN whose WQE has completed, 24 bits.";
        0x04 wqe_index: u32, "Send: producer index of the WQE's first block. Receive: index of the \
             entry in the receive queue. Free-running, modulo 2^32. A send CQE also frees all \
             earlier unsignaled WQEs.";
        0x08 byte_count: u32, "Bytes received; READ and atomics: bytes read.";
        0x0c immediate: [u8; 4], "Immediate data as it came on the wire, or the invalidated key.";
        0x10 timestamp: u64, "Device clock when the CQE was made, in nanoseconds.";
        0x18 source_qpn: u32, "UD: QPN of the sender, 24 bits. XRC target QP: number of the shared \
             receive queue.";
        0x1c word: CqeWord, "What, how, and who owns the entry.";
    }
}

/// The owner bit of a valid entry at free-running index `index` in a ring of `1 << log_size`.
#[inline]
pub fn owner_at(index: u32, log_size: u32) -> bool {
    (index >> log_size) & 1 == 0
}
