//! Opens the wire that a specification names.

use std::io;

use super::spec::UplinkSpec;
use super::stream::Listener;
use super::wire::{Attempt, Wire};
use super::{datagram, stream, tap, udp};

/// Opens a wire, and opens it again after it broke.
#[derive(Debug)]
pub enum Opener {
    /// No state between two attempts.
    Direct(UplinkSpec),
    /// A listening socket.
    Listening(Listener),
}

impl Opener {
    /// Prepares the state that all attempts share.
    ///
    /// # Errors
    /// The error of the listening socket.
    pub fn new(spec: &UplinkSpec) -> io::Result<Self> {
        match spec {
            UplinkSpec::QemuStream {
                path,
                listens: true,
            } => Ok(Self::Listening(Listener::bind(path)?)),
            other => Ok(Self::Direct(other.clone())),
        }
    }

    /// Opens the wire. Returns `None` if the other end has not connected yet.
    ///
    /// # Errors
    /// The reason why it cannot be opened.
    pub fn open(&mut self, attempt: Attempt) -> io::Result<Option<Wire>> {
        let spec = match self {
            Self::Listening(listener) => return listener.accept(),
            Self::Direct(spec) => spec,
        };
        let wire = match spec {
            UplinkSpec::Tap { name } => tap::open(name, attempt)?,
            UplinkSpec::QemuDatagram { local, remote } => datagram::open(local, remote)?,
            UplinkSpec::QemuStream { path, .. } => stream::connect(path)?,
            UplinkSpec::Udp { local, remote } => udp::open(local, remote)?,
            UplinkSpec::PcapReplay { .. } => return Ok(None),
        };
        Ok(Some(wire))
    }
}
