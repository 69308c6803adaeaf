//! The queue between the receiving and the executing thread.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::limit;
use crate::message::Message;

/// Received commands in their order, bounded in number, bytes and file descriptors.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Notified when a command is added or the queue closes.
    filled: Condvar,
    /// Notified when a command is removed or the queue closes.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Message>,
    bytes: usize,
    fds: usize,
    closed: bool,
}

impl State {
    fn is_full(&self) -> bool {
        self.commands.len() >= limit::QUEUED_COMMANDS_MAX
            || self.bytes >= limit::QUEUED_BYTES_MAX
            || self.fds >= limit::QUEUED_FDS_MAX
    }
}

impl Queue {
    /// Appends a command; waits while the queue is full. Returns false when the queue is closed.
    pub(crate) fn push(&self, command: Message) -> bool {
        let mut state = self.state.lock();
        self.drained
            .wait_while(&mut state, |state| state.is_full() && !state.closed);
        if state.closed {
            return false;
        }
        state.bytes += command.body.len();
        state.fds += command.fds.len();
        state.commands.push_back(command);
        self.filled.notify_one();
        true
    }

    /// Removes and returns the oldest command; waits while there is none. `None`: the queue is
    /// closed and empty.
    pub(crate) fn pop(&self) -> Option<Message> {
        let mut state = self.state.lock();
        self.filled.wait_while(&mut state, |state| {
            state.commands.is_empty() && !state.closed
        });
        let command = state.commands.pop_front()?;
        state.bytes -= command.body.len();
        state.fds -= command.fds.len();
        self.drained.notify_one();
        Some(command)
    }

    /// Closes the queue for new commands. Commands in the queue stay.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }
}
