//! A completion queue that a loop polls all the time, or sleeps on.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_driver::{CompletionQueue, CompletionQueueConfig, Device};

use crate::error::Error;

/// A completion queue and, if loops sleep on it, its completion channel.
#[derive(Clone)]
pub struct Queue {
    cq: Arc<CompletionQueue>,
    channel: Option<Channel>,
    /// True if the last poll returned its maximum: there may be more completions, without an event.
    has_more: Cell<bool>,
}

/// A completion channel (`ibv_comp_channel`), as the number of its events.
#[derive(Clone, Default)]
struct Channel(Arc<AtomicU32>);

impl Queue {
    /// Returns a queue of `entries` entries. If loops sleep on it, it is armed.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(device: &Arc<Device>, entries: u32, sleeps: bool) -> Result<Self, Error> {
        let channel = sleeps.then(Channel::default);
        let mut config = CompletionQueueConfig {
            entries,
            ..CompletionQueueConfig::default()
        };
        if let Some(Channel(events)) = channel.clone() {
            config.on_event = Some(Arc::new(move || {
                events.fetch_add(1, Ordering::Relaxed);
            }));
        }
        let cq =
            CompletionQueue::create(device, config).map_err(Error::driver("completion queue"))?;
        if sleeps {
            cq.arm();
        }
        Ok(Self {
            cq,
            channel,
            has_more: Cell::new(false),
        })
    }

    /// Returns the queue itself.
    pub fn cq(&self) -> &Arc<CompletionQueue> {
        &self.cq
    }

    /// Returns true if loops sleep on it.
    pub fn sleeps(&self) -> bool {
        self.channel.is_some()
    }

    /// Takes all events; returns true if there were any.
    pub fn take_events(&self) -> bool {
        let channel = self.channel.as_ref();
        channel.is_some_and(|Channel(events)| events.swap(0, Ordering::Relaxed) > 0)
    }

    /// Records that a poll for up to `max` completions returned `count`.
    pub fn note_poll(&self, count: usize, max: usize) {
        self.has_more.set(count == max);
    }

    /// Returns true if there may be completions without an event.
    pub fn has_more(&self) -> bool {
        self.has_more.get()
    }
}

impl Deref for Queue {
    type Target = CompletionQueue;

    fn deref(&self) -> &CompletionQueue {
        &self.cq
    }
}
