//! Admission of clients: one is served, the next one waits, all others are refused.

use std::io;
use std::os::unix::net::UnixStream;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Errno;
use crate::limit;
use crate::socket::{Socket, Timeouts};

/// Shared by the thread that accepts connections and the one that serves them.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The connection to serve next.
    waiting: Option<UnixStream>,
    /// Another handle of the connection that is being served.
    served: Option<UnixStream>,
    /// Set when no more connections will come, with the reason.
    closed: Option<io::Result<()>>,
}

impl State {
    /// Returns true if no client is connected or waiting, or every such client has hung up.
    ///
    /// A client that connects after another one has hung up is admitted, even if the server has not
    /// yet noticed: the kernel has.
    fn has_room(&self) -> bool {
        [&self.waiting, &self.served]
            .into_iter()
            .all(|stream| stream.as_ref().is_none_or(has_hung_up))
    }
}

fn has_hung_up(stream: &UnixStream) -> bool {
    let mut events = [PollFd::new(stream, PollFlags::RDHUP)];
    let at_once = Timespec::default();
    let ready = rustix::io::retry_on_intr(|| poll(&mut events, Some(&at_once)));
    ready.is_ok_and(|count| count > 0)
}

impl Admission {
    /// Admits or refuses connections, until `accept` returns none.
    pub(crate) fn admit_all(&self, accept: impl Fn() -> io::Result<Option<UnixStream>>) {
        let reason = loop {
            match accept() {
                Ok(Some(stream)) => {
                    if let Some(stream) = self.admit(stream) {
                        refuse(stream);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.state.lock().closed = Some(reason);
        self.changed.notify_one();
    }

    /// Queues a connection to be served; returns it if there is no room.
    fn admit(&self, stream: UnixStream) -> Option<UnixStream> {
        let mut state = self.state.lock();
        if !state.has_room() {
            return Some(stream);
        }
        // The previous client has hung up.
        state.waiting = Some(stream);
        self.changed.notify_one();
        None
    }

    /// Waits for the connection to serve next and returns it; the previous one has been served.
    /// `None`: no more will come.
    pub(crate) fn next(&self) -> io::Result<Option<UnixStream>> {
        let mut state = self.state.lock();
        state.served = None;
        loop {
            self.changed.wait_while(&mut state, |state| {
                state.waiting.is_none() && state.closed.is_none()
            });
            if let Some(reason) = state.closed.take() {
                return reason.map(|()| None);
            }
            let Some(stream) = state.waiting.take() else {
                continue;
            };
            match stream.try_clone() {
                Ok(handle) => {
                    state.served = Some(handle);
                    return Ok(Some(stream));
                }
                Err(error) => tracing::warn!(%error, "a vfio-user client could not be served"),
            }
        }
    }
}

/// Replies `EBUSY` to the first message of a client, which is its `VERSION`, and hangs up.
fn refuse(stream: UnixStream) {
    tracing::info!("a second vfio-user client is refused: the device is in use");
    let timeouts = Timeouts {
        agreement: Some(limit::REFUSAL_TIMEOUT),
        message: limit::REFUSAL_TIMEOUT,
    };
    if let Ok(socket) = Socket::new(stream, limit::MESSAGE_FDS_MAX, timeouts) {
        if let Ok(message) = socket.receive() {
            // The client is refused with or without a reply.
            let _ = socket.reply_error(&message.header, Errno::BUSY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_client_that_hangs_up_makes_room() {
        let admission = Admission::default();
        let client = || UnixStream::pair().expect("sockets");
        let (leaving, server_end) = client();
        assert!(admission.admit(server_end).is_none());
        drop(leaving);
        let (_staying, server_end) = client();
        assert!(admission.admit(server_end).is_none(), "no client is left");
        let (_second, server_end) = client();
        assert!(admission.admit(server_end).is_some(), "a client is waiting");
    }
}
