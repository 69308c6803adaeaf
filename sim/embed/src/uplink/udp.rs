//! UDP: one frame per datagram, between machines, or with QEMU's `-netdev dgram` of type inet.
//!
//! Nobody is authenticated, and nothing encrypted: whoever can send datagrams from the other end's
//! address, or forges it, sends frames to our programs; whoever is on the way reads and changes them.
//! RoCEv2 is no better on a cable, which is why it is kept on networks of its own.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Once;

use super::spec::Endpoint;
use super::wire::{Health, Receive, Transmit, Wire, WireError};

/// What whoever uses this wire has to know.
pub const AUTHENTICATES_NOBODY: &str = "it authenticates nobody: whoever can send from the other end's \
     address reaches memory that programs have registered for remote access; use it on a network of \
     your own, or in a tunnel";

/// Says once what the wire is not.
fn warn_once(remote: &Endpoint) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            %remote,
            "udp: {AUTHENTICATES_NOBODY}"
        );
    });
}

/// Bytes asked for as buffers of the socket.
const SOCKET_BUFFER: usize = 8 << 20;

/// Binds our end; only what comes from the other one is received.
///
/// # Errors
/// Those of the resolver and of the socket, naming the end that is meant.
pub fn open(local: &Endpoint, remote: &Endpoint) -> io::Result<Wire> {
    let name = |end: &Endpoint| {
        let text = end.to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("{text}: {error}"))
    };
    let socket = UdpSocket::bind(local.resolve().map_err(name(local))?).map_err(name(local))?;
    let peer = remote.resolve().map_err(name(remote))?;
    socket.connect(peer).map_err(name(remote))?;
    warn_once(remote);
    socket.set_nonblocking(true)?;
    enlarge(&socket);
    Ok(Wire {
        transmit: Box::new(Sender {
            socket: socket.try_clone()?,
        }),
        receive: Box::new(Receiver { socket }),
    })
}

/// Nobody slows down who sends by UDP: what comes in a burst has to wait in the socket. An ordinary
/// user gets as much as net.core.rmem_max and wmem_max permit.
fn enlarge(socket: &UdpSocket) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, SOCKET_BUFFER);
    }
    let _ = sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER);
}

/// What an error means. That nobody listens is told by ICMP, to whatever call comes next.
fn wire_error(error: io::Error) -> WireError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::PermissionDenied => WireError::Absent(error),
        _ => match error.raw_os_error() {
            // Memory for a moment.
            Some(libc::ENOBUFS) => WireError::Busy,
            // A path with a smaller MTU on which nobody may fragment.
            Some(libc::EMSGSIZE) => WireError::Lost,
            _ => WireError::of_io(error),
        },
    }
}

#[derive(Debug)]
struct Sender {
    socket: UdpSocket,
}

impl Transmit for Sender {
    fn send(&mut self, frame: &[u8]) -> Result<(), WireError> {
        self.socket.send(frame).map(drop).map_err(wire_error)
    }

    fn check(&mut self) -> Result<Health, WireError> {
        Ok(Health::Unknown)
    }
}

#[derive(Debug)]
struct Receiver {
    socket: UdpSocket,
}

impl Receive for Receiver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, WireError> {
        self.socket.recv(buffer).map_err(wire_error)
    }
}
