//! Diagnostics on standard error.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::explain::{self, Recorder};

/// The variable that selects diagnostics: a level, or levels by module, as in
/// `info,ferroce_driver=debug`.
const VARIABLE: &str = "FERROCE_LOG";

/// Starts printing the diagnostics that `FERROCE_LOG` selects, by default all of level `default`.
///
/// A program that has a subscriber of `tracing` keeps it.
pub fn start(default: LevelFilter) {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let parsed = if wanted.is_empty() {
        Ok(Targets::new().with_default(default))
    } else {
        wanted.parse::<Targets>()
    };
    let is_understood = parsed.is_ok();
    let filter = parsed.unwrap_or_else(|_| Targets::new().with_default(default));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .without_time()
        .with_filter(filter);
    let registry = tracing_subscriber::registry().with(lines);
    let started = match Recorder::from_environment() {
        Some(recorder) => registry
            .with(recorder.with_filter(explain::targets()))
            .try_init(),
        None => registry.try_init(),
    };
    if started.is_ok() && !is_understood {
        tracing::error!(
            "{VARIABLE}={wanted}: is no list of levels; right would be `debug`, or \
             `info,ferroce_driver=debug`"
        );
    }
}
