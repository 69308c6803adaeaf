//! State learned from the calls of a program, in words that its threads share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::policy::{Attention, Call, Promise, Stream};
use super::shared::Words;
use super::tunables::{Spans, after};
use crate::clock::Ticks;

/// State learned from the calls of all threads of a program. Concurrent calls may take each other's
/// state for their own; the work that is then skipped or repeated only costs time.
#[derive(Debug)]
pub struct Calls {
    attention: AtomicU32,
    stream: AtomicU32,
    /// True if the background thread has a processor to itself.
    is_helped: AtomicBool,
    spans: Spans,
    words: Words<'static>,
}

impl Calls {
    /// Returns the state of a program that has made no call.
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

    /// Records a call at `now`. Returns true if the program polls.
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

    /// Returns true if the model need not run for the doorbell that was just recorded.
    #[inline]
    pub fn leaves(&self, call: Call, polls: bool) -> bool {
        let waits = || self.stream().waits(self.is_helped.load(Ordering::Relaxed));
        call == Call::Receive || call == Call::Request && polls && waits()
    }

    /// Sets whether the background thread has a processor to itself.
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

/// Stores a word that other threads read, but only if it changes.
#[inline]
fn set(word: &AtomicU32, before: u32, value: u32) {
    if before != value {
        word.store(value, Ordering::Relaxed);
    }
}
