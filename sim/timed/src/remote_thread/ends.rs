//! Ends of threads and of their programs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_timed_protocol::page::ThreadPage;
use ferroce_timed_protocol::request::Wait;
use ferroce_units::Instant;
use ferroce_world::{Cpu, Next};

use super::{Goal, MAX_CLOCK_PS, RemoteThread};
use crate::shared::Event;

impl RemoteThread {
    /// Returns true if nothing is left to do for the thread: its program is over, and what that has
    /// stored before its exit is executed.
    pub(super) fn is_over(&self) -> bool {
        let has_stores = self.goal == Goal::Stores && self.program.has_exited();
        self.program.is_over() && !has_stores
    }

    /// Ends a thread whose process has ended in its turn, or executes another program: that goes on
    /// at the thread's time.
    pub(super) fn die(&mut self, cpu: &mut Cpu<'_>, page: &ThreadPage) -> Next {
        // Its last request may be there, if the process has ended before the world took it.
        if page.request.get() == Some(Wait::End)
            && let Ok(Some(next)) = self.execute(cpu, page)
        {
            cpu.leave();
            return next;
        }
        let clock = page.clock_ps.load(Ordering::Relaxed).min(MAX_CLOCK_PS);
        cpu.spend_until(Instant(clock).max(cpu.now()));
        cpu.leave();
        self.end(cpu)
    }

    pub(super) fn end(&mut self, cpu: &Cpu<'_>) -> Next {
        let thread = cpu.thread();
        self.program.remove_thread(self.number);
        let mut places = self.common.places.borrow_mut();
        places.retain(|place| place.thread != thread);
        drop(places);
        if self.program.has_exited() && self.common.note_end(&self.program, cpu.now()) {
            // Its other threads end now, and not when the kernel has closed the connection.
            let gone = Event::Gone(Arc::clone(&self.program));
            self.common.shared.report(gone);
        }
        Next::Done
    }
}
