//! Which attributes a Modify QP needs and which it may have, by service and transition: the table
//! of `ibv_modify_qp(3)`, as Linux' `ib_modify_qp_is_ok` has it.

use crate::qp::Service;
use crate::state::QpState;
use crate::transition::TransitionError;

/// An attribute by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Attribute {
    /// Remote access rights.
    Access,
    /// Partition key.
    PKey,
    /// Port number.
    Port,
    /// Minimum RNR NAK timer.
    MinRnrTimer,
    /// Local ACK timeout.
    Timeout,
    /// Retry count.
    RetryCount,
    /// RNR retry count.
    RnrRetry,
    /// Outstanding READs and atomics as requester.
    MaxRdAtomic,
    /// Outstanding READs and atomics as responder.
    MaxDestRdAtomic,
    /// Queue key.
    QKey,
    /// Path to the peer.
    Path,
    /// Path MTU.
    PathMtu,
    /// The peer's queue pair.
    DestQp,
    /// PSN of the first request that the peer sends.
    ReceivePsn,
    /// PSN of the first request that we send.
    SendPsn,
    /// State in which the queue pair is said to be.
    CurrentState,
    /// Ask for an event when the send queue is drained.
    DrainNotification,
}

impl Attribute {
    /// All attributes.
    pub const ALL: [Attribute; 17] = [
        Attribute::Access,
        Attribute::PKey,
        Attribute::Port,
        Attribute::MinRnrTimer,
        Attribute::Timeout,
        Attribute::RetryCount,
        Attribute::RnrRetry,
        Attribute::MaxRdAtomic,
        Attribute::MaxDestRdAtomic,
        Attribute::QKey,
        Attribute::Path,
        Attribute::PathMtu,
        Attribute::DestQp,
        Attribute::ReceivePsn,
        Attribute::SendPsn,
        Attribute::CurrentState,
        Attribute::DrainNotification,
    ];
}

/// A set of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeSet(u32);

impl AttributeSet {
    /// No attribute.
    pub const NONE: AttributeSet = AttributeSet(0);

    /// The set of `attributes`.
    #[must_use]
    pub const fn of(attributes: &[Attribute]) -> AttributeSet {
        let mut bits = 0;
        let mut index = 0;
        while index < attributes.len() {
            bits |= 1 << attributes[index] as u32;
            index += 1;
        }
        AttributeSet(bits)
    }

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: AttributeSet) -> AttributeSet {
        AttributeSet(self.0 | other.0)
    }

    /// The set less those of `other`.
    #[must_use]
    pub const fn without(self, other: AttributeSet) -> AttributeSet {
        AttributeSet(self.0 & !other.0)
    }

    /// Returns true if `attribute` is in the set.
    #[must_use]
    pub const fn contains(self, attribute: Attribute) -> bool {
        self.0 & 1 << attribute as u32 != 0
    }

    /// Some attribute of the set, the same each time.
    #[must_use]
    pub fn first(self) -> Option<Attribute> {
        Attribute::ALL.into_iter().find(|a| self.contains(*a))
    }
}

impl FromIterator<Attribute> for AttributeSet {
    fn from_iter<I: IntoIterator<Item = Attribute>>(attributes: I) -> AttributeSet {
        attributes.into_iter().fold(AttributeSet::NONE, |set, a| {
            set.with(AttributeSet::of(&[a]))
        })
    }
}

/// What a transition needs and what it may have besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeRule {
    /// Must be given.
    pub required: AttributeSet,
    /// May be given.
    pub optional: AttributeSet,
}

/// Checks a Modify QP of a queue pair of `service` that gives the attributes `given`, before its
/// values are looked at.
///
/// # Errors
///
/// [`TransitionError::Illegal`], [`TransitionError::Missing`] or [`TransitionError::Attribute`]
pub fn check_attributes(
    service: Service,
    from: QpState,
    to: QpState,
    given: AttributeSet,
) -> Result<(), TransitionError> {
    if !from.can_become(to) {
        return Err(TransitionError::Illegal { from, to });
    }
    let rule = AttributeRule::of(service, from, to);
    if let Some(attribute) = rule.required.without(given).first() {
        return Err(TransitionError::Missing {
            attribute,
            from,
            to,
        });
    }
    match given.without(rule.required.with(rule.optional)).first() {
        Some(attribute) => Err(TransitionError::Attribute {
            attribute,
            from,
            to,
        }),
        None => Ok(()),
    }
}

impl AttributeRule {
    /// The rule of a transition that the state table has.
    #[must_use]
    pub const fn of(service: Service, from: QpState, to: QpState) -> AttributeRule {
        let none = AttributeSet::NONE;
        let (required, optional) = match (from, to) {
            (QpState::Reset, QpState::Init) => (identity(service), none),
            (QpState::Init, QpState::Init) => (none, identity(service)),
            (QpState::Init, QpState::Rtr) => (connection(service), before_connection(service)),
            (QpState::Rtr, QpState::Rts) => (sending(service), running(service)),
            (QpState::Rts | QpState::Sqd, QpState::Rts) => (none, running(service)),
            (QpState::Rts, QpState::Sqd) => {
                (none, AttributeSet::of(&[Attribute::DrainNotification]))
            }
            (QpState::Sqd, QpState::Sqd) => (none, drained(service)),
            (QpState::Sqe, QpState::Rts) => (none, recovering(service)),
            _ => (none, none),
        };
        AttributeRule { required, optional }
    }
}

/// RESET→INIT.
const fn identity(service: Service) -> AttributeSet {
    use Attribute::{Access, PKey, Port, QKey};
    match service {
        Service::UnreliableDatagram => AttributeSet::of(&[PKey, Port, QKey]),
        _ => AttributeSet::of(&[PKey, Port, Access]),
    }
}

/// INIT→RTR.
const fn connection(service: Service) -> AttributeSet {
    use Attribute::{DestQp, MaxDestRdAtomic, MinRnrTimer, Path, PathMtu, ReceivePsn};
    let connected = AttributeSet::of(&[Path, PathMtu, DestQp, ReceivePsn]);
    match service {
        Service::UnreliableDatagram => AttributeSet::NONE,
        Service::UnreliableConnected | Service::XrcInitiator => connected,
        Service::ReliableConnected | Service::XrcTarget => {
            connected.with(AttributeSet::of(&[MaxDestRdAtomic, MinRnrTimer]))
        }
    }
}

/// INIT→RTR, optional.
const fn before_connection(service: Service) -> AttributeSet {
    use Attribute::{Access, PKey, QKey};
    match service {
        Service::UnreliableDatagram => AttributeSet::of(&[PKey, QKey]),
        _ => AttributeSet::of(&[PKey, Access]),
    }
}

/// RTR→RTS.
const fn sending(service: Service) -> AttributeSet {
    use Attribute::{MaxRdAtomic, RetryCount, RnrRetry, SendPsn, Timeout};
    match service {
        Service::UnreliableDatagram | Service::UnreliableConnected => AttributeSet::of(&[SendPsn]),
        Service::ReliableConnected | Service::XrcInitiator => {
            AttributeSet::of(&[SendPsn, Timeout, RetryCount, RnrRetry, MaxRdAtomic])
        }
        Service::XrcTarget => AttributeSet::of(&[SendPsn, Timeout]),
    }
}

/// RTR→RTS, RTS→RTS, SQD→RTS: optional.
const fn running(service: Service) -> AttributeSet {
    use Attribute::{Access, CurrentState, MinRnrTimer, QKey};
    match service {
        Service::UnreliableDatagram => AttributeSet::of(&[CurrentState, QKey]),
        Service::UnreliableConnected | Service::XrcInitiator => {
            AttributeSet::of(&[CurrentState, Access])
        }
        Service::ReliableConnected | Service::XrcTarget => {
            AttributeSet::of(&[CurrentState, Access, MinRnrTimer])
        }
    }
}

/// SQD→SQD: optional.
const fn drained(service: Service) -> AttributeSet {
    use Attribute::{
        Access, MaxDestRdAtomic, MaxRdAtomic, MinRnrTimer, PKey, Path, Port, QKey, RetryCount,
        RnrRetry, Timeout,
    };
    let connected = AttributeSet::of(&[Path, Access, PKey]);
    let reliable = connected.with(AttributeSet::of(&[Port, Timeout]));
    let requester = reliable.with(AttributeSet::of(&[RetryCount, RnrRetry, MaxRdAtomic]));
    let responder = AttributeSet::of(&[MaxDestRdAtomic, MinRnrTimer]);
    match service {
        Service::UnreliableDatagram => AttributeSet::of(&[PKey, QKey]),
        Service::UnreliableConnected => connected,
        Service::ReliableConnected => requester.with(responder),
        Service::XrcInitiator => requester,
        Service::XrcTarget => reliable.with(responder),
    }
}

/// SQE→RTS: optional.
const fn recovering(service: Service) -> AttributeSet {
    use Attribute::{Access, CurrentState, QKey};
    match service {
        Service::UnreliableDatagram => AttributeSet::of(&[CurrentState, QKey]),
        Service::UnreliableConnected => AttributeSet::of(&[CurrentState, Access]),
        _ => AttributeSet::NONE,
    }
}
