//! The driver's check of the device, which the background thread runs.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::bus::{HEALTH_PERIOD, InterruptHandler};
use parking_lot::Mutex;

use super::InProcess;
use crate::clock::Ticks;

/// A health check, and the time at which it is due.
#[derive(Default)]
pub(super) struct HealthCheck {
    check: Mutex<Option<InterruptHandler>>,
    due_at: AtomicU64,
}

impl std::fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HealthCheck").finish_non_exhaustive()
    }
}

impl HealthCheck {
    pub(super) fn set(&self, check: Option<InterruptHandler>) {
        // Dropped after the lock is released: it may own a value whose drop takes a lock.
        let _old = std::mem::replace(&mut *self.check.lock(), check);
    }
}

impl InProcess {
    /// Runs the driver's health check of the device if it is due.
    #[inline]
    pub fn check_health(&self, now: Ticks) {
        if now.0 >= self.health_check.due_at.load(Ordering::Relaxed) && !self.stopped.is_stopped() {
            self.run_health_check(now);
        }
    }

    #[cold]
    fn run_health_check(&self, now: Ticks) {
        let period = self.clock.ticks_of_ns(HEALTH_PERIOD.as_nanos() as u64);
        let due_at = now.0.saturating_add(period);
        self.health_check.due_at.store(due_at, Ordering::Relaxed);
        let check = self.health_check.check.lock().clone();
        if let Some(check) = check {
            check();
        }
    }
}
