//! Waiting of a program thread whose poll finds nothing, according to [`crate::schedule::policy`].

use std::cell::RefCell;

use ferroce_platform::os;

use super::InProcess;
use crate::clock::Ticks;
use crate::schedule::policy::{Wait, Waiting};
use crate::schedule::tunables::{DOZE_NS, after};

thread_local! {
    static WAITING: RefCell<Waiting> = const { RefCell::new(Waiting::NEW) };
}

impl InProcess {
    /// Ends an empty poll of this thread at `now`. `empty_runs`: number of model runs without work;
    /// `None` if something moved.
    #[inline]
    pub(super) fn end_empty_poll(&self, empty_runs: Option<u32>, now: Ticks) {
        // A signal handler that polls finds it borrowed and only spins.
        let wait = WAITING.with(|waiting| {
            let mut waiting = waiting.try_borrow_mut().ok()?;
            match empty_runs {
                None => waiting.found(),
                Some(runs) => return Some(waiting.found_nothing(runs, now)),
            }
            None
        });
        match wait {
            None => {}
            Some(Wait::Spin) => std::hint::spin_loop(),
            Some(Wait::Yield) => self.yield_after_polls(),
            Some(Wait::Doze) => self.doze(DOZE_NS),
        }
    }

    #[cold]
    fn yield_after_polls(&self) {
        let began = self.clock().ticks();
        let (words, spans) = (self.words(), self.spans());
        if words.polls(began) {
            words.set_polls_until(after(began, spans.yield_fresh));
        }
        os::yield_processor();
        let ended = self.clock().ticks();
        WAITING.with(|waiting| {
            if let Ok(mut waiting) = waiting.try_borrow_mut() {
                waiting.yielded(began, ended, spans);
            }
        });
    }
}
