//! Send WQEs that arrived with their doorbell through a push window and wait to be executed.

use ferroce_spec::counter::Counter;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::push::{self, WORDS_PER_BLOCK, WQE_WORDS_PER_BLOCK};
use ferroce_spec::wqe::{BLOCK_SIZE, ControlSegment};
use ferroce_transport::Service;
use zerocopy::{FromBytes, IntoBytes};

use crate::counters::Counters;
use crate::wqe::{block_count, decode};

/// A pushed WQE in the layout of the ring; the bytes after the pushed ones are zero.
#[derive(Debug)]
pub struct PushedWqe {
    index: u32,
    blocks: u32,
    bytes: [u8; push::MAX_BLOCKS * BLOCK_SIZE],
    /// The next one.
    next: Option<Box<Self>>,
}

impl PushedWqe {
    /// Returns the WQE of a push to a queue pair of `service`. `None`: the push is torn or the WQE
    /// is inconsistent.
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
        let blocks = block_count(&bytes, control.index, push::MAX_WQE_BLOCKS as u32).ok()?;
        let pushed = (push_blocks * payload_size).min(usize::from(blocks) * BLOCK_SIZE);
        decode(&bytes[..pushed], service).ok()?;
        let blocks = u32::from(blocks);
        let ends_there = control.index.wrapping_add(blocks) == head.index();
        ends_there.then_some(Self {
            index: control.index,
            blocks,
            bytes,
            next: None,
        })
    }

    /// Returns the number of basic blocks that it takes in the ring.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the bytes of these blocks.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.blocks as usize * BLOCK_SIZE]
    }
}

/// Maximum number of pushed WQEs of a queue pair, all consecutive: as many as arrive while one WQE
/// is read from host memory.
const MAX_KEPT: usize = 8;

/// Pushed WQEs of one queue pair, in order. Most queue pairs have none, so the empty list is one
/// word.
#[derive(Debug, Default)]
pub struct PushedWqes(Option<Box<PushedWqe>>);

impl PushedWqes {
    /// Returns true if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if there is one, with at most `blocks` blocks.
    pub fn first_fits(&self, blocks: u32) -> bool {
        self.0.as_ref().is_some_and(|first| first.blocks <= blocks)
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Drops all because they do not begin where the WQE before them ends.
    pub fn ignore(&mut self, counters: &mut Counters) {
        while self.pop().is_some() {
            counters.add(Counter::pushes_ignored, 1);
        }
    }

    /// Keeps `wqe` if it directly follows the last pushed WQE, or all rung blocks up to `producer`.
    /// Returns false if it drops the WQE.
    pub fn keep(&mut self, wqe: PushedWqe, producer: u32) -> bool {
        let (mut place, mut end, mut kept) = (&mut self.0, producer, 0);
        while let Some(earlier) = place {
            end = earlier.index.wrapping_add(earlier.blocks);
            kept += 1;
            place = &mut earlier.next;
        }
        let is_kept = wqe.index == end && kept < MAX_KEPT;
        if is_kept {
            *place = Some(Box::new(wqe));
        }
        is_kept
    }

    fn pop(&mut self) -> Option<Box<PushedWqe>> {
        let mut first = self.0.take()?;
        self.0 = first.next.take();
        Some(first)
    }

    /// Returns the next WQEs to execute, of the `rung` blocks from `fetched` on.
    pub fn next(&mut self, fetched: u32, rung: u32, counters: &mut Counters) -> NextWqes {
        while let Some(first) = &self.0 {
            let ahead = first.index.wrapping_sub(fetched);
            if ahead as i32 > 0 {
                return NextWqes::InRing(ahead);
            }
            let is_whole = ahead == 0 && first.blocks <= rung;
            let Some(wqe) = self.pop().filter(|_| is_whole) else {
                counters.add(Counter::pushes_ignored, 1);
                continue;
            };
            counters.add(Counter::pushes_used, 1);
            return NextWqes::Pushed(wqe);
        }
        NextWqes::InRing(u32::MAX)
    }
}

/// Location of the next WQE to execute.
#[derive(Debug)]
pub enum NextWqes {
    /// It was pushed.
    Pushed(Box<PushedWqe>),
    /// In the ring, up to the next pushed WQE; its distance in blocks.
    InRing(u32),
}
