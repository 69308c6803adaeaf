//! Errors of the control path and of posting.

use ferroce_spec::command::{CommandOpcode, CommandStatus};

use crate::bus::BusError;
use crate::errno;

/// Errors of operations on objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The function is not a Ferroce device.
    #[error("not a Ferroce device (magic {magic:#010x})")]
    NotFerroce {
        /// Value of the magic register.
        magic: u32,
    },
    /// The device implements another major version of the contract.
    #[error("the device implements version {major}.{minor} of the contract")]
    WrongVersion {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// A register did not reach the expected value in time.
    #[error("the device did not {what} in time")]
    RegisterTimeout {
        /// The missing step.
        what: &'static str,
    },
    /// A command was not answered in time. The device is no longer used.
    #[error("the device did not answer {opcode:?} in time")]
    CommandTimeout {
        /// The command.
        opcode: CommandOpcode,
    },
    /// The device has stopped, does not answer, or is gone.
    #[error("the device is dead")]
    DeviceDead,
    /// The device refused a command.
    #[error("the device refused {opcode:?}: {status:?} (syndrome {syndrome:#x})")]
    Command {
        /// The command.
        opcode: CommandOpcode,
        /// The device's reason.
        status: CommandStatus,
        /// Detail.
        syndrome: u32,
    },
    /// The device returned an impossible answer.
    #[error("the device's answer makes no sense: {what}")]
    BadAnswer {
        /// The fault.
        what: &'static str,
    },
    /// The bus failed.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The object has children or users.
    #[error("the object is in use")]
    Busy,
    /// An argument is out of its range, or arguments contradict each other.
    #[error("invalid argument: {what}")]
    InvalidArgument {
        /// The argument and the reason.
        what: &'static str,
    },
    /// The QP's state does not allow this.
    #[error("the QP's state does not allow this")]
    InvalidState,
    /// Neither driver nor device implement this.
    #[error("not supported: {what}")]
    NotSupported {
        /// The missing feature.
        what: &'static str,
    },
    /// A table, the doorbells, the IOVA space or the memory are exhausted.
    #[error("no {what} left")]
    NoResources {
        /// The exhausted resource.
        what: &'static str,
    },
    /// The object has been destroyed.
    #[error("the object has been destroyed")]
    Destroyed,
}

impl Error {
    /// Returns the errno that verbs report for this error.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFerroce { .. } | Self::WrongVersion { .. } => errno::ENODEV,
            Self::RegisterTimeout { .. } | Self::CommandTimeout { .. } => errno::ETIMEDOUT,
            Self::DeviceDead | Self::BadAnswer { .. } => errno::EIO,
            Self::Command { status, .. } => command_errno(*status),
            Self::Bus(error) => error.errno(),
            Self::Busy => errno::EBUSY,
            Self::InvalidArgument { .. } | Self::InvalidState => errno::EINVAL,
            Self::NotSupported { .. } => errno::EOPNOTSUPP,
            Self::NoResources { .. } => errno::ENOMEM,
            Self::Destroyed => errno::EINVAL,
        }
    }
}

fn command_errno(status: CommandStatus) -> i32 {
    match status {
        CommandStatus::BAD_PARAMETER
        | CommandStatus::BAD_STATE
        | CommandStatus::BAD_TRANSITION
        | CommandStatus::BAD_MAILBOX
        | CommandStatus::NO_OBJECT => errno::EINVAL,
        CommandStatus::BUSY => errno::EBUSY,
        CommandStatus::NO_RESOURCES => errno::ENOMEM,
        CommandStatus::BAD_OPCODE | CommandStatus::NOT_SUPPORTED => errno::EOPNOTSUPP,
        _ => errno::EIO,
    }
}

/// Errors of posting a work request. The queue is unchanged then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The queue holds its maximum number of work requests.
    #[error("the queue is full")]
    QueueFull,
    /// The work request has more scatter/gather elements than the queue was created for.
    #[error("too many scatter/gather elements")]
    TooManySegments,
    /// The inline payload is longer than the queue was created for.
    #[error("the inline payload is too long")]
    InlineTooLong,
    /// The operation cannot be combined with these flags or this data (inline READ), or the QP's
    /// service does not have it.
    #[error("the operation is not possible like this")]
    InvalidOperation,
    /// The QP's state does not allow posting.
    #[error("the QP's state does not allow posting")]
    InvalidState,
}

impl PostError {
    /// Returns the errno that `ibv_post_send` and `ibv_post_recv` report for this error.
    pub fn errno(self) -> i32 {
        match self {
            Self::QueueFull => errno::ENOMEM,
            _ => errno::EINVAL,
        }
    }
}
