//! Presence of the card.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_linux::eventfds::EventFds;

/// Presence of the card, and the eventfds to signal when it is removed.
pub(super) struct Presence {
    is_gone: AtomicBool,
    /// The eventfds of all vectors.
    wakers: Vec<File>,
}

impl Presence {
    /// Creates the presence of a card that responds; `count` of `events` are its vectors.
    ///
    /// # Errors
    ///
    /// No file descriptors are left.
    pub(super) fn new(events: &EventFds, count: usize) -> io::Result<Arc<Self>> {
        let wakers = events
            .files()
            .take(count)
            .map(|file| file.try_clone_to_owned().map(File::from))
            .collect::<io::Result<_>>()?;
        Ok(Arc::new(Self {
            is_gone: AtomicBool::new(false),
            wakers,
        }))
    }

    /// Returns true if the card is gone.
    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Marks the card as gone. On the first call, signals every vector, so that every interrupt
    /// handler runs: threads that sleep until the card does something wake up.
    #[cold]
    pub(super) fn lose(&self, why: &str) {
        if self.is_gone.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::error!("the card is gone: {why}");
        for mut waker in &self.wakers {
            // An eventfd takes any number below its limit.
            waker.write_all(&1u64.to_ne_bytes()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Longer than any machine needs; only a failing test waits so long.
    const TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn every_vector_is_called_once_when_the_card_goes() {
        let events = EventFds::new(3).expect("eventfds");
        let presence = Presence::new(&events, 2).expect("descriptors");
        let (sender, receiver) = mpsc::channel();
        for vector in 0..3 {
            let sender = sender.clone();
            let handler = Arc::new(move || sender.send(vector).expect("open"));
            events
                .set_handler(vector, Some(handler))
                .expect("it exists");
        }
        assert!(!presence.is_gone());
        presence.lose("a test");
        let mut called: Vec<_> = (0..2)
            .map(|_| receiver.recv_timeout(TIMEOUT).ok())
            .collect();
        called.sort_unstable();
        assert_eq!(called, [Some(0), Some(1)]);
        assert!(presence.is_gone());
        presence.lose("a test");
        drop(events);
        assert!(receiver.try_recv().is_err(), "once is enough");
    }
}
