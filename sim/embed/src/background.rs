//! The background thread of a function: it runs the model while the program does not poll, as
//! [`crate::schedule::policy`] says.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ferroce_platform::os::{self, Processors};

use crate::clock::Ticks;
use crate::in_process::InProcess;
use crate::schedule::policy::{Background, Step};

/// A thread that gets its processor later than this is reported to the user: peers see timeouts.
const FAR_TOO_LATE_US: u64 = 100_000;

/// Starts the thread. It never runs a signal handler of the application.
///
/// # Errors
/// The error of the system.
pub fn start(function: Arc<InProcess>) -> io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name("ferroce-bg".to_owned());
    os::with_signals_blocked(|| builder.spawn(move || run(&function)))
}

fn run(function: &InProcess) {
    prepare_thread();
    function.set_background_thread();
    let (clock, spans) = (*function.clock(), *function.spans());
    let processors = Processors::of_this_thread();
    let mut has_left = false;
    let mut policy = Background::NEW;
    while !function.is_stopping() {
        let now = clock.ticks();
        function.check_health(now);
        function.calls().set_helped(policy.is_alone(now));
        let (polls, streams) = (function.polls(now), function.calls().streams());
        match policy.next(now, polls, streams, &spans) {
            Step::Run => {
                let worked = function.try_run_once();
                policy.ran(worked, clock.ticks());
            }
            Step::Yield => {
                os::yield_processor();
                let ended = clock.ticks();
                policy.yielded(now, ended, &spans);
                diagnose(function, now, ended);
            }
            Step::Leave => has_left |= processors.as_ref().is_some_and(Processors::leave_this_one),
            Step::Watch(time_ns) => {
                let woken_at = sleep(function, || Some((time_ns, time_ns)));
                policy.slept(woken_at, clock.ticks(), &spans);
            }
            Step::Sleep => {
                let woken_at = sleep(function, || policy.sleeps_ns(function.outlook()));
                policy.slept(woken_at, clock.ticks(), &spans);
                if woken_at.is_none() && std::mem::take(&mut has_left) {
                    // The thread has been idle for long: let the kernel choose any processor.
                    processors.iter().for_each(Processors::allow_all);
                }
            }
        }
    }
}

/// Prepares this thread. It must be scheduled soon after a wake-up, even while the program is busy.
fn prepare_thread() {
    os::request_short_time_slices();
    os::request_exact_timers();
    if !os::outrank_program() {
        tracing::warn!(
            "the program has the highest real-time priority, so that the thread which serves the \
             NIC while it does not poll cannot have a higher one: use a priority below 99"
        );
    }
    // The memory that it accesses may be unmapped.
    os::faults::allow();
}

/// Sleeps between the minimum and the maximum time that `times_ns` returns once the sleep is
/// announced; `None`: does not sleep. Returns the time of the wake-up if another thread woke it.
fn sleep(function: &InProcess, times_ns: impl FnOnce() -> Option<(u64, u64)>) -> Option<Ticks> {
    let words = function.words();
    words.background.announce();
    let time_ns = times_ns().map_or(0, |(least, longest)| function.sleep_time_ns(least, longest));
    let clock = function.clock();
    let due = Ticks(clock.ticks().0.saturating_add(clock.ticks_of_ns(time_ns)));
    if time_ns > 0 && !function.is_stopping() {
        words.background.sleep(time_ns);
    }
    let was_woken = words.background.end();
    function.woke();
    let woken_at =
        (was_woken && time_ns > 0).then(|| Ticks(words.woken_at.load(Ordering::Relaxed)));
    diagnose(function, woken_at.unwrap_or(due), clock.ticks());
    woken_at
}

/// Counts a wake-up that was far too late: the thread was runnable at `since` and got its processor
/// at `now`. Reports the first one, because peers take the function for dead meanwhile.
fn diagnose(function: &InProcess, since: Ticks, now: Ticks) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    let late_us = function.clock().ns_of_ticks(now.since(since)) / 1000;
    let (registry, place) = function.place();
    let max_late_us = registry.max_late_us(place);
    if late_us > max_late_us.load(Ordering::Relaxed) {
        max_late_us.store(late_us, Ordering::Relaxed);
    }
    if late_us <= FAR_TOO_LATE_US {
        return;
    }
    registry.late_wakeups(place).fetch_add(1, Ordering::Relaxed);
    if !HAS_WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            late_us,
            "the thread that serves the NIC while the program does not poll got its processor \
             late: the machine is overloaded, or the program was stopped; peers may see timeouts \
             (said once; `ferroce counters` shows late_wakeups)"
        );
    }
}
