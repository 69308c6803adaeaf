//! The descriptor of a channel, and the events that it shows.

use std::sync::Arc;

use crate::os::event_fd::EventFd;

/// The descriptor of a channel, which is readable while events wait.
pub struct Announced {
    fd: Arc<EventFd>,
    posted: usize,
}

impl Announced {
    /// Returns a descriptor that shows no events.
    pub fn new(fd: Arc<EventFd>) -> Self {
        Self { fd, posted: 0 }
    }

    /// Makes the descriptor show that this many events wait.
    pub fn show(&mut self, waiting: usize) {
        for _ in self.posted..waiting {
            self.fd.post();
        }
        for _ in waiting..self.posted {
            self.fd.try_take();
        }
        self.posted = waiting;
    }
}
