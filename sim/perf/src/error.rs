//! Errors of a measurement.

use ferroce_driver::CompletionStatus;

use crate::spec::Operation;

/// The reason why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the specification makes no sense, or the preset does not have it.
    #[error("{what} {value}: {reason}")]
    Invalid {
        /// The part, by its name on the command line.
        what: &'static str,
        /// Its value.
        value: String,
        /// The permitted values.
        reason: String,
    },
    /// The hosts cannot be created.
    #[error(transparent)]
    World(#[from] ferroce_world::Error),
    /// No memory for a buffer.
    #[error("{length} B for a memory region: {source}")]
    Memory {
        /// Bytes.
        length: u64,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Regions are larger than what cards can reach of a memory.
    #[error(
        "{bytes} B of memory regions do not fit in {memory}: its BAR maps {reachable} B \
         (`bar_gib` of the topology)"
    )]
    Bar {
        /// Bytes of a thread's regions.
        bytes: u64,
        /// The memory.
        memory: String,
        /// Bytes that its BAR maps.
        reachable: u64,
    },
    /// The driver or the simulated card refused something.
    #[error("{what}: {source}")]
    Driver {
        /// The object to be created.
        what: &'static str,
        /// The error of the driver.
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
        /// The error of the driver.
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
        /// Its completion status.
        status: CompletionStatus,
    },
    /// Threads wait for an event that will never happen.
    #[error("{operation:?} of {size} B: the threads wait forever\n{dump}")]
    Stalled {
        /// The verb.
        operation: Operation,
        /// Bytes of the message.
        size: u32,
        /// The event that each thread waits for.
        dump: String,
    },
    /// There were too few messages to compute a figure.
    #[error("too few messages for a figure: more --iterations are needed")]
    NoFigure,
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a conversion that names the failed operation of the driver.
    pub fn driver(what: &'static str) -> impl Fn(ferroce_driver::Error) -> Self {
        move |source| Self::Driver { what, source }
    }
}
