//! Situations of a program and its device that its peers notice: `peer-killed=5ms/mr-first`.

use std::fmt;
use std::str::FromStr;

use ferroce_units::Duration;

use super::Span;
use super::text::{Time, duration, span};

/// Time from the end of a killed program's memory regions to the end of its queue pairs, if the
/// regions go first. The kernel destroys one object after the other, each by a command of the
/// firmware; how long that takes depends on the number of objects. This value is a guess, long
/// enough that a request in flight meets a missing region.
pub const TEARDOWN: Duration = Duration::from_ms(10);

/// The order in which the kernel destroys the objects of a killed program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teardown {
    /// The queue pairs first: nothing answers.
    QpFirst,
    /// The memory regions first: queue pairs answer that there is no region.
    MrFirst,
}

impl Teardown {
    /// Both orders.
    pub const ALL: [Self; 2] = [Self::QpFirst, Self::MrFirst];

    /// Returns its name in a plan.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QpFirst => "qp-first",
            Self::MrFirst => "mr-first",
        }
    }

    /// Returns the order with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }
}

/// A situation of a program and its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// The queue pairs of the program move to ERR.
    PeerQpError,
    /// The program is killed.
    PeerKilled(Teardown),
    /// The program is stopped; its card goes on.
    PeerStopped,
    /// The host has no power: the program is killed, and persistent memory loses what was not
    /// persistent.
    PowerFailure,
    /// The memory regions of the program are deregistered.
    MrGone,
    /// The receives of the program are not fetched.
    NoReceive,
    /// The port is down.
    LinkDown,
    /// The IPv4 addresses of the port are removed.
    AddressGone,
}

/// How long a situation lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// It is an event.
    Event,
    /// It ends after a time.
    Time,
    /// It may end after a time.
    TimeOrForever,
}

impl Situation {
    /// All situations.
    pub const ALL: [Self; 9] = [
        Self::PeerQpError,
        Self::PeerKilled(Teardown::QpFirst),
        Self::PeerKilled(Teardown::MrFirst),
        Self::PeerStopped,
        Self::PowerFailure,
        Self::MrGone,
        Self::NoReceive,
        Self::LinkDown,
        Self::AddressGone,
    ];

    /// Returns its name in a plan.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeerQpError => "peer-qp-error",
            Self::PeerKilled(_) => "peer-killed",
            Self::PeerStopped => "peer-stopped",
            Self::PowerFailure => "power-failure",
            Self::MrGone => "mr-gone",
            Self::NoReceive => "no-receive",
            Self::LinkDown => "link-down",
            Self::AddressGone => "address-gone",
        }
    }

    /// Returns how long it lasts.
    #[must_use]
    pub const fn lasting(self) -> Lasting {
        match self {
            Self::PeerQpError | Self::PeerKilled(_) | Self::PowerFailure | Self::MrGone => {
                Lasting::Event
            }
            Self::PeerStopped => Lasting::Time,
            Self::NoReceive | Self::LinkDown | Self::AddressGone => Lasting::TimeOrForever,
        }
    }

    /// Returns true if it happens to a process, and not only to its device.
    #[must_use]
    pub const fn concerns_process(self) -> bool {
        matches!(
            self,
            Self::PeerKilled(_) | Self::PeerStopped | Self::PowerFailure
        )
    }

    /// Returns what happens when it begins.
    #[must_use]
    pub const fn begin(self) -> &'static [Step] {
        match self {
            Self::PeerQpError => &[Step::FailQueuePairs],
            Self::PeerKilled(Teardown::QpFirst) => &[Step::Kill],
            // A program that is being killed runs no more.
            Self::PeerKilled(Teardown::MrFirst) => &[Step::Stop, Step::RevokeRegions],
            Self::PeerStopped => &[Step::Stop],
            Self::PowerFailure => &[Step::PowerFailure],
            Self::MrGone => &[Step::RevokeRegions],
            Self::NoReceive => &[Step::WithholdReceives],
            Self::LinkDown => &[Step::LinkDown],
            Self::AddressGone => &[Step::AddressGone],
        }
    }

    /// Returns what happens when it ends.
    #[must_use]
    pub const fn end(self) -> &'static [Step] {
        match self {
            Self::PeerQpError
            | Self::PeerKilled(Teardown::QpFirst)
            | Self::PowerFailure
            | Self::MrGone => &[],
            Self::PeerKilled(Teardown::MrFirst) => &[Step::Kill],
            Self::PeerStopped => &[Step::Continue],
            Self::NoReceive => &[Step::ReturnReceives],
            Self::LinkDown => &[Step::LinkUp],
            Self::AddressGone => &[Step::AddressBack],
        }
    }

    /// Returns the time from its begin to its end if the user gives none; `None`: it has no end.
    #[must_use]
    pub fn usual_time(self) -> Option<Duration> {
        (self == Self::PeerKilled(Teardown::MrFirst)).then_some(TEARDOWN)
    }

    /// Returns true if all that it does has happened. `since`: time since the first packet.
    pub(crate) fn is_over(self, span: &Span, since: Duration) -> bool {
        match (self, span.until) {
            // Packets are dropped as long as it lasts.
            (_, Some(until)) => since >= until,
            (Self::LinkDown, None) => false,
            (_, None) => since >= span.from,
        }
    }

    /// Parses the value of a situation in a plan; `None`: `key` is not the name of a situation.
    /// Otherwise an error says what is expected.
    pub(super) fn of_plan(key: &str, value: &str) -> Option<Result<(Self, Span), &'static str>> {
        let named = Self::ALL.into_iter().find(|known| known.name() == key)?;
        if matches!(named, Self::PeerKilled(_)) {
            return Some(killed(value).ok_or(KILLED));
        }
        let parsed = match named.lasting() {
            Lasting::Event => duration(value).map(|from| Span { from, until: None }),
            Lasting::Time => span(value).filter(|span| span.until.is_some()),
            Lasting::TimeOrForever => span(value),
        };
        let expected = match named.lasting() {
            Lasting::Event => EVENT,
            Lasting::Time => BOUNDED,
            Lasting::TimeOrForever => OPEN,
        };
        Some(parsed.map(|span| (named, span)).ok_or(expected))
    }

    /// Prints the value of a situation in a plan.
    pub(super) fn write_value(self, span: &Span, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = Time(span.from);
        match (self, self.lasting(), span.until) {
            (Self::PeerKilled(order), _, None) => write!(f, "{from}/{}", order.name()),
            (Self::PeerKilled(order), _, Some(until)) => {
                write!(f, "{from}/{}/{}", order.name(), Time(until - span.from))
            }
            (_, Lasting::Event, _) => write!(f, "{from}"),
            _ => write!(f, "{span}"),
        }
    }
}

const EVENT: &str = "a time since the first packet, such as 5ms";
const BOUNDED: &str = "a span of time since the first packet, such as 5ms..4s";
const OPEN: &str = "a span of time since the first packet, such as 5ms..7ms, or 5ms..";
const KILLED: &str = "a time since the first packet and what the kernel destroys first, such as \
                      5ms/qp-first or 5ms/mr-first; after mr-first there may be the time until \
                      the queue pairs go, such as 5ms/mr-first/20ms";

/// Parses `TIME/qp-first`, `TIME/mr-first` or `TIME/mr-first/TIME`.
fn killed(value: &str) -> Option<(Situation, Span)> {
    let mut parts = value.split('/');
    let from = duration(parts.next()?)?;
    let order = Teardown::named(parts.next()?)?;
    let situation = Situation::PeerKilled(order);
    let gap = match parts.next() {
        None => situation.usual_time(),
        Some(_) if order == Teardown::QpFirst => return None,
        Some(gap) => Some(duration(gap).filter(|gap| !gap.is_zero())?),
    };
    let until = gap.map(|gap| from + gap);
    let is_complete = parts.next().is_none();
    is_complete.then_some((situation, Span { from, until }))
}

/// A situation that begins now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Onset {
    /// The situation.
    pub situation: Situation,
    /// The time until its end; `None`: it does not end.
    pub time: Option<Duration>,
}

/// Reason why [`Onset`] cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnsetError {
    /// There is no such situation.
    #[error("{0:?} is not the name of a situation")]
    Name(String),
    /// The value does not fit.
    #[error("{name} {value:?}: expected {expected}")]
    Value {
        /// The situation.
        name: &'static str,
        /// The text.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
}

const ORDER: &str = "what the kernel destroys first: qp-first or mr-first; after mr-first there \
                     may be the time until the queue pairs go, such as mr-first/20ms";
const TIME: &str = "how long it lasts, a time with its unit (ns, us, ms, s), such as 4s";
const TIME_OR_NOTHING: &str =
    "how long it lasts, a time with its unit (ns, us, ms, s), such as 4s, or nothing";
const NOTHING: &str = "nothing after it: it happens once";

impl FromStr for Onset {
    type Err = OnsetError;

    /// Parses `NAME`, or `NAME VALUE`: `peer-killed mr-first`, `peer-stopped 4s`.
    fn from_str(text: &str) -> Result<Self, OnsetError> {
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        let value = value.trim();
        let known = Situation::ALL
            .into_iter()
            .find(|known| known.name() == name);
        let known = known.ok_or_else(|| OnsetError::Name(name.to_owned()))?;
        let wrong = |expected| OnsetError::Value {
            name: known.name(),
            value: value.to_owned(),
            expected,
        };
        if matches!(known, Situation::PeerKilled(_)) {
            // The value of a plan, without the time at which it happens.
            let (situation, span) = killed(&format!("0s/{value}")).ok_or_else(|| wrong(ORDER))?;
            let time = span.until.map(|until| until - span.from);
            return Ok(Self { situation, time });
        }
        let time = match (known.lasting(), value) {
            (Lasting::Event | Lasting::TimeOrForever, "") => None,
            (Lasting::Event, _) => return Err(wrong(NOTHING)),
            (lasting, _) => {
                let positive = duration(value).filter(|time| !time.is_zero());
                Some(positive.ok_or_else(|| {
                    let is_needed = lasting == Lasting::Time;
                    wrong(if is_needed { TIME } else { TIME_OR_NOTHING })
                })?)
            }
        };
        let situation = known;
        Ok(Self { situation, time })
    }
}

/// What happens to a program or to its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All queue pairs in use move to ERR.
    FailQueuePairs,
    /// All memory regions are deregistered.
    RevokeRegions,
    /// Receives are not fetched any more.
    WithholdReceives,
    /// Receives are fetched again.
    ReturnReceives,
    /// The port loses its link.
    LinkDown,
    /// The port has its link again.
    LinkUp,
    /// The port loses its IPv4 addresses.
    AddressGone,
    /// The port has its addresses again.
    AddressBack,
    /// The program stops.
    Stop,
    /// The program continues.
    Continue,
    /// The program is killed, and all its objects are gone.
    Kill,
    /// The same, and persistent memory loses what was not persistent.
    PowerFailure,
}

impl Step {
    /// Returns the step that ends its effect; `None`: nothing does.
    #[must_use]
    pub const fn undone_by(self) -> Option<Self> {
        match self {
            Self::WithholdReceives => Some(Self::ReturnReceives),
            Self::LinkDown => Some(Self::LinkUp),
            Self::AddressGone => Some(Self::AddressBack),
            Self::Stop => Some(Self::Continue),
            _ => None,
        }
    }
}
