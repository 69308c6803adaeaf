//! Unix datagram sockets: one frame per datagram, as in QEMU's `-netdev dgram`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use super::wire::{Health, Receive, Transmit, Wire, WireError};

/// Binds the local socket. The remote one need not exist yet.
///
/// # Errors
/// `AddrInUse` if another program has the local socket, or a file of another kind is there.
pub fn open(local: &Path, remote: &Path) -> io::Result<Wire> {
    remove_stale(local)?;
    let socket = UnixDatagram::from(bind_private(local, SocketType::DGRAM)?);
    socket.set_nonblocking(true)?;
    Ok(Wire {
        transmit: Box::new(Sender {
            socket: socket.try_clone()?,
            remote: remote.to_owned(),
        }),
        receive: Box::new(Receiver {
            socket,
            path: local.to_owned(),
        }),
    })
}

/// Creates a named socket that only this user may send or connect to, whatever the process's umask:
/// Linux creates the file with the mode of the socket.
///
/// # Errors
/// Those of bind(2).
pub fn bind_private(path: &Path, kind: SocketType) -> io::Result<OwnedFd> {
    const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, PRIVATE)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Removes the socket of a dead program.
pub fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        let reason = format!("{} exists and is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
    match UnixDatagram::unbound()?.connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // A process answers, or it is a socket of another type (EPROTOTYPE): check the type as
        // well.
        Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => {
            match std::os::unix::net::UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)
                }
                _ => Err(in_use(path)),
            }
        }
        _ => Err(in_use(path)),
    }
}

fn in_use(path: &Path) -> io::Error {
    let reason = format!("another program has the socket {}", path.display());
    io::Error::new(io::ErrorKind::AddrInUse, reason)
}

#[derive(Debug)]
struct Sender {
    socket: UnixDatagram,
    remote: PathBuf,
}

/// Converts an error: the socket does not exist, or no process has bound it.
fn wire_error(error: io::Error) -> WireError {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::PermissionDenied => WireError::Absent(error),
        _ => match error.raw_os_error() {
            Some(libc::EPROTOTYPE) => WireError::Absent(error),
            // No memory at present.
            Some(libc::ENOBUFS) => WireError::Busy,
            Some(libc::EMSGSIZE) => WireError::Lost,
            _ => WireError::of_io(error),
        },
    }
}

impl Transmit for Sender {
    fn send(&mut self, frame: &[u8]) -> Result<(), WireError> {
        let sent = self.socket.send_to(frame, &self.remote);
        sent.map(drop).map_err(wire_error)
    }

    fn check(&mut self) -> Result<Health, WireError> {
        let connected = UnixDatagram::unbound().and_then(|probe| probe.connect(&self.remote));
        connected.map(|()| Health::Sound).map_err(wire_error)
    }
}

#[derive(Debug)]
struct Receiver {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Receive for Receiver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, WireError> {
        self.socket.recv(buffer).map_err(WireError::of_io)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
