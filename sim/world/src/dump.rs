//! The state of a world as text, for debugging: what each part waits for.

use std::fmt::Write as _;

use ferroce_model::time::timing::Timing;

use super::event_loop::EventLoop;

impl<T: Timing> EventLoop<T> {
    /// Returns the state of all parts as text.
    pub fn dump(&self) -> String {
        let mut text = format!(
            "time {} ps, {} of them skipped, {} events\n",
            self.outside(self.now).as_ps(),
            self.fast_forward.skipped.as_ps(),
            self.events
        );
        for (number, node) in self.nodes.iter().enumerate() {
            let host = &node.host;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "host {number}: event {:?}, NIC {:?}, store {:?}, interrupt {:?}, {} posted writes \
                 (next {:?}), {} frames under way, command {}",
                self.devices.time_of(number),
                node.nic.next_timeout(self.now),
                host.next_store(),
                host.next_interrupt(),
                host.posted.len(),
                host.posted.next_visible(),
                self.fabric.under_way(number),
                node.has_command(self.now),
            );
        }
        for (number, entry) in self.entries.iter().enumerate() {
            let watchers = &self.nodes[entry.host].host.watchers;
            let _ = writeln!(
                text,
                "thread {number} on host {}: {:?}, wakes {:?}, has polled {:?}",
                entry.host,
                entry.state,
                self.threads.time_of(number),
                watchers.turns_of(number),
            );
        }
        text
    }
}
