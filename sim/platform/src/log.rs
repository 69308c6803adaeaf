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
        Some(Targets::new().with_default(default))
    } else {
        parse(&wanted)
    };
    let is_understood = parsed.is_some();
    let filter = parsed.unwrap_or_else(|| Targets::new().with_default(default));
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
            "{VARIABLE}={wanted}: is no list of levels (off, error, warn, info, debug, trace); \
             right would be `debug`, or `info,ferroce_driver=debug`"
        );
    }
}

/// Parses a list of levels; `None`: it is none. A word alone is a level, or a module of Ferroce:
/// any other one is a level with a mistake, which [`Targets`] takes for a module.
fn parse(wanted: &str) -> Option<Targets> {
    let is_known = |word: &str| {
        word.contains('=') || word.starts_with("ferroce") || word.parse::<LevelFilter>().is_ok()
    };
    let words = || wanted.split(',').map(str::trim);
    words()
        .filter(|word| !word.is_empty())
        .all(is_known)
        .then(|| wanted.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_with_a_mistake_is_no_module() {
        for right in [
            "info",
            "DEBUG",
            "info,ferroce_driver=debug",
            "ferroce::refused=info",
            "off",
        ] {
            assert!(parse(right).is_some(), "{right}");
        }
        for wrong in ["loud", "inof", "info,loud", "ferroce_driver=loud"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
