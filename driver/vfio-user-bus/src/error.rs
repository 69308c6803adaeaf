//! Errors of opening a model behind a socket.

use std::io;
use std::path::PathBuf;

use ferroce_spec::register::{DEVICE_ID, VENDOR_ID};
use ferroce_vfio_user::{ConnectError, RequestError};

/// Errors of opening a model behind a socket. The text states what was found, and what was
/// expected.
#[derive(Debug, thiserror::Error)]
pub enum VfioUserError {
    /// No process listens at the socket.
    #[error(
        "cannot connect to {path}: {source}; `ferroce serve --socket {path}` offers a device there",
        path = .path.display()
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server runs as another user and would get the program's data.
    #[error(
        "the server at {path} is of user {server}, this program of user {client}: a program gives \
         its memory only to a server of the same user or of root; start a `ferroce serve` as user \
         {client} for it, at another socket",
        path = .path.display()
    )]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// User of the server.
        server: u32,
        /// User of this process.
        client: u32,
    },
    /// The listening process does not speak vfio-user, or is busy.
    #[error(
        "{path} does not answer as a vfio-user server: {source}; a server has one client at a time",
        path = .path.display()
    )]
    Agree {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: ConnectError,
    },
    /// The server refuses a request that every client has to make.
    #[error("the server does not {what}: {source}")]
    Request {
        /// The request.
        what: &'static str,
        /// The server's answer.
        source: RequestError,
    },
    /// The device does not respond.
    #[error("the device's configuration space reads as all ones: it was removed")]
    Removed,
    /// The device is not a Ferroce device.
    #[error(
        "the server offers the PCI device {vendor:04x}:{device:04x}, not a Ferroce device \
         ({VENDOR_ID:04x}:{DEVICE_ID:04x})"
    )]
    NotFerroce {
        /// Its vendor ID.
        vendor: u16,
        /// Its device ID.
        device: u16,
    },
    /// The size of a BAR differs from the contract.
    #[error("BAR{bar} of the device has {size:#x} bytes, it would be {expected:#x}")]
    RegionSize {
        /// Number of the BAR.
        bar: u32,
        /// Its size.
        size: u64,
        /// Its size in the contract.
        expected: u64,
    },
    /// The device has no interrupts.
    #[error("the device has no MSI-X vectors, of which it needs one at least")]
    NoVectors,
    /// The operating system refused eventfds, their thread, or memory.
    #[error("the operating system refused {what}: {source}")]
    System {
        /// The resource.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl VfioUserError {
    /// Returns the errno that corresponds to this error.
    pub fn errno(&self) -> i32 {
        let of = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        match self {
            Self::Connect { source, .. } | Self::System { source, .. } => of(source),
            Self::Agree { source, .. } => match source {
                ConnectError::Socket(error) => of(error),
                ConnectError::Version(error) | ConnectError::DeviceInfo(error) => {
                    error.errno().raw_os_error()
                }
            },
            Self::Request { source, .. } => source.errno().raw_os_error(),
            Self::OtherUser { .. } => libc::EACCES,
            Self::Removed | Self::NotFerroce { .. } | Self::RegionSize { .. } | Self::NoVectors => {
                libc::ENODEV
            }
        }
    }
}
