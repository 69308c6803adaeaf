//! Push windows of BAR2: a send WQE that has come with its doorbell waits here for its turn.

use crate::host::{Doorbell, Host};
use crate::nic::Nic;
use crate::port::Port;
use crate::queue_pair::QueuePair;
use crate::timing::Timing;
use crate::wqe::{block_count, decode};
use ferroce_spec::counter::Counter;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::push::{self, PushWindow, WORDS_PER_BLOCK, WQE_WORDS_PER_BLOCK, starts_half};
use ferroce_spec::wqe::{BLOCK_SIZE, ControlSegment};
use ferroce_transport::Service;
use ferroce_wire::Qpn;
use zerocopy::{FromBytes, IntoBytes};

/// A pushed WQE, as it stands in the ring; behind what was pushed it is zero.
#[derive(Debug)]
pub struct PushedWqe {
    index: u32,
    blocks: u32,
    bytes: [u8; push::MAX_BLOCKS * BLOCK_SIZE],
}

impl PushedWqe {
    /// The WQE in the words of a push to a queue pair of `service`. `None`: the push is torn, or
    /// the WQE is not consistent.
    pub fn new(words: &[u64], service: Service) -> Option<Self> {
        let head = DoorbellValue::from_bits(*words.first()?);
        let push_blocks = DoorbellKind(head.kind()).push_blocks()?;
        if words.len() != push_blocks * WORDS_PER_BLOCK {
            return None;
        }
        let mut bytes = [0; push::MAX_BLOCKS * BLOCK_SIZE];
        let payload_size = 8 * WQE_WORDS_PER_BLOCK;
        let places = bytes.chunks_exact_mut(payload_size);
        for (place, block) in places.zip(words.chunks_exact(WORDS_PER_BLOCK)) {
            if block[0] != head.bits() {
                return None;
            }
            place.copy_from_slice(block[1..].as_bytes());
        }
        let (control, _) = ControlSegment::read_from_prefix(&bytes).ok()?;
        let blocks = block_count(&bytes, control.index, push::MAX_BLOCKS as u32).ok()?;
        let pushed = (push_blocks * payload_size).min(usize::from(blocks) * BLOCK_SIZE);
        decode(&bytes[..pushed], service).ok()?;
        let blocks = u32::from(blocks);
        let ends_there = control.index.wrapping_add(blocks) == head.index();
        ends_there.then_some(Self {
            index: control.index,
            blocks,
            bytes,
        })
    }

    /// Producer index of its first block.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Basic blocks that it has in the ring.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The bytes of these blocks.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.blocks as usize * BLOCK_SIZE]
    }
}

/// Whether `slot`, counted over all of BAR2, is the first one of a block of the push window of a
/// queue pair.
pub fn is_window_of(qp: &QueuePair, slot: u32) -> bool {
    let own = PushWindow::of_slot(qp.context.send_doorbell_slot);
    PushWindow::of_block(slot) == Some(own)
}

impl<P: Port, T: Timing> Nic<P, T> {
    /// Keeps the WQE of a write that has landed in a push page. What `doorbell` says is done
    /// later, as of any doorbell.
    #[cold]
    pub(crate) fn land_push<H: Host>(&mut self, doorbell: Doorbell, host: &H) {
        if self.keep_pushed(doorbell, host.pushed()).is_none() {
            self.counters.add(Counter::pushes_ignored, 1);
        }
    }

    /// `None`: the WQE is not one that could be executed next.
    fn keep_pushed(&mut self, doorbell: Doorbell, words: &[u64]) -> Option<()> {
        let longest = usize::from(self.config.push_blocks) * WORDS_PER_BLOCK;
        let is_whole = starts_half(doorbell.slot) && words.first() == Some(&doorbell.value);
        if !is_whole || words.len() > longest {
            return None;
        }
        let number = DoorbellValue::from_bits(doorbell.value).number();
        let qp = self.qps.find(Qpn::new(number))?;
        if !is_window_of(qp, doorbell.slot) {
            return None;
        }
        let wqe = PushedWqe::new(words, qp.transport.service())?;
        if wqe.index != qp.send.fetched {
            return None;
        }
        if qp.send.pushed.replace(Box::new(wqe)).is_some() {
            self.counters.add(Counter::pushes_ignored, 1);
        }
        Some(())
    }
}
