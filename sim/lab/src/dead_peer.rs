//! Time until a request fails whose peer does not answer, in simulated time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferroce_model::preset::Preset;
use ferroce_perf::{Error, Iterations, Operation, PerfSpec, Test, runner};
use ferroce_units::Instant;
use ferroce_world::{Activity, FrameSeen, Recorder, SharedRecorder, Span};
use parking_lot::Mutex;

/// The card.
pub const CARD: &str = "cx6-200g";
/// The host that sends the request.
const REQUESTER: usize = 0;
/// The harness posts at least this many; the first one fails.
const MESSAGES: u64 = 5;
const WRITE_BYTES: u32 = 64;

/// A WRITE to a peer that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadPeer {
    /// Local ACK timeout: 4.096 us times two to the power of it.
    pub local_ack_timeout: u8,
    /// `retry_cnt`.
    pub retry_count: u8,
    /// Whether short local ACK timeouts are lengthened.
    pub limit: Limit,
}

/// The lower limit of the local ACK timeout in ROCE_ACCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The default.
    On,
    /// `min_ack_timeout_limit_disabled` is set.
    Off,
}

impl DeadPeer {
    fn spec(&self, mut preset: Preset) -> Result<PerfSpec, String> {
        if self.limit == Limit::Off {
            let changed = preset.set("transport.ack_timeout_limit", "false");
            changed.map_err(|error| error.to_string())?;
        }
        let mut spec = PerfSpec::new(preset, Operation::Write, Test::Bandwidth);
        spec.sizes = vec![WRITE_BYTES];
        spec.iterations = Iterations::Exactly(MESSAGES);
        spec.depth = Some(1);
        spec.local_ack_timeout = Some(self.local_ack_timeout);
        spec.retry_count = Some(self.retry_count);
        let plan = "loss=1".parse();
        spec.faults = Some(plan.map_err(|error| format!("loss=1: {error}"))?);
        Ok(spec)
    }

    /// Returns the time in ms from the post to the completion with error.
    ///
    /// # Errors
    /// The request does not fail, or the run fails otherwise.
    pub fn detection_ms(&self, preset: Preset) -> Result<f64, String> {
        let spec = self.spec(preset)?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let recorder: SharedRecorder = Arc::clone(&seen) as SharedRecorder;
        let stop = AtomicBool::new(false);
        match runner::run_recorded(&spec, spec.sizes[0], &stop, recorder) {
            Err(Error::Completion { .. }) => {}
            Err(error) => return Err(error.to_string()),
            Ok(_) => return Err("the request has not failed".to_owned()),
        }
        let seen = seen.lock();
        let posted = seen.posted.ok_or("no request was posted")?;
        let completed = seen.written.ok_or("no completion was written")?;
        Ok((completed - posted).as_ps() as f64 / 1e9)
    }
}

/// Times of the requester.
#[derive(Debug, Default)]
struct Seen {
    /// The first post.
    posted: Option<Instant>,
    /// The last write of the card: the completion.
    written: Option<Instant>,
}

impl Recorder for Seen {
    fn record(&mut self, span: &Span) {
        if span.host != REQUESTER {
            return;
        }
        match span.activity {
            Activity::Post => self.posted = self.posted.or(Some(span.start)),
            Activity::PcieWrite => self.written = Some(span.end),
            _ => {}
        }
    }

    fn frame(&mut self, _: &FrameSeen<'_>) {}
}
