//! Unix stream sockets: a frame follows its length, four bytes, big-endian. This is the format of
//! QEMU's `-netdev stream` (net/stream.c, `net_fill_rstate`).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{SocketType, listen};

use super::datagram::{bind_private, remove_stale};
use super::wire::{Health, Receive, Transmit, Wire, WireError};

/// Bytes of the length before a frame.
const PREFIX: usize = 4;
/// Longest frame that QEMU sends (NET_BUFSIZE). A longer length means that framing is lost.
const MAX_LENGTH: usize = 4096 + 65536;

/// Backlog of the socket.
const BACKLOG: i32 = 8;

/// Connects to a socket.
///
/// # Errors
/// `NotFound` or `ConnectionRefused` while no process listens there.
pub fn connect(path: &Path) -> io::Result<Wire> {
    wire(UnixStream::connect(path)?)
}

fn wire(socket: UnixStream) -> io::Result<Wire> {
    socket.set_nonblocking(true)?;
    Ok(Wire {
        transmit: Box::new(Sender {
            socket: socket.try_clone()?,
            rest: Vec::new(),
        }),
        receive: Box::new(Receiver::new(socket)),
    })
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    /// `AddrInUse` if another program does, or a file of another kind is there.
    pub fn bind(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = bind_private(path, SocketType::STREAM)?;
        listen(&socket, BACKLOG)?;
        let socket = UnixListener::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            path: path.to_owned(),
        })
    }

    /// Accepts a pending connection, if any.
    ///
    /// # Errors
    /// The errors of accept(2).
    pub fn accept(&mut self) -> io::Result<Option<Wire>> {
        match self.socket.accept() {
            Ok((socket, _)) => wire(socket).map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
struct Sender {
    socket: UnixStream,
    /// The part of a frame that did not fit into the socket.
    rest: Vec<u8>,
}

impl Transmit for Sender {
    fn send(&mut self, frame: &[u8]) -> Result<(), WireError> {
        self.flush()?;
        self.rest.extend((frame.len() as u32).to_be_bytes());
        self.rest.extend(frame);
        match self.socket.write(&self.rest) {
            Ok(written) => {
                self.rest.drain(..written);
                Ok(())
            }
            Err(error) => {
                self.rest.clear();
                Err(WireError::of_io(error))
            }
        }
    }

    fn flush(&mut self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let written = self.socket.write(&self.rest).map_err(WireError::of_io)?;
        self.rest.drain(..written);
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::Busy)
        }
    }

    fn check(&mut self) -> Result<Health, WireError> {
        Ok(Health::Sound)
    }
}

/// Splits a stream into frames.
#[derive(Debug)]
struct Receiver {
    socket: UnixStream,
    bytes: Box<[u8]>,
    /// Start of the bytes that were read but not taken yet.
    from: usize,
    to: usize,
}

impl Receiver {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            bytes: vec![0; PREFIX + MAX_LENGTH].into(),
            from: 0,
            to: 0,
        }
    }

    /// Takes a complete frame.
    fn take(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, WireError> {
        let read = &self.bytes[self.from..self.to];
        let Some((prefix, rest)) = read.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_LENGTH {
            let reason = format!(
                "a length of {length} bytes in the stream: the other end does not speak this protocol"
            );
            return Err(WireError::Broken(io::Error::new(
                io::ErrorKind::InvalidData,
                reason,
            )));
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let copied = length.min(buffer.len());
        buffer[..copied].copy_from_slice(&frame[..copied]);
        self.from += PREFIX + length;
        Ok(Some(copied))
    }
}

impl Receive for Receiver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if let Some(length) = self.take(buffer)? {
            return Ok(length);
        }
        // There is room for one whole frame from the start of the buffer.
        self.bytes.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        match self.socket.read(&mut self.bytes[self.to..]) {
            Ok(0) => Err(WireError::Broken(io::Error::from(
                io::ErrorKind::UnexpectedEof,
            ))),
            Ok(read) => {
                self.to += read;
                self.take(buffer)?.ok_or(WireError::Busy)
            }
            Err(error) => Err(WireError::of_io(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(receiver: &mut Receiver) -> Result<Vec<u8>, WireError> {
        let mut buffer = [0; 64];
        let length = receiver.receive(&mut buffer)?;
        Ok(buffer[..length].to_vec())
    }

    fn receiver() -> (UnixStream, Receiver) {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        theirs.set_nonblocking(true).expect("a socket");
        (ours, Receiver::new(theirs))
    }

    #[test]
    fn frames_are_put_together_from_any_pieces() {
        let (mut far, mut receiver) = receiver();
        assert!(matches!(receive(&mut receiver), Err(WireError::Busy)));
        let mut stream = Vec::new();
        for frame in [&b"first"[..], b"", &[7; 100], b"last"] {
            stream.extend((frame.len() as u32).to_be_bytes());
            stream.extend(frame);
        }
        let mut found = Vec::new();
        for byte in stream {
            far.write_all(&[byte]).expect("room");
            loop {
                match receive(&mut receiver) {
                    Ok(frame) => found.push(frame),
                    Err(WireError::Busy) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        let expected = [b"first".to_vec(), vec![], vec![7; 64], b"last".to_vec()];
        assert_eq!(found, expected, "what is too long is cut");
        drop(far);
        assert!(matches!(receive(&mut receiver), Err(WireError::Broken(_))));
    }

    #[test]
    fn a_foreign_protocol_is_detected() {
        let (mut far, mut receiver) = receiver();
        far.write_all(b"GET / HTTP/1.1\r\n").expect("room");
        let Err(WireError::Broken(error)) = receive(&mut receiver) else {
            panic!("no length of a frame")
        };
        assert!(error.to_string().contains("does not speak"), "{error}");
    }

    #[test]
    fn a_full_socket_takes_whole_frames_or_nothing() {
        let (near, far) = UnixStream::pair().expect("two sockets");
        let mut wire = wire(near).expect("a socket");
        let frame = |number: u32| [number.to_be_bytes(); 1000].concat();
        let mut sent = 0;
        while sent < 10_000 && wire.transmit.send(&frame(sent)).is_ok() {
            sent += 1;
        }
        assert!(sent < 10_000, "a socket has an end");
        far.set_nonblocking(true).expect("a socket");
        let mut receiver = Receiver::new(far);
        let mut buffer = [0; 5000];
        let mut received = 0;
        // A partly sent frame is completed as room becomes free.
        while received < sent {
            let _ = wire.transmit.flush();
            match receiver.receive(&mut buffer) {
                Ok(length) => {
                    assert_eq!(buffer[..length], frame(received));
                    received += 1;
                }
                Err(WireError::Busy) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(wire.transmit.flush().is_ok());
    }
}
