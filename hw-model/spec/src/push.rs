//! Push windows of BAR2: a send WQE that is written together with its doorbell, so that the device
//! need not fetch it.
//!
//! The doorbell pages of BAR2 are followed by as many push pages; push page `p` belongs to doorbell
//! page `p`. A push page is mapped write-combining, so the windows cannot be in the doorbell page.
//! It holds [`WINDOWS_PER_PAGE`] windows; the doorbell slot of a send queue selects its window. A
//! window has two halves, which are used alternately: while a write-combining buffer of the
//! processor may still hold data of one half, the other half is filled.
//!
//! A push consists of one to [`MAX_BLOCKS`] [`PushBlock`]s from the start of a half; the fifth one
//! is the first of the other half. The doorbell value comes first because a WQE does not name its
//! QP, because an arriving push is then a doorbell like any other, and because the index in the
//! value distinguishes a late push from a new one. Every block has the value, because a block is
//! the largest unit that arrives in one piece (one TLP), and blocks arrive in any order.
//!
//! The WQE is also in the ring, where it was written before: the device may always fetch it from
//! there.

use crate::doorbell::{BAR2_SIZE, DoorbellKind, DoorbellValue, PAGE_SIZE, SLOT_SIZE, SLOTS};
use crate::doorbell::{DOORBELL_PAGES_SIZE, SLOTS_PER_PAGE};
use crate::layout::{constants, layout};

constants! {
    /// Offset of the first push page in BAR2, in bytes.
    pub const PUSH_OFFSET: u32 = DOORBELL_PAGES_SIZE;
    /// Blocks of the longest push: a WQE of [`MAX_WQE_BLOCKS`].
    pub const MAX_BLOCKS: usize = 5;
    /// Basic blocks of the longest WQE that is pushed: as much as BlueFlame of ConnectX carries.
    pub const MAX_WQE_BLOCKS: usize = 4;
    /// Words of 64 bits in one block, with the doorbell value.
    pub const WORDS_PER_BLOCK: usize = PushBlock::SIZE / 8;
    /// Words of a WQE that one block carries.
    pub const WQE_WORDS_PER_BLOCK: usize = WORDS_PER_BLOCK - 1;
    /// Blocks of one half of a window. A longer push goes on in the other half.
    pub const HALF_BLOCKS: usize = 4;
    /// Bytes of one half of a window.
    pub const HALF_SIZE: u32 = (HALF_BLOCKS * PushBlock::SIZE) as u32;
    /// Bytes of a window: two halves.
    pub const WINDOW_SIZE: u32 = 2 * HALF_SIZE;
    /// Windows in one push page.
    pub const WINDOWS_PER_PAGE: u32 = PAGE_SIZE / WINDOW_SIZE;
}

const SLOTS_PER_BLOCK: u32 = PushBlock::SIZE as u32 / SLOT_SIZE;
const SLOTS_PER_HALF: u32 = HALF_SIZE / SLOT_SIZE;
const SLOTS_PER_WINDOW: u32 = WINDOW_SIZE / SLOT_SIZE;

layout! {
    /// A block of a push: one write of 64 bytes.
    pub struct PushBlock: 64 {
        0x00 doorbell: DoorbellValue, "Kind PUSH_n for a push of n blocks, QPN, and the producer \
             index behind the WQE: the same in all blocks of a push.";
        0x08 words: [u64; 7], "Seven words of the WQE. Block 0 has the first seven, block 1 the \
             next; behind the end of the WQE: zero.";
    }
}

const _: () = assert!(PUSH_OFFSET == 0x20_0000 && PUSH_OFFSET + DOORBELL_PAGES_SIZE == BAR2_SIZE);
const _: () = assert!(HALF_SIZE == 0x100 && WINDOW_SIZE == 0x200 && WINDOWS_PER_PAGE == 8);
const _: () = assert!(SLOTS == PUSH_OFFSET / SLOT_SIZE);
const _: () = assert!(blocks_for(MAX_WQE_BLOCKS * WORDS_PER_BLOCK).unwrap() == MAX_BLOCKS);
const _: () = {
    let second = PushWindow::of_slot(SLOTS_PER_PAGE + 9);
    assert!(second.slot(false) * SLOT_SIZE == 0x20_1200);
    assert!(second.slot(true) * SLOT_SIZE == 0x20_1300);
};

/// A push window: its number, counted over all push pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushWindow(u32);

impl PushWindow {
    /// The window of the send queue whose doorbell slot is `slot`.
    pub const fn of_slot(slot: u32) -> Self {
        let page = slot / SLOTS_PER_PAGE;
        Self(page * WINDOWS_PER_PAGE + slot % WINDOWS_PER_PAGE)
    }

    /// The window in which `slot`, counted over all of BAR2, is the first one of a block. `None`:
    /// it is not the first one of a block, or not in a push page.
    pub const fn of_block(slot: u32) -> Option<Self> {
        let inside = slot >= SLOTS && slot < BAR2_SIZE / SLOT_SIZE;
        if inside && slot % SLOTS_PER_BLOCK == 0 {
            Some(Self((slot - SLOTS) / SLOTS_PER_WINDOW))
        } else {
            None
        }
    }

    /// The first slot of a half, counted over all of BAR2.
    pub const fn slot(self, second_half: bool) -> u32 {
        SLOTS + self.0 * SLOTS_PER_WINDOW + second_half as u32 * SLOTS_PER_HALF
    }

    /// Number, counted over all push pages.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Returns true if `slot`, counted over all of BAR2, is the first one of a half of a window.
pub const fn starts_half(slot: u32) -> bool {
    PushWindow::of_block(slot).is_some() && slot % SLOTS_PER_HALF == 0
}

/// Blocks that a push of a WQE of `words` words needs. `None`: it is too long to be pushed.
#[inline]
pub const fn blocks_for(words: usize) -> Option<usize> {
    if words <= MAX_WQE_BLOCKS * WORDS_PER_BLOCK {
        Some(words.div_ceil(WQE_WORDS_PER_BLOCK))
    } else {
        None
    }
}

impl DoorbellKind {
    /// The kind of a push of `blocks` blocks, 1 to [`MAX_BLOCKS`].
    #[inline]
    pub const fn push(blocks: usize) -> Self {
        Self(Self::PUSH_1.0 - 1 + blocks as u8)
    }

    /// Blocks of the push whose kind this is.
    #[inline]
    pub const fn push_blocks(self) -> Option<usize> {
        match self {
            Self(kind) if kind >= Self::PUSH_1.0 && kind <= Self::PUSH_5.0 => {
                Some((kind - Self::PUSH_1.0) as usize + 1)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorbell::{PAGES, RESERVED_SLOTS};

    #[test]
    fn each_page_has_its_own_eight_windows() {
        let last = SLOTS - 1;
        let samples = [RESERVED_SLOTS, 9, 15, 16, 511, 512 + 8, last];
        for slot in samples {
            let window = PushWindow::of_slot(slot);
            let place = window.slot(false) * SLOT_SIZE;
            assert_eq!((place - PUSH_OFFSET) / PAGE_SIZE, slot / SLOTS_PER_PAGE);
            assert_eq!(place % PAGE_SIZE, slot % 8 * 0x200);
            assert_eq!(window.slot(true) - window.slot(false), 32);
        }
        assert_eq!(PushWindow::of_slot(last).number(), PAGES * 8 - 1);
        assert!(PushWindow::of_slot(last).slot(true) * SLOT_SIZE + HALF_SIZE == BAR2_SIZE);
    }

    #[test]
    fn only_the_start_of_a_block_leads_to_a_window() {
        for slot in SLOTS..SLOTS + 2 * SLOTS_PER_WINDOW {
            let window = PushWindow::of_block(slot);
            let expected = (slot % 8 == 0).then_some(PushWindow((slot - SLOTS) / 64));
            assert_eq!(window, expected);
            assert_eq!(starts_half(slot), slot % 32 == 0);
        }
        for slot in [0, 8, SLOTS - 8, 2 * SLOTS, u32::MAX - 7] {
            assert_eq!(PushWindow::of_block(slot), None);
        }
    }

    #[test]
    fn kinds_name_their_blocks() {
        for kind in 0..=u8::MAX {
            let blocks = DoorbellKind(kind).push_blocks();
            assert_eq!(blocks.is_some(), (0x11..=0x15).contains(&kind));
            assert!(blocks.is_none_or(|blocks| DoorbellKind::push(blocks).0 == kind));
        }
        assert_eq!(DoorbellKind::push(MAX_BLOCKS), DoorbellKind::PUSH_5);
        let words = [1, 7, 8, 28, 29, 32, 33];
        let blocks = [
            Some(1),
            Some(1),
            Some(2),
            Some(4),
            Some(MAX_BLOCKS),
            Some(5),
            None,
        ];
        assert_eq!(words.map(blocks_for), blocks);
    }
}
