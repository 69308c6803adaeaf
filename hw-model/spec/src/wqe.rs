//! Work queue entries.
//!
//! A send WQE is one or more basic blocks of 64 bytes in the send queue's ring. It consists of
//! segments: a [`ControlSegment`], then the segments of the operation ([`RemoteAddressSegment`],
//! [`AtomicSegment`], [`DatagramSegment`]), then either [`DataSegment`]s or an [`InlineHeader`]
//! followed by the payload. A WQE may wrap around the end of the ring at a block boundary.
//!
//! | operation | segments |
//! | --- | --- |
//! | SEND, SEND_IMMEDIATE, SEND_INVALIDATE (RC, UC) | control, data |
//! | SEND, SEND_IMMEDIATE (UD) | control, datagram, data |
//! | RDMA_WRITE, RDMA_WRITE_IMMEDIATE, RDMA_READ | control, remote address, data |
//! | COMPARE_SWAP, FETCH_ADD | control, remote address, atomic, data |
//! | FLUSH | control, remote address, flush |
//! | ATOMIC_WRITE | control, remote address, data of eight bytes |
//! | LOCAL_INVALIDATE, NOP | control |
//! | BIND_WINDOW | control, bind |
//!
//! A receive WQE is an array of [`DataSegment`]s with the receive queue's fixed stride; a segment
//! with [`L_KEY_END`] ends the list early. A WQE of a shared receive queue begins with a
//! [`SharedReceiveSegment`]. The device copies the WQE when it takes it, which frees the slot in
//! the ring; the completion, which may come in another order, names the tag.

pub use crate::address_path::AddressPath;
use crate::context::AccessRights;
use crate::layout::{constants, layout, word};

constants! {
    /// Bytes of a basic block.
    pub const BLOCK_SIZE: usize = 64;
    /// Blocks of the largest send WQE.
    pub const MAX_BLOCKS: usize = 10;
    /// Data segments that a send or receive WQE may have.
    pub const MAX_DATA_SEGMENTS: usize = 16;
    /// Bytes of the longest inline payload.
    pub const MAX_INLINE: usize = 512;
    /// Local key that ends the list of data segments of a receive WQE.
    pub const L_KEY_END: u32 = 0xffff_ffff;
    /// Bytes of the longest message: 2 GiB (IBTA vol 1, 9.4.1).
    pub const MAX_MESSAGE_LENGTH: u64 = 1 << 31;
    /// VLAN field of an untagged path.
    pub const VLAN_NONE: u16 = 0xffff;
    /// Base-2 logarithm of the largest stride of a shared receive queue's entries, in bytes.
    pub const LOG_MAX_SHARED_RECEIVE_STRIDE: u8 = 9;
}

crate::open_enum::open_enum! {
    /// Operation of a send WQE.
    pub enum SendOpcode: u8 {
        /// Completes when its turn comes, does nothing else.
        NOP = 0x00,
        /// SEND.
        SEND = 0x01,
        /// SEND with immediate.
        SEND_IMMEDIATE = 0x02,
        /// SEND that invalidates a remote key.
        SEND_INVALIDATE = 0x03,
        /// RDMA WRITE.
        RDMA_WRITE = 0x08,
        /// RDMA WRITE with immediate.
        RDMA_WRITE_IMMEDIATE = 0x09,
        /// RDMA READ.
        RDMA_READ = 0x10,
        /// Atomic compare and swap.
        COMPARE_SWAP = 0x18,
        /// Atomic fetch and add.
        FETCH_ADD = 0x19,
        /// Makes earlier writes visible or persistent (contract 1.14).
        FLUSH = 0x1a,
        /// Writes eight bytes at once (contract 1.14).
        ATOMIC_WRITE = 0x1b,
        /// Invalidates a local key.
        LOCAL_INVALIDATE = 0x20,
        /// Binds a memory window.
        BIND_WINDOW = 0x21,
    }
}

word! {
    /// First word of a send WQE.
    pub struct ControlWord: u32 {
        [7:0] opcode, set_opcode: u8, "A SendOpcode.";
        [20:16] blocks, set_blocks: u8, "Blocks of this WQE, 1 to 10.";
        [28:24] data_segments, set_data_segments: u8,
            "Data segments behind the other segments, 0 to 16; zero when inline.";
        flag [8] signaled, set_signaled, "A CQE is written also on success.";
        flag [9] solicited, set_solicited, "The peer's receive completion is a solicited event.";
        flag [10] fence, set_fence, "Wait until all earlier READs and atomics are done.";
        flag [11] inline, set_inline, "The payload lies in the WQE, behind an InlineHeader.";
    }
}

layout! {
    /// Head of every send WQE.
    pub struct ControlSegment: 16 {
        0x0 control: ControlWord, "Operation, size and flags.";
        0x4 index: u32, "Producer index of this WQE's first block, modulo 2^32; echoed in the CQE. \
             A WQE whose index does not match its place is stale: the QP fails.";
        0x8 immediate: [u8; 4], "Immediate data as it goes on the wire, or the key to \
             invalidate (little-endian): the peer's, or our own for LOCAL_INVALIDATE.";
        0xc remote_srqn: u32, "XRC: number of the peer's shared receive queue; else zero.";
    }
}

layout! {
    /// Remote memory of an RDMA or atomic operation.
    pub struct RemoteAddressSegment: 16 {
        0x0 virtual_address: u64, "Address in the remote memory region.";
        0x8 r_key: u32, "Remote key.";
        0xc reserved: u32, "Zero.";
    }
}

layout! {
    /// Operands of an atomic operation.
    pub struct AtomicSegment: 16 {
        0x0 swap_add: u64, "Value to swap in, or to add.";
        0x8 compare: u64, "Value to compare with.";
    }
}

layout! {
    /// Range and kind of a FLUSH.
    pub struct FlushSegment: 16 {
        0x0 length: u32, "Bytes from the remote address on; ignored for a whole region.";
        0x4 kind: u32, "The FETH as it goes on the wire, as a number: bit 0 global, bit 1 \
             persistent, bits 5:4 zero for the range, one for the whole region.";
        0x8 reserved: u64, "Zero.";
    }
}

layout! {
    /// What a memory window is bound to. Length zero: it is unbound.
    pub struct BindSegment: 32 {
        0x00 r_key: u32, "New remote key of the window: its index, with a new variant.";
        0x04 l_key: u32, "Local key of the memory region.";
        0x08 address: u64, "First byte, as the region names it.";
        0x10 length: u64, "Bytes.";
        0x18 access: AccessRights, "Remote rights; `zero_based`: peers name the first byte 0.";
        0x1c reserved: u32, "Zero.";
    }
}

layout! {
    /// Head of a WQE of a shared receive queue.
    pub struct SharedReceiveSegment: 16 {
        0x0 tag: u32, "Echoed in the completion as `wqe_index`; chosen by software.";
        0x4 reserved_4: u32, "Zero.";
        0x8 reserved_8: u64, "Zero.";
    }
}

layout! {
    /// Destination of a datagram.
    pub struct DatagramSegment: 64 {
        0x00 q_key: u32, "Q_Key of the destination; with bit 31 set: the QP's own is sent.";
        0x04 dest_qpn: u32, "Destination QPN, 24 bits.";
        0x08 path: AddressPath, "Path to the destination.";
    }
}

layout! {
    /// A piece of local memory.
    pub struct DataSegment: 16 {
        0x0 address: u64, "Virtual address in the local memory region.";
        0x8 length: u32, "Bytes; zero is an empty piece.";
        0xc l_key: u32, "Local key.";
    }
}

layout! {
    /// Head of an inline payload; the bytes follow immediately.
    pub struct InlineHeader: 4 {
        0x0 length: u32, "Bytes of the payload, 0 to 512.";
    }
}

const _: () = assert!(
    SharedReceiveSegment::SIZE + MAX_DATA_SEGMENTS * DataSegment::SIZE
        <= 1 << LOG_MAX_SHARED_RECEIVE_STRIDE
);
const _: () = assert!(
    ControlSegment::SIZE + DatagramSegment::SIZE + InlineHeader::SIZE + MAX_INLINE
        <= MAX_BLOCKS * BLOCK_SIZE
);
const _: () = assert!(
    ControlSegment::SIZE + DatagramSegment::SIZE + MAX_DATA_SEGMENTS * DataSegment::SIZE
        <= MAX_BLOCKS * BLOCK_SIZE
);
