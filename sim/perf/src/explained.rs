//! The time of one message that is alone: `--explain`.

use std::sync::atomic::AtomicBool;

use ferroce_units::Instant;
use ferroce_world::trace::explain::Explanation;
use ferroce_world::trace::{SharedTrace, Trace};

use crate::result::PerfRow;
use crate::runner;
use crate::setup::world_config;
use crate::spec::{PerfSpec, Test};

/// Number of messages of a trace by default: the caches are warm by then.
pub const MESSAGES: u64 = 16;

/// Restricts the specification to one message at a time.
///
/// # Errors
/// The preset has no times.
pub fn alone(spec: &mut PerfSpec) -> Result<(), String> {
    if world_config(spec).preset.is_none() {
        return Err("--explain: nothing takes time in this preset".to_owned());
    }
    spec.qps = 1;
    spec.threads = 1;
    spec.memory_regions = 1;
    spec.bidirectional = false;
    if spec.test == Test::Bandwidth {
        spec.depth = Some(1);
        spec.signal_every = Some(1);
    }
    Ok(())
}

/// Explains the last message of a measurement whose steps `trace` has kept.
///
/// # Errors
/// There were not enough messages.
pub fn last_message(row: &PerfRow, trace: &SharedTrace) -> Result<Explanation, String> {
    let (start, end) = row
        .last_message_ps
        .ok_or("--explain: at least two messages are needed")?;
    let steps = &trace.lock().steps;
    Ok(Explanation::new(steps, 0, Instant(start), Instant(end)))
}

/// Measures `spec`, which [`alone`] has restricted, and explains its last message.
///
/// # Errors
/// The measurement has failed, or had not enough messages.
pub fn run(spec: &PerfSpec, size: u32) -> Result<(PerfRow, Explanation), String> {
    let trace = Trace::of_steps().shared();
    let stop = AtomicBool::new(false);
    let row = runner::run(spec, size, &stop, Some(&trace)).map_err(|error| error.to_string())?;
    trace.lock().finish()?;
    let explanation = last_message(&row, &trace)?;
    Ok((row, explanation))
}
