//! Errors of opening a function.

use std::io;
use std::path::PathBuf;

use crate::open::OpenError;
use ferroce_platform::host::EnvironmentError;

/// Reason why this process cannot join the fabric.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rendezvous directory cannot be created or is not safe to use.
    #[error("rendezvous directory {path}: {reason}", path = .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file of the fabric cannot be opened, sized, locked or mapped.
    #[error("{path}: cannot {action}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Processes of another version of Ferroce use the same directory.
    #[error(
        "{path} belongs to running programs of another Ferroce version (layout {found}, this one \
         has {expected}); end them, or set FERROCE_DIR to another directory", path = .path.display()
    )]
    Layout {
        /// The registry.
        path: PathBuf,
        /// Layout version in the file.
        found: u64,
        /// Layout version of this build.
        expected: u64,
    },
    /// Every place is taken.
    #[error("{0} devices of programs run already, that is all there is room for")]
    Full(usize),
    /// An environment variable has an invalid value.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The device cannot be reached.
    #[error(transparent)]
    Bus(#[from] OpenError),
    /// The opened device is not a Ferroce device.
    #[error("{address}: {reason}")]
    NotOurs {
        /// Its address.
        address: String,
        /// The reason, from what its registers contain.
        reason: String,
    },
    /// A device of another crate cannot be opened.
    #[error(transparent)]
    Attached(#[from] AttachError),
    /// The environment asks for fewer devices.
    #[error("there is no ferroce{device}, this process has {count} devices")]
    NoSuchDevice {
        /// The device.
        device: u8,
        /// Number of devices.
        count: u8,
    },
    /// The device is not in this process, and this process has not opened it.
    #[error("ferroce{device} is elsewhere, and this process has not opened it")]
    NotOpen {
        /// The device.
        device: u8,
    },
    /// The capture file cannot be used.
    #[error("capture file {path}: {reason}", path = .path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The uplink cannot be opened.
    #[error("port {wire}: {source}")]
    Uplink {
        /// The wire, as the user named it.
        wire: String,
        /// The cause.
        source: io::Error,
    },
    /// Another thread was opening the device at the moment of a fork.
    #[error("the process forked while another thread was opening the device")]
    OpeningInterrupted,
    /// The background thread cannot be started.
    #[error("cannot start the background thread: {0}")]
    Thread(io::Error),
}

impl Error {
    /// Returns the errno that describes this best to a C program.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::File { source, .. } | Self::Thread(source) | Self::Uplink { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            Self::Directory { .. } => libc::EACCES,
            Self::Layout { .. } => libc::EPROTO,
            Self::Full(_) | Self::OpeningInterrupted => libc::EAGAIN,
            Self::NoSuchDevice { .. } | Self::NotOurs { .. } | Self::NotOpen { .. } => libc::ENODEV,
            Self::Bus(error) => error.errno(),
            Self::Attached(error) => error.errno,
            Self::Environment(_) | Self::Capture { .. } => libc::EINVAL,
        }
    }
}

/// Reason why a [`DeviceSource`](crate::attached::DeviceSource) cannot open its device.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct AttachError {
    /// The obstacle and the remedy.
    pub reason: String,
    /// The errno that describes this best to a C program.
    pub errno: i32,
}
