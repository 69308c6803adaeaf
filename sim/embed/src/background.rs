//! The thread that serves a function whose application does not poll.
//!
//! While the application polls, the thread only checks now and then whether it still does.
//! Otherwise it runs the model until nothing has moved for a while, then sleeps until a peer wakes
//! it, a timer of the model is due, or the application has left work.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;

use ferroce_platform::os::{self, TimeSlices};

use crate::clock::{Clock, Ticks};
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
/// Yields without work between them after which the thread is idle.
const IDLE_YIELDS: u32 = 8;
/// A yield that takes longer than this has let another thread run.
const SWITCH_NS: u64 = 1_500;
/// Yields with a switch, within [`SHARED_WINDOW_NS`], that show that the processor is shared with a
/// thread that yields, too: the peer's, which polls. Each of its requests takes two switches.
const SHARED_YIELDS: u32 = 16;
const SHARED_WINDOW_NS: u64 = 1_000_000;
/// Work in as many turns, up to which it is better to let the other thread run soon: a request in
/// each, for which a peer waits. Peers that send many have more of them ready in a later turn.
const BRIEF_WORK_NS: u64 = 3_000 * SHARED_YIELDS as u64;
/// What does not pay is not tried again for this time, and for twice the time if it does not pay
/// again soon after. A program that starts on this processor makes it late once; it should not
/// cost each request of its peers a wake-up for long.
const FIRST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 50_000_000;
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
    os::request_time_slices(TimeSlices::Short);
    // The memory that it accesses may be unmapped.
    os::faults::allow();
    let clock = function.clock();
    let spin_ticks = clock.ticks_of_ns(SPIN_NS);
    let mut turns = Turns::new(clock);
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
                Some(woken_at) => {
                    let now = clock.ticks();
                    turns.note(function.yields().foreign_ticks_since(woken_at, now), now);
                }
                None => turns.reset(),
            }
        }
    }
}

/// A time in which something is not tried. It doubles, up to a limit, with each pause that begins
/// soon after the last one.
struct Pause {
    first_ticks: u64,
    longest_ticks: u64,
    last_ticks: u64,
    ends_at: Ticks,
}

impl Pause {
    fn new(clock: &Clock) -> Self {
        Self {
            first_ticks: clock.ticks_of_ns(FIRST_PAUSE_NS),
            longest_ticks: clock.ticks_of_ns(LONGEST_PAUSE_NS),
            last_ticks: 0,
            ends_at: Ticks(0),
        }
    }

    fn begin(&mut self, now: Ticks) {
        let is_soon = now.since(self.ends_at) < self.longest_ticks;
        self.last_ticks = if is_soon {
            (2 * self.last_ticks).clamp(self.first_ticks, self.longest_ticks)
        } else {
            self.first_ticks
        };
        self.ends_at = Ticks(now.0.saturating_add(self.last_ticks));
    }

    fn has_ended(&self, now: Ticks) -> bool {
        now >= self.ends_at
    }
}

/// Latency with which this thread gets a processor.
///
/// Beside a program that spins without sleeping (on memory, for example) it may have to wait until
/// that program has used up its time slice, which takes milliseconds: when it yields, and often
/// when it is woken. Short time slices help. Beside one that yields, each turn takes a switch, and
/// many yields with short time slices. Then another processor is better.
struct Turns {
    late_ticks: u64,
    switch_ticks: u64,
    /// Sleeping is better.
    no_yields: Pause,
    /// Another processor may be no better.
    no_moves: Pause,
    window_ticks: u64,
    window_begin: Ticks,
    /// Yields since then that have let another thread run.
    shared_yields: u32,
    turn_begin: Ticks,
    /// End of the last work.
    worked_until: Ticks,
    /// Work in the turns that these yields have ended.
    work_ticks: u64,
    brief_ticks: u64,
    /// When this thread has noted its processor last.
    noted_at: Cell<Ticks>,
    /// Yields since the last work.
    idle_yields: u32,
    slices: TimeSlices,
    processors: Option<os::Processors>,
    has_moved: bool,
}

impl Turns {
    fn new(clock: &Clock) -> Self {
        Self {
            late_ticks: clock.ticks_of_ns(LATE_NS),
            switch_ticks: clock.ticks_of_ns(SWITCH_NS),
            no_yields: Pause::new(clock),
            no_moves: Pause::new(clock),
            window_ticks: clock.ticks_of_ns(SHARED_WINDOW_NS),
            window_begin: Ticks(0),
            shared_yields: 0,
            turn_begin: Ticks(0),
            worked_until: Ticks(0),
            work_ticks: 0,
            brief_ticks: clock.ticks_of_ns(BRIEF_WORK_NS),
            noted_at: Cell::new(Ticks(0)),
            idle_yields: 0,
            slices: TimeSlices::Short,
            processors: os::Processors::of_this_thread(),
            has_moved: false,
        }
    }

    /// Notes that this thread has a processor at `now`, which another program had for the ticks
    /// before.
    fn note(&mut self, foreign_ticks: u64, now: Ticks) {
        if foreign_ticks <= self.late_ticks {
            return;
        }
        self.request(TimeSlices::Short);
        if !self.try_move(now) {
            self.no_yields.begin(now);
        }
    }

    /// Yields, if that pays.
    fn try_yield(&mut self, function: &InProcess, now: Ticks) -> bool {
        if !self.no_yields.has_ended(now) {
            return false;
        }
        self.idle_yields += 1;
        if self.idle_yields == IDLE_YIELDS && function.yields().are_noted() {
            // With short ones it would have many turns for each one of a thread that works.
            self.request(TimeSlices::Normal);
        }
        let yielded = function.yields().yield_processor(now);
        diagnose(function, now);
        self.noted_at.set(yielded.ended);
        self.note(yielded.foreign_ticks, yielded.ended);
        self.note_switch(now, yielded.ended);
        true
    }

    /// Notes that the model has worked until `now`.
    fn note_work(&mut self, now: Ticks) {
        self.worked_until = now;
        self.idle_yields = 0;
    }

    /// Notes a yield from `since` until `now`.
    fn note_switch(&mut self, since: Ticks, now: Ticks) {
        if now.since(since) <= self.switch_ticks {
            return;
        }
        if now.since(self.window_begin) > self.window_ticks {
            self.window_begin = now;
            self.shared_yields = 0;
            self.work_ticks = 0;
        }
        self.shared_yields += 1;
        self.work_ticks += self.worked_until.since(self.turn_begin);
        self.turn_begin = now;
        if self.shared_yields < SHARED_YIELDS {
            return;
        }
        self.shared_yields = 0;
        let is_brief = std::mem::take(&mut self.work_ticks) <= self.brief_ticks;
        if !self.try_move(now) {
            self.request(match is_brief {
                true => TimeSlices::Normal,
                false => TimeSlices::Short,
            });
        }
    }

    fn request(&mut self, slices: TimeSlices) {
        if self.slices != slices {
            self.slices = slices;
            os::request_time_slices(slices);
        }
    }

    /// Moves to another processor, if there is one and the last move was not a moment ago.
    fn try_move(&mut self, now: Ticks) -> bool {
        let Some(processors) = &self.processors else {
            return false;
        };
        if !self.no_moves.has_ended(now) || !processors.leave_this_one() {
            return false;
        }
        self.no_moves.begin(now);
        self.has_moved = true;
        true
    }

    /// Nothing has happened for long: any processor will do.
    fn reset(&mut self) {
        self.request(TimeSlices::Short);
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
            turns.note_work(now);
            function.yields().note(now, &turns.noted_at);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a pause is short after one late turn, and long while it is late again and again.
    #[test]
    fn pauses_double_up_to_a_limit() {
        let clock = Clock::start();
        let first_ticks = clock.ticks_of_ns(FIRST_PAUSE_NS);
        let longest_ticks = clock.ticks_of_ns(LONGEST_PAUSE_NS);
        let mut pause = Pause::new(&clock);
        let mut now = clock.ticks();
        assert!(pause.has_ended(now));
        let mut expected = first_ticks;
        for _ in 0..10 {
            pause.begin(now);
            assert_eq!(pause.last_ticks, expected);
            assert!(!pause.has_ended(now));
            now = pause.ends_at;
            assert!(pause.has_ended(now));
            expected = (2 * expected).min(longest_ticks);
        }
        assert_eq!(pause.last_ticks, longest_ticks);
        pause.begin(Ticks(now.0 + longest_ticks));
        assert_eq!(pause.last_ticks, first_ticks);
    }
}
