//! Derives the host's cost of a post from the small messages of a measured table.
//!
//! The host limits the message rate of one QP with small messages: one thread posts, and the card
//! waits for it. So the cost of a post follows from the rate, if the host also limits the rate in
//! the model. If something else limits it, the table does not say what a post costs, and the
//! calibration reports that.

use ferroce_model::preset::{Origin, Preset};
use ferroce_perf::utilisation::THREAD;
use ferroce_perf::{Iterations, PerfRow, PerfSpec};
use serde_json::{Value, json};

use crate::reference::experiment::{self, Simulator};
use crate::reference::{Rows, Table};

/// The fitted parameter: the cost of a post also absorbs the costs of doorbell, push and poll,
/// because a rate does not separate them.
const PARAMETER: &str = "host.post_ns";
/// Largest message that counts as small: two blocks of a WQE at most, in a packet of one beat.
const SMALL_BYTES: u64 = 128;
/// Maximum number of rows that are used.
const MOST_ROWS: usize = 7;
/// Relative difference of the rates below which the model counts as calibrated.
const CLOSE: f64 = 0.01;
/// Maximum number of runs for a parameter. The period is linear in it, so that a few are enough.
const MOST_RUNS: usize = 6;
/// Messages of a run.
const MESSAGES: u64 = 3000;
/// Nanoseconds of a microsecond.
const NS_PER_US: f64 = 1e3;
/// A parameter is fitted to a tenth of a nanosecond.
const TENTHS: f64 = 10.0;

/// The result for the host of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// The parameter has this value.
    Fitted,
    /// The card limits the rate, not the host: the parameter is at most its value, and was not
    /// changed beyond it.
    AtMost,
    /// The model is slower than the table for every value of the parameter.
    TooSlow,
}

/// A calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The table.
    pub table: String,
    /// Sizes of the rows that were used.
    pub sizes: Vec<u64>,
    /// Their median message rate.
    pub measured_mpps: f64,
    /// The parameter.
    pub parameter: &'static str,
    /// Its value before and after, in nanoseconds.
    pub before_ns: f64,
    /// See `before_ns`.
    pub after_ns: f64,
    /// Message rate of the model before and after.
    pub before_mpps: f64,
    /// See `before_mpps`.
    pub after_mpps: f64,
    /// The part that limits the model's rate now.
    pub bottleneck: String,
    /// The result for the host.
    pub finding: Finding,
}

/// A run of the model.
struct Run {
    mpps: f64,
    /// True if the thread that posts limits the rate.
    is_by_host: bool,
    /// Time that this thread needs for a message.
    thread_ns: f64,
    bottleneck: String,
}

impl Run {
    fn period_ns(&self) -> f64 {
        NS_PER_US / self.mpps
    }
}

/// Returns the sizes and message rates of the small rows of a bandwidth table. If there are
/// several, the first size is left out: it includes the first accesses to all memory and all
/// caches.
fn small_rows(table: &Table) -> Result<Vec<(u64, f64)>, String> {
    let Rows::Bandwidth(rows) = &table.rows else {
        return Err(format!(
            "{}: a latency is that of host, PCIe and card together, and does not separate them; \
             give a table of ib_write_bw, ib_send_bw or ib_read_bw",
            table.name
        ));
    };
    let mut small: Vec<(u64, f64)> = rows
        .iter()
        .filter(|row| row.bytes <= SMALL_BYTES && row.message_rate_mpps > 0.0)
        .map(|row| (row.bytes, row.message_rate_mpps))
        .collect();
    small.sort_by_key(|(bytes, _)| *bytes);
    if small.len() > 1 {
        small.remove(0);
    }
    small.truncate(MOST_ROWS);
    if small.is_empty() {
        Err(format!(
            "{}: no row of at most {SMALL_BYTES} B: larger messages say nothing of the host",
            table.name
        ))
    } else {
        Ok(small)
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn run(simulator: &dyn Simulator, spec: &PerfSpec) -> Result<Run, String> {
    let rows = simulator.run(spec)?.rows;
    let row: &PerfRow = rows.first().ok_or("no figure")?;
    let bandwidth = row.bandwidth.as_ref().ok_or("no bandwidth")?;
    let utilisation = row.utilisation.as_ref();
    let parts = utilisation.map_or(&[][..], |it| &it.parts);
    let thread = parts
        .iter()
        .find(|part| (part.name, part.host) == (THREAD, 0));
    let limit = utilisation.and_then(|it| it.limit());
    let mpps = bandwidth.message_rate_mpps;
    Ok(Run {
        mpps,
        is_by_host: limit.is_some_and(|part| Some(part) == thread),
        thread_ns: thread.map_or(0.0, |thread| thread.share * NS_PER_US / mpps),
        bottleneck: utilisation.map_or(String::new(), |it| it.bottleneck.to_string()),
    })
}

/// Fits the host of `preset` to the small rows of `table`, and returns it with the result.
///
/// # Errors
/// The table has no small rows, or the model cannot repeat its measurement.
pub fn calibrate(
    simulator: &dyn Simulator,
    preset: &Preset,
    table: &Table,
) -> Result<(Preset, Calibration), String> {
    let rows = small_rows(table)?;
    let measured_mpps = median(rows.iter().map(|(_, rate)| *rate));
    let mut spec = experiment::repeat(table, preset)?;
    spec.sizes = vec![rows[rows.len() / 2].0 as u32];
    spec.iterations = Iterations::Exactly(MESSAGES);
    let before = run(simulator, &spec)?;
    let before_ns = spec.preset.host.post_ns;
    let (wanted, mut value, mut last) = (NS_PER_US / measured_mpps, before_ns, None);
    for _ in 0..MOST_RUNS {
        let run = last.as_ref().unwrap_or(&before);
        let missing = wanted - run.period_ns();
        if missing.abs() <= CLOSE * wanted || (missing < 0.0 && !run.is_by_host) {
            break;
        }
        // Until the thread limits the rate, a longer post changes nothing.
        let missing = if run.is_by_host {
            missing
        } else {
            wanted - run.thread_ns
        };
        let next = ((value + missing).max(0.0) * TENTHS).round() / TENTHS;
        if next == value {
            break;
        }
        value = next;
        set_post(&mut spec.preset, value)?;
        last = Some(self::run(simulator, &spec)?);
    }
    let after = last.as_ref().unwrap_or(&before);
    let finding = match after.mpps < measured_mpps * (1.0 - CLOSE) {
        true => Finding::TooSlow,
        false if !after.is_by_host => Finding::AtMost,
        false => Finding::Fitted,
    };
    let mut fitted = preset.clone();
    set_post(&mut fitted, value)?;
    let calibration = Calibration {
        table: table.name.clone(),
        sizes: rows.iter().map(|(bytes, _)| *bytes).collect(),
        measured_mpps,
        parameter: PARAMETER,
        before_ns,
        after_ns: value,
        before_mpps: before.mpps,
        after_mpps: after.mpps,
        bottleneck: after.bottleneck.clone(),
        finding,
    };
    Ok((fitted, calibration))
}

fn set_post(preset: &mut Preset, ns: f64) -> Result<(), String> {
    let changed = preset.set(PARAMETER, &ns.to_string());
    changed.map_err(|error| error.to_string())
}

/// Where a table was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// On the machine that the host profile describes.
    OfProfile,
    /// On a user's machine.
    OfUser,
}

/// Returns a warning if the cost of a post is a guess or was taken from another machine. `None`: it
/// was measured, derived from a measurement, or given for this run.
pub fn uncalibrated(preset: &Preset, machine: Machine) -> Option<String> {
    let mut parameters = preset.parameters();
    let post = parameters.find(|parameter| parameter.key == PARAMETER)?;
    let is_known = match post.origin {
        Origin::User => true,
        // The value of another machine, however well it is known there.
        Origin::Measured | Origin::Derived => machine == Machine::OfProfile,
        _ => false,
    };
    (!is_known).then(|| {
        format!(
            "host uncalibrated: host.post_ns = {} is a {} of {}; small messages are host-limited \
             (--calibrate-host FILE)",
            post.value, post.origin, post.stated_by
        )
    })
}

impl Calibration {
    /// Returns the result as lines of text.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let (table, sizes, parameter) = (&self.table, sizes.join(", "), self.parameter);
        let (measured, after_ns, mpps) = (self.measured_mpps, self.after_ns, self.after_mpps);
        let conclusion = match self.finding {
            Finding::Fitted => format!(
                "{parameter} = {after_ns} (was {}): the model makes {mpps:.3} (made {:.3})",
                self.before_ns, self.before_mpps
            ),
            Finding::AtMost => format!(
                "not identifiable: the model makes {mpps:.3} with {parameter} = {after_ns} and is \
                 not limited by the host, so that it is at most that; {}",
                self.bottleneck
            ),
            Finding::TooSlow => format!(
                "not identifiable: the model makes {mpps:.3} at best, with {parameter} = \
                 {after_ns}; {}",
                self.bottleneck
            ),
        };
        format!(
            "host calibrated by {table}, {sizes} B: {measured:.3} Mpps measured (median)\n\
             {conclusion}"
        )
    }

    /// Returns everything as JSON.
    pub fn json(&self) -> Value {
        json!({
            "table": self.table,
            "sizes": self.sizes,
            "measured_mpps": self.measured_mpps,
            "parameter": self.parameter,
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "before_mpps": self.before_mpps,
            "after_mpps": self.after_mpps,
            "bottleneck": self.bottleneck,
            "finding": match self.finding {
                Finding::Fitted => "fitted",
                Finding::AtMost => "at most",
                Finding::TooSlow => "too slow",
            },
        })
    }
}

#[cfg(test)]
mod tests;
