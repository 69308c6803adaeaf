//! BAR0: registers, event queue doorbells, counters and the MSI-X table.

use volatile_register::{RO, RW, WO};

use crate::layout::word;

/// Size of BAR0 in bytes.
pub const BAR0_SIZE: u32 = 0x4000;
/// First byte of the counters: one 64-bit register each, in the order of [`crate::counter`].
pub const COUNTERS_OFFSET: u32 = 0x1000;
/// First byte of the MSI-X table (PCIe base specification, 7.7.2): 16 bytes for each vector.
pub const MSIX_TABLE_OFFSET: u32 = 0x2000;
/// First byte of the MSI-X pending bit array.
pub const MSIX_PENDING_OFFSET: u32 = 0x3000;
/// Interrupt vectors, and event queues that can exist: one event queue for each vector.
pub const VECTOR_COUNT: u16 = 16;
/// Bytes of one MSI-X table entry: message address (8), message data (4), vector control (4).
pub const MSIX_ENTRY_SIZE: u32 = 16;
/// Bit 0 of an MSI-X entry's vector control word: the vector is masked.
pub const MSIX_VECTOR_MASKED: u32 = 1;

/// What [`Bar0::magic`] reads: "FROC" in memory order.
pub const MAGIC: u32 = u32::from_le_bytes(*b"FROC");
/// PCI vendor ID.
pub const VENDOR_ID: u16 = 0x1172;
/// PCI device ID.
pub const DEVICE_ID: u16 = 0xf10a;
/// Version of this contract, major part: a driver refuses a card with another one.
pub const CONTRACT_MAJOR: u16 = 1;
/// Version of this contract, minor part: grows when something is added compatibly.
pub const CONTRACT_MINOR: u16 = 4;
/// Bytes of BAR4, the device's own memory: for memory regions near the port, and for software
/// to read and write.
pub const BAR4_SIZE: u32 = 256 << 10;
/// What a read of an address without a register returns.
pub const UNMAPPED_READ: u32 = 0xffff_ffff;

/// How software may use a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterAccess {
    /// Reads only; writes are ignored.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
    /// Writes only; reads return zero.
    WriteOnly,
}

/// One row of the register table.
#[derive(Debug, Clone, Copy)]
pub struct Register {
    /// Name, as in the code.
    pub name: &'static str,
    /// Offset of the first element in BAR0, in bytes.
    pub offset: u32,
    /// Width of one element, in bytes: 4 or 8.
    pub width: u32,
    /// Number of elements, one behind the other.
    pub count: u32,
    /// How software may use it.
    pub access: RegisterAccess,
    /// Value after reset.
    pub reset: u64,
    /// Type of the value.
    pub kind: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// How a register cell type describes itself.
trait Cell {
    const ACCESS: RegisterAccess;
    const WIDTH: u32;
    const COUNT: u32 = 1;
}

impl<T: Copy> Cell for RO<T> {
    const ACCESS: RegisterAccess = RegisterAccess::ReadOnly;
    const WIDTH: u32 = size_of::<T>() as u32;
}
impl<T: Copy> Cell for RW<T> {
    const ACCESS: RegisterAccess = RegisterAccess::ReadWrite;
    const WIDTH: u32 = size_of::<T>() as u32;
}
impl<T: Copy> Cell for WO<T> {
    const ACCESS: RegisterAccess = RegisterAccess::WriteOnly;
    const WIDTH: u32 = size_of::<T>() as u32;
}
impl<T: Cell, const N: usize> Cell for [T; N] {
    const ACCESS: RegisterAccess = T::ACCESS;
    const WIDTH: u32 = T::WIDTH;
    const COUNT: u32 = N as u32;
}

/// Declares BAR0 once: the block of cells, the offsets pinned, and the table of rows.
macro_rules! registers {
    (
        $( $offset:literal $name:ident: $cell:ty, reset $reset:expr, $meaning:literal; )*
        block { $( $member:ident: $member_type:ty, )* }
    ) => {
        /// The registers of BAR0 as the driver maps them.
        ///
        /// Never take a reference to it over memory that another thread or process changes; use
        /// the offsets with the bus instead.
        #[repr(C)]
        #[expect(missing_docs, reason = "each register is documented in REGISTERS")]
        pub struct Bar0 {
            $( pub $member: $member_type, )*
        }

        const _: () = {
            $( assert!(core::mem::offset_of!(Bar0, $name) == $offset); )*
        };

        /// Offsets of the registers in BAR0, in bytes.
        pub mod offset {
            $( #[doc = $meaning] #[expect(non_upper_case_globals, reason = "register names")]
               pub const $name: u32 = $offset; )*
        }

        /// Every register of BAR0 below the counters, in order of its offset.
        pub const REGISTERS: &[Register] = &[ $( Register {
            name: stringify!($name),
            offset: $offset,
            width: <$cell as Cell>::WIDTH,
            count: <$cell as Cell>::COUNT,
            access: <$cell as Cell>::ACCESS,
            reset: $reset,
            kind: stringify!($cell),
            meaning: $meaning,
        }, )* ];
    };
}

registers! {
    0x000 magic: RO<u32>, reset MAGIC as u64,
        "Identity: the bytes \"FROC\". Anything else: this is not a Ferroce function.";
    0x004 contract_version: RO<u32>, reset (CONTRACT_MAJOR as u64) << 16 | CONTRACT_MINOR as u64,
        "Version of this contract: major in bits 31:16, minor in bits 15:0.";
    0x008 device_id: RO<u32>, reset (DEVICE_ID as u64) << 16 | VENDOR_ID as u64,
        "PCI device ID in bits 31:16, vendor ID in bits 15:0.";
    0x00c hardware_revision: RO<u32>, reset 1,
        "Revision of the card or of the model.";
    0x010 capability: RO<Capability>, reset 0,
        "What this function can do. Never zero when the function is there.";
    0x018 port_mac: RO<u64>, reset 0,
        "MAC address of the port in bits 47:0, first octet in bits 47:40.";
    0x020 control: RW<Control>, reset 0,
        "Enables and resets the function.";
    0x024 status: RO<Status>, reset 0,
        "State of the function.";
    0x028 fatal_syndrome: RO<u32>, reset 0,
        "Why the function stopped, when `Status.fatal` is set: a FatalSyndrome.";
    0x030 clock: RO<u64>, reset 0,
        "Free-running device clock, in nanoseconds; also the time stamp of CQEs.";
    0x040 command_queue_base: RW<u64>, reset 0,
        "IOVA of the command queue, 64-byte aligned. Only while the function is disabled.";
    0x048 command_queue_log_size: RW<u32>, reset 0,
        "Base-2 logarithm of the number of command queue entries, 0 to 8. Only while disabled.";
    0x04c command_queue_doorbell: WO<u32>, reset 0,
        "Commands posted so far, modulo 2^32: rings the command queue's doorbell.";
    0x050 command_queue_consumer: RO<u32>, reset 0,
        "Commands completed so far, modulo 2^32.";
    0x054 wake: WO<u32>, reset 0,
        "Any write wakes a device that polls its doorbell pages and sleeps.";
    0x100 event_queue_doorbell: [WO<EventQueueDoorbell>; 16], reset 0,
        "Consumer index of event queue n, and whether it may interrupt.";
    block {
        magic: RO<u32>,
        contract_version: RO<u32>,
        device_id: RO<u32>,
        hardware_revision: RO<u32>,
        capability: RO<Capability>,
        port_mac: RO<u64>,
        control: RW<Control>,
        status: RO<Status>,
        fatal_syndrome: RO<u32>,
        _reserved_02c: [u32; 1],
        clock: RO<u64>,
        _reserved_038: [u32; 2],
        command_queue_base: RW<u64>,
        command_queue_log_size: RW<u32>,
        command_queue_doorbell: WO<u32>,
        command_queue_consumer: RO<u32>,
        wake: WO<u32>,
        _reserved_058: [u32; 42],
        event_queue_doorbell: [WO<EventQueueDoorbell>; 16],
    }
}

/// Largest value of [`offset::command_queue_log_size`].
pub const COMMAND_QUEUE_LOG_SIZE_MAX: u32 = 8;

word! {
    /// What this function can do, readable before anything is set up.
    pub struct Capability: u64 {
        [7:0] log_doorbell_pages, set_log_doorbell_pages: u8,
            "Base-2 logarithm of the number of 4 KiB doorbell pages in BAR2.";
        [15:8] vectors, set_vectors: u8, "MSI-X vectors, and event queues.";
        [23:16] log_max_mailbox, set_log_max_mailbox: u8,
            "Base-2 logarithm of the largest command mailbox, in bytes.";
        [31:24] ports, set_ports: u8, "Ethernet ports.";
        [39:32] counters, set_counters: u8, "64-bit counters at 0x1000.";
        [47:40] push_blocks, set_push_blocks: u8,
            "64-byte blocks of the longest push: 1, 2 or 4. Zero: BAR2 has no push pages.";
        flag [62] polled_doorbells, set_polled_doorbells,
            "The doorbell pages are memory that the device polls: software counts doorbells, and \
             wakes the device when it sleeps. Never set by a card.";
        flag [63] present, set_present, "Always one.";
    }
}

word! {
    /// Enables and resets the function.
    pub struct Control: u32 {
        flag [0] enable, set_enable,
            "Starts the command queue. Cleared by a reset.";
        flag [1] reset, set_reset,
            "Write one: all queues, contexts and counters are forgotten, nothing more is \
             written to host memory. Reads as one until the reset is done.";
    }
}

word! {
    /// State of the function.
    pub struct Status: u32 {
        flag [0] ready, set_ready, "Reset is done; the function may be enabled.";
        flag [1] enabled, set_enabled, "The command queue runs.";
        flag [2] fatal, set_fatal,
            "The function has stopped (see `fatal_syndrome`); only a reset helps.";
        flag [3] link_up, set_link_up, "The port has a link.";
    }
}

word! {
    /// Consumer index of an event queue.
    pub struct EventQueueDoorbell: u32 {
        [23:0] consumer_index, set_consumer_index: u32,
            "Events consumed so far, modulo 2^24.";
        flag [31] arm, set_arm,
            "Interrupt when an event at or behind the consumer index exists; one interrupt, \
             then the queue is disarmed.";
    }
}

crate::open_enum::open_enum! {
    /// Why the function has stopped.
    pub enum FatalSyndrome: u32 {
        /// Nothing is wrong.
        NONE = 0x0,
        /// The command queue could not be read or written by DMA.
        COMMAND_QUEUE_DMA = 0x1,
        /// An event queue could not be written by DMA.
        EVENT_QUEUE_DMA = 0x2,
        /// A context table could not be read or written by DMA.
        CONTEXT_TABLE_DMA = 0x3,
        /// Fault injection.
        INJECTED = 0x4,
    }
}
