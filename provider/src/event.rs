//! Event queues with a pollable file descriptor: completion channels and a context's async queue.
//!
//! The descriptor is readable while its count is not zero; the count is the number of queued events
//! minus the readers that have read one and not yet taken it. So it is level-triggered,
//! `O_NONBLOCK` set by the program works, and a blocking reader is a plain `read`. An event counts
//! as reported only when it is taken; events still queued when their object is destroyed are
//! purged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::errno::Errno;
use crate::os::event_fd::EventFd;

/// Maximum number of events of one object that wait in one queue. Further events are dropped: a
/// program with that many unread events is already notified.
const MAX_QUEUED_PER_SOURCE: u32 = 1024;

/// The object that events are about.
#[derive(Debug, Default)]
pub struct Source {
    /// Address of the public struct; 0 until it exists.
    address: AtomicUsize,
    /// True if the object is being destroyed: no event is queued any more.
    closed: AtomicBool,
    /// Events that wait in queues.
    queued: AtomicU32,
    /// True if the object is a CQ that is armed: its next completion queues an event.
    is_armed: AtomicBool,
    /// Completion events that the program has read.
    completion_reported: AtomicU32,
    /// Async events that the program has read.
    async_reported: AtomicU32,
}

impl Source {
    /// Sets the address of the public struct, which events carry.
    pub fn set_address(&self, address: usize) {
        self.address.store(address, Ordering::Release);
    }

    /// Returns the public struct.
    pub fn address(&self) -> usize {
        self.address.load(Ordering::Acquire)
    }

    /// Returns the number of completion events that the program has read, modulo 2^32 like the
    /// acknowledged ones in the public struct.
    pub fn completion_reported(&self) -> u32 {
        self.completion_reported.load(Ordering::Acquire)
    }

    /// Returns the number of async events that the program has read.
    pub fn async_reported(&self) -> u32 {
        self.async_reported.load(Ordering::Acquire)
    }
}

/// Subject of an event.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Completions of a CQ: an event of a completion channel.
    Completion(Arc<Source>),
    /// An async event of a CQ or QP, with its `enum ibv_event_type`.
    Object(i32, Arc<Source>),
    /// An async event of the port or the device, with its `enum ibv_event_type`.
    Port(i32),
}

impl Subject {
    fn source(&self) -> Option<&Arc<Source>> {
        match self {
            Self::Completion(source) | Self::Object(_, source) => Some(source),
            Self::Port(_) => None,
        }
    }
}

/// Events in their order of arrival, with a descriptor that signals them.
#[derive(Debug)]
pub struct EventQueue {
    /// Closed when no reader is left; objects that report events may still refer to the queue.
    fd: Mutex<Option<EventFd>>,
    events: Mutex<VecDeque<Subject>>,
    /// Number of armed CQs.
    armed: AtomicUsize,
}

impl EventQueue {
    /// Creates an empty queue.
    pub fn new() -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            fd: Mutex::new(Some(EventFd::new()?)),
            events: Mutex::new(VecDeque::new()),
            armed: AtomicUsize::new(0),
        }))
    }

    /// Returns the descriptor that is readable while events wait; -1 when closed.
    pub fn fd(&self) -> i32 {
        self.fd.lock().as_ref().map_or(-1, EventFd::number)
    }

    /// Closes the descriptor. Events that are pushed from now on are dropped.
    pub fn close(&self) {
        let mut events = self.events.lock();
        for subject in events.drain(..) {
            if let Some(source) = subject.source() {
                source.queued.fetch_sub(1, Ordering::Relaxed);
            }
        }
        *self.fd.lock() = None;
    }

    /// Returns true if no event waits.
    pub fn is_empty(&self) -> bool {
        self.events.lock().is_empty()
    }

    /// Notes that a CQ is going to be armed.
    pub fn note_armed(&self, source: &Source) {
        if !source.is_armed.swap(true, Ordering::AcqRel) {
            self.armed.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn note_disarmed(&self, source: &Source) {
        if source.is_armed.swap(false, Ordering::AcqRel) {
            self.armed.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Returns true if a reader waits until a thread arms a CQ: no event waits, and no CQ is armed.
    pub fn is_unarmed(&self) -> bool {
        self.armed.load(Ordering::Acquire) == 0 && self.is_empty()
    }

    /// Appends an event.
    pub fn push(&self, subject: Subject) {
        // Pushed under the lock, so that an event that comes while its object is destroyed is
        // either seen by the purge or refused.
        let mut events = self.events.lock();
        if let Subject::Completion(source) = &subject {
            self.note_disarmed(source);
        }
        let fd = self.fd.lock();
        let Some(fd) = fd.as_ref() else {
            return;
        };
        if let Some(source) = subject.source() {
            let closed = source.closed.load(Ordering::Acquire);
            if closed || source.queued.load(Ordering::Relaxed) >= MAX_QUEUED_PER_SOURCE {
                return;
            }
            source.queued.fetch_add(1, Ordering::Relaxed);
        }
        events.push_back(subject);
        fd.post();
    }

    /// Takes the event that belongs to one read from the descriptor, and counts it as reported.
    ///
    /// `None`: it has been purged meanwhile; the caller reads again.
    pub fn take(&self) -> Option<Subject> {
        let mut events = self.events.lock();
        if let Some(fd) = self.fd.lock().as_ref() {
            fd.refill();
        }
        let subject = events.pop_front()?;
        if let Some(source) = subject.source() {
            source.queued.fetch_sub(1, Ordering::Relaxed);
        }
        // Counted under the lock, so that a purge sees an event either queued or reported.
        match &subject {
            Subject::Completion(source) => {
                source.completion_reported.fetch_add(1, Ordering::AcqRel)
            }
            Subject::Object(_, source) => source.async_reported.fetch_add(1, Ordering::AcqRel),
            Subject::Port(_) => 0,
        };
        Some(subject)
    }

    /// Removes the events of an object that is being destroyed, and refuses further ones.
    pub fn purge(&self, source: &Arc<Source>) {
        source.closed.store(true, Ordering::Release);
        self.note_disarmed(source);
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|event| {
            event
                .source()
                .is_none_or(|other| !Arc::ptr_eq(other, source))
        });
        let fd = self.fd.lock();
        let Some(fd) = fd.as_ref() else {
            return;
        };
        for _ in events.len()..before {
            // It fails when a reader has taken the count; the reader will find no event for it and
            // read again.
            fd.try_take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a reader is known to wait for an arming. Method: two CQs of a channel, armed, with
    /// events, and destroyed.
    #[test]
    fn an_event_disarms_its_source() {
        let queue = EventQueue::new().expect("descriptors");
        let (first, second) = (Arc::new(Source::default()), Arc::new(Source::default()));
        assert!(queue.is_unarmed());
        queue.note_armed(&first);
        queue.note_armed(&first);
        queue.note_armed(&second);
        queue.push(Subject::Completion(first.clone()));
        assert!(!queue.is_unarmed(), "an event waits");
        assert!(queue.take().is_some());
        assert!(!queue.is_unarmed(), "the second is armed");
        queue.purge(&second);
        assert!(queue.is_unarmed());
        queue.note_armed(&first);
        assert!(!queue.is_unarmed());
    }

    #[test]
    fn reported_counts_what_was_taken_and_purge_removes_the_rest() {
        let queue = EventQueue::new().expect("descriptors");
        let (first, second) = (Arc::new(Source::default()), Arc::new(Source::default()));
        queue.push(Subject::Completion(first.clone()));
        queue.push(Subject::Object(1, first.clone()));
        queue.push(Subject::Completion(first.clone()));
        queue.push(Subject::Completion(second.clone()));
        let try_take = || queue.fd.lock().as_ref().is_some_and(EventFd::try_take);
        assert!(try_take());
        assert!(queue.take().is_some());
        assert_eq!(
            (first.completion_reported(), first.async_reported()),
            (1, 0)
        );
        queue.purge(&first);
        assert!(
            try_take(),
            "the event of the other object is still announced"
        );
        assert!(!try_take(), "the purged events are not");
        let Some(Subject::Completion(source)) = queue.take() else {
            panic!("an event")
        };
        assert!(Arc::ptr_eq(&source, &second));
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_closed_queue_has_no_descriptor_and_takes_nothing() {
        let queue = EventQueue::new().expect("descriptors");
        let source = Arc::new(Source::default());
        queue.push(Subject::Completion(source.clone()));
        queue.close();
        assert_eq!(queue.fd(), -1);
        queue.push(Subject::Completion(source.clone()));
        assert!(queue.take().is_none());
        queue.purge(&source);
    }

    #[test]
    fn an_unread_source_does_not_grow_the_queue() {
        let queue = EventQueue::new().expect("descriptors");
        let source = Arc::new(Source::default());
        for _ in 0..2 * MAX_QUEUED_PER_SOURCE {
            queue.push(Subject::Completion(source.clone()));
        }
        assert_eq!(queue.events.lock().len(), MAX_QUEUED_PER_SOURCE as usize);
    }
}
