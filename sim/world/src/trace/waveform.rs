//! Activity of the cards of a world over time, as a waveform for GTKWave and Surfer (FST).
//!
//! ```text
//! world.hostN.queues      items in the queues of the NIC, CQEs that software has not taken
//!            .blocks      which block works, and on how many PCIe requests the card waits
//!            .unitN       which part of the processing unit works; its queues
//!            .caches      a pulse of 1 ns for each event with hits or misses
//!            .pcie        both directions of the link; tags, bytes and credits in use
//!            .link        both directions of the cable
//!            .processor   what the programs do
//!            .congestion  queue pairs with their own rates, and the lowest of these rates
//!      .fabric.SWITCH.portP_to_NODE
//!                         bytes that wait in a port of a switch, priorities that are paused
//! ```
//!
//! Busy lines are exact to a clock cycle. Levels, tags and credits are sampled at the events of the
//! NIC.

use std::io::{BufWriter, Seek, Write};

use ferroce_units::{Duration, Instant};
use fst_writer::{FstBodyWriter, FstFileType, FstHeaderWriter, FstInfo, FstWriteError};

use super::agenda::Agenda;
use super::step::Step;
use crate::{FrameSeen, Observation, PortObservation, WorldConfig};

mod lines;
mod signals;

use lines::{HostLines, Line, PortLines};
use signals::Declaration;

/// A seekable output.
pub trait Output: Write + Seek + Send {}
impl<W: Write + Seek + Send> Output for W {}

/// Length of a pulse.
const PULSE: Duration = Duration::from_ns(1);
/// Approximate size of changes in memory after which they are flushed.
const FLUSH_BYTES: usize = 64 << 20;

/// A change of a line.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// It has this value now.
    Set(Line, u64),
    /// Increments the number of users that the line shows.
    Begin(Line),
    /// Decrements it.
    End(Line),
}

/// A waveform that is being written.
pub struct Waveform {
    body: FstBodyWriter<BufWriter<Box<dyn Output>>>,
    hosts: Vec<HostLines>,
    ports: Vec<PortLines>,
    signals: Vec<Signal>,
    agenda: Agenda<Change>,
    time: Instant,
    failed: Option<FstWriteError>,
}

/// A line in the file, and its value.
#[derive(Debug)]
struct Signal {
    id: fst_writer::FstSignalId,
    width: u32,
    value: u64,
}

impl std::fmt::Debug for Waveform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let signals = self.signals.len();
        f.debug_struct("Waveform")
            .field("signals", &signals)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl Waveform {
    /// Creates a waveform of the world that `config` describes.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(output: Box<dyn Output>, config: &WorldConfig) -> Result<Self, FstWriteError> {
        let info = FstInfo {
            start_time: 0,
            timescale_exponent: -12,
            version: concat!("Ferroce ", env!("CARGO_PKG_VERSION")).to_owned(),
            // No date, so that the same run gives the same file.
            date: String::new(),
            file_type: FstFileType::Verilog,
        };
        let mut header = FstHeaderWriter::new(BufWriter::new(output), &info)?;
        let mut declaration = Declaration::new(&mut header);
        let (hosts, ports) = declaration.world(config)?;
        let signals = declaration.signals();
        let mut waveform = Self {
            body: header.finish()?,
            hosts,
            ports,
            signals,
            agenda: Agenda::default(),
            time: Instant::ZERO,
            failed: None,
        };
        waveform.body.time_change(0)?;
        for signal in 0..waveform.signals.len() {
            waveform.write(signal)?;
        }
        Ok(waveform)
    }

    /// Adds a step: its line is busy.
    pub fn add_step(&mut self, step: &Step) {
        let Some(host) = self.hosts.get(step.host) else {
            return;
        };
        if let Some(line) = host.busy_with(step.kind) {
            let until = if host.is_occupancy(step.kind) {
                step.begun() + step.occupied
            } else {
                step.end
            };
            self.busy(line, step.begun(), until);
        }
    }

    /// Adds a frame: its receiver's cable is busy.
    pub fn add_frame(&mut self, frame: &FrameSeen<'_>) {
        if let Some(host) = self.hosts.get(frame.to) {
            let time = host.time_on_wire(frame.bytes.len());
            let line = host.receive;
            self.busy(line, frame.arrival - time, frame.arrival);
        }
    }

    /// Adds the state after an event, and writes all changes before it.
    pub fn observe(&mut self, seen: &Observation<'_>) {
        self.write_before(seen.now);
        let Some(host) = self.hosts.get_mut(seen.host) else {
            return;
        };
        let (mut sets, mut pulses, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        host.levels(seen, |line, value| sets.push((line, value)));
        host.pulses(seen, |line| pulses.push(line));
        host.lanes(seen, |line, from, until| busy.push((line, from, until)));
        host.set_known();
        for (line, value) in sets {
            self.agenda.add(seen.now, Change::Set(line, value));
        }
        for line in pulses {
            self.busy(line, seen.now, seen.now + PULSE);
        }
        for (line, from, until) in busy {
            self.busy(line, from, until);
        }
    }

    /// Adds the state of the ports of switches, in the order of the links.
    pub fn observe_ports(&mut self, now: Instant, seen: &[PortObservation]) {
        for (lines, seen) in self.ports.iter_mut().zip(seen) {
            if lines.seen != *seen {
                lines.seen = *seen;
                let queued = Change::Set(lines.queued_bytes, seen.queued_bytes);
                self.agenda.add(now, queued);
                let paused = Change::Set(lines.paused, seen.paused.into());
                self.agenda.add(now, paused);
            }
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> Result<(), FstWriteError> {
        while let Some((time, change)) = self.agenda.take_next() {
            self.apply(time, change);
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.body.finish()?.flush()?),
        }
    }

    fn busy(&mut self, line: Line, from: Instant, until: Instant) {
        if until > from {
            self.agenda.add(from, Change::Begin(line));
            self.agenda.add(until, Change::End(line));
        }
    }

    fn write_before(&mut self, now: Instant) {
        while let Some((time, change)) = self.agenda.next_before(now) {
            self.apply(time, change);
        }
        if self.body.size() > FLUSH_BYTES {
            let flushed = self.body.flush();
            self.keep(flushed);
        }
    }

    fn apply(&mut self, time: Instant, change: Change) {
        let (line, value) = match change {
            Change::Set(line, value) => (line, value),
            Change::Begin(line) => (line, self.signals[line.0].value + 1),
            Change::End(line) => (line, self.signals[line.0].value.saturating_sub(1)),
        };
        let signal = &mut self.signals[line.0];
        let was_shown = shown(signal.value, signal.width);
        signal.value = value;
        if shown(value, signal.width) == was_shown {
            return;
        }
        if time > self.time {
            self.time = time;
            let changed = self.body.time_change(time.as_ps());
            self.keep(changed);
        }
        let written = self.write(line.0);
        self.keep(written);
    }

    fn write(&mut self, signal: usize) -> Result<(), FstWriteError> {
        let Signal { id, width, value } = self.signals[signal];
        let value = shown(value, width);
        let bits: Vec<u8> = (0..width)
            .rev()
            .map(|bit| b'0' + (value >> bit & 1) as u8)
            .collect();
        self.body.signal_change(id, &bits)
    }

    fn keep(&mut self, result: Result<(), FstWriteError>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}

/// Returns a value in this many bits: the maximum if it does not fit.
fn shown(value: u64, width: u32) -> u64 {
    value.min(u64::MAX >> (u64::BITS - width))
}
