//! How long strides take: alike strides of the same queue pairs.

use ferroce_model::fast_forward::SeenStrides;
use ferroce_units::Duration;

use super::sample::{End, Sample};

/// Bytes of strides that must be alike before the next ones are skipped. The mean of their times is
/// the pace: clocks whose cycles beat change single strides, and those that are seen between skips
/// all in the same way.
const ALIKE_BYTES: u64 = 2 << 20;
/// Strides are alike if their times differ by less than one part of so many: two clocks whose
/// cycles beat.
const LIKENESS: u64 = 128;
/// Paces that are remembered.
const MAX_PACES: usize = 64;

/// Alike strides of the same queue pairs, in a row or apart.
#[derive(Debug)]
pub struct Pace {
    /// The queue pair that marks them.
    lead: End,
    /// Senders of all messages.
    senders: Vec<End>,
    /// Strides of which the time is measured.
    strides: u64,
    /// So many of them are needed.
    needed: u64,
    time: Duration,
    /// Counter differences of each NIC, of all strides that are seen: not each has an acknowledge,
    /// and bursts do not end with strides.
    pub seen: Vec<SeenStrides>,
}

impl Pace {
    /// Returns a pace without strides, of the messages of a sample.
    fn new(sample: &Sample) -> Self {
        Self {
            lead: sample.lead(),
            senders: sample.senders().collect(),
            strides: 0,
            needed: sample.strides_in(ALIKE_BYTES),
            time: Duration::ZERO,
            seen: vec![SeenStrides::default(); sample.counters.len()],
        }
    }

    fn is_of(&self, sample: &Sample) -> bool {
        self.lead == sample.lead() && sample.senders().eq(self.senders.iter().copied())
    }

    fn is_like(&self, stride: Duration) -> bool {
        let (time, all) = (stride.as_ps() * self.strides, self.time.as_ps());
        time.abs_diff(all) < all / LIKENESS
    }

    /// Adds the stride from `before` to `after`.
    fn add(&mut self, stride: Duration, before: &Sample, after: &Sample) {
        if self.strides < self.needed {
            self.strides += 1;
            self.time = self.time + stride;
        }
        let counters = before.counters.iter().zip(&after.counters);
        for (seen, (before, after)) in self.seen.iter_mut().zip(counters) {
            seen.strides += 1;
            seen.counts.add_difference(before, after);
        }
    }

    /// Returns the time of so many strides.
    pub fn time_of(&self, strides: u64) -> Duration {
        let time = u128::from(self.time.as_ps()) * u128::from(strides);
        Duration::from_ps((time / u128::from(self.strides)) as u64)
    }

    /// Returns the number of strides in `time`: none if they take no time.
    pub fn strides_in(&self, time: Duration) -> u64 {
        let strides = u128::from(time.as_ps()) * u128::from(self.strides);
        let strides = strides.checked_div(u128::from(self.time.as_ps()));
        strides.map_or(0, |strides| strides.try_into().unwrap_or(u64::MAX))
    }
}

/// The paces that are known.
#[derive(Debug, Default)]
pub struct Paces(Vec<Pace>);

impl Paces {
    /// Adds a stride to its pace, unless it is of the beginning of a message; returns the pace if
    /// enough strides were alike, and it is like them.
    pub fn add(&mut self, stride: Duration, before: &Sample, after: &Sample) -> Option<&Pace> {
        let Self(paces) = self;
        let place = paces.iter().position(|pace| pace.is_of(after));
        let place = place.unwrap_or_else(|| {
            if paces.len() == MAX_PACES {
                paces.remove(0);
            }
            paces.push(Pace::new(after));
            paces.len() - 1
        });
        let pace = &mut paces[place];
        let is_like = pace.is_like(stride);
        if !is_like && !after.may_be_beginning() {
            *pace = Pace::new(after);
        }
        let is_measured = is_like || pace.strides == 0;
        if is_measured && !after.is_beginning() {
            pace.add(stride, before, after);
        }
        (is_like && pace.strides == pace.needed).then_some(&*pace)
    }
}
