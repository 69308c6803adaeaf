//! The thread that serves a function whose application does not poll.
//!
//! While the application polls it only looks now and then whether that is still so. Otherwise it
//! runs the model until nothing has moved for a while, then sleeps until a peer wakes it, a timer
//! of the model is due, or the application has left something to do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::JoinHandle;

use crate::clock::Ticks;
use crate::in_process::InProcess;
use crate::os;

/// How often it looks whether the application still polls.
const POLLED_SLEEP_NS: u64 = 1_000_000;
/// How long it sleeps at most when nothing happens.
const IDLE_SLEEP_NS: u64 = 250_000_000;
/// How long it keeps looking for frames after the last one.
const SPIN_NS: u64 = 40_000;
/// A yield that took longer than this was one to a program that does not yield itself.
const LONG_YIELD_NS: u64 = 200_000;
/// For how long it does not yield then.
const YIELD_PAUSE_NS: u64 = 50_000_000;

/// Starts the thread. No signal of the application is ever handled on it.
///
/// # Errors
/// That of the system.
pub fn start(function: Arc<InProcess>) -> io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name("ferroce-bg".to_owned());
    os::with_signals_blocked(|| builder.spawn(move || run(&function)))
}

fn run(function: &InProcess) {
    os::prefer_short_turns();
    let clock = function.clock();
    let spin_ticks = clock.ticks_of_ns(SPIN_NS);
    let mut yields = Yields {
        long_ticks: clock.ticks_of_ns(LONG_YIELD_NS),
        pause_ticks: clock.ticks_of_ns(YIELD_PAUSE_NS),
        not_before: Ticks(0),
    };
    while !function.is_stopping() {
        if function.is_polled(clock.ticks()) {
            sleep(function, POLLED_SLEEP_NS, false);
        } else if serve(function, spin_ticks, &mut yields) {
            sleep(function, IDLE_SLEEP_NS, true);
        }
    }
}

/// Whether it pays to yield instead of sleeping.
///
/// Who yields beside a program that spins (on memory, say) runs again when that has used up its
/// turn, which takes milliseconds; who is woken from sleep runs at once.
struct Yields {
    long_ticks: u64,
    pause_ticks: u64,
    not_before: Ticks,
}

impl Yields {
    /// Yields, if it pays.
    fn try_yield(&mut self, function: &InProcess, now: Ticks) -> bool {
        if now < self.not_before {
            return false;
        }
        os::yield_processor();
        let back = function.clock().ticks();
        if back.since(now) > self.long_ticks {
            self.not_before = Ticks(back.0 + self.pause_ticks);
        }
        true
    }
}

/// Runs the model until it is idle. False: the application polls again, or everything ends.
fn serve(function: &InProcess, spin_ticks: u64, yields: &mut Yields) -> bool {
    let mut last_work = function.clock().ticks();
    loop {
        let worked = function.try_run();
        let now = function.clock().ticks();
        if function.is_polled(now) || function.is_stopping() {
            return false;
        }
        if worked {
            last_work = now;
        } else if now.since(last_work) > spin_ticks || !yields.try_yield(function, now) {
            return true;
        }
    }
}

/// Sleeps. `must_look`: the application does not poll, so nobody else sees a frame that came
/// before this thread could be woken for it.
fn sleep(function: &InProcess, limit_ns: u64, must_look: bool) {
    let armed = function.armed();
    armed.store(1, Ordering::SeqCst);
    // The other half of the fence in the sender's check: see `fabric::port`.
    fence(Ordering::SeqCst);
    let limit_ns = match must_look.then(|| function.may_sleep()) {
        Some(Some(false)) => 0,
        // The application is inside the model; it may leave something behind.
        Some(None) => POLLED_SLEEP_NS,
        Some(Some(true)) | None => limit_ns,
    };
    let time_ns = if limit_ns == 0 {
        0
    } else {
        function.sleep_time_ns(limit_ns)
    };
    if time_ns > 0 && !function.is_stopping() {
        os::futex_wait(armed, 1, time_ns);
    }
    armed.store(0, Ordering::SeqCst);
    function.woke();
}
