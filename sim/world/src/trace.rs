//! What happens in a world, seen closely: where the time of one operation goes, waveforms, and
//! captures in simulated time.
//!
//! A [`Trace`] is a recorder of a world: it hears what processors, PCIe links and cables do, and
//! what every block of the NICs does, because their clocks are [`traced::Traced`]. Somebody who
//! does not ask for a trace has neither, and pays nothing.
//!
//! - [`step`]: one thing that somebody does for a while.
//! - [`path`]: which steps an operation has waited for, from its end back to its start.
//!   [`explain`] prints them.
//! - [`waveform`]: queues, blocks, links and caches over time, as FST. [`packets`]: frames, as
//!   pcapng. Both put what is known in advance into the order of time with an [`agenda`].
//! - [`neohost`]: which of our counters is which of NVIDIA NeoHost's.

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
use parking_lot::Mutex;

use crate::{Error, FrameSeen, Observation, Recorder, SharedRecorder, Span, World, WorldConfig};
use packets::Packets;
use step::Step;
use traced::Traced;
use waveform::Waveform;

/// A trace that the parts of a world share.
pub type SharedTrace = Arc<Mutex<Trace>>;

/// Steps that are kept at most: the last of them, and half as many at least.
const MAX_STEPS: usize = 1 << 21;

/// What is made of what happens.
#[derive(Debug, Default)]
pub struct Trace {
    /// Something is recorded: between [`start`] and [`stop`].
    pub is_running: bool,
    /// Whether steps are kept, for [`path`].
    pub keeps_steps: bool,
    /// Steps in the order in which they became known.
    pub steps: Vec<Step>,
    /// Where levels and busy times go.
    pub waveform: Option<Waveform>,
    /// Where frames go.
    pub packets: Option<Packets>,
}

impl Trace {
    /// A trace that keeps steps.
    pub fn of_steps() -> Self {
        Self {
            keeps_steps: true,
            ..Self::default()
        }
    }

    /// To be shared with a world.
    pub fn shared(self) -> SharedTrace {
        Arc::new(Mutex::new(self))
    }

    /// Writes what is left of the waveform and of the capture, and closes their files.
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

    fn hear(&mut self, step: &Step) {
        if !self.is_running {
            return;
        }
        if let Some(waveform) = &mut self.waveform {
            waveform.hear(step);
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
        self.hear(&Step::of_span(span));
    }

    fn frame(&mut self, frame: &FrameSeen<'_>) {
        if let Some(waveform) = &mut self.waveform {
            waveform.hear_frame(frame);
        }
        if let Some(packets) = &mut self.packets {
            packets.hear(frame);
        }
    }

    fn observes(&self) -> bool {
        self.waveform.is_some() || self.packets.is_some()
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

/// A world whose cards tell `trace` what their blocks do. A functional world has no such cards.
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

/// Records what `world` does from now on.
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
