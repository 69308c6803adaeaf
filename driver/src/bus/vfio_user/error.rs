//! Why a model behind a socket cannot be opened.

use std::io;
use std::path::PathBuf;

use ferroce_spec::register::{DEVICE_ID, VENDOR_ID};
use ferroce_vfio_user::{ConnectError, RequestError};

/// Why a model behind a socket cannot be opened: what was found, and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum VfioUserError {
    /// Nobody listens at the socket.
    #[error(
        "cannot connect to {path}: {source}; `ferroce serve --socket {path}` offers a device there",
        path = .path.display()
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else's server, who would get the program's data.
    #[error(
        "the server at {path} is of user {server}, this program of user {client}: a program gives its \
         memory only to a server of its own user or of root; start `ferroce serve` as user {client}, or \
         the program as user {server}",
        path = .path.display()
    )]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// Who listens there.
        server: u32,
        /// Who this process is.
        client: u32,
    },
    /// Who listens does not speak vfio-user, or is busy.
    #[error(
        "{path} does not answer as a vfio-user server: {source}; a server has one client at a time",
        path = .path.display()
    )]
    Agree {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        source: ConnectError,
    },
    /// The server refuses what every client has to do.
    #[error("the server does not {what}: {source}")]
    Request {
        /// What it should have done.
        what: &'static str,
        /// What it answers.
        source: RequestError,
    },
    /// Another device.
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
    /// A BAR is not what the contract says.
    #[error("BAR{bar} of the device has {size:#x} bytes, it would be {expected:#x}")]
    RegionSize {
        /// Number of the BAR.
        bar: u32,
        /// Its size.
        size: u64,
        /// What the contract says.
        expected: u64,
    },
    /// No interrupts.
    #[error("the device has no MSI-X vectors, of which it needs one at least")]
    NoVectors,
    /// Eventfds, their thread, or memory.
    #[error("the operating system refused {what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl VfioUserError {
    /// The errno that says the same.
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
            Self::NotFerroce { .. } | Self::RegionSize { .. } | Self::NoVectors => libc::ENODEV,
        }
    }
}
