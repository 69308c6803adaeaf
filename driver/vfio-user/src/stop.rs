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
    /// Readable from the first stop on.
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
    /// A handle that nobody has used yet.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            shared: Arc::new(Shared {
                event,
                state: Mutex::default(),
            }),
        })
    }

    /// Ends what waits for this handle, now and in the future.
    pub fn stop(&self) {
        let mut state = self.shared.state.lock();
        state.stopped = true;
        // It fails only when the counter is full, and then it is not zero, which is all that counts.
        let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
        for socket in state.sockets.drain(..) {
            if let Some(socket) = socket.upgrade() {
                socket.shut_down();
            }
        }
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.shared.state.lock().stopped
    }

    /// Readable when stopped.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Ends this connection too, also when the stop was before.
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
