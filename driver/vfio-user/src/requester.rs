//! Requests to the peer, and their replies.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::{Errno, RequestError, errno_from_wire};
use crate::limit;
use crate::message::{Command, FLAG_NO_REPLY, Header, Message, TYPE_COMMAND, TYPE_REPLY};
use crate::queue::Queue;
use crate::socket::{Ended, Socket};

/// Maximum number of outstanding requests of all threads; fewer than there are identifiers.
const OUTSTANDING_MAX: usize = 1 << 15;

/// Content of a reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Sends requests for any thread and delivers each its reply.
#[derive(Debug)]
pub(crate) struct Requester {
    socket: Arc<Socket>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u16,
    /// Requests by message identifier. `None`: the request was abandoned, but the reply may still
    /// come.
    outstanding: HashMap<u16, Option<Arc<Waiting>>>,
    abandoned: usize,
    disconnected: bool,
}

impl State {
    /// Returns an identifier that no outstanding request has.
    fn free_id(&mut self) -> u16 {
        // Terminates, because `outstanding` never contains all identifiers.
        while self.outstanding.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}

/// One request that waits for its reply.
#[derive(Debug, Default)]
struct Waiting {
    outcome: Mutex<Option<Result<Message, RequestError>>>,
    decided: Condvar,
}

impl Waiting {
    fn decide(&self, outcome: Result<Message, RequestError>) {
        *self.outcome.lock() = Some(outcome);
        self.decided.notify_one();
    }
}

impl Requester {
    pub(crate) fn new(socket: Arc<Socket>) -> Self {
        Self {
            socket,
            state: Mutex::new(State::default()),
        }
    }

    /// Sends a command and waits for the reply.
    pub(crate) fn request(
        &self,
        command: Command,
        parts: [&[u8]; 2],
        fds: &[BorrowedFd],
        timeout: Duration,
    ) -> Result<Reply, RequestError> {
        let deadline = Instant::now() + timeout;
        let waiting = Arc::new(Waiting::default());
        let id = self.enter(&waiting)?;
        let size = parts[0].len() + parts[1].len();
        let header = Header::new(id, command, TYPE_COMMAND, size);
        if self.socket.send(&header, parts, fds).is_err() {
            self.disconnect();
            return Err(RequestError::Disconnected);
        }
        let mut outcome = waiting.outcome.lock();
        while outcome.is_none() {
            if waiting
                .decided
                .wait_until(&mut outcome, deadline)
                .timed_out()
            {
                break;
            }
        }
        match outcome.take() {
            Some(outcome) => check(command, outcome?),
            None => {
                // `deliver` takes this lock while it holds the other one.
                drop(outcome);
                self.abandon(id, command, &waiting)
            }
        }
    }

    /// Sends a command that requests no reply.
    pub(crate) fn post(&self, command: Command, parts: [&[u8]; 2]) -> Result<(), RequestError> {
        let id = {
            let mut state = self.state.lock();
            if state.disconnected {
                return Err(RequestError::Disconnected);
            }
            state.free_id()
        };
        let size = parts[0].len() + parts[1].len();
        let header = Header::new(id, command, TYPE_COMMAND | FLAG_NO_REPLY, size);
        self.socket.send(&header, parts, &[]).map_err(|_| {
            self.disconnect();
            RequestError::Disconnected
        })
    }

    /// Registers a request under an identifier that no outstanding request has.
    fn enter(&self, waiting: &Arc<Waiting>) -> Result<u16, RequestError> {
        let mut state = self.state.lock();
        if state.disconnected {
            return Err(RequestError::Disconnected);
        }
        if state.outstanding.len() >= OUTSTANDING_MAX {
            return Err(RequestError::Invalid("too many requests are outstanding"));
        }
        let id = state.free_id();
        state.outstanding.insert(id, Some(Arc::clone(waiting)));
        Ok(id)
    }

    /// Abandons a request, unless the reply has come meanwhile.
    fn abandon(&self, id: u16, command: Command, waiting: &Waiting) -> Result<Reply, RequestError> {
        let mut state = self.state.lock();
        if let Some(outcome) = waiting.outcome.lock().take() {
            drop(state);
            return check(command, outcome?);
        }
        state.outstanding.insert(id, None);
        state.abandoned += 1;
        if state.abandoned > limit::ABANDONED_REQUESTS_MAX {
            tracing::warn!("the vfio-user peer answers no request any more; disconnecting");
            self.socket.shut_down();
        }
        Err(RequestError::Timeout)
    }

    /// Delivers a reply to the thread that waits for it. A reply to no request is dropped.
    pub(crate) fn deliver(&self, message: Message) {
        let id = message.header.id.get();
        let mut state = self.state.lock();
        match state.outstanding.remove(&id) {
            Some(Some(waiting)) => waiting.decide(Ok(message)),
            Some(None) => state.abandoned -= 1,
            None => tracing::debug!(id, "a vfio-user reply to no outstanding request"),
        }
    }

    /// Makes every request, outstanding or new, fail from now on.
    pub(crate) fn disconnect(&self) {
        let outstanding = {
            let mut state = self.state.lock();
            state.disconnected = true;
            state.abandoned = 0;
            std::mem::take(&mut state.outstanding)
        };
        for waiting in outstanding.into_values().flatten() {
            waiting.decide(Err(RequestError::Disconnected));
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        !self.state.lock().disconnected
    }
}

/// Checks a message as the reply to `command`.
fn check(command: Command, message: Message) -> Result<Reply, RequestError> {
    if message.header.command() != command {
        return Err(RequestError::Malformed("it replies to another command"));
    }
    if message.header.is_error() {
        let errno = errno_from_wire(message.header.error.get());
        return Err(RequestError::Refused(errno));
    }
    match message.lost_fds {
        None => {}
        Some(Errno::TOOBIG) => {
            return Err(RequestError::Malformed(
                "it brings too many file descriptors",
            ));
        }
        Some(errno) => return Err(RequestError::LostFds(errno)),
    }
    Ok(Reply {
        body: message.body,
        fds: message.fds,
    })
}

/// Receives until the connection ends: replies go to the waiting threads, commands into the queue.
///
/// Commands that have come before the end may still be executed and replied to.
pub(crate) fn receive_all(socket: &Socket, requester: &Requester, commands: &Queue) {
    let ended = loop {
        match socket.receive() {
            Ok(message) if message.header.kind() == TYPE_REPLY => requester.deliver(message),
            Ok(message) => {
                if !commands.push(message) {
                    break None;
                }
            }
            Err(ended) => break Some(ended),
        }
    };
    match ended {
        Some(ended @ (Ended::Silent | Ended::Slow)) => {
            tracing::warn!(%ended, "a vfio-user peer is disconnected");
        }
        Some(ended) => tracing::debug!(%ended, "vfio-user connection ended"),
        None => {}
    }
    requester.disconnect();
    commands.close();
}
