//! Patient mode, for machines that are too busy for the timeouts of a program.
//!
//! On one machine we can see whether a peer has dequeued our frames (`liveness`), but not whether
//! it has been scheduled since, and nothing is known beyond an uplink. In patient mode a local ACK
//! timeout towards such a peer counts only after it has expired several times in a row. Nothing is
//! retransmitted before that, so packets that were really lost are recovered later.

use std::collections::BTreeMap;

use ferroce_model::ports::port::Route;
use ferroce_platform::host::{EnvironmentError, variable};
use ferroce_wire::{Gid, Qpn};

use super::FabricPort;
use crate::clock::Ticks;
use crate::error::Error;

/// The variable that enables patient mode.
pub const VARIABLE: &str = "FERROCE_PATIENT";
/// Of this many timeouts for a queue pair, only the last one counts.
pub const STRETCH: u32 = 16;
/// Maximum number of queue pairs whose timeouts are remembered. With more, a wait may take longer.
const WAITS_MAX: usize = 4096;

/// Returns true if the user enables patient mode for the functions of this process.
///
/// # Errors
/// [`Error::Environment`] if the variable is neither on nor off.
pub fn from_environment() -> Result<bool, Error> {
    match variable(VARIABLE).as_deref() {
        None | Some("off" | "0") => Ok(false),
        Some("on" | "1") => Ok(true),
        Some(other) => Err(Error::Environment(EnvironmentError {
            name: VARIABLE,
            value: other.to_owned(),
            reason: "is neither on nor off".to_owned(),
        })),
    }
}

/// Ignored timeouts towards one queue pair.
#[derive(Debug, Clone, Copy)]
struct Wait {
    passed: u32,
    last: Ticks,
    /// The shortest interval between two of them in ticks: about the timeout itself.
    shortest: u64,
}

impl Wait {
    const NONE: Self = Self {
        passed: 0,
        last: Ticks(0),
        shortest: u64::MAX,
    };

    /// Records a timeout. Returns true if it does not count.
    fn pass(&mut self, now: Ticks) -> bool {
        let span = now.since(self.last);
        // Timeouts come at even intervals while nothing is acknowledged. A longer interval means
        // that something was acknowledged, or that this process itself was not scheduled.
        if self.passed > 0 && span > self.shortest.saturating_mul(2) {
            self.passed = 0;
        } else if self.passed > 0 {
            self.shortest = self.shortest.min(span);
        }
        self.last = now;
        self.passed += 1;
        if self.passed < STRETCH {
            return true;
        }
        self.passed = 0;
        false
    }
}

/// The timeouts of a function in patient mode.
#[derive(Debug, Default)]
pub(super) struct PatientMode {
    waits: BTreeMap<(Gid, Qpn), Wait>,
    postponed: u64,
}

impl PatientMode {
    /// Records a timeout of a queue pair whose peer is at `route`. Returns true if it does not
    /// count.
    fn postpones(&mut self, route: &Route, now: Ticks) -> bool {
        if self.waits.len() >= WAITS_MAX {
            self.waits.clear();
        }
        let wait = self.waits.entry((route.gid, route.qpn));
        if !wait.or_insert(Wait::NONE).pass(now) {
            return false;
        }
        self.postponed += 1;
        if self.postponed.is_power_of_two() {
            tracing::info!(
                peer = %route.gid.to_ipv6(),
                qpn = route.qpn.value(),
                postponed = self.postponed,
                "patient mode: an acknowledge is late, and its time-out does not count yet (said \
                 at the 1st, 2nd, 4th, 8th, ...)"
            );
        }
        true
    }
}

impl FabricPort {
    /// Turns patient mode on.
    #[must_use]
    pub fn with_patient_mode(mut self, is_patient: bool) -> Self {
        self.patient = is_patient.then(Box::default);
        self
    }

    /// Returns true if a timeout of a queue pair whose peer is at `route` does not count, because
    /// the peer may not have been scheduled.
    pub(super) fn is_patient_with(&mut self, route: &Route) -> bool {
        if self.patient.is_none() || self.peer_is_gone(route) {
            return false;
        }
        let now = self.now;
        let patient = self.patient.as_mut();
        patient.is_some_and(|mode| mode.postpones(route, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 1000;

    /// Returns how many of the next timeouts, at even intervals from `now` on, do not count before
    /// one does.
    fn passed(wait: &mut Wait, now: &mut u64) -> u32 {
        let mut count = 0;
        loop {
            *now += TIMEOUT;
            if !wait.pass(Ticks(*now)) {
                return count;
            }
            count += 1;
            assert!(count < 10 * STRETCH, "none counts");
        }
    }

    /// Goal: a lost packet is retransmitted at some time, repeatedly.
    #[test]
    fn each_time_out_is_stretched_and_none_without_end() {
        let (mut wait, mut now) = (Wait::NONE, 0);
        for _ in 0..3 {
            assert_eq!(passed(&mut wait, &mut now), STRETCH - 1);
        }
    }

    /// Goal: a wait that was answered does not shorten the next one. Method: half of a wait, and
    /// then an interval longer than the timeout.
    #[test]
    fn a_wait_begins_anew_after_an_answer() {
        let (mut wait, mut now) = (Wait::NONE, 0);
        for _ in 0..STRETCH / 2 {
            now += TIMEOUT;
            assert!(wait.pass(Ticks(now)));
        }
        now += 10 * TIMEOUT;
        assert!(wait.pass(Ticks(now)));
        assert_eq!(passed(&mut wait, &mut now), STRETCH - 2);
    }
}
