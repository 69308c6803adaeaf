//! What is wrong with a plan.

use super::{MAX_EXPRESSION, MAX_FAULTS, MAX_PATHS, MAX_RANGES};

/// Why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is no such fault.
    #[error(
        "there is no fault {name:?}; faults are loss (or drop), burst, dup, corrupt, \
         corrupt-header, corrupt-icrc, delay, jitter, reorder, down, partition; and seed=NUMBER"
    )]
    Kind {
        /// What was written.
        name: String,
    },
    /// A value is not what the fault needs.
    #[error("{key}={value}: {value:?} is not {expected}")]
    Value {
        /// The fault, or the key of a file.
        key: String,
        /// What was written.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An item has no `=`.
    #[error("{item:?} is not of the form FAULT=VALUE, such as loss=1e-3")]
    Form {
        /// What was written.
        item: String,
    },
    /// There is no such selector.
    #[error(
        "@{text}: not a selector; selectors are @qpNUMBER, @flowNUMBER, @psnFIRST-LAST, @tryN, \
         @from:ADDRESS, @to:ADDRESS, @TIME..TIME, @CLASS with any, request, response, send, write, \
         read_request, read_response, atomic, atomic_response, ack, nak, mad, cnp, or an opcode \
         such as @rc_rdma_write_middle"
    )]
    Selector {
        /// What was written.
        text: String,
    },
    /// A selector is there twice.
    #[error("{item}: @{text}: the packets are already selected by another part of the same kind")]
    Twice {
        /// The fault.
        item: String,
        /// The selector.
        text: String,
    },
    /// Too many faults.
    #[error("more than {MAX_FAULTS} faults")]
    TooMany,
    /// Too many ranges.
    #[error("{value:?} has more than {MAX_RANGES} numbers and ranges")]
    TooManyRanges {
        /// What was written.
        value: String,
    },
    /// Too many paths.
    #[error("reorder={value}: a number of paths is between 2 and {MAX_PATHS}")]
    Paths {
        /// What was written.
        value: String,
    },
    /// Too long.
    #[error("the plan as an expression has {length} bytes; at most {MAX_EXPRESSION} are possible")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// There is no fault in it.
    #[error("the plan has no fault; write FAULT=VALUE, such as loss=1e-3")]
    Empty,
    /// The file is no TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// A file has a key that no plan has.
    #[error(
        "unknown key {key:?}; a file has seed, and tables [[fault]] with kind, value, packets, qp, \
         flow, psn, try, from, to, during"
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
