//! Errors of requests and connections.

use std::io;

/// A Linux error number; an error reply contains it.
pub use rustix::io::Errno;

/// Errors of a request to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The peer refused.
    #[error("the peer refused: {0}")]
    Refused(Errno),
    /// The peer has not answered in time. It may or may not have executed the request.
    #[error("the peer did not answer in time")]
    Timeout,
    /// The connection has ended.
    #[error("the connection has ended")]
    Disconnected,
    /// The peer's answer does not match this request; the text states the fault.
    #[error("the peer's answer is malformed: {0}")]
    Malformed(&'static str),
    /// This process has no free file descriptors to receive the descriptors of the peer's answer.
    #[error("the file descriptors of the peer's answer cannot be taken: {0}")]
    LostFds(Errno),
    /// The request itself cannot be sent; the text states the fault.
    #[error("the request cannot be sent: {0}")]
    Invalid(&'static str),
}

impl RequestError {
    /// Returns the errno that corresponds to this error.
    pub fn errno(self) -> Errno {
        match self {
            Self::Refused(errno) | Self::LostFds(errno) => errno,
            Self::Timeout => Errno::TIMEDOUT,
            Self::Disconnected => Errno::NOTCONN,
            Self::Malformed(_) => Errno::PROTO,
            Self::Invalid(_) => Errno::INVAL,
        }
    }
}

/// Errors of connecting to a server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket cannot be reached.
    #[error("the socket cannot be reached: {0}")]
    Socket(#[from] io::Error),
    /// The server and this client have no version of the protocol in common, or the server did not
    /// answer.
    #[error("the server does not agree on a version of vfio-user: {0}")]
    Version(RequestError),
    /// The server does not describe its device.
    #[error("the server does not describe its device: {0}")]
    DeviceInfo(RequestError),
}

/// Returns the errno of an error reply; `EIO` for one that is missing or does not exist.
pub(crate) fn errno_from_wire(number: u32) -> Errno {
    const ERRNO_MAX: u32 = 4095; // include/linux/err.h, MAX_ERRNO
    match i32::try_from(number) {
        Ok(errno) if (1..=ERRNO_MAX).contains(&number) => Errno::from_raw_os_error(errno),
        _ => Errno::IO,
    }
}

/// Returns the number of an errno in an error reply.
pub(crate) fn errno_to_wire(errno: Errno) -> u32 {
    errno.raw_os_error().unsigned_abs()
}
