//! Ends a server from another thread.

use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::socket::Socket;

/// Ends [`crate::Server::serve`] from another thread. Clones end the same servers.
#[derive(Debug, Clone)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Readable after the first stop.
    event: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Connections that a stop ends.
    sockets: Vec<Weak<Socket>>,
}

impl Stop {
    /// Creates an unused handle.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            shared: Arc::new(Shared {
                event,
                state: Mutex::default(),
            }),
        })
    }

    /// Ends all servers with this handle, now and in the future.
    pub fn stop(&self) {
        let mut state = self.shared.state.lock();
        state.stopped = true;
        // It fails only when the counter is full; the counter is then not zero either, as needed.
        let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
        for socket in state.sockets.drain(..) {
            if let Some(socket) = socket.upgrade() {
                socket.shut_down();
            }
        }
    }

    /// Returns true if [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.shared.state.lock().stopped
    }

    /// Returns the eventfd, which is readable when stopped.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Ends this connection at a stop, or at once if the stop was before.
    pub(crate) fn watch(&self, socket: &Arc<Socket>) {
        let mut state = self.shared.state.lock();
        if state.stopped {
            socket.shut_down();
            return;
        }
        state.sockets.retain(|known| known.strong_count() > 0);
        state.sockets.push(Arc::downgrade(socket));
    }
}
