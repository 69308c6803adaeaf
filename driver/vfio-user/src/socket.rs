//! The socket: sends and receives messages with their file descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Errno, errno_to_wire};
use crate::limit;
use crate::message::{FLAG_ERROR, HEADER_SIZE, Header, Message, TYPE_REPLY};

/// Space for the file descriptors of one `sendmsg` or `recvmsg`.
const CONTROL_SIZE: usize = rustix::cmsg_space!(ScmRights(limit::MESSAGE_FDS_MAX));

/// Reason why there are no more messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the peer has closed the connection")]
    Closed,
    #[error("the peer has closed the connection inside of a message")]
    Truncated,
    #[error("the peer announces a message of {0} bytes; 16 to {max} are possible",
            max = limit::MESSAGE_SIZE_MAX)]
    Size(u32),
    #[error("the peer is silent: it has not agreed on a version in time")]
    Silent,
    #[error("the peer has begun a message and not ended it in time")]
    Slow,
    #[error("the socket failed: {0}")]
    Socket(#[from] Errno),
}

/// Time limits for the peer.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until the version is agreed on. `None`: this side enforces that by other means. After that,
    /// the peer may be silent forever.
    pub agreement: Option<Duration>,
    /// For the rest of a message whose first byte has come.
    pub message: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            agreement: None,
            message: limit::MESSAGE_TIMEOUT,
        }
    }
}

/// A connection. One thread receives; any thread sends.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: UnixStream,
    /// Held while a message is sent, so that messages do not interleave.
    sending: Mutex<()>,
    /// Maximum number of file descriptors in one message that this side has announced.
    fds_max: usize,
    timeouts: Timeouts,
    /// Deadline for the agreement on a version.
    agreement: Option<Instant>,
    has_agreed: AtomicBool,
}

impl Socket {
    /// Creates a socket of an existing connection. Messages may have `fds_max` file descriptors.
    pub(crate) fn new(stream: UnixStream, fds_max: usize, timeouts: Timeouts) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(limit::SEND_TIMEOUT))?;
        Ok(Self {
            stream,
            sending: Mutex::new(()),
            fds_max: fds_max.min(limit::MESSAGE_FDS_MAX),
            timeouts,
            agreement: timeouts.agreement.map(|time| Instant::now() + time),
            has_agreed: AtomicBool::new(false),
        })
    }

    /// Records the agreement: from now on the peer may be silent.
    pub(crate) fn agreed(&self) {
        self.has_agreed.store(true, Ordering::Release);
    }

    /// Waits for the first byte of a message, as long as the peer may be silent.
    fn wait_for_message(&self) -> Result<(), Ended> {
        let agreement = self.agreement;
        let Some(deadline) = agreement.filter(|_| !self.has_agreed.load(Ordering::Acquire)) else {
            return Ok(()); // `recvmsg` waits
        };
        // The executing thread may record the agreement meanwhile.
        if self.wait_until(deadline)? || self.has_agreed.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(Ended::Silent)
        }
    }

    /// Waits for bytes. Returns false when there are none.
    fn wait_until(&self, deadline: Instant) -> Result<bool, Errno> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let count = retry_on_intr(|| {
            let left = left();
            let left = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut events = [PollFd::new(&self.stream, PollFlags::IN)];
            poll(&mut events, Some(&left))
        })?;
        Ok(count > 0)
    }

    /// Receives with `receive` a part of a message that has begun. Usually it is already there.
    fn rest<T>(
        &self,
        deadline: &mut Option<Instant>,
        mut receive: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Ended> {
        loop {
            match receive() {
                Err(Errno::AGAIN) => {}
                result => return Ok(result?),
            }
            let deadline = deadline.get_or_insert_with(|| Instant::now() + self.timeouts.message);
            if !self.wait_until(*deadline)? {
                return Err(Ended::Slow);
            }
        }
    }

    /// Waits for the next message and returns it. Fails after [`Socket::shut_down`].
    pub(crate) fn receive(&self) -> Result<Message, Ended> {
        let mut header = [0; HEADER_SIZE];
        let mut fds = Vec::new();
        let mut lost_fds = None;
        self.wait_for_message()?;
        let waiting = RecvFlags::CMSG_CLOEXEC;
        let mut filled = self.receive_with_fds(&mut header, &mut fds, &mut lost_fds, waiting)?;
        if filled == 0 {
            return Err(Ended::Closed);
        }
        let mut deadline = None;
        let at_once = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        while filled < HEADER_SIZE {
            let part = &mut header[filled..];
            match self.rest(&mut deadline, || {
                self.receive_with_fds(part, &mut fds, &mut lost_fds, at_once)
            })? {
                0 => return Err(Ended::Truncated),
                count => filled += count,
            }
        }
        let header = Header::read_from_bytes(&header).map_err(|_| Ended::Truncated)?;
        let size = header.size.get();
        let body_size = match usize::try_from(size) {
            Ok(size) if (HEADER_SIZE..=limit::MESSAGE_SIZE_MAX).contains(&size) => {
                size - HEADER_SIZE
            }
            _ => return Err(Ended::Size(size)),
        };
        Ok(Message {
            header,
            body: self.receive_body(body_size, &mut deadline)?,
            fds,
            lost_fds,
        })
    }

    /// Receives part of a header, with the file descriptors that come with it.
    fn receive_with_fds(
        &self,
        part: &mut [u8],
        fds: &mut Vec<OwnedFd>,
        lost_fds: &mut Option<Errno>,
        flags: RecvFlags,
    ) -> Result<usize, Errno> {
        let mut control = [MaybeUninit::uninit(); CONTROL_SIZE];
        let mut control = RecvAncillaryBuffer::new(&mut control);
        let received = retry_on_intr(|| {
            let part = &mut [IoSliceMut::new(part)];
            rustix::net::recvmsg(&self.stream, part, &mut control, flags)
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sent) = message {
                fds.extend(sent);
            }
        }
        if fds.len() > self.fds_max {
            fds.truncate(self.fds_max); // drops, and so closes, the others
            *lost_fds = Some(Errno::TOOBIG);
        } else if received.flags.contains(ReturnFlags::CTRUNC) {
            // The kernel has dropped some: no room in `control`, or in this process's table.
            let table_is_full = fds.len() < limit::MESSAGE_FDS_MAX;
            let reason = if table_is_full {
                Errno::MFILE
            } else {
                Errno::TOOBIG
            };
            *lost_fds = Some(reason);
        }
        Ok(received.bytes)
    }

    /// Receives the part that follows a header. File descriptors that come with it are dropped:
    /// they belong to the header.
    fn receive_body(&self, size: usize, deadline: &mut Option<Instant>) -> Result<Vec<u8>, Ended> {
        let mut body = vec![0; size];
        let mut filled = 0;
        while filled < size {
            let part = &mut body[filled..];
            let (count, _) = self.rest(deadline, || {
                retry_on_intr(|| rustix::net::recv(&self.stream, &mut *part, RecvFlags::DONTWAIT))
            })?;
            if count == 0 {
                return Err(Ended::Truncated);
            }
            filled += count;
        }
        Ok(body)
    }

    /// Sends a message: `header` and, as its body, `parts`, with at most [`limit::MESSAGE_FDS_MAX`]
    /// file descriptors.
    ///
    /// A failure ends the connection, because part of the message may have been sent.
    pub(crate) fn send(
        &self,
        header: &Header,
        parts: [&[u8]; 2],
        fds: &[BorrowedFd],
    ) -> Result<(), Errno> {
        debug_assert_eq!(
            header.size.get() as usize,
            HEADER_SIZE + parts[0].len() + parts[1].len()
        );
        let _guard = self.sending.lock();
        self.send_locked(header, parts, fds)
            .inspect_err(|_| self.shut_down())
    }

    fn send_locked(
        &self,
        header: &Header,
        parts: [&[u8]; 2],
        fds: &[BorrowedFd],
    ) -> Result<(), Errno> {
        let mut slices = [
            IoSlice::new(header.as_bytes()),
            IoSlice::new(parts[0]),
            IoSlice::new(parts[1]),
        ];
        let mut left = &mut slices[..];
        let mut control = [MaybeUninit::uninit(); CONTROL_SIZE];
        let mut control = SendAncillaryBuffer::new(&mut control);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::TOOBIG);
        }
        loop {
            let count = retry_on_intr(|| {
                rustix::net::sendmsg(&self.stream, left, &mut control, SendFlags::NOSIGNAL)
            })?;
            // They were sent with the first byte.
            control.clear();
            IoSlice::advance_slices(&mut left, count);
            if left.iter().all(|slice| slice.is_empty()) {
                return Ok(());
            }
        }
    }

    /// Replies with success and `parts` to a command, if it requests a reply.
    pub(crate) fn reply(
        &self,
        command: &Header,
        parts: [&[u8]; 2],
        fds: &[BorrowedFd],
    ) -> Result<(), Errno> {
        if !command.wants_reply() {
            return Ok(());
        }
        let size = parts[0].len() + parts[1].len();
        let header = Header::new(command.id.get(), command.command(), TYPE_REPLY, size);
        self.send(&header, parts, fds)
    }

    /// Replies with a failure to a command, if it requests a reply.
    pub(crate) fn reply_error(&self, command: &Header, errno: Errno) -> Result<(), Errno> {
        if !command.wants_reply() {
            return Ok(());
        }
        let flags = TYPE_REPLY | FLAG_ERROR;
        let mut header = Header::new(command.id.get(), command.command(), flags, 0);
        header.error = errno_to_wire(errno).into();
        self.send(&header, [&[], &[]], &[])
    }

    /// Returns the descriptor, for queries to the kernel about the peer.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Ends the connection for both sides and all threads.
    pub(crate) fn shut_down(&self) {
        // It fails only when the connection has already ended.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
