//! The table of transitions: the transitions of each service, and the attributes that each requires
//! and allows. IBTA vol 1, table 91 (QP state transition properties); `ibv_modify_qp(3)` and Linux'
//! `ib_modify_qp_is_ok` have the same rows.

use core::fmt;

use crate::attribute::{Attribute, AttributeSet};
use crate::service::Service;
use crate::state::QpState;

/// Attributes of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeRule {
    /// Required attributes.
    pub required: AttributeSet,
    /// Optional attributes.
    pub optional: AttributeSet,
}

/// Reason why a transition was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionError {
    /// The table has no such transition.
    Illegal {
        /// The current state.
        from: QpState,
        /// The requested state.
        to: QpState,
    },
    /// The transition exists but may not change this attribute.
    Attribute {
        /// The attribute.
        attribute: Attribute,
        /// The current state.
        from: QpState,
        /// The requested state.
        to: QpState,
    },
    /// The transition requires this attribute.
    Missing {
        /// The attribute.
        attribute: Attribute,
        /// The current state.
        from: QpState,
        /// The requested state.
        to: QpState,
    },
}

// By hand, because this crate, like the contract, has no dependencies and no standard library.
impl fmt::Display for TransitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Illegal { from, to } => {
                write!(f, "a queue pair cannot go from {from} to {to}")
            }
            Self::Attribute {
                attribute,
                from,
                to,
            } => write!(
                f,
                "{attribute:?} cannot be changed on the way from {from} to {to}"
            ),
            Self::Missing {
                attribute,
                from,
                to,
            } => write!(f, "{attribute:?} is needed on the way from {from} to {to}"),
        }
    }
}

impl core::error::Error for TransitionError {}

/// Checks that a Modify QP of a queue pair of `service` may set the attributes `given`. The values
/// are not checked.
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
    let Some(rule) = AttributeRule::of(service, from, to) else {
        return Err(TransitionError::Illegal { from, to });
    };
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
    /// Returns the rule of a transition; `None` if the service does not have it.
    #[must_use]
    pub const fn of(service: Service, from: QpState, to: QpState) -> Option<AttributeRule> {
        use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
        let none = AttributeSet::NONE;
        let (required, optional) = match (from, to) {
            (_, Reset) => (none, none),
            (Reset, Init) => (identity(service), none),
            (Init, Init) => (none, identity(service)),
            (Init, Rtr) => (connection(service), before_connection(service)),
            (Rtr, Rts) => (sending(service), running(service)),
            (Rts | Sqd, Rts) => (none, running(service)),
            (Rts, Sqd) => (none, AttributeSet::of(&[Attribute::DrainNotification])),
            (Sqd, Sqd) => (none, drained(service)),
            (Sqe, Rts) => match recovering(service) {
                Some(optional) => (none, optional),
                None => return None,
            },
            (Init | Rtr | Rts | Sqd | Sqe | QpState::Err, QpState::Err) => (none, none),
            _ => return None,
        };
        Some(AttributeRule { required, optional })
    }
}

/// Path migration, optional in every state of a connected queue pair that is active.
const MIGRATION: AttributeSet =
    AttributeSet::of(&[Attribute::AlternatePath, Attribute::MigrationState]);

/// Returns the required attributes of RESET→INIT.
const fn identity(service: Service) -> AttributeSet {
    use Attribute::{Access, PKey, Port, QKey};
    match service {
        Service::UnreliableDatagram | Service::Gsi => AttributeSet::of(&[PKey, Port, QKey]),
        _ => AttributeSet::of(&[PKey, Port, Access]),
    }
}

/// Returns the required attributes of INIT→RTR.
const fn connection(service: Service) -> AttributeSet {
    use Attribute::{DestQp, MaxDestRdAtomic, MinRnrTimer, Path, PathMtu, ReceivePsn};
    let connected = AttributeSet::of(&[Path, PathMtu, DestQp, ReceivePsn]);
    match service {
        Service::UnreliableDatagram | Service::Gsi => AttributeSet::NONE,
        Service::UnreliableConnected | Service::XrcInitiator => connected,
        Service::ReliableConnected | Service::XrcTarget => {
            connected.with(AttributeSet::of(&[MaxDestRdAtomic, MinRnrTimer]))
        }
    }
}

/// Returns the optional attributes of INIT→RTR.
const fn before_connection(service: Service) -> AttributeSet {
    use Attribute::{Access, AlternatePath, PKey, QKey};
    match service {
        Service::UnreliableDatagram | Service::Gsi => AttributeSet::of(&[PKey, QKey]),
        _ => AttributeSet::of(&[PKey, Access, AlternatePath]),
    }
}

/// Returns the required attributes of RTR→RTS.
const fn sending(service: Service) -> AttributeSet {
    use Attribute::{MaxRdAtomic, RetryCount, RnrRetry, SendPsn, Timeout};
    match service {
        Service::UnreliableDatagram | Service::Gsi | Service::UnreliableConnected => {
            AttributeSet::of(&[SendPsn])
        }
        Service::ReliableConnected | Service::XrcInitiator => {
            AttributeSet::of(&[SendPsn, Timeout, RetryCount, RnrRetry, MaxRdAtomic])
        }
        Service::XrcTarget => AttributeSet::of(&[SendPsn, Timeout]),
    }
}

/// Returns the optional attributes of RTR→RTS, RTS→RTS and SQD→RTS.
const fn running(service: Service) -> AttributeSet {
    use Attribute::{Access, CurrentState, MinRnrTimer, QKey};
    let connected = AttributeSet::of(&[CurrentState, Access]).with(MIGRATION);
    match service {
        Service::UnreliableDatagram | Service::Gsi => AttributeSet::of(&[CurrentState, QKey]),
        Service::UnreliableConnected | Service::XrcInitiator => connected,
        Service::ReliableConnected | Service::XrcTarget => {
            connected.with(AttributeSet::of(&[MinRnrTimer]))
        }
    }
}

/// Returns the optional attributes of SQD→SQD.
const fn drained(service: Service) -> AttributeSet {
    use Attribute::{
        Access, MaxDestRdAtomic, MaxRdAtomic, MinRnrTimer, PKey, Path, Port, QKey, RetryCount,
        RnrRetry, Timeout,
    };
    let connected = AttributeSet::of(&[Path, Access, PKey]).with(MIGRATION);
    let reliable = connected.with(AttributeSet::of(&[Port, Timeout]));
    let requester = reliable.with(AttributeSet::of(&[RetryCount, RnrRetry, MaxRdAtomic]));
    let responder = AttributeSet::of(&[MaxDestRdAtomic, MinRnrTimer]);
    match service {
        Service::UnreliableDatagram | Service::Gsi => AttributeSet::of(&[PKey, QKey]),
        Service::UnreliableConnected => connected,
        Service::ReliableConnected => requester.with(responder),
        Service::XrcInitiator => requester,
        Service::XrcTarget => reliable.with(responder),
    }
}

/// Returns the optional attributes of SQE→RTS. The reliable services lack that state: a failed send
/// takes them to ERR (IBTA vol 1, 10.3.1).
const fn recovering(service: Service) -> Option<AttributeSet> {
    use Attribute::{Access, CurrentState, QKey};
    match service {
        Service::UnreliableDatagram | Service::Gsi => Some(AttributeSet::of(&[CurrentState, QKey])),
        Service::UnreliableConnected => Some(AttributeSet::of(&[CurrentState, Access])),
        Service::ReliableConnected | Service::XrcInitiator | Service::XrcTarget => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    const MATRIX: &str = "\
from\\to RESET  INIT   RTR   RTS   SQD   SQE   ERR
  RESET     x     x     .     .     .     .     .
   INIT     x     x     x     .     .     .     x
    RTR     x     .     .     x     .     .     x
    RTS     x     .     .     x     x     .     x
    SQD     x     .     .     x     x     .     x
    SQE     x     .     .     u     .     .     x
    ERR     x     .     .     .     .     .     x
";

    /// Goal: the matrix of transitions; `u`: only the three unreliable services.
    #[test]
    fn whole_matrix_is_as_in_the_figure() {
        let mut seen = String::from("from\\to");
        for to in QpState::ALL {
            write!(seen, "{:>6}", to.to_string()).expect("a String takes everything");
        }
        seen.push('\n');
        for from in QpState::ALL {
            write!(seen, "{:>7}", from.to_string()).expect("a String takes everything");
            for to in QpState::ALL {
                let has = |service| AttributeRule::of(service, from, to).is_some();
                let mark = match Service::ALL.into_iter().filter(|s| has(*s)).count() {
                    0 => '.',
                    3 => 'u',
                    _ => 'x',
                };
                write!(seen, "{mark:>6}").expect("a String takes everything");
            }
            seen.push('\n');
        }
        assert_eq!(seen, MATRIX, "\n{seen}");
    }
}
