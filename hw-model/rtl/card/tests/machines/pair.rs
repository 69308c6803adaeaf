//! Two machines at one cable.

use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

use super::machine::Machine;

/// Turns of both machines without a moment in which both rest, at most. A turn of the card is up
/// to [`ferroce_rtl_card::CYCLES_PER_ADVANCE`] clock cycles.
pub const TURNS_MAX: usize = 4096;
/// Timers that run out one after the other, at most, until nothing is left to do.
pub const TIMEOUTS_MAX: usize = 4096;

/// Frames that are lost at random.
#[derive(Debug)]
pub struct Loss {
    /// Of a million frames, so many are lost.
    pub per_million: u64,
    pub random: SplitMix64,
}

/// A frame on the cable.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Which machine has sent it.
    pub from: usize,
    pub is_lost: bool,
    pub bytes: Vec<u8>,
}

/// Two machines, the frames that went over their cable, and those that are lost.
pub struct Pair {
    pub sides: [Machine; 2],
    pub loss: Option<Loss>,
    /// All frames since they were taken.
    pub frames: Vec<Sent>,
}

impl Pair {
    pub fn new(sides: [Machine; 2]) -> Self {
        Self {
            sides,
            loss: None,
            frames: Vec::new(),
        }
    }

    /// Carries what was sent to the other end. Returns true if something was.
    pub fn carry(&mut self) -> bool {
        let mut has_carried = false;
        for from in 0..2 {
            while let Some(bytes) = self.sides[from].port.sent.pop_front() {
                has_carried = true;
                let is_lost = self
                    .loss
                    .as_mut()
                    .is_some_and(|loss| loss.random.below(1_000_000) < loss.per_million);
                if !is_lost {
                    self.sides[1 - from].port.arriving.push_back(bytes.clone());
                }
                self.frames.push(Sent {
                    from,
                    is_lost,
                    bytes,
                });
            }
        }
        has_carried
    }

    /// One turn of both. Returns true if something has moved.
    pub fn turn(&mut self) -> bool {
        let mut has_moved = false;
        for side in &mut self.sides {
            has_moved |= side.advance();
        }
        has_moved | self.carry()
    }

    /// Runs, without time, until both rest.
    ///
    /// # Errors
    /// If they do not within [`TURNS_MAX`].
    pub fn run_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.turn() {
                continue;
            }
            let holds = self
                .sides
                .each_mut()
                .map(|side| side.device.flush_acknowledges());
            if holds == [false; 2] {
                return Ok(());
            }
        }
        Err(format!("no rest in {TURNS_MAX} turns"))
    }

    /// Runs until both rest and no timer is left.
    ///
    /// # Errors
    /// If there is always another one.
    pub fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TIMEOUTS_MAX {
            self.run_to_rest()?;
            let Some(next) = self.next_timeout() else {
                return Ok(());
            };
            self.sides.iter_mut().for_each(|side| side.now = next);
        }
        Err(format!("{TIMEOUTS_MAX} timers have run out"))
    }

    fn next_timeout(&self) -> Option<Instant> {
        let now = self.sides[0].now;
        let timeouts = self
            .sides
            .iter()
            .filter_map(|side| side.device.next_timeout(now));
        timeouts.min().map(|at| at.max(now))
    }
}
