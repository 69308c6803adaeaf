//! Dumps the state of a world as text, for debugging: the events for which each part waits.

use std::fmt::Write as _;

use ferroce_model::time::timing::Timing;

use super::event_loop::EventLoop;

impl<T: Timing> EventLoop<T> {
    /// Returns the state of all parts as text.
    pub fn dump(&self) -> String {
        let mut text = format!(
            "time {} ps, {} of them skipped, {} events\n",
            self.now.as_ps(),
            self.devices.skipped().as_ps(),
            self.events
        );
        self.devices.dump(self.now, &mut text);
        for (number, entry) in self.schedule.entries.iter().enumerate() {
            let watchers = &self.devices.nodes[entry.host].host.watchers;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "thread {number} on host {}: {:?}, wakes {:?}, has polled {:?}",
                entry.host,
                entry.state,
                self.schedule.turns.time_of(number),
                watchers.turns_of(number),
            );
        }
        text
    }
}
