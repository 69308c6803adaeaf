//! UDP: one frame per datagram, between machines, or with QEMU's `-netdev dgram` of type inet.
//!
//! There is no authentication and no encryption: any host that can send from the other end's
//! address, or forge it, can send frames to the programs of this host; any host on the path can
//! read and change them. RoCEv2 on a cable is no better, so it is used on separate networks.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Once;

use super::spec::{Endpoint, UNAUTHENTICATED};
use super::wire::{Health, Receive, Transmit, Wire, WireError};

/// Prints the warning once.
fn warn_once(remote: &Endpoint) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            %remote,
            "udp: {UNAUTHENTICATED}"
        );
    });
}

/// Requested size of the socket's buffers, in bytes.
const SOCKET_BUFFER: usize = 8 << 20;

/// Binds the local end; only datagrams from the remote one are received.
///
/// # Errors
/// The errors of the resolver and of the socket, with the name of the endpoint.
pub fn open(local: &Endpoint, remote: &Endpoint) -> io::Result<Wire> {
    let name = |end: &Endpoint| {
        let text = end.to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("{text}: {error}"))
    };
    let own = local.resolve().map_err(name(local))?;
    let socket = UdpSocket::bind(&own[..]).map_err(name(local))?;
    // The first remote address in the address family of the local end.
    let peers = remote.resolve().map_err(name(remote))?;
    socket.connect(&peers[..]).map_err(name(remote))?;
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

/// Enlarges the socket's buffers. UDP has no flow control, so a burst has to wait in the socket. An
/// unprivileged user gets at most net.core.rmem_max and wmem_max.
fn enlarge(socket: &UdpSocket) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, SOCKET_BUFFER);
    }
    let _ = sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER);
}

/// Converts an error. ICMP reports a missing listener in any later call.
fn wire_error(error: io::Error) -> WireError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::PermissionDenied => WireError::Absent(error),
        _ => match error.raw_os_error() {
            // No memory at present.
            Some(libc::ENOBUFS) => WireError::Busy,
            // A path with a smaller MTU on which fragmentation is forbidden.
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
