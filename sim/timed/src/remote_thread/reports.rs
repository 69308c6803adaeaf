//! What the world prints about a thread that does not pass its turn.

use std::sync::atomic::Ordering;
use std::time::Instant as RealInstant;

use ferroce_timed_protocol::page::ThreadPage;
use ferroce_units::Instant;

use super::RemoteThread;
use crate::program::Program;
use crate::stall::Stall;

impl RemoteThread {
    /// Reports a thread that computes while simulated time stands still.
    pub(super) fn report_stall(&self, stall: &Stall) {
        let Program { name, pid, .. } = *self.program;
        eprintln!(
            "ferroce world: process {pid} on host {name} computes for long without a call, or runs \
             a loop that cannot be proven to wait for memory. From now on it takes a microsecond \
             for each millisecond of the machine, so what it measures differs between runs: \
             {stall}"
        );
    }

    /// Reports calls that continue while the clock stands still.
    pub(super) fn report_standing_clock(&self, page: &ThreadPage, stall: &Stall) {
        let Program { name, pid, .. } = *self.program;
        let clock = Instant(page.clock_ps.load(Ordering::Relaxed));
        eprintln!(
            "ferroce world: process {pid} on host {name} makes call after call, and its clock \
             stands at {} ps; the last call is {}; time waits for it, also for a thread that it \
             may wait for: {stall}",
            clock.as_ps(),
            page.last_call.get()
        );
    }

    /// Reports once why the world continues without the thread.
    pub(super) fn explain(&mut self) {
        if !std::mem::replace(&mut self.has_explained, true) {
            let Program { name, pid, .. } = *self.program;
            let tid = self.program.page(self.number).tid.load(Ordering::Relaxed);
            let stall = Stall::new(pid, tid, RealInstant::now());
            eprintln!(
                "ferroce world: process {pid} on host {name} waits for something that its \
                 world does not model, and time continues without it: {stall}"
            );
        }
    }
}
