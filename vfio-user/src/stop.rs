//! Ends a server from another thread.

use std::io;
use std::sync::Arc;

/// Ends [`crate::Server::serve`] from another thread. Clones end the same servers.
#[derive(Debug, Clone)]
pub struct Stop {
    event: Arc<rustix::fd::OwnedFd>,
}

impl Stop {
    /// A handle that nobody has used yet.
    pub fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event: Arc::new(event),
        })
    }

    /// Ends what waits for this handle, now and in the future.
    pub fn stop(&self) {
        // It fails only when the counter is full, and then it is not zero, which is all that counts.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }
}
