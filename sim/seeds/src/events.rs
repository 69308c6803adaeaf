//! The last events of a run: operations, and frames as text.

use std::collections::VecDeque;

use ferroce_units::Instant;
use ferroce_wire::pretty::Pretty;
use ferroce_world::{FrameSeen, Received, Recorder, Span};

use crate::program::Operation;

/// A list of the last events.
#[derive(Debug)]
pub(crate) struct Events {
    lines: VecDeque<String>,
    most: usize,
}

impl Events {
    /// Returns a list that keeps the last `most` events.
    pub fn new(most: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            most,
        }
    }

    /// Returns the events.
    pub fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }

    /// Records an operation of a host.
    pub fn note(&mut self, now: Instant, host: usize, operation: &Operation) {
        self.add(now, &format!("host {host} executes {operation}"));
    }

    fn add(&mut self, now: Instant, text: &str) {
        if self.lines.len() == self.most {
            self.lines.pop_front();
        }
        self.lines
            .push_back(format!("{:>10} ns {text}", now.as_ns()));
    }
}

impl Recorder for Events {
    fn record(&mut self, _: &Span) {}

    fn frame(&mut self, seen: &FrameSeen<'_>) {
        let (from, to) = (seen.from, seen.to);
        let frame = Pretty(seen.bytes);
        let fault = match seen.fault {
            None => String::new(),
            Some(fault) if fault.received == Received::Lost => format!(" LOST: {}", fault.comment),
            Some(fault) => format!(" at {} ns: {}", seen.arrival.as_ns(), fault.comment),
        };
        self.add(seen.sent, &format!("host {from} to {to}: {frame}{fault}"));
    }
}
