//! Waiting for a condition, not for a time.

use std::thread;
use std::time::{Duration, Instant};

/// Variable with the factor for all time limits on a slow or busy machine; 1 by default.
const SLOW: &str = "FERROCE_TEST_SLOW";
/// Default time limit for a step of a test; steps take far less.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// Pauses between two checks of a condition: doubled from the first to the second.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Returns a time limit of a test, scaled for this machine. It only ends tests that hang; otherwise
/// the result of a test does not depend on it.
pub fn time_limit(timeout: Duration) -> Duration {
    let Some(factor) = std::env::var_os(SLOW) else {
        return timeout;
    };
    let number = factor.to_str().and_then(|text| text.parse().ok());
    let is_usable = |number: &u32| (1..=1000).contains(number);
    let factor = number.filter(is_usable).unwrap_or_else(|| {
        panic!("{SLOW}={factor:?}: it would be a whole number from 1 to 1000");
    });
    timeout * factor
}

/// Returns the message of a time-out.
pub(crate) fn timed_out(after: Duration, what: &str) -> String {
    format!("timed out after {after:?}, waiting for: {what} ({SLOW}=N waits N times as long)")
}

/// The end of a time limit, for a loop that does more than [`eventually`].
#[derive(Debug)]
pub struct Deadline {
    what: String,
    begun: Instant,
    timeout: Duration,
}

impl Deadline {
    /// Begins a time limit, scaled for this machine. `what` names the condition for which the test
    /// waits.
    pub fn new(what: &str, timeout: Duration) -> Self {
        Self {
            what: what.to_owned(),
            begun: Instant::now(),
            timeout: time_limit(timeout),
        }
    }

    /// Returns true if the time is over.
    pub fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.timeout
    }

    /// Fails the test if the time is over, and prints the condition.
    pub fn check(&self) {
        assert!(!self.is_over(), "{}", timed_out(self.timeout, &self.what));
    }
}

/// Waits until a condition holds; fails the test if it does not in time.
pub fn eventually(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    eventually_some(what, limit, || is_so().then_some(()));
}

/// Waits until there is a value and returns it; fails the test if there is none in time.
pub fn eventually_some<T>(what: &str, limit: Duration, mut value: impl FnMut() -> Option<T>) -> T {
    let deadline = Deadline::new(what, limit);
    let mut pause = PAUSE_MIN;
    loop {
        // The last check comes after the deadline, so a test does not fail if the machine stops
        // this thread.
        let is_last = deadline.is_over();
        if let Some(value) = value() {
            return value;
        }
        assert!(!is_last, "{}", timed_out(deadline.timeout, what));
        thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Returns true if a condition holds for this long. For events that must not happen, for which
/// there is no other sign.
pub fn stays(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if !is_so() {
            return false;
        }
        thread::sleep(PAUSE_MAX.min(time));
    }
    is_so()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_condition_that_holds_at_last_is_found() {
        let mut checks = 0;
        eventually("the tenth check", TIMEOUT, || {
            checks += 1;
            checks == 10
        });
        assert_eq!(checks, 10);
    }

    #[test]
    fn a_time_out_says_that_it_is_one_and_of_what() {
        let waited = catch_unwind(|| eventually("a miracle", Duration::from_millis(1), || false));
        let message = waited.expect_err("there is none");
        let message = message.downcast_ref::<String>().expect("with an argument");
        assert!(message.starts_with("timed out after "), "{message}");
        assert!(message.contains("waiting for: a miracle"), "{message}");
        assert!(message.contains(SLOW), "{message}");
    }
}
