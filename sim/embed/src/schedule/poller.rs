//! The threads of the program: what the calls of the driver do with the model, and with the thread
//! that makes them, as [`super::policy`] says.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferroce_platform::os;

use super::policy::{Attention, Call, Promise, Stream, Wait, Waiting};
use super::shared::Words;
use super::tunables::{DOZE_NS, POLLS_BEFORE_YIELD, Spans, after};
use crate::clock::Ticks;
use crate::in_process::InProcess;

/// What the calls of a program have said, for all of its threads. Threads that call at the same time
/// may take a call of the other one for their own: what is left out or done too often then costs
/// time, and nothing else.
#[derive(Debug)]
pub struct Calls {
    attention: AtomicU32,
    stream: AtomicU32,
    /// True if the background thread has a processor for itself.
    is_helped: AtomicBool,
    spans: Spans,
    words: Words<'static>,
}

impl Calls {
    /// Returns that of a program that has not called yet.
    pub fn new(words: Words<'static>, spans: &Spans) -> Self {
        Self {
            attention: AtomicU32::new(Attention::NEW.0),
            stream: AtomicU32::new(Stream::NEW.to_bits()),
            is_helped: AtomicBool::new(true),
            spans: *spans,
            words,
        }
    }

    /// Returns true if the program polls.
    #[inline]
    pub fn polls(&self, now: Ticks) -> bool {
        self.words.polls(now)
    }

    /// Returns true if the program streams.
    #[inline]
    pub fn streams(&self) -> bool {
        self.stream().flows()
    }

    /// Notes a call at `now`. Returns true if the program polls.
    #[inline]
    pub fn note(&self, call: Call, now: Ticks) -> bool {
        let stream = self.stream();
        set(&self.stream, stream.to_bits(), stream.after(call).to_bits());
        let before = Attention(self.attention.load(Ordering::Relaxed));
        let (attention, promise) = before.after(call);
        set(&self.attention, before.0, attention.0);
        let polls = match promise {
            Promise::Polls => true,
            Promise::Continues => self.polls(now),
            Promise::Sleeps => {
                self.words.set_polls_until(Ticks(0));
                false
            }
        };
        if polls {
            self.words.set_polls_until(after(now, self.spans.fresh));
        }
        polls
    }

    /// Returns true if the model does not run for a doorbell that was just noted.
    #[inline]
    pub fn leaves(&self, call: Call, polls: bool) -> bool {
        let waits = || self.stream().waits(self.is_helped.load(Ordering::Relaxed));
        call == Call::Receive || call == Call::Request && polls && waits()
    }

    /// Sets whether the background thread has a processor for itself.
    pub fn set_helped(&self, is_helped: bool) {
        if self.is_helped.load(Ordering::Relaxed) != is_helped {
            self.is_helped.store(is_helped, Ordering::Relaxed);
        }
    }

    #[inline]
    fn stream(&self) -> Stream {
        Stream::from_bits(self.stream.load(Ordering::Relaxed))
    }
}

/// Stores a word that other threads read if it changes.
#[inline]
fn set(word: &AtomicU32, before: u32, value: u32) {
    if before != value {
        word.store(value, Ordering::Relaxed);
    }
}

thread_local! {
    static WAITING: RefCell<Waiting> = const { RefCell::new(Waiting::NEW) };
}

impl InProcess {
    /// Ends an empty poll at `now` of this thread. `empty_runs`: runs of the model without work;
    /// `None` if something has moved.
    #[inline]
    pub(crate) fn end_empty_poll(&self, empty_runs: Option<u32>, now: Ticks) {
        // A signal handler that polls finds it borrowed, and only spins.
        let wait = WAITING.with(|waiting| {
            let mut waiting = waiting.try_borrow_mut().ok()?;
            match empty_runs {
                None => waiting.found(),
                Some(runs) => return Some(waiting.found_nothing(runs, now)),
            }
            None
        });
        match wait {
            None => {}
            Some(Wait::Spin) => std::hint::spin_loop(),
            Some(Wait::Yield) => self.yield_after_polls(),
            Some(Wait::Doze) => self.doze(DOZE_NS),
        }
    }

    #[cold]
    fn yield_after_polls(&self) {
        let began = self.clock().ticks();
        let (words, spans) = (self.words(), self.spans());
        if words.polls(began) {
            words.set_polls_until(after(began, spans.yield_fresh));
        }
        os::yield_processor();
        let ended = self.clock().ticks();
        WAITING.with(|waiting| {
            if let Ok(mut waiting) = waiting.try_borrow_mut() {
                waiting.yielded(began, ended, spans);
            }
        });
    }

    /// Returns the polls as which one counts that has found another thread inside the model: that
    /// one does all there is to do, and may need this processor.
    pub(crate) const fn polls_of_a_busy_model() -> u32 {
        POLLS_BEFORE_YIELD
    }
}
