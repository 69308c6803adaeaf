//! One end of a cable: two queues of frames.

use std::collections::VecDeque;

use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_units::Instant;

/// Maximum number of frames that an end holds until the test moves them.
const CAPACITY: usize = 64;

/// Sent frames, and frames to be received.
#[derive(Debug, Default)]
pub struct Cable {
    pub sent: VecDeque<Vec<u8>>,
    pub arriving: VecDeque<Vec<u8>>,
}

impl Port for Cable {
    type Frame = Vec<u8>;

    fn reserve(&mut self, _route: &Route, length: usize) -> Reservation<Vec<u8>> {
        if self.sent.len() < CAPACITY {
            Reservation::Ready(vec![0; length])
        } else {
            Reservation::Full
        }
    }

    fn transmit(&mut self, _at: Instant, frame: Vec<u8>) {
        self.sent.push_back(frame);
    }

    fn cancel(&mut self, _frame: Vec<u8>) {}

    fn receive(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        Some((now, self.arriving.pop_front()?))
    }

    fn release(&mut self, _frame: Vec<u8>) {}

    fn computes_icrc(&self) -> bool {
        true
    }

    fn carries_icrc(&self, _frame: &Vec<u8>) -> bool {
        true
    }
}
