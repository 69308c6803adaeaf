//! Whether a program's run can be repeated.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::name::Name;

/// If this variable is 1, a program that has left simulated time fails.
pub const STRICT: &str = "FERROCE_STRICT";
/// Its exit status then.
pub const EXIT_NOT_REPEATABLE: i32 = 3;

/// How often threads of a program have left simulated time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Departures {
    count: AtomicU32,
    /// The call, or the kind of loop, of the first.
    first: Name,
}

impl Departures {
    /// Notes that a thread leaves simulated time, in this call.
    pub fn note(&self, call: &str) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            self.first.set(call);
        }
    }

    /// Returns how often threads have left.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the call in which the first has left.
    pub fn first(&self) -> String {
        self.first.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_departure_is_named() {
        let departures = Departures::default();
        departures.note("recvfrom");
        departures.note("waitpid");
        assert_eq!(
            (departures.count(), departures.first().as_str()),
            (2, "recvfrom")
        );
    }
}
