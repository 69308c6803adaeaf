//! Transitions of Modify QP.
//!
//! The types enforce the required attributes of a transition; the optional ones are an
//! [`AttributeUpdate`], checked against the table of `ferroce_qp`.

use ferroce_qp::{AttributeRule, AttributeSet, QpState, Service, TransitionError};

use crate::attributes::{AttributeUpdate, InitAttributes, RtrAttributes, RtsAttributes};

/// A Modify QP, complete by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// To RESET from any state: all state is dropped, nothing completes.
    Reset,
    /// RESET→INIT, INIT→INIT.
    Init(InitAttributes),
    /// INIT→RTR.
    Rtr {
        /// Required attributes.
        attributes: RtrAttributes,
        /// Optional attributes.
        update: AttributeUpdate,
    },
    /// RTR→RTS.
    Rts {
        /// Required attributes.
        attributes: RtsAttributes,
        /// Optional attributes.
        update: AttributeUpdate,
    },
    /// RTS→RTS, SQD→SQD: attributes change, the state does not.
    Update(AttributeUpdate),
    /// RTS→SQD.
    Drain {
        /// Raise [`crate::Event::SqDrained`] when every request that has started has completed.
        notify: bool,
    },
    /// SQD→RTS, SQE→RTS.
    Resume(AttributeUpdate),
    /// To ERR from any state but RESET: everything outstanding is flushed.
    Err,
}

impl Transition {
    /// Returns the target state of this transition from the state `from`.
    #[must_use]
    pub const fn target(&self, from: QpState) -> QpState {
        match self {
            Transition::Reset => QpState::Reset,
            Transition::Init(_) => QpState::Init,
            Transition::Rtr { .. } => QpState::Rtr,
            Transition::Rts { .. } | Transition::Resume(_) => QpState::Rts,
            Transition::Update(_) => from,
            Transition::Drain { .. } => QpState::Sqd,
            Transition::Err => QpState::Err,
        }
    }

    /// Returns true if this form of transition starts from `from`: several forms share a row of the
    /// table.
    const fn starts_from(&self, from: QpState) -> bool {
        match self {
            Transition::Rts { .. } => matches!(from, QpState::Rtr),
            Transition::Update(_) => matches!(from, QpState::Rts | QpState::Sqd),
            Transition::Resume(_) => matches!(from, QpState::Sqd | QpState::Sqe),
            Transition::Drain { .. } => matches!(from, QpState::Rts),
            _ => true,
        }
    }

    /// Returns the optional attributes.
    pub(crate) const fn update(&self) -> Option<&AttributeUpdate> {
        match self {
            Transition::Rtr { update, .. }
            | Transition::Rts { update, .. }
            | Transition::Update(update)
            | Transition::Resume(update) => Some(update),
            _ => None,
        }
    }

    /// Checks this transition of a queue pair of `service` against the table; returns its target
    /// state.
    pub(crate) fn check(
        &self,
        service: Service,
        from: QpState,
    ) -> Result<QpState, TransitionError> {
        let to = self.target(from);
        let rule = AttributeRule::of(service, from, to).filter(|_| self.starts_from(from));
        let rule = rule.ok_or(TransitionError::Illegal { from, to })?;
        let changed = self.update().map_or(AttributeSet::NONE, |u| u.names());
        match changed.without(rule.optional).first() {
            Some(attribute) => Err(TransitionError::Attribute {
                attribute,
                from,
                to,
            }),
            None => Ok(to),
        }
    }
}

/// Reason why a Modify QP was refused. The queue pair is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    /// The table lacks the transition, or does not permit or require this attribute.
    #[error(transparent)]
    Transition(#[from] TransitionError),
    /// The send queue is still draining; attributes can change only when it is drained.
    #[error("the send queue is still draining")]
    Draining,
}

#[cfg(test)]
mod tests {
    use ferroce_qp::Attribute;

    use super::*;
    use crate::attributes::{LocalAckTimeout, RemoteAccess};

    const RC: Service = Service::ReliableConnected;

    #[test]
    fn optional_attributes_follow_the_verbs() {
        let timeout = AttributeUpdate {
            timeout: Some(LocalAckTimeout::new(3)),
            ..AttributeUpdate::default()
        };
        let access = AttributeUpdate {
            access: Some(RemoteAccess::default()),
            ..AttributeUpdate::default()
        };
        assert!(Transition::Update(access).check(RC, QpState::Rts).is_ok());
        assert!(Transition::Update(timeout).check(RC, QpState::Sqd).is_ok());
        assert_eq!(
            Transition::Update(timeout).check(RC, QpState::Rts),
            Err(TransitionError::Attribute {
                attribute: Attribute::Timeout,
                from: QpState::Rts,
                to: QpState::Rts
            })
        );
        assert!(Transition::Resume(timeout).check(RC, QpState::Sqd).is_err());
        assert!(Transition::Resume(access).check(RC, QpState::Rts).is_err());
        assert!(Transition::Update(access).check(RC, QpState::Init).is_err());
        assert!(Transition::Err.check(RC, QpState::Reset).is_err());
        assert!(Transition::Reset.check(RC, QpState::Err).is_ok());
    }
}
