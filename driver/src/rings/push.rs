//! Push: a small send WQE is written to the device together with its doorbell, so that the device
//! need not fetch it from the ring.
//!
//! A work request is pushed when
//!
//! - it is the only one whose doorbell has not been rung: a list of them costs the device one read,
//!   and only the first one could be pushed;
//! - its WQE is not longer than a push, and has an inline payload if pushes are limited to those;
//! - no WQE that the device has to fetch from the ring is outstanding, because the device would
//!   drop the push and fetch both. Pushed WQEs may be outstanding: the device has them already;
//! - no other thread is pushing through the same window.
//!
//! Otherwise the doorbell is rung. The WQE is in the ring in any case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::push::{MAX_BLOCKS, PushWindow, WORDS_PER_BLOCK, blocks_for};
use ferroce_spec::register::Capability;
use ferroce_spec::wqe::ControlWord;
use parking_lot::Mutex;

use crate::bus::Bus;

/// The push windows that send queues use.
pub(crate) struct PushWindows {
    /// Blocks of the longest push; zero: nothing is pushed.
    max_blocks: usize,
    inline_only: bool,
    windows: Mutex<BTreeMap<u32, Arc<Window>>>,
}

/// A push window. Queues share it.
struct Window {
    place: PushWindow,
    /// True if the second half of the window is next. Locked during a push.
    second_half: Mutex<bool>,
}

impl PushWindows {
    /// Creates the windows of a device that the bus has mapped.
    pub(crate) fn new(bus: &dyn Bus, capability: Capability, inline_only: bool) -> Self {
        let blocks = bus.push_blocks().min(capability.push_blocks().into());
        Self {
            max_blocks: MAX_BLOCKS.min(blocks as usize),
            inline_only,
            windows: Mutex::default(),
        }
    }

    /// Returns the push state for the send queue of QP `number`, which has doorbell slot `slot`;
    /// `None` when there are no windows.
    pub(crate) fn queue(&self, bus: &Arc<dyn Bus>, slot: u32, number: u32) -> Option<QueuePush> {
        if self.max_blocks == 0 {
            return None;
        }
        let place = PushWindow::of_slot(slot);
        let mut windows = self.windows.lock();
        let window = windows.entry(place.number()).or_insert_with(|| {
            let second_half = Mutex::new(false);
            Arc::new(Window { place, second_half })
        });
        Some(QueuePush {
            bus: Arc::clone(bus),
            window: Arc::clone(window),
            number,
            max_blocks: self.max_blocks,
            inline_only: self.inline_only,
            fetched_until: 0,
        })
    }
}

/// Push state of one send queue.
pub(crate) struct QueuePush {
    bus: Arc<dyn Bus>,
    window: Arc<Window>,
    number: u32,
    max_blocks: usize,
    inline_only: bool,
    /// Block index after the newest WQE that the device has to fetch from the ring.
    fetched_until: u32,
}

impl QueuePush {
    /// Resets the state for a queue that starts at index 0 again.
    pub(crate) fn reset(&mut self) {
        self.fetched_until = 0;
    }

    /// Records that the doorbell was rung for the WQEs up to `producer`.
    pub(crate) fn rang(&mut self, producer: u32) {
        self.fetched_until = producer;
    }

    /// Returns true if all WQEs that the device has to fetch have completed. The WQEs up to
    /// `retired` have.
    pub(crate) fn is_idle(&mut self, retired: u32) -> bool {
        let is_idle = retired.wrapping_sub(self.fetched_until) as i32 >= 0;
        if is_idle {
            // Follows the free-running indices while every WQE is pushed.
            self.fetched_until = retired;
        }
        is_idle
    }

    /// Returns the number of blocks of a push of the WQE `words`; zero when it cannot be pushed.
    pub(crate) fn blocks(&self, mut words: impl ExactSizeIterator<Item = u64>) -> usize {
        let blocks = blocks_for(words.len()).filter(|blocks| *blocks <= self.max_blocks);
        let control = words.next().unwrap_or_default() as u32;
        let is_wanted = !self.inline_only || ControlWord::from_bits(control).inline();
        blocks.filter(|_| is_wanted).unwrap_or(0)
    }

    /// Pushes the WQE `words`, which ends at `producer`. Returns false when it cannot be pushed, or
    /// the window is in use.
    pub(crate) fn push(
        &self,
        mut words: impl ExactSizeIterator<Item = u64> + Clone,
        producer: u32,
    ) -> bool {
        let blocks = self.blocks(words.clone());
        if blocks == 0 {
            return false;
        }
        let Some(mut second_half) = self.window.second_half.try_lock() else {
            return false;
        };
        let kind = DoorbellKind::push(blocks);
        let doorbell = DoorbellValue::new(kind, self.number, producer).bits();
        let mut buffer = [0; MAX_BLOCKS * WORDS_PER_BLOCK];
        let push = &mut buffer[..blocks * WORDS_PER_BLOCK];
        for block in push.chunks_exact_mut(WORDS_PER_BLOCK) {
            block[0] = doorbell;
            let places = block[1..].iter_mut();
            places
                .zip(&mut words)
                .for_each(|(place, word)| *place = word);
        }
        // The WQE is in the ring before the device can see the push.
        fence(Ordering::Release);
        self.bus.push(self.window.place.slot(*second_half), push);
        *second_half = !*second_half;
        true
    }
}
