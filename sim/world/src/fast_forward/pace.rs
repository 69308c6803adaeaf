//! The duration of strides, measured over similar strides of the same queue pairs.

use ferroce_model::fast_forward::SeenStrides;
use ferroce_units::Duration;

use super::sample::{End, Sample};

/// Bytes of strides that must be similar before following strides are skipped. The mean of their
/// durations is the pace: the beat between two clocks changes single strides, and all strides seen
/// between skips in the same way.
const ALIKE_BYTES: u64 = 2 << 20;
/// Strides are similar if the relative difference of their durations is less than 1/128: the beat
/// of two clocks.
const LIKENESS: u64 = 128;
/// Maximum number of paces that are kept.
const MAX_PACES: usize = 64;

/// Similar strides of the same queue pairs, consecutive or not.
#[derive(Debug)]
pub struct Pace {
    /// The queue pair that marks them.
    lead: End,
    /// Senders of all messages.
    senders: Vec<End>,
    /// Number of measured strides.
    strides: u64,
    /// Number of strides needed.
    needed: u64,
    time: Duration,
    /// Counter differences of each NIC over all strides seen: not every stride has an acknowledge,
    /// and bursts do not end with strides.
    pub seen: Vec<SeenStrides>,
}

impl Pace {
    /// Returns a pace without strides for the messages of a sample.
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

    /// Returns the duration of this many strides.
    pub fn time_of(&self, strides: u64) -> Duration {
        let time = u128::from(self.time.as_ps()) * u128::from(strides);
        Duration::from_ps((time / u128::from(self.strides)) as u64)
    }

    /// Returns the number of strides in `time`: zero if they take no time.
    pub fn strides_in(&self, time: Duration) -> u64 {
        let strides = u128::from(time.as_ps()) * u128::from(self.strides);
        let strides = strides.checked_div(u128::from(self.time.as_ps()));
        strides.map_or(0, |strides| strides.try_into().unwrap_or(u64::MAX))
    }
}

/// The known paces.
#[derive(Debug, Default)]
pub struct Paces(Vec<Pace>);

impl Paces {
    /// Adds a stride to its pace, unless it belongs to the beginning of a message. Returns the pace
    /// if enough strides were similar and this one is too.
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
