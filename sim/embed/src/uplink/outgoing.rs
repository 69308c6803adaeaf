//! The sending side of a wire: frames that wait for room, and handling of failures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Shared;
use super::buffer::Buffer;
use super::wire::{Health, Transmit, WireError};
use crate::fabric::registry::UplinkCounter;

/// Maximum number of frames that wait for room on the wire; the NIC never has more in flight.
const MAX_BACKLOG: usize = 128;
/// A wire that accepts nothing for this long loses the pending frames, so that the model does not
/// stop.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Number of consecutive checks without an error after which a wire without link detection counts
/// as up.
const QUIET_CHECKS: u32 = 2;

/// Frames to send, and the wire.
#[derive(Debug, Default)]
pub struct Outgoing {
    wire: Option<Box<dyn Transmit>>,
    backlog: VecDeque<Box<Buffer>>,
    /// The time since which the wire accepts nothing.
    stuck_since: Option<Instant>,
    /// True if a peer was seen at the other end since the wire was opened. Until then, the link
    /// counts as up.
    had_peer: bool,
    quiet_checks: u32,
}

impl Outgoing {
    /// Sets the opened wire.
    pub fn open(&mut self, wire: Box<dyn Transmit>) {
        *self = Self {
            wire: Some(wire),
            backlog: std::mem::take(&mut self.backlog),
            ..Self::default()
        };
    }

    /// Returns true if there is no wire: it broke, or has not been opened yet.
    pub fn is_closed(&self) -> bool {
        self.wire.is_none()
    }

    /// Returns true if frames wait for room.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns true if another frame would have to wait.
    pub fn is_full(&mut self, shared: &Shared) -> bool {
        if self.has_backlog() {
            self.drain(shared);
        }
        self.has_backlog()
    }

    /// Sends a frame, or queues it. Only frames that were reserved before the wire became full are
    /// queued.
    pub fn send(&mut self, shared: &Shared, frame: Box<Buffer>) {
        let was_empty = self.backlog.is_empty();
        if self.backlog.len() < MAX_BACKLOG {
            self.backlog.push_back(frame);
        } else {
            self.lose(shared, frame);
        }
        self.drain(shared);
        if was_empty && self.has_backlog() {
            // The reader retries soon, unless another thread does.
            shared.kick();
        }
    }

    /// Sends pending frames while there is room.
    pub fn drain(&mut self, shared: &Shared) {
        let Some(wire) = &mut self.wire else {
            return self.lose_all(shared);
        };
        while let Some(frame) = self.backlog.pop_front() {
            match wire.send(frame.bytes()) {
                Ok(()) => {
                    self.stuck_since = None;
                    shared.end.count(UplinkCounter::Sent, 1);
                    shared.pool.give_back(frame);
                }
                Err(WireError::Busy) => {
                    self.backlog.push_front(frame);
                    let since = *self.stuck_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > MAX_PAUSE {
                        self.lose_all(shared);
                    }
                    return;
                }
                Err(WireError::Lost) => lose(shared, frame),
                Err(WireError::Absent(error)) => {
                    lose(shared, frame);
                    self.quiet_checks = 0;
                    if self.had_peer {
                        shared.set_down(&error.to_string());
                    }
                }
                Err(WireError::Broken(error)) => {
                    lose(shared, frame);
                    return self.close(shared, &error.to_string());
                }
            }
        }
    }

    /// Closes the wire after it broke.
    pub fn close(&mut self, shared: &Shared, reason: &str) {
        self.wire = None;
        self.lose_all(shared);
        shared.set_down(reason);
        shared.kick();
    }

    /// Records that the peer has sent something.
    pub fn note_peer(&mut self, shared: &Shared) {
        self.had_peer = true;
        shared.set_up();
    }

    /// Records that the peer is absent.
    pub fn note_absent_peer(&mut self, shared: &Shared, reason: &str) {
        self.quiet_checks = 0;
        if self.had_peer {
            shared.set_down(reason);
        }
    }

    /// Checks the wire: sends pending frames, and tests for a peer. Returns true if announcements
    /// should be sent to provoke an answer.
    pub fn check(&mut self, shared: &Shared) -> bool {
        self.drain(shared);
        let is_down = !shared.is_up.load(std::sync::atomic::Ordering::SeqCst);
        let Some(wire) = &mut self.wire else {
            return false;
        };
        match wire.flush().and_then(|()| wire.check()) {
            Ok(Health::Sound) => {
                self.had_peer = true;
                shared.set_up();
                is_down
            }
            Ok(Health::Unknown) if is_down => {
                self.quiet_checks += 1;
                if self.quiet_checks > QUIET_CHECKS {
                    shared.set_up();
                }
                true
            }
            Ok(Health::Unknown) | Err(WireError::Busy | WireError::Lost) => false,
            Err(WireError::Absent(error)) => {
                self.note_absent_peer(shared, &error.to_string());
                false
            }
            Err(WireError::Broken(error)) => {
                self.close(shared, &error.to_string());
                false
            }
        }
    }

    fn lose(&mut self, shared: &Shared, frame: Box<Buffer>) {
        lose(shared, frame);
    }

    fn lose_all(&mut self, shared: &Shared) {
        self.backlog.drain(..).for_each(|frame| lose(shared, frame));
        self.stuck_since = None;
    }
}

fn lose(shared: &Shared, frame: Box<Buffer>) {
    shared.end.count(UplinkCounter::SentLost, 1);
    shared.pool.give_back(frame);
}
