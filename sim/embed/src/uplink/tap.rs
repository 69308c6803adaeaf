//! The kernel's tap interfaces: the other end of this wire is a network interface of this machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use ferroce_platform::os::network;

use super::wire::{Attempt, Health, Receive, Transmit, Wire, WireError};
use crate::fabric::ring::MAX_FRAME;

/// MTU that the interface needs for the largest path MTU.
const MTU: u16 = MAX_FRAME as u16 - 14;

/// Opens the interface, sets it up if this user may, and creates it if it does not exist.
///
/// After it broke, it is reopened only if it exists again, because it was deleted on purpose.
///
/// # Errors
/// The error of the system, with advice.
pub fn open(name: &str, attempt: Attempt) -> io::Result<Wire> {
    if attempt == Attempt::Again {
        network::interface_is_up(name)?;
    }
    let file = network::open_tap(name).map_err(|error| explain(name, error))?;
    prepare(name);
    Ok(Wire {
        transmit: Box::new(Sender {
            name: name.to_owned(),
            file: file.try_clone()?,
        }),
        receive: Box::new(Receiver { file }),
    })
}

fn explain(name: &str, error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "this user may neither use nor make it; once, as root: \
             ip tuntap add {name} mode tap user $USER && ip link set {name} up mtu 9000"
        ),
        Some(libc::EBUSY) => "another program has it".to_owned(),
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            "/dev/net/tun is missing: the kernel's module tun is not loaded, or a container hides it"
                .to_owned()
        }
        Some(libc::EINVAL) => "there is an interface of this name that is no tap".to_owned(),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {advice}"))
}

/// Sets the interface up with a sufficient MTU, if this user may.
fn prepare(name: &str) {
    let mtu = network::interface_mtu(name).unwrap_or(0);
    if mtu < u32::from(MTU) && network::set_interface_mtu(name, MTU).is_err() {
        tracing::warn!(
            name,
            mtu,
            "frames of path MTU 4096 do not fit this interface: ip link set {name} mtu 9000"
        );
    }
    let is_up = network::interface_is_up(name).unwrap_or(false);
    if !is_up && network::set_interface_up(name).is_err() {
        tracing::warn!(name, "the interface is down: ip link set {name} up");
    }
}

#[derive(Debug)]
struct Sender {
    name: String,
    file: File,
}

impl Transmit for Sender {
    fn send(&mut self, frame: &[u8]) -> Result<(), WireError> {
        match self.file.write(frame) {
            Ok(_) => Ok(()),
            // The interface is down.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(WireError::Absent(error)),
            Err(error) => Err(WireError::of_io(error)),
        }
    }

    fn check(&mut self) -> Result<Health, WireError> {
        match network::interface_is_up(&self.name) {
            Ok(true) => Ok(Health::Sound),
            Ok(false) => Err(WireError::Absent(io::Error::from(
                io::ErrorKind::NetworkDown,
            ))),
            // It was renamed or moved to another network namespace: frames still flow.
            Err(_) => Ok(Health::Unknown),
        }
    }
}

#[derive(Debug)]
struct Receiver {
    file: File,
}

impl Receive for Receiver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, WireError> {
        // A deleted interface reads as EBADFD.
        self.file.read(buffer).map_err(WireError::of_io)
    }
}
