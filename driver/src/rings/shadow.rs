//! Shadows: the driver's own record of posted work requests, so that it need not trust the device.
//!
//! The poster of a queue writes, under the queue's lock; the poller of its CQ reads and retires,
//! under the CQ's lock. They share two words: the posted and the retired index.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::completion::CompletionOpcode;

/// A value with its own pair of cache lines: poster and poller run on different cores.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);

/// Sequence numbers of send work requests are stored with this many bits.
const SEQUENCE_BITS: u32 = 24;
const SEQUENCE_MASK: u32 = (1 << SEQUENCE_BITS) - 1;

/// Kinds of completions of send work requests, by number; the number fits 4 bits. verbs.h has a
/// number 7, which no operation of this driver has.
const SEND_OPCODES: [Option<CompletionOpcode>; 10] = [
    Some(CompletionOpcode::Send),
    Some(CompletionOpcode::RdmaWrite),
    Some(CompletionOpcode::RdmaRead),
    Some(CompletionOpcode::CompareSwap),
    Some(CompletionOpcode::FetchAdd),
    Some(CompletionOpcode::BindMemoryWindow),
    Some(CompletionOpcode::LocalInvalidate),
    None,
    Some(CompletionOpcode::Flush),
    Some(CompletionOpcode::AtomicWrite),
];

/// One posted send WQE, in the slot of its first block.
#[derive(Debug, Default)]
struct SendSlot {
    wr_id: AtomicU64,
    /// Index of the first block in bits 31:0, blocks in 35:32 (zero: no WQE begins here),
    /// completion opcode in 39:36, sequence number in 63:40.
    tag: AtomicU64,
}

/// A send work request that the device has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetiredSend {
    pub(crate) wr_id: u64,
    pub(crate) opcode: CompletionOpcode,
}

/// A send work request that is being posted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostedSend {
    pub(crate) wr_id: u64,
    /// Producer index of its first block.
    pub(crate) index: u32,
    /// Blocks, 1 to 10.
    pub(crate) blocks: u32,
    /// Work requests posted before it, modulo 2^24.
    pub(crate) sequence: u32,
    /// Opcode of its completion.
    pub(crate) opcode: CompletionOpcode,
}

/// The shadow of a send queue.
#[derive(Debug)]
pub(crate) struct SendShadow {
    slots: Box<[SendSlot]>,
    /// Producer index of the last doorbell or push.
    posted: OwnLine<AtomicU32>,
    /// Block index after the newest retired WQE in bits 31:0, work requests retired in 55:32.
    retired: OwnLine<AtomicU64>,
}

impl SendShadow {
    /// Creates a shadow for a ring of `1 << log_blocks` blocks.
    pub(crate) fn new(log_blocks: u8) -> Self {
        Self {
            slots: (0..1usize << log_blocks)
                .map(|_| SendSlot::default())
                .collect(),
            posted: OwnLine::default(),
            retired: OwnLine::default(),
        }
    }

    #[inline]
    fn slot(&self, index: u32) -> &SendSlot {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// Poster: records a work request.
    #[inline]
    pub(crate) fn remember(&self, send: &PostedSend) {
        let slot = self.slot(send.index);
        slot.wr_id.store(send.wr_id, Ordering::Relaxed);
        let tag = u64::from(send.index)
            | u64::from(send.blocks) << 32
            | (send.opcode as u64) << 36
            | u64::from(send.sequence & SEQUENCE_MASK) << 40;
        slot.tag.store(tag, Ordering::Relaxed);
    }

    /// Poster: allows everything before `producer` to complete from now on.
    #[inline]
    pub(crate) fn publish(&self, producer: u32) {
        self.posted.0.store(producer, Ordering::Release);
    }

    /// Poster: returns the number of work requests retired so far, modulo 2^24.
    #[inline]
    pub(crate) fn retired_count(&self) -> u32 {
        (self.retired.0.load(Ordering::Acquire) >> 32) as u32
    }

    /// Poster: returns the block index after the newest retired WQE.
    pub(crate) fn retired_index(&self) -> u32 {
        self.retired.0.load(Ordering::Acquire) as u32
    }

    /// Poller: returns the index of the oldest outstanding WQE, signaled or not.
    pub(crate) fn oldest(&self) -> Option<u32> {
        let retired = self.retired_index();
        (retired != self.posted.0.load(Ordering::Acquire)).then_some(retired)
    }

    /// Poller: retires the WQE that begins at `index`, which has completed, and all before it.
    /// Returns `None` when no outstanding WQE begins there.
    #[inline]
    pub(crate) fn retire(&self, index: u32) -> Option<RetiredSend> {
        let posted = self.posted.0.load(Ordering::Acquire);
        let retired = self.retired.0.load(Ordering::Relaxed) as u32;
        if index.wrapping_sub(retired) >= posted.wrapping_sub(retired) {
            return None;
        }
        let slot = self.slot(index);
        let tag = slot.tag.load(Ordering::Relaxed);
        let blocks = (tag >> 32) as u32 & 0xf;
        if tag as u32 != index || blocks == 0 {
            return None;
        }
        let opcode = (*SEND_OPCODES.get((tag >> 36) as usize & 0xf)?)?;
        let wr_id = slot.wr_id.load(Ordering::Relaxed);
        let count = ((tag >> 40) as u32).wrapping_add(1) & SEQUENCE_MASK;
        let retired = u64::from(index.wrapping_add(blocks)) | u64::from(count) << 32;
        // Release: the poster reuses the slot only after wr_id has been read.
        self.retired.0.store(retired, Ordering::Release);
        Some(RetiredSend { wr_id, opcode })
    }

    /// Discards all records. The caller holds the locks of the queue and of its CQ.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            slot.tag.store(0, Ordering::Relaxed);
        }
        self.posted.0.store(0, Ordering::Release);
        self.retired.0.store(0, Ordering::Release);
    }
}

/// Returns the number of outstanding work requests, from `posted` and `retired` counted modulo
/// 2^24.
#[inline]
pub(crate) fn outstanding(posted: u32, retired: u32) -> u32 {
    posted.wrapping_sub(retired) & SEQUENCE_MASK
}

/// The shadow of a receive queue.
#[derive(Debug)]
pub(crate) struct ReceiveShadow {
    wr_ids: Box<[AtomicU64]>,
    /// Producer index of the last doorbell.
    posted: OwnLine<AtomicU32>,
    /// Index after the newest retired entry.
    retired: OwnLine<AtomicU32>,
}

impl ReceiveShadow {
    /// Creates a shadow for a ring of `1 << log_entries` entries.
    pub(crate) fn new(log_entries: u8) -> Self {
        Self {
            wr_ids: (0..1usize << log_entries)
                .map(|_| AtomicU64::new(0))
                .collect(),
            posted: OwnLine::default(),
            retired: OwnLine::default(),
        }
    }

    #[inline]
    fn wr_id(&self, index: u32) -> &AtomicU64 {
        &self.wr_ids[index as usize & (self.wr_ids.len() - 1)]
    }

    /// Poster: records a work request.
    #[inline]
    pub(crate) fn remember(&self, index: u32, wr_id: u64) {
        self.wr_id(index).store(wr_id, Ordering::Relaxed);
    }

    /// Poster: allows everything before `producer` to complete from now on.
    #[inline]
    pub(crate) fn publish(&self, producer: u32) {
        self.posted.0.store(producer, Ordering::Release);
    }

    /// Poster: returns the index after the newest retired entry.
    #[inline]
    pub(crate) fn retired_index(&self) -> u32 {
        self.retired.0.load(Ordering::Acquire)
    }

    /// Poller: returns the index of the oldest outstanding entry.
    pub(crate) fn oldest(&self) -> Option<u32> {
        let retired = self.retired_index();
        (retired != self.posted.0.load(Ordering::Acquire)).then_some(retired)
    }

    /// Poller: retires entry `index`, which has completed, and returns its `wr_id`. Returns `None`
    /// when it is not outstanding.
    #[inline]
    pub(crate) fn retire(&self, index: u32) -> Option<u64> {
        let posted = self.posted.0.load(Ordering::Acquire);
        let retired = self.retired.0.load(Ordering::Relaxed);
        if index.wrapping_sub(retired) >= posted.wrapping_sub(retired) {
            return None;
        }
        let wr_id = self.wr_id(index).load(Ordering::Relaxed);
        self.retired
            .0
            .store(index.wrapping_add(1), Ordering::Release);
        Some(wr_id)
    }

    /// Discards all records. The caller holds the locks of the queue and of its CQ.
    pub(crate) fn reset(&self) {
        self.posted.0.store(0, Ordering::Release);
        self.retired.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn send(shadow: &SendShadow, index: u32, blocks: u32, sequence: u32) {
        shadow.remember(&PostedSend {
            wr_id: u64::from(index) * 10,
            index,
            blocks,
            sequence,
            opcode: CompletionOpcode::RdmaRead,
        });
        shadow.publish(index.wrapping_add(blocks));
    }

    #[test]
    fn a_later_completion_frees_unsignaled_wqes() {
        let shadow = SendShadow::new(3);
        send(&shadow, 0, 2, 0);
        send(&shadow, 2, 1, 1);
        send(&shadow, 3, 4, 2);
        assert_eq!(shadow.retire(1), None, "the middle of a WQE");
        assert_eq!(shadow.retire(7), None, "not posted");
        let retired = shadow.retire(2).expect("posted");
        assert_eq!(
            (retired.wr_id, retired.opcode),
            (20, CompletionOpcode::RdmaRead)
        );
        assert_eq!(outstanding(3, shadow.retired_count()), 1);
        assert_eq!(shadow.retire(2), None, "retired twice");
        assert_eq!(shadow.retire(0), None, "already freed");
        assert!(shadow.retire(3).is_some());
        assert_eq!(outstanding(3, shadow.retired_count()), 0);
    }

    #[test]
    fn the_oldest_is_what_was_not_retired() {
        let shadow = SendShadow::new(3);
        for (index, blocks, sequence) in [(0, 2, 0), (2, 1, 1), (3, 4, 2)] {
            send(&shadow, index, blocks, sequence);
        }
        for expected in [0, 2, 3] {
            assert_eq!(shadow.oldest(), Some(expected));
            assert!(shadow.retire(expected).is_some());
        }
        assert_eq!(shadow.oldest(), None);
        let receives = ReceiveShadow::new(1);
        receives.remember(0, 5);
        assert_eq!(receives.oldest(), None, "not posted");
        receives.publish(1);
        assert_eq!(receives.oldest(), Some(0));
        assert_eq!(receives.retire(0), Some(5));
        assert_eq!(receives.oldest(), None);
    }

    #[test]
    fn indices_wrap_around() {
        let shadow = SendShadow::new(2);
        let start = u32::MAX - 1;
        shadow
            .retired
            .0
            .store(u64::from(start) | 0xff_ffff << 32, Ordering::Relaxed);
        shadow.publish(start);
        send(&shadow, start, 3, SEQUENCE_MASK);
        assert!(shadow.retire(start).is_some());
        assert_eq!(shadow.retired_count(), 0);
        let receives = ReceiveShadow::new(1);
        receives.retired.0.store(u32::MAX, Ordering::Relaxed);
        receives.remember(u32::MAX, 7);
        receives.publish(0);
        assert_eq!(receives.retire(0), None);
        assert_eq!(receives.retire(u32::MAX), Some(7));
        assert_eq!(receives.retired_index(), 0);
    }

    proptest! {
        #[test]
        fn garbage_retires_only_what_is_outstanding(
            lengths in prop::collection::vec(1u32..10, 1..20), garbage: Vec<u32>, start: u32,
        ) {
            let shadow = SendShadow::new(8);
            shadow.retired.0.store(u64::from(start), Ordering::Relaxed);
            shadow.publish(start);
            let mut index = start;
            let mut starts = Vec::new();
            for (sequence, &blocks) in lengths.iter().enumerate() {
                send(&shadow, index, blocks, sequence as u32);
                starts.push(index);
                index = index.wrapping_add(blocks);
            }
            let mut newest = None;
            for guess in garbage.iter().map(|g| start.wrapping_add(g % 256)) {
                let place = starts.iter().position(|&s| s == guess);
                let expected = place.filter(|&place| newest.is_none_or(|newest| place > newest));
                prop_assert_eq!(shadow.retire(guess).is_some(), expected.is_some());
                newest = expected.or(newest);
            }
        }
    }
}
