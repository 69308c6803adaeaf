//! Two machines on one cable.

use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

use super::machine::Machine;

/// Maximum number of turns of both machines until both are idle. A turn of the card has up to
/// [`ferroce_rtl_card::CYCLES_PER_ADVANCE`] clock cycles.
pub const TURNS_MAX: usize = 4096;
/// Maximum number of timers that expire in sequence until nothing is left to do.
pub const TIMEOUTS_MAX: usize = 4096;

/// Frames that are lost at random.
#[derive(Debug)]
pub struct Loss {
    /// Lost frames per million.
    pub per_million: u64,
    pub random: SplitMix64,
}

/// A frame on the cable.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The machine that has sent it.
    pub from: usize,
    pub is_lost: bool,
    pub bytes: Vec<u8>,
}

/// Two machines, the frames on their cable, and the losses.
pub struct Pair {
    pub sides: [Machine; 2],
    pub loss: Option<Loss>,
    /// All frames since the last call that took them.
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

    /// Moves sent frames to the other end. Returns true if there were any.
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

    /// Runs one turn of both. Returns true if one made progress.
    pub fn turn(&mut self) -> bool {
        let mut has_moved = false;
        for side in &mut self.sides {
            has_moved |= side.advance();
        }
        has_moved | self.carry()
    }

    /// Runs until both are idle, without advancing time.
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

    /// Runs until both are idle and no timer is left.
    ///
    /// # Errors
    /// If there are too many timers.
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
