//! The periodic check of the device: detects that it has stopped, or has lost an interrupt or a
//! doorbell.

use std::sync::Arc;

use crate::bus::Bus;
use crate::control::command::has_stopped;
use crate::control::event::{Dispatch, EventQueue};
use crate::rings::doorbell_check::DoorbellChecks;

/// The parts of a device that are checked.
pub(crate) struct Checked<'a> {
    pub(crate) bus: &'a dyn Bus,
    pub(crate) dispatch: &'a Dispatch,
    pub(crate) event_queues: &'a [Arc<EventQueue>],
    pub(crate) doorbells: &'a DoorbellChecks,
}

impl Checked<'_> {
    /// Checks a device that has not failed yet.
    pub(crate) fn check(&self) {
        if has_stopped(self.bus) {
            self.dispatch.device_gone();
            return;
        }
        for queue in self.event_queues {
            queue.recover_interrupt();
        }
        if self.doorbells.run() {
            tracing::error!("the device does not take its doorbells");
            self.dispatch.device_gone();
        }
    }
}
