//! Common traits of all wires: a sending end, a receiving end, and their errors.

use std::io;
use std::os::fd::BorrowedFd;

/// Reason why a frame was not sent or received.
#[derive(Debug)]
pub enum WireError {
    /// Temporarily impossible: there is no room, or no frame.
    Busy,
    /// There is no peer at the other end at present. The wire itself works.
    Absent(io::Error),
    /// This frame cannot pass.
    Lost,
    /// The wire must be opened again.
    Broken(io::Error),
}

impl WireError {
    /// Converts an I/O error of a wire on which any other error is fatal.
    pub fn of_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Self::Busy,
            _ => Self::Broken(error),
        }
    }
}

/// An attempt to open a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    First,
    /// The wire broke.
    Again,
}

/// Result of a check of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The other end is present.
    Sound,
    /// The state is unknown; sent frames may cause an error later.
    Unknown,
}

/// The sending end of a wire. It never blocks.
pub trait Transmit: Send + std::fmt::Debug {
    /// Sends a whole frame or nothing.
    ///
    /// # Errors
    /// [`WireError`]
    fn send(&mut self, frame: &[u8]) -> Result<(), WireError>;

    /// Sends the rest of an earlier frame.
    ///
    /// # Errors
    /// [`WireError::Busy`] while a part remains.
    fn flush(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    /// Checks for the other end.
    ///
    /// # Errors
    /// [`WireError`]
    fn check(&mut self) -> Result<Health, WireError>;
}

/// The receiving end of a wire. It never blocks.
pub trait Receive: Send + std::fmt::Debug {
    /// Returns the descriptor to poll.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Receives a frame and returns its length. A frame longer than the buffer is cut.
    ///
    /// # Errors
    /// [`WireError`]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, WireError>;
}

/// Both ends.
#[derive(Debug)]
pub struct Wire {
    /// The sending end.
    pub transmit: Box<dyn Transmit>,
    /// The receiving end.
    pub receive: Box<dyn Receive>,
}
