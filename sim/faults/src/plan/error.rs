//! Errors of a plan.

use super::{MAX_EXPRESSION, MAX_FAULTS, MAX_PATHS, MAX_RANGES};

/// Reason why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The fault is unknown.
    #[error(
        "there is no fault {name:?}; faults are loss (or drop), burst, dup, corrupt, \
         corrupt-header, corrupt-icrc, delay, jitter, reorder, down, partition, peer-qp-error, \
         peer-killed, peer-stopped, power-failure, mr-gone, no-receive, link-down, \
         address-gone; and \
         seed=NUMBER"
    )]
    Kind {
        /// The text.
        name: String,
    },
    /// A value is invalid for its fault.
    #[error("{key}={value}: {value:?} is not {expected}")]
    Value {
        /// The fault, or the key of a file.
        key: String,
        /// The text.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// An item has no `=`.
    #[error("{item:?} is not of the form FAULT=VALUE, such as loss=1e-3")]
    Form {
        /// The text.
        item: String,
    },
    /// The selector is unknown.
    #[error(
        "@{text}: not a selector; selectors are @qpNUMBER, @flowNUMBER, @psnFIRST-LAST, @tryN, \
         @from:ADDRESS, @to:ADDRESS, @at:ADDRESS, @TIME..TIME, @CLASS with any, request, \
         response, send, write, read_request, read_response, atomic, atomic_response, ack, nak, \
         mad, cnp, or an opcode such as @rc_rdma_write_middle"
    )]
    Selector {
        /// The text.
        text: String,
    },
    /// A selector occurs twice.
    #[error("{item}: @{text}: the packets are already selected by another part of the same kind")]
    Twice {
        /// The fault.
        item: String,
        /// The selector.
        text: String,
    },
    /// A situation with a selector of packets.
    #[error(
        "{item}: it happens to a host, not to packets; the only selector is the host, @at:ADDRESS"
    )]
    Packets {
        /// The situation.
        item: String,
    },
    /// A fault of packets with a host.
    #[error(
        "{item}: @at:ADDRESS chooses the host of a situation, such as mr-gone; packets are \
         selected by @from:ADDRESS and @to:ADDRESS"
    )]
    Place {
        /// The fault.
        item: String,
    },
    /// Too many faults.
    #[error("more than {MAX_FAULTS} faults")]
    TooMany,
    /// Too many ranges.
    #[error("{value:?} has more than {MAX_RANGES} numbers and ranges")]
    TooManyRanges {
        /// The text.
        value: String,
    },
    /// Too many paths.
    #[error("reorder={value}: a number of paths is between 2 and {MAX_PATHS}")]
    Paths {
        /// The text.
        value: String,
    },
    /// Too long.
    #[error("the plan as an expression has {length} bytes; at most {MAX_EXPRESSION} are possible")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// It contains no fault.
    #[error("the plan has no fault; write FAULT=VALUE, such as loss=1e-3")]
    Empty,
    /// The file is not TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// A file has an unknown key.
    #[error(
        "unknown key {key:?}; a file has seed, and tables [[fault]] with kind, value, packets, qp, \
         flow, psn, try, from, to, during, at"
    )]
    Key {
        /// The key.
        key: String,
    },
    /// A table of a file has no kind, or no value.
    #[error("a table [[fault]] needs {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
}
