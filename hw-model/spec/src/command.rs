//! The command interface.
//!
//! The command queue is a ring of 64-byte entries in host memory. Software fills an entry, sets
//! its ownership to the device, and rings the command queue's doorbell. The device executes
//! entries in order, writes result and status into the entry and gives it back; the last eight
//! bytes, which hold the ownership, are written last. Larger inputs and outputs lie in mailboxes,
//! each contiguous in IOVA space and aligned to 64 bytes.

use crate::context::{AddressEntry, CqContext, EqContext, MemoryEntry, QpContext, SrqContext};
use crate::layout::{constants, layout, word};

crate::open_enum::open_enum! {
    /// What a command does.
    pub enum CommandOpcode: u16 {
        /// Nothing. Argument is returned as the result.
        NOP = 0x00,
        /// Reads the limits. Output: DeviceCapabilities.
        QUERY_DEVICE = 0x01,
        /// Gives the device its context tables. Input: ContextTables. Once, before any create.
        SET_CONTEXT_TABLES = 0x02,
        /// Sets one GID table entry. Argument: index. Input: AddressEntry.
        SET_ADDRESS = 0x03,
        /// Reads one GID table entry. Argument: index. Output: AddressEntry.
        QUERY_ADDRESS = 0x04,
        /// Creates an event queue. Argument: number, which is its vector. Input: EqContext.
        CREATE_EQ = 0x10,
        /// Reads an event queue. Argument: number. Output: EqContext.
        QUERY_EQ = 0x11,
        /// Destroys an event queue. Argument: number.
        DESTROY_EQ = 0x12,
        /// Changes moderation of an event queue. Argument: number. Input: EqContext.
        MODIFY_EQ = 0x13,
        /// Creates a CQ. Argument: NewNumber. Input: CqContext. Result: CQN.
        CREATE_CQ = 0x20,
        /// Reads a CQ. Argument: CQN. Output: CqContext.
        QUERY_CQ = 0x21,
        /// Destroys a CQ. Argument: CQN. BUSY while a QP or SRQ uses it.
        DESTROY_CQ = 0x22,
        /// Changes ring (unless base is zero) and moderation. Argument: CQN. Input: CqContext.
        MODIFY_CQ = 0x23,
        /// Creates a QP in state RESET. Argument: NewNumber. Input: QpContext. Result: QPN.
        CREATE_QP = 0x30,
        /// Reads a QP. Argument: QPN. Output: QpContext.
        QUERY_QP = 0x31,
        /// Destroys a QP. Argument: QPN. After it nothing is written for this QP.
        DESTROY_QP = 0x32,
        /// Changes state or attributes of a QP. Argument: QPN. Input: ModifyQp.
        MODIFY_QP = 0x33,
        /// Attaches a UD QP to a multicast group. Argument: QPN. Input: MulticastGroup.
        ATTACH_MULTICAST = 0x34,
        /// Detaches a UD QP from a multicast group. Argument: QPN. Input: MulticastGroup.
        DETACH_MULTICAST = 0x35,
        /// Creates a shared receive queue. Argument: NewNumber. Input: SrqContext. Result: SRQN.
        CREATE_SRQ = 0x40,
        /// Reads a shared receive queue. Argument: SRQN. Output: SrqContext.
        QUERY_SRQ = 0x41,
        /// Destroys a shared receive queue. Argument: SRQN. BUSY while a QP uses it.
        DESTROY_SRQ = 0x42,
        /// Changes the limit of a shared receive queue, and nothing else. Argument: SRQN. Input: SrqContext.
        MODIFY_SRQ = 0x43,
        /// Creates an MR or unbound window. Argument: NewNumber. Input: MemoryEntry. Result: key.
        CREATE_MR = 0x50,
        /// Reads a memory region, or a window (any variant of its key). Output: MemoryEntry.
        QUERY_MR = 0x51,
        /// Destroys a region (BUSY while it has windows), or a window by any variant of its key.
        DESTROY_MR = 0x52,
        /// Replaces a memory region. Argument: key. Input: MemoryEntry. Result: its new key. Or BUSY.
        MODIFY_MR = 0x53,
        /// Drops the cached pages of a memory region (contract 1.15). Argument: key.
        SYNC_MR = 0x54,
    }
}

crate::open_enum::open_enum! {
    /// How a command ended.
    pub enum CommandStatus: u8 {
        /// Done.
        SUCCESS = 0x00,
        /// The device failed inside.
        INTERNAL_ERROR = 0x01,
        /// No such command.
        BAD_OPCODE = 0x02,
        /// A field of the input is out of its range. Syndrome: its byte offset.
        BAD_PARAMETER = 0x03,
        /// The function is not in a state in which the command is allowed.
        BAD_STATE = 0x04,
        /// The number does not name an object.
        NO_OBJECT = 0x05,
        /// The object, or the number that a new one should get, is in use.
        BUSY = 0x06,
        /// No object of this kind is left, or its table has no such number.
        NO_RESOURCES = 0x07,
        /// A mailbox is missing, too short or too long.
        BAD_MAILBOX = 0x08,
        /// DMA to a mailbox or a table was refused by the host.
        DMA_ERROR = 0x09,
        /// The QP's state does not allow this transition.
        BAD_TRANSITION = 0x0a,
        /// The contract has it, this device does not implement it.
        NOT_SUPPORTED = 0x0b,
    }
}

word! {
    /// Last eight bytes of a command queue entry.
    pub struct CommandCompletion: u64 {
        [7:0] status, set_status: u8, "A CommandStatus, written by the device.";
        [39:8] syndrome, set_syndrome: u32, "Detail of a failure, written by the device.";
        flag [63] device_owned, set_device_owned,
            "One: the device has still to execute the entry. Zero: software owns it.";
    }
}

word! {
    /// Argument of CREATE_CQ, CREATE_QP, CREATE_SRQ and CREATE_MR.
    pub struct NewNumber: u64 {
        [31:0] number, set_number: u32,
            "CQN, QPN or SRQN that the object gets; of a memory region or window, bits 31:8 of its \
             key.";
        flag [32] chosen, set_chosen,
            "One: software has chosen the number (needs `chosen_numbers`). Zero: the device \
             chooses.";
    }
}

impl NewNumber {
    /// The device chooses.
    pub const ANY: Self = Self::from_bits(0);

    /// Software has chosen `number`.
    #[must_use]
    pub fn of(number: u32) -> Self {
        let mut argument = Self::ANY;
        argument.set_number(number);
        argument.set_chosen(true);
        argument
    }

    /// Returns the number if software has chosen it.
    #[must_use]
    pub fn choice(self) -> Option<u32> {
        self.chosen().then(|| self.number())
    }
}

layout! {
    /// Command queue entry.
    pub struct CommandEntry: 64 {
        0x00 opcode: CommandOpcode, "What to do.";
        0x02 reserved_02: u16, "Zero.";
        0x04 reserved_04: u32, "Zero.";
        0x08 argument: u64, "Number of the object, NewNumber, or zero.";
        0x10 input_iova: u64, "Input mailbox, 64-byte aligned.";
        0x18 output_iova: u64, "Output mailbox, 64-byte aligned.";
        0x20 input_length: u32, "Bytes of the input: exactly the size of its structure.";
        0x24 output_length: u32, "Bytes of the output mailbox: at least the size of its structure.";
        0x28 reserved_28: u64, "Zero.";
        0x30 result: u64, "Written by the device: number or key of the new object.";
        0x38 completion: CommandCompletion, "Status and ownership; written last.";
    }
}

layout! {
    /// Input of SET_CONTEXT_TABLES: where the context tables lie in host memory.
    pub struct ContextTables: 80 {
        0x00 qpc_base: u64, "IOVA of the QP context table.";
        0x08 cqc_base: u64, "IOVA of the CQ context table.";
        0x10 srqc_base: u64, "IOVA of the SRQ context table.";
        0x18 mpt_base: u64, "IOVA of the memory protection table.";
        0x20 mtt_base: u64, "IOVA of the memory translation table.";
        0x28 log_qps: u8, "Base-2 logarithm of the entries of the QP context table.";
        0x29 log_cqs: u8, "The same of the CQ context table.";
        0x2a log_srqs: u8, "The same of the SRQ context table.";
        0x2b log_mrs: u8, "The same of the memory protection table.";
        0x2c log_mtts: u8, "The same of the memory translation table.";
        0x2d reserved_2d: [u8; 3], "Zero.";
        0x30 private_base: u64, "IOVA of the private area, 4096-byte aligned; zero: none.";
        0x38 reserved_38: [u64; 3], "Zero.";
    }
}

word! {
    /// Which attributes a MODIFY_QP carries.
    pub struct QpAttributeMask: u32 {
        flag [0] access, set_access, "Remote access rights.";
        flag [1] p_key, set_p_key, "P_Key index.";
        flag [2] port, set_port, "Port number.";
        flag [3] q_key, set_q_key, "Q_Key.";
        flag [4] path, set_path, "Address path.";
        flag [5] path_mtu, set_path_mtu, "Path MTU.";
        flag [6] timeout, set_timeout, "Local ACK timeout.";
        flag [7] retry_count, set_retry_count, "Retry count.";
        flag [8] rnr_retry, set_rnr_retry, "RNR retry count.";
        flag [9] receive_psn, set_receive_psn, "Expected PSN.";
        flag [10] max_rd_atomic, set_max_rd_atomic, "Outstanding READs and atomics as requester.";
        flag [11] min_rnr_timer, set_min_rnr_timer, "RNR NAK timer code.";
        flag [12] send_psn, set_send_psn, "First PSN to send.";
        flag [13] max_dest_rd_atomic, set_max_dest_rd_atomic,
            "READs and atomics accepted as responder.";
        flag [14] dest_qpn, set_dest_qpn, "Destination QPN.";
        flag [15] drained_event, set_drained_event, "To SQD: raise SEND_QUEUE_DRAINED.";
    }
}

layout! {
    /// Input of ATTACH_MULTICAST and DETACH_MULTICAST.
    pub struct MulticastGroup: 16 {
        0x0 gid: [u8; 16], "Multicast GID: an IPv6 multicast address, or an IPv4-mapped one.";
    }
}

layout! {
    /// Input of MODIFY_QP.
    pub struct ModifyQp: 320 {
        0x00 state: u32, "QpStateCode to go to; the present one to change attributes only.";
        0x04 current_state: u32, "QpStateCode that the QP must be in; 0xff: any.";
        0x08 mask: QpAttributeMask, "Attributes to take from the context.";
        0x0c reserved_0c: u32, "Zero.";
        0x10 reserved_10: [u64; 6], "Zero.";
        0x40 context: QpContext, "The attributes.";
    }
}

layout! {
    /// Input of MODIFY_QP up to contract 1.5.
    pub struct ShortModifyQp: 272 {
        0x00 state: u32, "QpStateCode to go to; the present one to change attributes only.";
        0x04 current_state: u32, "QpStateCode that the QP must be in; 0xff: any.";
        0x08 mask: QpAttributeMask, "Attributes to take from the context.";
        0x0c reserved: u32, "Zero.";
        0x10 context: QpContext, "The attributes.";
    }
}

impl From<ShortModifyQp> for ModifyQp {
    fn from(short: ShortModifyQp) -> Self {
        Self {
            state: short.state,
            current_state: short.current_state,
            mask: short.mask,
            context: short.context,
            ..Self::default()
        }
    }
}

impl From<&ModifyQp> for ShortModifyQp {
    fn from(input: &ModifyQp) -> Self {
        Self {
            state: input.state,
            current_state: input.current_state,
            mask: input.mask,
            reserved: 0,
            context: input.context,
        }
    }
}

constants! {
    /// Alignment of a mailbox, in bytes.
    pub const MAILBOX_ALIGNMENT: u64 = 64;
    /// Alignment of the private area, in bytes.
    pub const PRIVATE_ALIGNMENT: u64 = 4096;
    /// Base-2 logarithm of the largest private area of one queue pair, in bytes.
    pub const LOG_PRIVATE_BYTES_MAX: u8 = 12;
    /// `ModifyQp.current_state`: any state will do.
    pub const ANY_STATE: u32 = 0xff;
    /// Base-2 logarithm of the largest mailbox in bytes.
    pub const LOG_MAX_MAILBOX: u8 = 12;
}

layout! {
    /// Output of QUERY_DEVICE.
    pub struct DeviceCapabilities: 128 {
        0x00 firmware_version: [u8; 16], "Text, padded with zeros.";
        0x10 qpn_base: u32, "QPN of entry 0 of the QP context table.";
        0x14 reserved_qps: u32, "Entries at the start of the table that CREATE_QP gives to no QP \
             other than GSI.";
        0x18 max_message_length: u64, "Bytes of the longest message.";
        0x20 max_mr_length: u64, "Bytes of the longest memory region.";
        0x28 page_sizes: u64, "Page sizes of memory regions: the sum of them.";
        0x30 log_max_qps: u8, "Base-2 logarithm of the largest QP context table.";
        0x31 log_max_cqs: u8, "The same of the CQ context table.";
        0x32 log_max_srqs: u8, "The same of the SRQ context table.";
        0x33 log_max_mrs: u8, "The same of the memory protection table.";
        0x34 log_max_mtts: u8, "The same of the memory translation table.";
        0x35 log_max_send_blocks: u8, "The same of a send queue, in 64-byte blocks.";
        0x36 log_max_receives: u8, "The same of a receive queue, in entries.";
        0x37 log_max_cqes: u8, "The same of a CQ.";
        0x38 log_max_eqes: u8, "The same of an event queue.";
        0x39 max_data_segments: u8, "Data segments of a WQE.";
        0x3a max_send_blocks: u8, "Blocks of a send WQE.";
        0x3b processing_units: u8, "Processing units; a QP is pinned to one.";
        0x3c max_inline: u16, "Bytes of an inline payload.";
        0x3e max_gids: u16, "Entries of the GID table.";
        0x40 max_rd_atomic: u8, "READs and atomics outstanding as requester, for each QP.";
        0x41 max_dest_rd_atomic: u8, "READs and atomics held as responder, for each QP.";
        0x42 local_ack_delay: u8, "Local ACK delay as its 5-bit code (4.096 us x 2^n).";
        0x43 max_path_mtu: u8, "PathMtuCode of the largest path MTU.";
        0x44 features: DeviceFeatures, "What is implemented.";
        0x48 device_memory_length: u32, "Bytes of the device's own memory (BAR4).";
        0x4c max_multicast_groups: u32, "Multicast groups to which QPs may be attached.";
        0x50 max_multicast_qps: u32, "QPs that may be attached to one multicast group.";
        0x54 log_resident_qps: u8, "Base-2 logarithm of the QPs that need no private area.";
        0x55 log_private_bytes: u8, "Base-2 logarithm of the bytes of private area for each QP, 6 \
             to 12; zero: none.";
        0x56 reserved_56: u16, "Zero.";
        0x58 reserved_58: [u64; 5], "Zero.";
    }
}

word! {
    /// What the device implements.
    pub struct DeviceFeatures: u32 {
        flag [0] reliable_connected, set_reliable_connected, "RC.";
        flag [1] unreliable_connected, set_unreliable_connected, "UC.";
        flag [2] unreliable_datagram, set_unreliable_datagram, "UD.";
        flag [3] extended_reliable_connected, set_extended_reliable_connected, "XRC.";
        flag [4] atomics, set_atomics, "Compare and swap, fetch and add.";
        flag [5] shared_receive_queues, set_shared_receive_queues, "SRQs.";
        flag [6] memory_windows, set_memory_windows, "Memory windows.";
        flag [7] global_atomics, set_global_atomics,
            "Atomics are atomic also with respect to the host's processors (PCIe AtomicOps).";
        flag [8] general_service_interface, set_general_service_interface, "GSI: QP 1.";
        flag [9] cq_resize, set_cq_resize,
            "MODIFY_CQ with another ring. Before contract 1.6: always, without this bit.";
        flag [10] chosen_numbers, set_chosen_numbers,
            "Software may choose the numbers of new objects (contract 1.9).";
        flag [11] own_multicast, set_own_multicast,
            "A member of a multicast group gets what it sends there, unless its QpShape says \
             otherwise (contract 1.11).";
        flag [12] flush, set_flush,
            "FLUSH that makes writes visible to all readers, RC and XRC (contract 1.14).";
        flag [13] persistent_flush, set_persistent_flush,
            "FLUSH that makes writes persistent (contract 1.14).";
        flag [14] atomic_write, set_atomic_write, "ATOMIC WRITE, RC and XRC (contract 1.14).";
        flag [15] on_demand_paging, set_on_demand_paging,
            "Memory regions may be on demand: RC, XRC and UD (contract 1.15).";
    }
}

/// Size of the structure that a command takes as its input; zero: none.
pub const fn input_size(opcode: CommandOpcode) -> usize {
    match opcode {
        CommandOpcode::SET_CONTEXT_TABLES => ContextTables::SIZE,
        CommandOpcode::SET_ADDRESS => AddressEntry::SIZE,
        CommandOpcode::CREATE_EQ | CommandOpcode::MODIFY_EQ => EqContext::SIZE,
        CommandOpcode::CREATE_CQ | CommandOpcode::MODIFY_CQ => CqContext::SIZE,
        CommandOpcode::CREATE_QP => QpContext::SIZE,
        CommandOpcode::MODIFY_QP => ModifyQp::SIZE,
        CommandOpcode::CREATE_SRQ | CommandOpcode::MODIFY_SRQ => SrqContext::SIZE,
        CommandOpcode::CREATE_MR | CommandOpcode::MODIFY_MR => MemoryEntry::SIZE,
        CommandOpcode::ATTACH_MULTICAST | CommandOpcode::DETACH_MULTICAST => MulticastGroup::SIZE,
        _ => 0,
    }
}

/// Size of the structure that a command returns in its output mailbox; zero: none.
pub const fn output_size(opcode: CommandOpcode) -> usize {
    match opcode {
        CommandOpcode::QUERY_DEVICE => DeviceCapabilities::SIZE,
        CommandOpcode::QUERY_ADDRESS => AddressEntry::SIZE,
        CommandOpcode::QUERY_EQ => EqContext::SIZE,
        CommandOpcode::QUERY_CQ => CqContext::SIZE,
        CommandOpcode::QUERY_QP => QpContext::SIZE,
        CommandOpcode::QUERY_SRQ => SrqContext::SIZE,
        CommandOpcode::QUERY_MR => MemoryEntry::SIZE,
        _ => 0,
    }
}
