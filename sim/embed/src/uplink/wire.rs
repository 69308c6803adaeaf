//! What all wires have in common: an end that sends, an end that receives, and how they fail.

use std::io;
use std::os::fd::BorrowedFd;

use super::spec::UplinkSpec;
use super::stream::Listener;
use super::{datagram, stream, tap, udp};

/// Why a frame was not sent, or none received.
#[derive(Debug)]
pub enum WireError {
    /// Not now: there is no room, or there is nothing.
    Busy,
    /// Nobody is at the other end at the moment. The wire itself is sound.
    Absent(io::Error),
    /// This frame cannot pass.
    Lost,
    /// The wire has to be opened again.
    Broken(io::Error),
}

impl WireError {
    /// What an error of a wire means on which any error but these is the end.
    pub fn of_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Self::Busy,
            _ => Self::Broken(error),
        }
    }
}

/// What a look at a wire shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The other end is there.
    Sound,
    /// It cannot be seen from here; what is sent may come back as an error.
    Unknown,
}

/// The sending end of a wire. It never waits.
pub trait Transmit: Send + std::fmt::Debug {
    /// Sends a whole frame, or nothing of it.
    ///
    /// # Errors
    /// [`WireError`]
    fn send(&mut self, frame: &[u8]) -> Result<(), WireError>;

    /// Sends what an earlier frame has left behind.
    ///
    /// # Errors
    /// [`WireError::Busy`] while something is left.
    fn flush(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    /// Looks whether the other end is there.
    ///
    /// # Errors
    /// [`WireError`]
    fn check(&mut self) -> Result<Health, WireError>;
}

/// The receiving end of a wire. It never waits.
pub trait Receive: Send + std::fmt::Debug {
    /// What can be waited for.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Receives a frame; tells its length. One that is longer than the buffer is cut.
    ///
    /// # Errors
    /// [`WireError`]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, WireError>;
}

/// Both ends.
#[derive(Debug)]
pub struct Wire {
    /// The sending one.
    pub transmit: Box<dyn Transmit>,
    /// The receiving one.
    pub receive: Box<dyn Receive>,
}

/// Opens a wire, also again after it broke.
#[derive(Debug)]
pub enum Opener {
    /// Nothing to keep between two attempts.
    Direct(UplinkSpec),
    /// A socket at which the other end calls.
    Listening(Listener),
}

impl Opener {
    /// Prepares what stays for all attempts.
    ///
    /// # Errors
    /// Those of the socket to listen at.
    pub fn new(spec: &UplinkSpec) -> io::Result<Self> {
        match spec {
            UplinkSpec::QemuStream {
                path,
                listens: true,
            } => Ok(Self::Listening(Listener::bind(path)?)),
            other => Ok(Self::Direct(other.clone())),
        }
    }

    /// Opens the wire; None if the other end has not called yet. `is_first`: not after it broke.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(&mut self, is_first: bool) -> io::Result<Option<Wire>> {
        let spec = match self {
            Self::Listening(listener) => return listener.accept(),
            Self::Direct(spec) => spec,
        };
        let wire = match spec {
            UplinkSpec::Tap { name } => tap::open(name, is_first)?,
            UplinkSpec::QemuDatagram { local, remote } => datagram::open(local, remote)?,
            UplinkSpec::QemuStream { path, .. } => stream::connect(path)?,
            UplinkSpec::Udp { local, remote } => udp::open(local, remote)?,
            UplinkSpec::PcapReplay { .. } => return Ok(None),
        };
        Ok(Some(wire))
    }
}
