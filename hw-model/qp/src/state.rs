//! States of a queue pair, and the transitions of Modify QP.
//!
//! IBTA vol 1, chapter 10, figure "QP/EE context state diagram":
//!
//! ```text
//!             +-------+  modify   +------+  modify   +-----+  modify   +-----+
//!  create --> | RESET | --------> | INIT | --------> | RTR | --------> | RTS |
//!             +-------+           +------+           +-----+           +-----+
//!                 ^                                            drain |  ^  ^ | SQ error
//!            any  |                                                  v  |  | v (UC, UD)
//!           state |                                              +-----+|  |+-----+
//!                 |                                              | SQD |+  +| SQE |
//!                 |               +-----+                        +-----+    +-----+
//!                 +-------------- | ERR | <--- any state but RESET; any fatal error
//!                                 +-----+
//! ```

use core::fmt;

/// State of a queue pair, numbered as in the verbs (`enum ibv_qp_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum QpState {
    /// Created; no attribute is valid, packets are dropped, nothing may be posted.
    #[default]
    Reset = 0,
    /// Receives may be posted; packets are dropped.
    Init = 1,
    /// Ready to receive: the responder is active, the requester is not.
    Rtr = 2,
    /// Ready to send: requester and responder are active.
    Rts = 3,
    /// Send queue drain: requests that have started are finished, no new one starts.
    Sqd = 4,
    /// Send queue error (unreliable services): the send queue is flushed, the responder is active.
    Sqe = 5,
    /// Error: everything is flushed.
    Err = 6,
}

impl QpState {
    /// All states in numeric order.
    pub const ALL: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];

    /// Returns the state with this number; `None` for an unknown number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<QpState> {
        QpState::ALL
            .into_iter()
            .find(|state| *state as u32 == number)
    }

    /// Returns true if inbound requests are executed.
    #[inline]
    #[must_use]
    pub const fn accepts_requests(self) -> bool {
        matches!(
            self,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Returns true if inbound responses are processed and requests retransmitted.
    #[inline]
    #[must_use]
    pub const fn accepts_responses(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd)
    }

    /// Returns true if a send request may be posted and will be executed (now or after a drain).
    #[inline]
    #[must_use]
    pub const fn accepts_sends(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd)
    }

    /// Returns true if receives may be posted (they are flushed at once in [`QpState::Err`]).
    #[inline]
    #[must_use]
    pub const fn accepts_receives(self) -> bool {
        !matches!(self, QpState::Reset)
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Err => "ERR",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_verbs() {
        for (number, state) in (0..).zip(QpState::ALL) {
            assert_eq!(QpState::from_number(number), Some(state));
        }
        assert_eq!(QpState::from_number(7), None);
    }
}
