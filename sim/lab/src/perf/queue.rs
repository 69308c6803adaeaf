//! A completion queue as a loop uses it: polled all the time, or slept on.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_driver::{CompletionQueue, CompletionQueueConfig, Device};

use crate::perf::error::Error;

/// A completion queue and, if loops sleep on it, its completion channel.
#[derive(Clone)]
pub struct Queue {
    cq: Arc<CompletionQueue>,
    channel: Option<Channel>,
    /// The last poll has found as much as it might: there may be more, of which no event tells.
    has_more: Cell<bool>,
}

/// A completion channel (`ibv_comp_channel`): events that nobody has taken.
#[derive(Clone, Default)]
struct Channel(Arc<AtomicU32>);

impl Queue {
    /// A queue of `entries` entries. If loops sleep on it, it is armed.
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
            cq.arm(false);
        }
        Ok(Self {
            cq,
            channel,
            has_more: Cell::new(false),
        })
    }

    /// The queue itself.
    pub fn cq(&self) -> &Arc<CompletionQueue> {
        &self.cq
    }

    /// Whether loops sleep on it.
    pub fn sleeps(&self) -> bool {
        self.channel.is_some()
    }

    /// Takes the events that are there; whether there were any.
    pub fn take_events(&self) -> bool {
        let channel = self.channel.as_ref();
        channel.is_some_and(|Channel(events)| events.swap(0, Ordering::Relaxed) > 0)
    }

    /// A poll for up to `max` completions has found `count`.
    pub fn note_poll(&self, count: usize, max: usize) {
        self.has_more.set(count == max);
    }

    /// There may be completions of which no event will tell.
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
