//! State of a fault for one flow.

use crate::chance::{Draws, Transmission};
use crate::plan::{Burst, Fault, Kind, Numbers, When};

/// Maximum number of numbered packets whose retransmissions are recognised.
const MAX_REMEMBERED: usize = 32;
/// Distinguishes the draws of one fault.
const DRAWS_OF_STATE: u64 = 1;

/// The decisions of a fault for a flow.
#[derive(Debug)]
pub(crate) struct Process {
    pub draws: Draws,
    state: State,
}

#[derive(Debug)]
enum State {
    None,
    Numbered(Box<Counted>),
    Burst { is_bad: bool },
}

/// Selected packets of a flow.
#[derive(Debug, Default)]
struct Counted {
    count: u64,
    /// Offsets of the last packets that the numbers name.
    named: [Option<u64>; MAX_REMEMBERED],
    next: usize,
}

impl Process {
    pub fn new(fault: &Fault, seed: u64, index: usize, flow: u64) -> Self {
        let state = match (fault.kind.when(), fault.kind) {
            (Some(When::Numbered(_)), _) => State::Numbered(Box::default()),
            (_, Kind::Burst(_)) => State::Burst { is_bad: false },
            _ => State::None,
        };
        let draws = Draws::new(seed, index, flow);
        Self { draws, state }
    }

    /// Returns true if the fault affects a selected packet.
    #[inline]
    pub fn happens(&mut self, when: &When, transmission: Transmission) -> bool {
        match when {
            When::Random(cause) => cause.0.covers(self.draws.of(transmission)),
            When::Numbered(numbers) => self.is_named(numbers, transmission),
        }
    }

    fn is_named(&mut self, numbers: &Numbers, transmission: Transmission) -> bool {
        let State::Numbered(counted) = &mut self.state else {
            return false;
        };
        let offset = transmission.offset;
        if transmission.earlier > 0 {
            return counted.named.contains(&Some(offset));
        }
        counted.count += 1;
        let is_named = numbers.has(counted.count);
        if is_named {
            counted.named[counted.next] = Some(offset);
            counted.next = (counted.next + 1) % MAX_REMEMBERED;
        }
        is_named
    }

    /// Returns true if a packet is lost in a burst, and changes the state.
    pub fn is_lost(&mut self, burst: &Burst, transmission: Transmission) -> bool {
        let State::Burst { is_bad } = &mut self.state else {
            return false;
        };
        let change = self.draws.other(DRAWS_OF_STATE).of(transmission);
        let changes = if *is_bad {
            burst.leave.covers(change)
        } else {
            burst.enter.covers(change)
        };
        *is_bad ^= changes;
        let draw = self.draws.of(transmission);
        if *is_bad {
            burst.loss_bad.covers(draw)
        } else {
            burst.loss_good.is_some_and(|loss| loss.covers(draw))
        }
    }

    /// Returns true if the state of a burst is bad.
    pub fn is_bad(&self) -> bool {
        matches!(self.state, State::Burst { is_bad: true })
    }

    /// Returns true if no random event hits the new packet with this offset, unless the state of a
    /// burst is bad.
    pub fn is_clear(&self, kind: &Kind, offset: u64) -> bool {
        let transmission = Transmission { offset, earlier: 0 };
        match kind {
            Kind::Burst(burst) => {
                let change = self.draws.other(DRAWS_OF_STATE).of(transmission);
                let draw = self.draws.of(transmission);
                !burst.enter.covers(change)
                    && !burst.loss_good.is_some_and(|loss| loss.covers(draw))
            }
            _ => match kind.when() {
                Some(When::Random(cause)) => !cause.0.covers(self.draws.of(transmission)),
                _ => true,
            },
        }
    }

    /// Returns how many selected packets come before the next numbered one.
    pub fn clear_numbers(&self, kind: &Kind) -> u64 {
        let Some(When::Numbered(numbers)) = kind.when() else {
            return u64::MAX;
        };
        match &self.state {
            State::Numbered(counted) => numbers.gap_behind(counted.count),
            _ => u64::MAX,
        }
    }

    /// Counts skipped packets that match.
    pub fn count(&mut self, packets: u64) {
        if let State::Numbered(counted) = &mut self.state {
            counted.count += packets;
        }
    }
}
