//! Why a measurement could not be made.

use ferroce_driver::CompletionStatus;

use crate::perf::spec::Operation;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the specification makes no sense, or the preset does not have it.
    #[error("{what} {value}: {reason}")]
    Invalid {
        /// Which part, as the command line calls it.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is permitted.
        reason: String,
    },
    /// The hosts cannot be made.
    #[error(transparent)]
    World(#[from] ferroce_world::Error),
    /// No memory for a buffer.
    #[error("{length} B for a memory region: {source}")]
    Memory {
        /// Bytes.
        length: u64,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The driver or the simulated card refused something.
    #[error("{what}: {source}")]
    Driver {
        /// What was to be made.
        what: &'static str,
        /// What the driver says.
        source: ferroce_driver::Error,
    },
    /// A work request was refused.
    #[error("post of {operation:?} of {size} B on host {host}: {source}")]
    Post {
        /// The verb.
        operation: Operation,
        /// Bytes of the message.
        size: u32,
        /// The host.
        host: usize,
        /// What the driver says.
        source: ferroce_driver::PostError,
    },
    /// A work request completed with an error.
    #[error("{operation:?} of {size} B on host {host}, QP {qpn:#x}: {status:?}")]
    Completion {
        /// The verb.
        operation: Operation,
        /// Bytes of the message.
        size: u32,
        /// The host.
        host: usize,
        /// The QP.
        qpn: u32,
        /// How it has ended.
        status: CompletionStatus,
    },
    /// Threads wait for something that will not happen.
    #[error("{operation:?} of {size} B: the threads wait for ever\n{dump}")]
    Stalled {
        /// The verb.
        operation: Operation,
        /// Bytes of the message.
        size: u32,
        /// What everybody waits for.
        dump: String,
    },
    /// Somebody wanted it to end.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Says what the driver was doing.
    pub fn driver(what: &'static str) -> impl Fn(ferroce_driver::Error) -> Self {
        move |source| Self::Driver { what, source }
    }
}
