//! Who is served next, and who is turned away.

use std::io;
use std::os::unix::net::UnixStream;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Errno;
use crate::limit;
use crate::socket::{Patience, Socket};

/// Between the thread that accepts connections and the one that serves them.
#[derive(Debug, Default)]
pub(crate) struct Door {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Who is served next.
    waiting: Option<UnixStream>,
    /// Another handle of the connection that is being served.
    served: Option<UnixStream>,
    /// No more connections will come, for this reason.
    closed: Option<io::Result<()>>,
}

impl State {
    /// There is nobody, or whoever is there is leaving.
    ///
    /// A client that comes after another one has gone is admitted, also when the server has not
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

impl Door {
    /// Admits connections or turns them away, until `accept` brings none.
    pub(crate) fn admit_all(&self, accept: impl Fn() -> io::Result<Option<UnixStream>>) {
        let reason = loop {
            match accept() {
                Ok(Some(stream)) => {
                    if let Some(stream) = self.admit(stream) {
                        turn_away(stream);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.state.lock().closed = Some(reason);
        self.changed.notify_one();
    }

    /// Lets a connection wait to be served; gives it back if there is no room.
    fn admit(&self, stream: UnixStream) -> Option<UnixStream> {
        let mut state = self.state.lock();
        if !state.has_room() {
            return Some(stream);
        }
        // Whoever was there before has hung up.
        state.waiting = Some(stream);
        self.changed.notify_one();
        None
    }

    /// The connection to serve next; the one before has been served. Waits for one. `None`: no more
    /// will come.
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
fn turn_away(stream: UnixStream) {
    tracing::info!("a second vfio-user client is turned away: the device is in use");
    let patience = Patience {
        agreement: Some(limit::REFUSAL_TIMEOUT),
        message: limit::REFUSAL_TIMEOUT,
    };
    if let Ok(socket) = Socket::new(stream, limit::MESSAGE_FDS_MAX, patience) {
        if let Ok(message) = socket.receive() {
            // It is turned away with or without reply.
            let _ = socket.reply_error(&message.header, Errno::BUSY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_waits_and_hangs_up_keeps_nobody_out() {
        let door = Door::default();
        let client = || UnixStream::pair().expect("sockets");
        let (impatient, server_end) = client();
        assert!(door.admit(server_end).is_none());
        drop(impatient);
        let (_patient, server_end) = client();
        assert!(door.admit(server_end).is_none(), "nobody is there");
        let (_second, server_end) = client();
        assert!(door.admit(server_end).is_some(), "one is there");
    }
}
