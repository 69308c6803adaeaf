//! Hand-made messages, right and wrong ones.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ferroce_vfio_user::{Client, ClientOptions, ServerOptions};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{Served, TIMEOUT, TestMemory, event};

pub const VERSION: u16 = 1;
pub const DMA_MAP: u16 = 2;
pub const DMA_UNMAP: u16 = 3;
pub const GET_INFO: u16 = 4;
pub const GET_REGION_INFO: u16 = 5;
pub const GET_IRQ_INFO: u16 = 7;
pub const SET_IRQS: u16 = 8;
pub const REGION_READ: u16 = 9;
pub const REGION_WRITE: u16 = 10;
pub const RESET: u16 = 13;
pub const WRITE_MULTI: u16 = 15;

pub const NO_REPLY: u32 = 0x10;

/// A message and the number of eventfds that go with it.
#[derive(Debug, Clone)]
pub struct Raw {
    pub bytes: Vec<u8>,
    pub fds: usize,
}

impl Raw {
    pub fn new(id: u16, command: u16, flags: u32, body: &[u8]) -> Self {
        let size = 16 + body.len() as u32;
        let mut bytes = Vec::new();
        bytes.extend(id.to_le_bytes());
        bytes.extend(command.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        Self { bytes, fds: 0 }
    }

    /// Returns a command with 32-bit and then 64-bit fields.
    pub fn fields(id: u16, command: u16, words: &[u32], longs: &[u64]) -> Self {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
        Self::new(id, command, 0, &body)
    }

    pub fn access(
        id: u16,
        command: u16,
        flags: u32,
        offset: u64,
        region: u32,
        data: Access,
    ) -> Self {
        let (count, data) = match data {
            Access::Read(count) => (count, &[][..]),
            Access::Write(data) => (data.len() as u32, data),
        };
        let mut body = offset.to_le_bytes().to_vec();
        body.extend(region.to_le_bytes());
        body.extend(count.to_le_bytes());
        body.extend(data);
        Self::new(id, command, flags, &body)
    }

    pub fn version(id: u16) -> Self {
        let json = br#"{"capabilities":{"max_msg_fds":8,"write_multiple":true}}"#;
        Self::new(id, VERSION, 0, &[&[0, 0, 1, 0], &json[..], &[0]].concat())
    }

    pub fn with_fds(mut self, fds: usize) -> Self {
        self.fds = fds;
        self
    }

    pub fn send(&self, stream: &UnixStream) {
        let fds: Vec<OwnedFd> = (0..self.fds).map(|_| event()).collect();
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        let mut left = &self.bytes[..];
        while !left.is_empty() {
            let slice = [std::io::IoSlice::new(left)];
            // The server may rightly have ended the connection.
            let Ok(count) = sendmsg(stream, &slice, &mut control, SendFlags::NOSIGNAL) else {
                return;
            };
            control.clear();
            left = &left[count..];
        }
    }
}

/// Kind of an access.
pub enum Access<'a> {
    Read(u32),
    Write(&'a [u8]),
}

/// Returns one of each command, all of them right. [`marker`] is last.
pub fn conversation() -> Vec<Raw> {
    let mut multi = 2_u64.to_le_bytes().to_vec();
    for (offset, value) in [(0x100_u64, 1_u8), (0x108, 2)] {
        multi.extend(offset.to_le_bytes());
        multi.extend([0, 0, 0, 0, 4, 0, 0, 0]);
        multi.extend([value; 8]);
    }
    vec![
        Raw::version(1),
        Raw::fields(2, GET_INFO, &[16, 0, 0, 0], &[]),
        Raw::fields(3, GET_REGION_INFO, &[32, 0, 2, 0], &[0, 0]),
        Raw::fields(4, GET_REGION_INFO, &[128, 0, 2, 0], &[0, 0]),
        Raw::fields(5, GET_IRQ_INFO, &[16, 0, 2, 0], &[]),
        Raw::fields(6, SET_IRQS, &[20, 0x24, 2, 0, 1], &[]),
        Raw::fields(7, SET_IRQS, &[20, 0x24, 2, 1, 2], &[]).with_fds(2),
        Raw::fields(8, SET_IRQS, &[20, 0x21, 2, 0, 0], &[]),
        Raw::fields(9, DMA_MAP, &[32, 3], &[0x1000, 0x10000, 0x2000]).with_fds(1),
        Raw::fields(10, DMA_MAP, &[32, 0xb], &[0x7, 0x20000, 0x1000]).with_fds(1),
        Raw::fields(11, DMA_MAP, &[32, 1], &[0, 0x30000, 0x1000]),
        Raw::fields(12, DMA_UNMAP, &[24, 0], &[0x10000, 0x2000]),
        Raw::fields(13, DMA_UNMAP, &[24, 2], &[0, 0]),
        Raw::access(14, REGION_WRITE, 0, 0x40, 0, Access::Write(&[1, 2, 3, 4])),
        Raw::access(15, REGION_WRITE, NO_REPLY, 0x44, 0, Access::Write(&[5, 6])),
        Raw::new(16, WRITE_MULTI, 0, &multi),
        Raw::new(17, RESET, 0, &[]),
        marker(),
    ]
}

/// Identifier of [`marker`].
pub const MARKER_ID: u16 = 0x7777;

/// Offset that it reads: more than one bit different from those that the conversation writes.
const MARKER_OFFSET: u64 = 0x7f3c;

/// Returns a read that shows that the server is still in step with the messages.
pub fn marker() -> Raw {
    Raw::access(MARKER_ID, REGION_READ, 0, MARKER_OFFSET, 0, Access::Read(4))
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub id: u16,
    pub command: u16,
    pub flags: u32,
    pub errno: u32,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn is_of_marker(&self) -> bool {
        self.id == MARKER_ID
            && self.command == REGION_READ
            && self.flags == 1
            && self.body.get(16..) == Some(&[0x3c, 0x3d, 0x3e, 0x3f])
    }
}

/// Returns all replies until the server closes the connection, after this side has sent all
/// messages. Their file descriptors are dropped.
pub fn replies(mut stream: &UnixStream) -> Vec<Reply> {
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(TIMEOUT)).expect("time-out");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server does not end: {error}"),
    }
    parse(&bytes)
}

pub fn parse(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while bytes.len() >= 16 {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let size = word(4) as usize;
        assert!(
            size >= 16 && size <= bytes.len(),
            "the server's own stream is broken"
        );
        replies.push(Reply {
            id: word(0) as u16,
            command: (word(0) >> 16) as u16,
            flags: word(8),
            errno: word(12),
            body: bytes[16..size].to_vec(),
        });
        bytes = &bytes[size..];
    }
    assert!(bytes.is_empty(), "a message of the server is cut off");
    replies
}

/// Returns all replies of the server to [`ferroce_vfio_user::fuzz::use_all`], one chunk for each
/// request, without file descriptors.
pub fn record() -> Vec<Vec<u8>> {
    let (served, server) = Served::new(ServerOptions::default());
    let (ours, theirs) = UnixStream::pair().expect("socketpair");
    let mut chunks = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = ClientOptions {
                timeout: TIMEOUT,
                ..ClientOptions::default()
            };
            let memory = TestMemory::new(0);
            let client = Client::from_stream(theirs, memory, options).expect("connect");
            ferroce_vfio_user::fuzz::use_all(&client);
        });
        while let Some(request) = receive(&ours) {
            (&server).write_all(&request).expect("the server is there");
            let reply = receive(&server).expect("the server replies");
            (&ours).write_all(&reply).expect("the client is there");
            chunks.push(reply);
        }
    });
    drop(served);
    chunks
}

/// Receives one message; `None` at the end of the stream.
pub fn receive(mut stream: &UnixStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 16];
    stream.read_exact(&mut message).ok()?;
    let size = u32::from_le_bytes(message[4..8].try_into().expect("four"));
    message.resize(size as usize, 0);
    stream.read_exact(&mut message[16..]).ok()?;
    Some(message)
}

/// Returns chunks in the format of [`ferroce_vfio_user::fuzz::client_input`].
pub fn framed(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        bytes.extend((chunk.len() as u16).to_le_bytes());
        bytes.extend(chunk);
    }
    bytes
}

/// Receives a message of the client and drops it.
pub fn skip(stream: &UnixStream) {
    let _ = receive(stream);
}
