//! States of a queue pair and the transitions that a Modify QP may ask for.
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

use std::fmt;

/// State of a queue pair, numbered as in the verbs (`enum ibv_qp_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum QpState {
    /// Created; no attribute is valid, packets are dropped, nothing may be posted.
    #[default]
    Reset = 0,
    /// Receives may be posted; packets are dropped.
    Init = 1,
    /// Ready to receive: the responder works, the requester does not.
    Rtr = 2,
    /// Ready to send: requester and responder work.
    Rts = 3,
    /// Send queue drain: requests that were begun are finished, no new one is begun.
    Sqd = 4,
    /// Send queue error (unreliable services): the send queue is flushed, the responder works.
    Sqe = 5,
    /// Error: everything is flushed.
    Err = 6,
}

/// Number of states.
const STATES: usize = 7;

/// Legal transitions, `[from][to]`, as Linux' `qp_state_table` has them for a connected service.
const TRANSITIONS: [[bool; STATES]; STATES] = {
    const O: bool = false;
    const X: bool = true;
    [
        // Rst Ini Rtr Rts Sqd Sqe Err   from
        [X, X, O, O, O, O, O], // Reset
        [X, X, X, O, O, O, X], // Init
        [X, O, O, X, O, O, X], // Rtr
        [X, O, O, X, X, O, X], // Rts
        [X, O, O, X, X, O, X], // Sqd
        [X, O, O, X, O, O, X], // Sqe
        [X, O, O, O, O, O, X], // Err
    ]
};

impl QpState {
    /// All states in numeric order.
    pub const ALL: [QpState; STATES] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];

    /// Returns true if Modify QP may move from `self` to `target`.
    #[must_use]
    pub const fn can_become(self, target: QpState) -> bool {
        TRANSITIONS[self as usize][target as usize]
    }

    /// Returns true if inbound requests are executed.
    #[must_use]
    pub const fn accepts_requests(self) -> bool {
        matches!(
            self,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Returns true if inbound responses are processed and requests retransmitted.
    #[must_use]
    pub const fn accepts_responses(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd)
    }

    /// Returns true if a send request may be posted and will be executed (now or after a drain).
    #[must_use]
    pub const fn accepts_sends(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd)
    }

    /// Returns true if receives may be posted (they are flushed at once in [`QpState::Err`]).
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
    use std::fmt::Write;

    use super::*;

    const MATRIX: &str = "\
from\\to RESET  INIT   RTR   RTS   SQD   SQE   ERR
  RESET     x     x     .     .     .     .     .
   INIT     x     x     x     .     .     .     x
    RTR     x     .     .     x     .     .     x
    RTS     x     .     .     x     x     .     x
    SQD     x     .     .     x     x     .     x
    SQE     x     .     .     x     .     .     x
    ERR     x     .     .     .     .     .     x
";

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
                seen.push_str(if from.can_become(to) {
                    "     x"
                } else {
                    "     ."
                });
            }
            seen.push('\n');
        }
        assert_eq!(seen, MATRIX, "\n{seen}");
    }

    #[test]
    fn numbers_are_those_of_the_verbs() {
        for (number, state) in QpState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
        }
    }
}
