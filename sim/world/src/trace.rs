//! Traces of a world: where the time of one operation goes, waveforms, and captures in simulated
//! time.
//!
//! A [`Trace`] is a recorder of a world: it receives the activities of processors, PCIe links and
//! cables, and of every block of the NICs, whose timing is [`traced::Traced`]. A run without a
//! trace has neither and no overhead.
//!
//! - [`step`]: one activity of a processor, a block or a link.
//! - [`path`]: the steps for which an operation has waited, from its end back to its start.
//!   [`explain`] prints them.
//! - [`waveform`]: queues, blocks, links and caches over time, as FST. [`packets`]: frames, as
//!   pcapng. Both sort entries by time with an [`agenda`], because some are known in advance.
//! - [`neohost`]: our counters that correspond to NVIDIA NeoHost's.

pub mod agenda;
pub mod explain;
pub mod neohost;
pub mod packets;
pub mod path;
pub mod step;
pub mod traced;
pub mod waveform;

use std::sync::Arc;

use ferroce_model::time::timing::Timed;
use ferroce_units::Instant;
use packets::Packets;
use parking_lot::Mutex;
use step::Step;
use traced::Traced;
use waveform::Waveform;

use crate::pause_frame::PauseFrame;
use crate::{
    Error, FrameSeen, Observation, PortObservation, Recorder, SharedRecorder, Span, World,
    WorldConfig,
};

/// A trace that the parts of a world share.
pub type SharedTrace = Arc<Mutex<Trace>>;

/// Maximum number of steps that are kept; beyond it the older half is dropped.
const MAX_STEPS: usize = 1 << 21;

/// A recorder that keeps steps, and writes a waveform and a capture.
#[derive(Debug, Default)]
pub struct Trace {
    /// True between [`start`] and [`stop`].
    pub is_running: bool,
    /// True if steps are kept for [`path`].
    pub keeps_steps: bool,
    /// Steps in the order in which they became known.
    pub steps: Vec<Step>,
    /// Output of levels and busy times.
    pub waveform: Option<Waveform>,
    /// Output of frames.
    pub packets: Option<Packets>,
}

impl Trace {
    /// Returns a trace that keeps steps.
    pub fn of_steps() -> Self {
        Self {
            keeps_steps: true,
            ..Self::default()
        }
    }

    /// Returns the trace in a form that can be shared with a world.
    pub fn shared(self) -> SharedTrace {
        Arc::new(Mutex::new(self))
    }

    /// Writes the rest of the waveform and of the capture, and closes their files.
    ///
    /// # Errors
    /// The first error of each file, as text.
    pub fn finish(&mut self) -> Result<(), String> {
        if let Some(waveform) = self.waveform.take() {
            let written = waveform.finish();
            written.map_err(|error| format!("the waveform: {error}"))?;
        }
        if let Some(packets) = self.packets.take() {
            let written = packets.finish();
            written.map_err(|error| format!("the capture: {error}"))?;
        }
        Ok(())
    }

    fn add_step(&mut self, step: &Step) {
        if !self.is_running {
            return;
        }
        if let Some(waveform) = &mut self.waveform {
            waveform.add_step(step);
        }
        if self.keeps_steps {
            if self.steps.len() >= MAX_STEPS {
                self.steps.drain(..MAX_STEPS / 2);
            }
            self.steps.push(*step);
        }
    }
}

impl Recorder for Trace {
    fn record(&mut self, span: &Span) {
        self.add_step(&Step::of_span(span));
    }

    fn frame(&mut self, frame: &FrameSeen<'_>) {
        if let Some(waveform) = &mut self.waveform {
            waveform.add_frame(frame);
        }
        if let Some(packets) = &mut self.packets {
            packets.add_frame(frame);
        }
    }

    fn pause(&mut self, at: Instant, frame: &PauseFrame) {
        if let Some(packets) = &mut self.packets {
            packets.add_pause(at, frame);
        }
    }

    fn observes(&self) -> bool {
        self.waveform.is_some() || self.packets.is_some()
    }

    fn observe_ports(&mut self, now: Instant, ports: &[PortObservation]) {
        if let Some(waveform) = &mut self.waveform {
            waveform.observe_ports(now, ports);
        }
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        if let Some(waveform) = &mut self.waveform {
            waveform.observe(observation);
        }
        if let Some(packets) = &mut self.packets {
            packets.write_until(observation.now);
        }
    }
}

/// Creates a world whose cards report the work of their blocks to `trace`; cards of a functional
/// world do not.
///
/// # Errors
/// As [`World::new`].
pub fn world(config: &WorldConfig, trace: &SharedTrace) -> Result<World, Error> {
    if config.preset.is_none() {
        return World::new(config);
    }
    World::with_cards(config, |host| {
        let preset = config.preset_of(host).expect("all hosts have the first");
        Traced::new(Timed::new(preset), host, Arc::clone(trace))
    })
}

/// Starts to record `world`.
pub fn start(world: &mut World, trace: &SharedTrace) {
    trace.lock().is_running = true;
    let recorder: SharedRecorder = Arc::clone(trace) as SharedRecorder;
    world.record(Some(recorder));
}

/// Stops recording.
pub fn stop(world: &mut World, trace: &SharedTrace) {
    world.record(None);
    trace.lock().is_running = false;
}
