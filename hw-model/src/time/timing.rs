//! The only place that knows the cost of work.
//!
//! Blocks report the work that they did; a [`Timing`] converts it to time, which is charged on the
//! edge that carries the result to the next block. In the *functional* model every cost is zero; it
//! is not a second code path.

pub mod pipeline_stage;
pub mod timed;

use ferroce_units::{Duration, Instant};
pub use timed::Timed;

/// Upper bound on the head-of-line wait caused by planning ahead: a block reserves its time this
/// far ahead. A shorter horizon means more frequent steps of the NIC.
pub const PLANNING_HORIZON: Duration = Duration::from_ns(200);

/// A block that takes time. Blocks of a processing unit carry its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// BAR2 decode to scheduler.
    Doorbell,
    /// Splitting the blocks that a WQE fetch has read into WQEs.
    Fetch,
    /// A packet of a requester or responder in its processing unit.
    Transmit(u8),
    /// Assembling headers and payload to a frame.
    Packetize,
    /// A frame through the MAC onto the cable.
    MacTransmit,
    /// A frame from the cable through the MAC.
    MacReceive,
    /// A received packet, from the depacketizer through its processing unit.
    Receive(u8),
    /// A completion, from the processing unit to the CQE writer.
    Completion,
    /// An event on its way to its event queue.
    Event,
}

/// Work that a block does for one item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that pass through the block.
    pub bytes: u32,
    /// Messages or WQEs that begin with the item.
    pub messages: u32,
    /// True if the item is one of several packets of a READ response.
    pub continues_read: bool,
}

impl Work {
    /// Returns the work of passing `bytes` on.
    #[inline]
    pub const fn bytes(bytes: u32) -> Self {
        Self {
            bytes,
            messages: 0,
            continues_read: false,
        }
    }
}

/// The time that a card needs for its work: the clocks of all blocks.
pub trait Timing: std::fmt::Debug {
    /// Returns true if anything has a cost, so that results are delivered later. The NIC then knows
    /// from its edges whether another step at the same time would find work.
    fn has_delays(&self) -> bool {
        true
    }

    /// Returns the number of processing units to use on a card that has `count`.
    fn processing_units(&self, count: u8) -> u8 {
        count.max(1)
    }

    /// Puts `work` through `stage`; returns when the result leaves it.
    ///
    /// The input is available at `at`, which may be later than `now` if it must first be read from
    /// host memory. The block's time is reserved from `now` on, so that work that is ready earlier
    /// does not wait for it.
    fn reserve(&mut self, now: Instant, at: Instant, stage: Stage, work: Work) -> Instant;

    /// Returns the time at which `stage` can accept more work.
    fn free_at(&self, stage: Stage) -> Instant;

    /// Calls `each` with each block and its total busy time.
    fn visit_busy(&self, _each: &mut dyn FnMut(Stage, Duration)) {}
}

/// Zero cost: the model shows what a card does, not when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Functional;

impl Timing for Functional {
    #[inline]
    fn has_delays(&self) -> bool {
        false
    }

    /// Returns one: units without delays would work one after the other. Four lists cost
    /// `ib_write_bw -s 64` some 13 % of its message rate (two loaded cores, nine pairs of runs).
    fn processing_units(&self, _count: u8) -> u8 {
        1
    }

    #[inline]
    fn reserve(&mut self, _now: Instant, at: Instant, _stage: Stage, _work: Work) -> Instant {
        at
    }

    #[inline]
    fn free_at(&self, _stage: Stage) -> Instant {
        Instant::ZERO
    }
}
