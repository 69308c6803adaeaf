//! Contexts as they lie in host memory: QPC, CQC, SRQC, EQC, MPT and MTT entries.
//!
//! The device writes QPC, CQC, SRQC and MPT entries when a command creates or changes an object,
//! and when they are evicted from its cache; software writes the MTT. Software reads contexts with
//! the QUERY commands, because the copy in the table may be older than the device's.

use crate::address_path::AddressPath;
use crate::layout::{constants, layout, word};

crate::open_enum::open_enum! {
    /// State of a QP (IBTA vol 1, 10.3.1).
    pub enum QpStateCode: u8 {
        /// Reset.
        RESET = 0x0,
        /// Initialized.
        INIT = 0x1,
        /// Ready to receive.
        RTR = 0x2,
        /// Ready to send.
        RTS = 0x3,
        /// Send queue drained or draining.
        SQD = 0x4,
        /// Send queue error.
        SQE = 0x5,
        /// Error.
        ERR = 0x6,
    }
}

crate::open_enum::open_enum! {
    /// Transport service of a QP.
    pub enum ServiceCode: u8 {
        /// Reliable connected.
        RELIABLE_CONNECTED = 0x0,
        /// Unreliable connected.
        UNRELIABLE_CONNECTED = 0x1,
        /// Unreliable datagram.
        UNRELIABLE_DATAGRAM = 0x2,
        /// Extended reliable connected, initiator.
        XRC_INITIATOR = 0x3,
        /// Extended reliable connected, target.
        XRC_TARGET = 0x4,
        /// General service interface: QP 1, a datagram QP for management (contract 1.4).
        GSI = 0x5,
    }
}

constants! {
    /// Number of the GSI QP, and its index in the QP context table (IBTA vol 1, 3.9.4).
    pub const GSI_QPN: u32 = 1;
    /// The Q_Key of every GSI QP (IBTA vol 1, 10.2.5).
    pub const GSI_Q_KEY: u32 = 0x8001_0000;
    /// Pages of a memory region, at most: bounded by the memory translation table.
    pub const LOG_MAX_PAGES: u8 = 24;
}

crate::open_enum::open_enum! {
    /// Path MTU.
    pub enum PathMtuCode: u8 {
        /// 256 bytes.
        MTU_256 = 0x1,
        /// 512 bytes.
        MTU_512 = 0x2,
        /// 1024 bytes.
        MTU_1024 = 0x3,
        /// 2048 bytes.
        MTU_2048 = 0x4,
        /// 4096 bytes.
        MTU_4096 = 0x5,
    }
}

word! {
    /// Remote access rights of a QP, and local and remote rights of a memory region.
    pub struct AccessRights: u32 {
        flag [0] local_write, set_local_write, "The device may write for receives and READs.";
        flag [1] remote_write, set_remote_write, "RDMA WRITE.";
        flag [2] remote_read, set_remote_read, "RDMA READ.";
        flag [3] remote_atomic, set_remote_atomic, "Atomics.";
        flag [4] window_bind, set_window_bind, "Memory windows may be bound.";
        flag [5] relaxed_ordering, set_relaxed_ordering, "Writes may pass each other.";
        flag [6] zero_based, set_zero_based, "Window of type 2: peers name its first byte 0.";
        flag [8] flush_global, set_flush_global,
            "FLUSH that makes writes visible to all readers (contract 1.14).";
        flag [9] flush_persistent, set_flush_persistent,
            "FLUSH that makes writes persistent (contract 1.14).";
    }
}

word! {
    /// Shape of a QP's rings.
    pub struct QpShape: u32 {
        [7:0] log_send_blocks, set_log_send_blocks: u8,
            "Base-2 logarithm of the send queue, in 64-byte blocks.";
        [15:8] log_receives, set_log_receives: u8,
            "Base-2 logarithm of the receive queue, in entries.";
        [23:16] log_receive_stride, set_log_receive_stride: u8,
            "Base-2 logarithm of the bytes of one receive entry, 4 to 8.";
        flag [30] blocks_own_multicast, set_blocks_own_multicast,
            "UD: it does not get the datagrams to groups that it sent itself (contract 1.11).";
        flag [31] uses_srq, set_uses_srq, "Receives come from the shared receive queue.";
    }
}

word! {
    /// Retry attributes of a QP.
    pub struct RetryAttributes: u32 {
        [2:0] retry_count, set_retry_count: u8, "Retries after a timeout or sequence error.";
        [6:4] rnr_retry, set_rnr_retry: u8, "Retries after an RNR NAK; 7: without a limit.";
        [12:8] timeout, set_timeout: u8, "Local ACK timeout, 4.096 us x 2^n; zero: none.";
        [20:16] min_rnr_timer, set_min_rnr_timer: u8, "Timer code of the RNR NAKs it sends.";
    }
}

layout! {
    /// QP context.
    pub struct QpContext: 256 {
        0x00 state: QpStateCode, "State.";
        0x01 service: ServiceCode, "Transport service.";
        0x02 path_mtu: PathMtuCode, "Path MTU.";
        0x03 port: u8, "Port number, from 1.";
        0x04 pd: u32, "Protection domain, 24 bits; chosen by software.";
        0x08 send_cqn: u32, "CQ of the send queue.";
        0x0c receive_cqn: u32, "CQ of the receive queue.";
        0x10 send_base: u64, "IOVA of the send queue's ring, 64-byte aligned.";
        0x18 receive_base: u64, "IOVA of the receive queue's ring, 64-byte aligned.";
        0x20 shape: QpShape, "Sizes of the rings.";
        0x24 srqn: u32, "Shared receive queue, when used.";
        0x28 send_doorbell_slot: u32, "BAR2 slot of the send queue.";
        0x2c receive_doorbell_slot: u32, "BAR2 slot of the receive queue.";
        0x30 access: AccessRights, "What remote requests are accepted.";
        0x34 p_key_index: u32, "Index of the P_Key.";
        0x38 q_key: u32, "Q_Key (UD, GSI).";
        0x3c dest_qpn: u32, "Destination QPN (RC, UC).";
        0x40 send_psn: u32, "PSN of the next request; in RTR to RTS the first one.";
        0x44 receive_psn: u32, "PSN expected next; in INIT to RTR the first one.";
        0x48 retry: RetryAttributes, "Retry attributes.";
        0x4c max_rd_atomic: u8, "READs and atomics outstanding as requester.";
        0x4d max_dest_rd_atomic: u8, "READs and atomics held as responder.";
        0x4e processing_unit: u8, "Processing unit that runs this QP; set by the device.";
        0x4f draining: u8, "One while SQD is still draining; set by the device.";
        0x50 path: AddressPath, "Path to the peer (RC, UC).";
        0x88 send_producer: u32, "Producer index of the send queue, as last rung.";
        0x8c send_fetched: u32, "Index of the next send WQE to fetch.";
        0x90 receive_producer: u32, "Producer index of the receive queue, as last rung.";
        0x94 receive_consumer: u32, "Index of the next receive WQE to use.";
        0x98 unacknowledged_psn: u32, "Oldest PSN not acknowledged.";
        0x9c message_sequence: u32, "MSN: messages completed as responder, modulo 2^24.";
        0xa0 xrcd: u32, "XRC domain (XRC target); chosen by software.";
        0xa4 reserved_a4: u32, "Zero.";
        0xa8 reserved_a8: [u64; 11], "Zero.";
    }
}

layout! {
    /// CQ context.
    pub struct CqContext: 64 {
        0x00 base: u64, "IOVA of the ring, 64-byte aligned.";
        0x08 consumer_record: u64, "IOVA of the consumer record: a 32-bit consumer index, \
             free-running, that software writes after it has taken CQEs. The device reads it when \
             the ring looks full.";
        0x10 log_size: u8, "Base-2 logarithm of the entries.";
        0x11 state: u8, "Zero: works. One: overrun or DMA error. Set by the device.";
        0x12 armed: u8, "Zero: not; one: for any CQE; two: for a solicited one. Set by the device.";
        0x13 reserved_13: u8, "Zero.";
        0x14 eqn: u32, "Event queue that is notified.";
        0x18 doorbell_slot: u32, "BAR2 slot for arming.";
        0x1c producer: u32, "CQEs written, modulo 2^32. Set by the device.";
        0x20 moderation_count: u16, "CQEs that one event may stand for; zero: no moderation.";
        0x22 moderation_us: u16, "Microseconds that an event may wait for more CQEs.";
        0x24 users: u32, "QPs and SRQs that use this CQ. Set by the device.";
        0x28 solicited_producer: u32, "Producer index behind the newest solicited or failed CQE. \
             Set by the device.";
        0x2c consumer: u32, "Consumer index that the device has seen last. Set by the device.";
        0x30 notified_producer: u32, "Producer index when the last event was raised: CQEs before it \
             raise no other. Set by the device.";
        0x34 reserved_34: u32, "Zero.";
        0x38 reserved_38: u64, "Zero.";
    }
}

layout! {
    /// Shared receive queue context. Number 0 is never used.
    pub struct SrqContext: 64 {
        0x00 base: u64, "IOVA of the ring, 64-byte aligned.";
        0x08 log_size: u8, "Base-2 logarithm of the entries.";
        0x09 log_stride: u8, "Base-2 logarithm of the bytes of one entry, 5 to 9.";
        0x0a limit: u16, "SRQ_LIMIT is raised once when fewer entries are left; zero: off.";
        0x0c pd: u32, "Protection domain: of the buffers, and of XRC requests that name this queue.";
        0x10 doorbell_slot: u32, "BAR2 slot.";
        0x14 producer: u32, "Producer index, as last rung.";
        0x18 consumer: u32, "Index of the next entry to use.";
        0x1c users: u32, "QPs that use it.";
        0x20 xrcd: u32, "XRC domain whose target QPs may use it; zero: no XRC.";
        0x24 cqn: u32, "XRC: the CQ of its completions.";
        0x28 reserved_28: [u64; 3], "Zero.";
    }
}

layout! {
    /// Event queue context.
    pub struct EqContext: 32 {
        0x00 base: u64, "IOVA of the ring, 64-byte aligned.";
        0x08 log_size: u8, "Base-2 logarithm of the entries.";
        0x09 armed: u8, "One: the next event interrupts. Set by the device.";
        0x0a vector: u16, "MSI-X vector.";
        0x0c producer: u32, "Events written, modulo 2^32. Set by the device.";
        0x10 consumer: u32, "Consumer index, as last rung.";
        0x14 moderation_us: u32, "Least microseconds between two interrupts.";
        0x18 reserved_18: u64, "Zero.";
    }
}

layout! {
    /// Entry of the GID table.
    pub struct AddressEntry: 32 {
        0x00 gid: [u8; 16], "GID: an IPv6 or IPv4-mapped address. All zero: no entry.";
        0x10 mac: [u8; 6], "Source MAC address.";
        0x16 vlan: u16, "VLAN ID; 0xffff: none.";
        0x18 reserved_18: u64, "Zero.";
    }
}

word! {
    /// First word of a memory protection table entry.
    pub struct MemoryEntryWord: u32 {
        [7:0] log_page_size, set_log_page_size: u8,
            "Base-2 logarithm of the page size: 12, 21 or 30.";
        flag [8] valid, set_valid, "The entry is in use.";
        flag [9] direct, set_direct,
            "No translation: `translation` is the IOVA of the first byte.";
        flag [10] window, set_window, "A memory window.";
        flag [11] window_type_2, set_window_type_2,
            "A window of type 2B: only the QP that bound it may be used to reach it.";
        flag [12] null, set_null, "Reads give zeros, writes are dropped.";
        flag [13] device_memory, set_device_memory,
            "`translation` is the offset of the first byte in the device's memory (BAR4).";
        flag [14] bound, set_bound, "The window is bound. Set by the device.";
        flag [15] on_demand, set_on_demand,
            "On demand: an access to a page that is not present is a page fault (contract 1.15).";
    }
}

layout! {
    /// Memory protection table entry: a memory region or a window.
    pub struct MemoryEntry: 64 {
        0x00 word: MemoryEntryWord, "Kind and page size.";
        0x04 key: u32, "Key: table index in bits 31:8, variant in bits 7:0. CREATE_MR: the \
             variant is taken from here, the index is chosen by the device.";
        0x08 pd: u32, "Protection domain.";
        0x0c access: AccessRights, "Rights.";
        0x10 start: u64, "First virtual address of the region, as WQEs and peers name it.";
        0x18 length: u64, "Bytes.";
        0x20 translation: u64, "Index of the region's first MTT entry, or an IOVA when direct.";
        0x28 first_page_offset: u64, "Offset of `start` inside the first page.";
        0x30 region_key: u32, "Window: key of the region it is bound to. Set by the device.";
        0x34 qpn: u32, "Window of type 2: the QP that bound it. Set by the device.";
        0x38 windows: u32, "Region: windows bound to it. Set by the device.";
        0x3c reserved_3c: u32, "Zero.";
    }
}

word! {
    /// Memory translation table entry: one page of a memory region.
    pub struct TranslationEntry: u64 {
        [63:12] page_number, set_page_number: u64, "IOVA of the page, divided by 4096.";
        flag [0] present, set_present, "The page may be used.";
    }
}

impl TranslationEntry {
    /// Size in bytes.
    pub const SIZE: usize = 8;

    /// The entry of a present page at `iova`, a multiple of 4096.
    pub const fn new(iova: u64) -> Self {
        Self::from_bits((iova & !0xfff) | 1)
    }

    /// IOVA of the page.
    #[inline]
    pub const fn iova(self) -> u64 {
        self.bits() & !0xfff
    }
}

/// Bits of a key that are its variant; the others are the index in the memory protection table.
pub const KEY_VARIANT_BITS: u32 = 8;

/// Base-2 logarithms of the page sizes that a memory region may have.
pub const LOG_PAGE_SIZES: [u8; 3] = [12, 21, 30];
