//! The thread that serves a function whose application does not poll.
//!
//! While the application polls, the thread only checks now and then whether it still does.
//! Otherwise it runs the model until nothing has moved for a while, then sleeps until a peer wakes
//! it, a timer of the model is due, or the application has left work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;

use ferroce_platform::os;

use crate::clock::Ticks;
use crate::in_process::InProcess;

/// Period of checks whether the application still polls.
const POLLED_SLEEP_NS: u64 = 1_000_000;
/// Shortest sleep while the application polls or is inside the model, even if a timer of the model
/// is due: the application handles it. While the wire is full there always is one; and the
/// application may need this thread's processor to get on. The time doubles, up to
/// [`POLLED_SLEEP_NS`], each time that the application still polls.
const LEAST_SHARED_SLEEP_NS: u64 = 100_000;
/// Longest sleep when nothing happens.
const IDLE_SLEEP_NS: u64 = 250_000_000;
/// How long the thread keeps checking for frames after the last one.
const SPIN_NS: u64 = 40_000;
/// A processor that comes later than this is shared with a process that does not yield.
const LATE_NS: u64 = 200_000;
/// How long the thread does not yield then.
const YIELD_PAUSE_NS: u64 = 50_000_000;
/// A processor that comes later than this is reported to the user: peers see timeouts.
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
    os::prefer_short_turns();
    // The memory that it accesses may be unmapped.
    os::faults::allow();
    let clock = function.clock();
    let spin_ticks = clock.ticks_of_ns(SPIN_NS);
    let mut turns = Turns {
        late_ticks: clock.ticks_of_ns(LATE_NS),
        pause_ticks: clock.ticks_of_ns(YIELD_PAUSE_NS),
        yields_from: Ticks(0),
        processors: os::Processors::of_this_thread(),
        has_moved: false,
    };
    let mut least_ns = LEAST_SHARED_SLEEP_NS;
    while !function.is_stopping() {
        function.check_health(clock.ticks());
        if function.is_polled(clock.ticks()) {
            sleep(function, least_ns, POLLED_SLEEP_NS, false);
            least_ns = (2 * least_ns).min(POLLED_SLEEP_NS);
            continue;
        }
        least_ns = LEAST_SHARED_SLEEP_NS;
        if serve(function, spin_ticks, &mut turns) {
            match sleep(function, least_ns, IDLE_SLEEP_NS, true) {
                Some(woken_at) => turns.note(function, woken_at),
                None => turns.reset(),
            }
        }
    }
}

/// Latency with which this thread gets a processor.
///
/// Beside a program that spins without sleeping (on memory, for example) it may have to wait until
/// that program has used up its time slice, which takes milliseconds: when it yields, and often
/// when it is woken. Then another processor is better.
struct Turns {
    late_ticks: u64,
    pause_ticks: u64,
    /// No yield before this time: sleeping is better.
    yields_from: Ticks,
    processors: Option<os::Processors>,
    has_moved: bool,
}

impl Turns {
    /// Notes that this thread has a processor now and could have had it at `since`.
    fn note(&mut self, function: &InProcess, since: Ticks) {
        let now = function.clock().ticks();
        if now.since(since) <= self.late_ticks {
            return;
        }
        self.yields_from = Ticks(now.0.saturating_add(self.pause_ticks));
        if let Some(processors) = &self.processors {
            processors.leave_this_one();
            self.has_moved = true;
        }
    }

    /// Yields, if that pays.
    fn try_yield(&mut self, function: &InProcess, now: Ticks) -> bool {
        if now < self.yields_from {
            return false;
        }
        os::yield_processor();
        diagnose(function, now);
        self.note(function, now);
        true
    }

    /// Nothing has happened for long: any processor will do.
    fn reset(&mut self) {
        if let Some(processors) = self.processors.as_ref().filter(|_| self.has_moved) {
            processors.allow_all();
            self.has_moved = false;
        }
    }
}

/// Runs the model until it is idle. Returns false if the application polls again, or the function
/// ends.
fn serve(function: &InProcess, spin_ticks: u64, turns: &mut Turns) -> bool {
    let mut last_work = function.clock().ticks();
    loop {
        let worked = function.try_run_once();
        let now = function.clock().ticks();
        function.check_health(now);
        if function.is_polled(now) || function.is_stopping() {
            return false;
        }
        if worked {
            last_work = now;
        } else if now.since(last_work) > spin_ticks || !turns.try_yield(function, now) {
            return true;
        }
    }
}

/// Sleeps, at least `shared_ns` if the application is in charge of the model. `must_look`: the
/// application does not poll, so this thread alone sees frames that came before it could be woken
/// for them. Returns the time of a wake-up, if it was woken.
fn sleep(function: &InProcess, shared_ns: u64, limit_ns: u64, must_look: bool) -> Option<Ticks> {
    let armed = function.armed();
    armed.store(1, Ordering::SeqCst);
    // Pairs with the fence in the sender's check: see `crate::port`.
    fence(Ordering::SeqCst);
    let (least_ns, limit_ns) = match must_look.then(|| function.may_sleep()) {
        Some(Some(false)) => (0, 0),
        Some(Some(true)) => (0, limit_ns),
        // The application is inside the model: it handles what is due, and may leave work.
        Some(None) => (shared_ns, POLLED_SLEEP_NS),
        None => (shared_ns, limit_ns),
    };
    let time_ns = match limit_ns {
        0 => 0,
        limit_ns => function.sleep_time_ns(least_ns, limit_ns),
    };
    let clock = function.clock();
    let due = Ticks(clock.ticks().0.saturating_add(clock.ticks_of_ns(time_ns)));
    if time_ns > 0 && !function.is_stopping() {
        os::futex_wait(armed, 1, time_ns);
    }
    let was_woken = armed.swap(0, Ordering::SeqCst) == 0;
    function.woke();
    let woken_at = (was_woken && time_ns > 0).then(|| function.woken_at());
    diagnose(function, woken_at.unwrap_or(due));
    woken_at
}

/// Counts, and reports once, that this thread could have had its processor at `since` and got it
/// far too late. Peers that wait for the function then see a failed peer.
fn diagnose(function: &InProcess, since: Ticks) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    let clock = function.clock();
    let late_us = clock.ns_of_ticks(clock.ticks().since(since)) / 1000;
    let (registry, place) = function.place();
    if late_us > registry.max_late_us(place).load(Ordering::Relaxed) {
        registry
            .max_late_us(place)
            .store(late_us, Ordering::Relaxed);
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
