//! A plan of faults.
//!
//! A plan is written as an expression, or as a TOML file:
//!
//! ```text
//! loss=1e-3@ack,reorder=8paths,seed=7
//! ```
//!
//! ```toml
//! seed = 7
//! [[fault]]
//! kind = "loss"
//! value = 1e-3
//! packets = "ack"
//! [[fault]]
//! kind = "reorder"
//! value = "8paths"
//! ```

pub mod error;
mod expression;
mod file;
pub mod situation;
mod text;

use std::ops::RangeInclusive;
use std::str::FromStr;

use ferroce_units::Duration;
use ferroce_wire::Gid;

use crate::chance::Probability;
use crate::corrupt::Corruption;
use crate::packet::{FlowKey, Packet, PacketClass};
use error::PlanError;
use situation::Situation;

/// Maximum number of faults in a plan.
pub const MAX_FAULTS: usize = 16;
/// Maximum number of number ranges of one fault.
pub const MAX_RANGES: usize = 8;
/// Maximum number of paths over which packets are sprayed.
pub const MAX_PATHS: u64 = 1024;
/// Maximum length of an expression in bytes. Plans are passed to running programs as expressions.
pub const MAX_EXPRESSION: usize = 512;
/// The default seed.
const DEFAULT_SEED: u64 = 1;

/// Faults, and the seed that determines their effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Determines all random decisions.
    pub seed: u64,
    /// The faults, in the order in which they act on a packet.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Parses the text of a TOML file.
    ///
    /// # Errors
    /// [`PlanError`] describes the mistake.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        file::parse(text)
    }

    /// Returns true if packets can overtake each other.
    #[must_use]
    pub fn reorders(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.delays())
    }

    /// Returns the situations of programs and their devices in it.
    pub fn situations(&self) -> impl Iterator<Item = Situation> + '_ {
        self.faults.iter().filter_map(|fault| match fault.kind {
            Kind::Situation(situation) => Some(situation),
            _ => None,
        })
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    /// Parses an expression.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        expression::parse(text)
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Its kind.
    pub kind: Kind,
    /// The packets that it may affect.
    pub selector: Selector,
}

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Packets are lost.
    Loss(When),
    /// Packets are lost in bursts (Gilbert-Elliott).
    Burst(Burst),
    /// Packets arrive twice.
    Duplicate(When),
    /// Packets are damaged.
    Corrupt(Corruption, When),
    /// Packets arrive later.
    Delay(Duration),
    /// Packets are delayed by a random time up to this; the packets of a flow stay in order.
    Jitter(Duration),
    /// Packets are delayed by a part of `spread` that depends on their path.
    Spray {
        /// Number of paths.
        paths: u64,
        /// Difference in delay between the longest and the shortest path.
        spread: Duration,
    },
    /// Some packets are delayed, so that others overtake them.
    Overtake {
        /// The packets that are delayed.
        when: When,
        /// The delay.
        delay: Duration,
    },
    /// The link has failed: nothing arrives.
    Down,
    /// Nothing passes between two hosts.
    Partition(Gid, Gid),
    /// Something happens to a program and its device, at the time of the selector.
    Situation(Situation),
}

impl Kind {
    /// Returns its name in an expression.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss(_) => "loss",
            Self::Burst(_) => "burst",
            Self::Duplicate(_) => "dup",
            Self::Corrupt(Corruption::Payload, _) => "corrupt",
            Self::Corrupt(Corruption::Header, _) => "corrupt-header",
            Self::Corrupt(Corruption::Icrc, _) => "corrupt-icrc",
            Self::Delay(_) => "delay",
            Self::Jitter(_) => "jitter",
            Self::Spray { .. } | Self::Overtake { .. } => "reorder",
            Self::Down => "down",
            Self::Partition(..) => "partition",
            Self::Situation(situation) => situation.name(),
        }
    }

    /// Returns which of the selected packets it affects; `None`: other state decides as well.
    #[inline]
    pub(crate) const fn when(&self) -> Option<&When> {
        match self {
            Self::Loss(when)
            | Self::Duplicate(when)
            | Self::Corrupt(_, when)
            | Self::Overtake { when, .. } => Some(when),
            _ => None,
        }
    }

    /// Returns true if it delays packets.
    #[must_use]
    pub const fn delays(self) -> bool {
        matches!(
            self,
            Self::Delay(_) | Self::Jitter(_) | Self::Spray { .. } | Self::Overtake { .. }
        )
    }
}

/// The choice of affected packets among the selected ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Each transmission with this probability.
    Random(Cause),
    /// Packets with these numbers: the first selected packet of a flow is number 1. Packets are
    /// counted, not transmissions.
    Numbered(Numbers),
}

/// The probability of a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cause(pub(crate) Probability);

impl Cause {
    /// Returns the probability.
    #[must_use]
    pub fn probability(self) -> f64 {
        self.0.value()
    }
}

/// Ranges of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    ranges: [(u64, u64); MAX_RANGES],
    used: usize,
}

impl Numbers {
    /// Adds a range. Returns false if there is no room.
    fn add(&mut self, range: (u64, u64)) -> bool {
        let Some(place) = self.ranges.get_mut(self.used) else {
            return false;
        };
        *place = range;
        self.used += 1;
        true
    }

    fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[..self.used]
    }

    /// Returns true if it contains a number.
    #[inline]
    pub(crate) fn has(&self, number: u64) -> bool {
        let mut ranges = self.ranges().iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// Returns how many numbers directly after `number` it does not contain.
    pub(crate) fn gap_behind(&self, number: u64) -> u64 {
        let next = number.saturating_add(1);
        let ahead = self.ranges().iter().filter(|(_, last)| *last >= next);
        let nearest = ahead.map(|(first, _)| (*first).max(next)).min();
        nearest.map_or(u64::MAX, |nearest| nearest - next)
    }
}

/// Loss with two states, where the bad state loses more (Gilbert 1960, Elliott 1963). Each packet
/// of a flow may change the state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Probability of changing from good to bad.
    pub(crate) enter: Probability,
    /// Probability of changing from bad to good.
    pub(crate) leave: Probability,
    /// Probability of loss in the bad state.
    pub(crate) loss_bad: Probability,
    /// Probability of loss in the good state; `None`: no loss.
    pub(crate) loss_good: Option<Probability>,
}

/// The packets that a fault may affect: packets that match all given parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selector {
    /// Packets of this class.
    pub packets: Option<PacketClass>,
    /// Packets to this queue pair.
    pub qp: Option<u32>,
    /// Packets of this flow: flows from one host to another are numbered from 0, in the order of
    /// their first packets, requests and responses separately.
    pub flow: Option<u64>,
    /// Distance of the PSN from the first PSN of the flow.
    pub psn: Option<RangeInclusive<u64>>,
    /// The first, second, … transmission of a packet.
    pub tries: Option<RangeInclusive<u64>>,
    /// Packets from this address.
    pub from: Option<Gid>,
    /// Packets to this address.
    pub to: Option<Gid>,
    /// Time since the first packet that the plan has seen.
    pub during: Option<Span>,
    /// Of a situation: an address of the host to which it happens.
    pub at: Option<Gid>,
}

impl Selector {
    /// Returns true if addresses, queue pair and class of a packet match.
    #[inline]
    pub(crate) fn has_packet(&self, packet: &Packet) -> bool {
        self.may_have(&packet.key) && self.packets.is_none_or(|class| class.has(packet))
    }

    /// Returns true if some packets of a flow may match.
    #[inline]
    pub(crate) fn may_have(&self, key: &FlowKey) -> bool {
        self.packets
            .is_none_or(|class| class.may_have(key.is_response))
            && self.qp.is_none_or(|qp| qp == key.destination_qp.value())
            && self.from.is_none_or(|from| from == key.source)
            && self.to.is_none_or(|to| to == key.destination)
    }
}

/// A span of time since the first packet that the plan has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub from: Duration,
    /// Its end (exclusive); `None`: no end.
    pub until: Option<Duration>,
}

impl Span {
    /// Returns true if it contains a time.
    #[inline]
    pub(crate) fn has(&self, since: Duration) -> bool {
        since >= self.from && self.until.is_none_or(|until| since < until)
    }

    /// Returns true if it has ended.
    pub(crate) fn is_over(&self, since: Duration) -> bool {
        self.until.is_some_and(|until| since >= until)
    }
}
