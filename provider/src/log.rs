//! Diagnostics on standard error.

use std::sync::Once;
use tracing_subscriber::EnvFilter;

/// What is told when nobody asks: why the device cannot be used.
const DEFAULT_FILTER: &str = "error";

/// Starts telling what FERROCE_LOG asks for: a level, or a filter of `tracing`.
///
/// Only a program that uses the device gets here, not every child that inherits the preload.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let wanted = std::env::var("FERROCE_LOG").unwrap_or_else(|_| DEFAULT_FILTER.into());
        let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
        // Fails when the program has set a subscriber of its own, which is as well.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .without_time()
            .try_init();
    });
}
