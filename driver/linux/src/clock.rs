//! The machine's clock.

use std::time::Duration;

/// Returns the time of the machine's monotonic clock.
///
/// Calls libc's function by its name: where time is simulated, that name is overridden, and the
/// driver sees simulated time like the program.
pub fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `time` only. It does not fail: Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_passes() {
        let before = super::now();
        while super::now() == before {
            std::hint::spin_loop();
        }
        assert!(super::now() > before);
    }
}
