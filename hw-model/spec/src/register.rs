//! BAR0: registers, event queue doorbells, counters and the MSI-X table.

use volatile_register::{RO, RW, WO};

use crate::layout::{constants, word};

constants! {
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
    pub const CONTRACT_MINOR: u16 = 15;
    /// Bytes of BAR4, the device's own memory: for memory regions near the port, and for software
    /// to read and write.
    pub const BAR4_SIZE: u32 = 256 << 10;
    /// What a read of an address without a register returns.
    pub const UNMAPPED_READ: u32 = 0xffff_ffff;
    /// Largest value of [`offset::command_queue_log_size`].
    pub const COMMAND_QUEUE_LOG_SIZE_MAX: u32 = 8;
}

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
    /// Number of consecutive elements.
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
    0x004 contract_version: RO<ContractVersion>, reset ContractVersion::OURS.bits() as u64,
        "Version of the contract that the function implements.";
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
    0x058 page_fault_answer: WO<PageFaultAnswer>, reset 0,
        "Answers PAGE_FAULT events (from version 1.15 on).";
    0x100 event_queue_doorbell: [WO<EventQueueDoorbell>; 16], reset 0,
        "Consumer index of event queue n, and whether it may interrupt.";
    0x200 roce_accl_select: RO<RoceAcclSelect>, reset 0x1000_0061,
        "ROCE_ACCL: which fields can be changed; 0x1000_0071 with the personality mlx5.";
    0x204 roce_accl: RW<RoceAccl>, reset 0,
        "ROCE_ACCL: how QPs that go to RTR from now on recover. The preset says the reset value.";
    0x208 roce_accl_limits: RO<RoceAcclLimits>, reset 0x4100_0fa0,
        "ROCE_ACCL: limits of the adaptive retransmission profile.";
    0x20c roce_accl_reorder_time: RW<u32>, reset 0,
        "Nanoseconds after which a gap counts as a loss with adaptive routing. Not of ConnectX.";
    0x210 adp_retx_profile: RW<AdpRetxProfile>, reset 0,
        "Adaptive retransmission profile 1.";
    0x214 adp_retx_profile_start: RW<AdpRetxProfileStart>, reset 0,
        "Its first timeout, and the time without progress after which a QP fails.";
    0x218 adp_retx_range: [RW<AdpRetxRange>; 4], reset 0,
        "Its ranges of timeouts, in order of range_low_bound.";
    block {
        magic: RO<u32>,
        contract_version: RO<ContractVersion>,
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
        page_fault_answer: WO<PageFaultAnswer>,
        _reserved_05c: [u32; 41],
        event_queue_doorbell: [WO<EventQueueDoorbell>; 16],
        _reserved_140: [u32; 48],
        roce_accl_select: RO<RoceAcclSelect>,
        roce_accl: RW<RoceAccl>,
        roce_accl_limits: RO<RoceAcclLimits>,
        roce_accl_reorder_time: RW<u32>,
        adp_retx_profile: RW<AdpRetxProfile>,
        adp_retx_profile_start: RW<AdpRetxProfileStart>,
        adp_retx_range: [RW<AdpRetxRange>; 4],
    }
}

word! {
    /// A version of this contract.
    pub struct ContractVersion: u32 {
        [15:0] minor, set_minor: u16,
            "Minor version: grows when something is added that older software need not know.";
        [31:16] major, set_major: u16, "Major version: software leaves another one alone.";
    }
}

impl PageFaultAnswer {
    /// Mask of the number of events answered so far.
    pub const COUNT_MASK: u32 = 0xff_ffff;
}

/// Returns true for the registers by which software answers events.
#[must_use]
pub const fn answers_events(at: u32) -> bool {
    let first = offset::event_queue_doorbell;
    let is_doorbell = first <= at && at < first + 4 * VECTOR_COUNT as u32;
    is_doorbell || at == offset::page_fault_answer
}

impl ContractVersion {
    /// The version that this crate declares.
    pub const OURS: Self = Self::from_bits((CONTRACT_MAJOR as u32) << 16 | CONTRACT_MINOR as u32);

    /// Returns true if MODIFY_QP takes [`crate::command::ModifyQp`]; else it takes
    /// [`crate::command::ShortModifyQp`].
    #[must_use]
    pub fn has_aligned_modify_qp(self) -> bool {
        self.minor() >= 6
    }

    /// Returns true if the register `page_fault_answer` exists.
    #[must_use]
    pub fn has_page_fault_answer(self) -> bool {
        self.minor() >= 15
    }

    /// Returns true if `DeviceFeatures.cq_resize` says whether CQs can be resized; else they can.
    #[must_use]
    pub fn has_cq_resize_feature(self) -> bool {
        self.minor() >= 6
    }
}

word! {
    /// Answer to PAGE_FAULT events, in their order.
    pub struct PageFaultAnswer: u32 {
        [23:0] count, set_count: u32,
            "PAGE_FAULT events answered so far, modulo 2^24: their pages are present now.";
        flag [31] refused, set_refused,
            "The page of the last of them cannot be present: the access fails.";
    }
}

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
            "64-byte blocks of the longest push, up to 5; before contract 1.7: 1, 2 or 4. Zero: \
             BAR2 has no push pages.";
        [51:48] personality, set_personality: u8,
            "Whose failures the function shows: a Personality (from version 1.12 on).";
        flag [61] roce_accl, set_roce_accl,
            "The registers of ROCE_ACCL exist (from version 1.5 on).";
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

word! {
    /// Fields of ROCE_ACCL that can be changed; the others are zero and ignore writes.
    pub struct RoceAcclSelect: u32 {
        flag [0] roce_adp_retrans_field_select, set_roce_adp_retrans_field_select,
            "`roce_adp_retrans_en` can be changed.";
        flag [1] roce_tx_window_field_select, set_roce_tx_window_field_select,
            "`roce_tx_window_en` can be changed: congestion control, not implemented.";
        flag [2] roce_slow_restart_field_select, set_roce_slow_restart_field_select,
            "`roce_slow_restart_en` can be changed: congestion control, not implemented.";
        flag [3] roce_slow_restart_idle_field_select, set_roce_slow_restart_idle_field_select,
            "`roce_slow_restart_idle_en` can be changed: congestion control, not implemented.";
        flag [4] min_ack_timeout_limit_disabled_field_select,
            set_min_ack_timeout_limit_disabled_field_select,
            "`min_ack_timeout_limit_disabled` can be changed: with the personality mlx5.";
        flag [5] adaptive_routing_forced_en_field_select,
            set_adaptive_routing_forced_en_field_select,
            "`adaptive_routing_forced_en` can be changed.";
        flag [6] selective_repeat_forced_en_field_select,
            set_selective_repeat_forced_en_field_select,
            "`selective_repeat_forced_en` can be changed.";
        flag [8] cc_per_plane_en_field_select, set_cc_per_plane_en_field_select,
            "`cc_per_plane_en` can be changed: congestion control, not implemented.";
        flag [9] ack_dscp_force_field_select, set_ack_dscp_force_field_select,
            "`ack_dscp_force` can be changed: not implemented.";
        flag [10] cc_burst_size_select, set_cc_burst_size_select,
            "`cc_burst_size` can be changed: congestion control, not implemented.";
        flag [28] adp_retx_profile_select, set_adp_retx_profile_select,
            "`adp_retx_profile_id` and the profile can be changed.";
    }
}

word! {
    /// How queue pairs recover. A queue pair takes the modes when it goes to RTR.
    pub struct RoceAccl: u32 {
        [30:28] adp_retx_profile_id, set_adp_retx_profile_id: u8,
            "Profile of the adaptive retransmission timer: 0 is the built-in one (2 to 16 ms; with \
             the personality mlx5 the measured one of a ConnectX-6, from 20 ms on), 1 that of \
             `adp_retx_profile`; if that is not valid, 0 applies.";
        flag [0] roce_adp_retrans_en, set_roce_adp_retrans_en,
            "The adaptive retransmission timer takes the place of the local ACK timeout.";
        flag [1] roce_tx_window_en, set_roce_tx_window_en, "Zero: not implemented.";
        flag [2] roce_slow_restart_en, set_roce_slow_restart_en, "Zero: not implemented.";
        flag [3] roce_slow_restart_idle_en, set_roce_slow_restart_idle_en,
            "Zero: not implemented.";
        flag [4] min_ack_timeout_limit_disabled, set_min_ack_timeout_limit_disabled,
            "Personality mlx5: local ACK timeouts below 16 are used as they are, and nothing is \
             retransmitted earlier. Others: zero, there is no such limit.";
        flag [5] adaptive_routing_forced_en, set_adaptive_routing_forced_en,
            "Selective repeat on a network that reorders: WRITEs are placed in any order.";
        flag [6] selective_repeat_forced_en, set_selective_repeat_forced_en,
            "Selective repeat.";
    }
}

word! {
    /// Limits of the adaptive retransmission profile.
    pub struct RoceAcclLimits: u32 {
        [30:28] adp_retx_profile_max_range_num, set_adp_retx_profile_max_range_num: u8,
            "Ranges of timeouts at most.";
        [26:24] adp_retx_profile_max_id, set_adp_retx_profile_max_id: u8,
            "Largest `adp_retx_profile_id`.";
        [19:0] adp_retx_base_timeout_min, set_adp_retx_base_timeout_min: u32,
            "Smallest `time_base`, in nanoseconds.";
    }
}

word! {
    /// Adaptive retransmission profile. A timeout n means `time_base` times 2^n.
    pub struct AdpRetxProfile: u32 {
        [15:0] time_base, set_time_base: u16, "A power of two of `time_unit`.";
        [23:22] time_unit, set_time_unit: u8, "1: microseconds. Other values are reserved.";
        [26:24] start_range_index, set_start_range_index: u8,
            "The range behind the first timeout, if that is in none.";
        [30:28] range_num, set_range_num: u8, "Ranges in use, 1 to 4.";
        flag [31] qp_total_timeout, set_qp_total_timeout,
            "A QP fails after its retry count times its local ACK timeout without progress; else \
             `retx_total_timeout` says when.";
    }
}

word! {
    /// Begin and end of the adaptive retransmission profile.
    pub struct AdpRetxProfileStart: u32 {
        [7:0] timeout_init_range_size, set_timeout_init_range_size: u8,
            "First timeouts to choose from, at random.";
        [15:8] timeout_init_low_bound, set_timeout_init_low_bound: u8,
            "Smallest first timeout.";
        [31:24] retx_total_timeout, set_retx_total_timeout: u8,
            "Time without progress after which a QP fails.";
    }
}

word! {
    /// A range of timeouts of the adaptive retransmission profile.
    pub struct AdpRetxRange: u32 {
        [7:0] range_size, set_range_size: u8, "Number of timeouts, each twice the one before.";
        [15:8] range_low_bound, set_range_low_bound: u8, "Smallest timeout.";
        [25:16] timeout_retry_num, set_timeout_retry_num: u16,
            "Time-outs of each before the next one.";
        [27:26] dec_mode, set_dec_mode: u8,
            "What progress does: 0 a quarter of the timeout, 1 half of it, 2 back to \
             `range_low_bound`.";
        [30:28] prev_range_index, set_prev_range_index: u8,
            "The range to which progress leads from `range_low_bound`: this one or one before it.";
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
