//! BAR2: doorbell pages.
//!
//! A user context maps one or more pages of 4 KiB. A page is a dense array of 8-byte slots. Every
//! queue has its own slot, so that a newer doorbell replaces an older one of the same queue and
//! never one of another queue. Slots are counted over all pages: slot `s` is at byte `8 * s` of
//! BAR2. The first [`RESERVED_SLOTS`] slots of a page belong to the page itself. The doorbell pages
//! are followed by the push pages: [`crate::push`].
//!
//! A model in another process (vfio-user) is not notified of writes to a page: the page is shared
//! memory, and the model polls it. It then sets `Capability.polled_doorbells`, and software, after
//! each doorbell and in this order,
//!
//! 1. adds one to the page's [`PAGE_SUMMARY_SLOT`] and to the [`FUNCTION_SUMMARY_SLOT`], so that
//!    the device need not read each slot;
//! 2. reads the [`SLEEPING_SLOT`], and writes the register `wake` if it is not zero.
//!
//! The additions and the read are sequentially consistent. The device replaces a doorbell that it
//! takes with zero, which is no doorbell, so that the same value rung again is noticed. Before it
//! sleeps, it sets [`SLEEPING_SLOT`] and reads the function's summary once more. A card needs none
//! of this.

use crate::layout::{constants, word};

constants! {
    /// Bytes of one doorbell page.
    pub const PAGE_SIZE: u32 = 4096;
    /// Base-2 logarithm of the number of doorbell pages.
    pub const LOG_PAGES: u8 = 9;
    /// Doorbell pages in BAR2.
    pub const PAGES: u32 = 1 << LOG_PAGES;
    /// Bytes of all doorbell pages.
    pub const DOORBELL_PAGES_SIZE: u32 = PAGES * PAGE_SIZE;
    /// Size of BAR2 in bytes: the doorbell pages, and as many push pages.
    pub const BAR2_SIZE: u32 = 2 * DOORBELL_PAGES_SIZE;
    /// Bytes of one slot.
    pub const SLOT_SIZE: u32 = 8;
    /// Slots in one page.
    pub const SLOTS_PER_PAGE: u32 = PAGE_SIZE / SLOT_SIZE;
    /// Slots at the start of each page that no queue may use: one cache line.
    pub const RESERVED_SLOTS: u32 = 8;
    /// Slot of each page that counts the doorbells of the page.
    pub const PAGE_SUMMARY_SLOT: u32 = 0;
    /// Slot of the first page that counts the doorbells of the function.
    pub const FUNCTION_SUMMARY_SLOT: u32 = 1;
    /// Slot of the first page that is not zero while the device sleeps.
    pub const SLEEPING_SLOT: u32 = 2;
    /// Slots in all doorbell pages.
    pub const SLOTS: u32 = PAGES * SLOTS_PER_PAGE;
}

word! {
    /// The value that is written to a doorbell slot.
    pub struct DoorbellValue: u64 {
        [31:0] index, set_index: u32,
            "Send queue: producer index in 64-byte blocks. Receive queue: producer index in \
             entries. CQ: consumer index in entries. Free-running, modulo 2^32.";
        [55:32] number, set_number: u32,
            "QPN, SRQN or CQN. Must be that of the queue to which the slot was given.";
        [63:56] kind, set_kind: u8, "A DoorbellKind.";
    }
}

crate::open_enum::open_enum! {
    /// What a doorbell says.
    pub enum DoorbellKind: u8 {
        /// Send queue: WQEs up to the producer index are ready to be fetched.
        SEND_QUEUE = 0x1,
        /// Receive queue: receive WQEs up to the producer index are ready.
        RECEIVE_QUEUE = 0x2,
        /// CQ: raise one event for the first CQE at or behind the consumer index that raised none.
        CQ_ARM = 0x3,
        /// CQ: as CQ_ARM, but only solicited and failed CQEs count.
        CQ_ARM_SOLICITED = 0x4,
        /// Shared receive queue: receive WQEs up to the producer index are ready.
        SHARED_RECEIVE_QUEUE = 0x5,
        /// Send queue, in a push window: as SEND_QUEUE; the newest WQE is pushed, in one block.
        PUSH_1 = 0x11,
        /// The same, in two blocks.
        PUSH_2 = 0x12,
        /// The same, in three blocks.
        PUSH_3 = 0x13,
        /// The same, in four blocks.
        PUSH_4 = 0x14,
        /// The same, in five blocks (contract 1.7).
        PUSH_5 = 0x15,
    }
}

/// Returns true if a queue may have `slot`: it is in a doorbell page, and not reserved.
#[must_use]
pub const fn is_slot_of_queue(slot: u32) -> bool {
    slot < SLOTS && slot % SLOTS_PER_PAGE >= RESERVED_SLOTS
}

impl DoorbellValue {
    /// A doorbell for queue `number` with a producer or consumer `index`.
    #[inline]
    pub fn new(kind: DoorbellKind, number: u32, index: u32) -> Self {
        let number = u64::from(number & 0xff_ffff);
        Self::from_bits(u64::from(kind.0) << 56 | number << 32 | u64::from(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructor_and_getters_agree() {
        let value = DoorbellValue::new(DoorbellKind::CQ_ARM, 0x12_3456, 0x89ab_cdef);
        assert_eq!(value.kind(), DoorbellKind::CQ_ARM.0);
        assert_eq!(value.number(), 0x12_3456);
        assert_eq!(value.index(), 0x89ab_cdef);
    }
}
