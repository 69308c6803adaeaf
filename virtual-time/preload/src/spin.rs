//! Threads that wait for a change of memory without a call.

use crate::{own, timers};

/// Called once, when the program joins.
pub fn install() {
    own::note_process();
    timers::begin();
}
