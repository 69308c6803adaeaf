//! Diagnostics on standard error.

use std::sync::Once;

use ferroce_platform::{explain, log};
use tracing::level_filters::LevelFilter;

use crate::os::{caller, exit_hint};

/// Target of the lines about refused verbs.
pub const REFUSED: &str = "ferroce::refused";
/// Target of the lines about calls that wait.
pub const WAITING: &str = "ferroce::waiting";

/// Returns the call by which the program has entered the library, if errors are explained.
#[cold]
pub fn site() -> Option<String> {
    explain::is_asked().then(caller::site).flatten()
}

/// Starts logging as `FERROCE_LOG` requests; without it, logs only the reasons why a device cannot
/// be used.
///
/// Only a program that uses the device calls this, not every child that inherits the preload.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| log::start(LevelFilter::ERROR));
    exit_hint::prepare();
    // Outside the `Once`, because a child made by fork needs one, too.
    explain::open_file();
}
