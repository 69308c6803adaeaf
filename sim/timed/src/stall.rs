//! Threads that have their turn and do not pass it back.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use ferroce_platform::os::service::send_signal;

/// A thread that sleeps in the kernel for this long is outside.
const SLEEP_LIMIT: Duration = Duration::from_millis(100);
/// The same for a thread that waits in a futex, or in an unknown call: another thread of its
/// program, which has not been scheduled yet, may wake it.
const FUTEX_LIMIT: Duration = Duration::from_secs(2);
/// The same for a thread that waits for the machine: for a page of a file, or for memory. No other
/// program has a part in that, but a busy disk may take long.
const MACHINE_LIMIT: Duration = Duration::from_secs(10);
/// First pause before a computing thread is probed for an endless loop; each next pause is twice as
/// long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// A thread that has computed for this long, and could not be proven to wait for memory, is
/// reported. From then on it lets time pass in steps, with the next probes.
const SPIN_LIMIT: Duration = Duration::from_secs(5);
/// Pause before each of these probes.
const STUCK_PAUSE: Duration = Duration::from_millis(1);
/// Upon this signal the library in the program checks whether the thread is in a loop that only a
/// change of memory can end.
const PROBE_SIGNAL: i32 = 48;
/// System call that waits for another thread.
#[cfg(target_arch = "x86_64")]
const FUTEX: &str = "202";
#[cfg(not(target_arch = "x86_64"))]
const FUTEX: &str = "98";

/// State of a thread as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Observation {
    /// `R`, `S`, `D`, `T`…
    state: char,
    /// Number of times that it was scheduled, and its run time.
    schedule: String,
}

/// Judgement of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It makes progress.
    Busy,
    /// It waits in the kernel, for something that the world does not model.
    Outside,
    /// It has computed for long. Returned once.
    Spinning,
    /// It has made calls for a long time while its clock stood still. Returned once.
    Standing,
}

/// A wait for a thread that has its turn.
#[derive(Debug)]
pub struct Stall {
    pid: u32,
    tid: u32,
    calls: Option<u64>,
    since: Instant,
    /// State at the last check, and the time since which it has been the same.
    observation: Option<(Observation, Instant)>,
    pause: Duration,
    probed: Instant,
    is_mentioned: bool,
    /// True if the thread lets time pass with each probe.
    is_stuck: bool,
    /// The thread's clock, and the time since which it has stood still.
    clock: Option<(u64, Instant)>,
    is_standing: bool,
}

impl Stall {
    /// Starts a wait at `now` for thread `tid` of process `pid`.
    pub fn new(pid: u32, tid: u32, now: Instant) -> Self {
        Self {
            pid,
            tid,
            calls: None,
            since: now,
            observation: None,
            pause: FIRST_PAUSE,
            probed: now,
            is_mentioned: false,
            is_stuck: false,
            clock: None,
            is_standing: false,
        }
    }

    /// Notes that the thread lets time pass with each probe.
    pub fn set_stuck(&mut self) {
        self.is_stuck = true;
        self.is_mentioned = true;
    }

    /// Checks the thread. It is outside if it sleeps and has not run since an earlier check; while
    /// it computes, it is probed from time to time for an endless loop. `calls` is its call count.
    pub fn check(&mut self, calls: u64, clock_ps: u64, now: Instant) -> Verdict {
        if self.calls != Some(calls) {
            let (clock, is_standing, is_stuck) = (self.clock, self.is_standing, self.is_stuck);
            *self = Self::new(self.pid, self.tid, now);
            self.is_stuck = is_stuck;
            self.calls = Some(calls);
            self.is_standing = is_standing;
            self.clock = clock.filter(|(at_ps, _)| *at_ps == clock_ps);
            let (_, since) = *self.clock.get_or_insert((clock_ps, now));
            let is_long = now - since >= SPIN_LIMIT;
            return if is_long && !std::mem::replace(&mut self.is_standing, is_long) {
                Verdict::Standing
            } else {
                Verdict::Busy
            };
        }
        if now - self.since < self.first_pause() {
            return Verdict::Busy;
        }
        let Some(observation) = self.observe() else {
            return Verdict::Busy;
        };
        if "SDTt".contains(observation.state) {
            return self.is_outside(observation, now);
        }
        self.observation = None;
        if self.is_stuck || now - self.probed >= self.pause {
            self.probed = now;
            self.pause = (self.pause * 2).min(LAST_PAUSE);
            if self.takes_probes() {
                send_signal(self.pid, self.tid, PROBE_SIGNAL);
            }
        }
        let is_long = now - self.since >= SPIN_LIMIT;
        if is_long && !std::mem::replace(&mut self.is_mentioned, is_long) {
            Verdict::Spinning
        } else {
            Verdict::Busy
        }
    }

    fn first_pause(&self) -> Duration {
        if self.is_stuck {
            STUCK_PAUSE
        } else {
            FIRST_PAUSE
        }
    }

    fn is_outside(&mut self, observation: Observation, now: Instant) -> Verdict {
        let since = match &self.observation {
            Some((last, since)) if *last == observation => *since,
            _ => {
                self.observation = Some((observation, now));
                return Verdict::Busy;
            }
        };
        if now - since >= limit(observation.state, self.system_call().as_deref()) {
            Verdict::Outside
        } else {
            Verdict::Busy
        }
    }

    /// Returns true if the signal has a handler; without one it would end the program.
    fn takes_probes(&self) -> bool {
        let status = self.read("status").unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask >> (PROBE_SIGNAL - 1) & 1 != 0)
    }

    /// Returns the number of the system call in which the thread is.
    fn system_call(&self) -> Option<String> {
        let text = self.read("syscall")?;
        text.split_whitespace().next().map(str::to_owned)
    }

    fn observe(&self) -> Option<Observation> {
        let stat = self.read("stat")?;
        // The name of the program, in brackets, may contain anything.
        let (_, behind) = stat.rsplit_once(')')?;
        Some(Observation {
            state: behind.trim_start().chars().next()?,
            schedule: self.read("schedstat").unwrap_or_default(),
        })
    }

    fn read(&self, name: &str) -> Option<String> {
        let Self { pid, tid, .. } = self;
        fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok()
    }
}

/// Returns how long a thread may sleep before it is outside, by its state and its system call.
fn limit(state: char, system_call: Option<&str>) -> Duration {
    match (state, system_call) {
        ('D', _) => MACHINE_LIMIT,
        (_, None | Some(FUTEX)) => FUTEX_LIMIT,
        (_, Some(_)) => SLEEP_LIMIT,
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.observe().map_or('?', |observation| observation.state);
        let channel = self.read("wchan").unwrap_or_default();
        let system_call = self.read("syscall").unwrap_or_default();
        let number = system_call.split_whitespace().next().unwrap_or("unknown");
        write!(
            f,
            "thread {}, state {state}, system call {number}",
            self.tid
        )?;
        match channel.as_str() {
            "" | "0" => Ok(()),
            channel => write!(f, " ({channel})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use ferroce_test_support::{TIMEOUT, eventually};

    use super::*;

    #[test]
    fn a_thread_that_sleeps_for_a_while_is_outside() {
        let (report, thread_id) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            report.send(own as u32).expect("the test waits");
            // Waits in a futex until the test is over.
            let _ = is_over.recv();
        });
        let tid = thread_id.recv().expect("it runs");
        eventually("the thread waits in its futex", TIMEOUT, || {
            let observed = Stall::new(std::process::id(), tid, Instant::now());
            observed.to_string().contains("state S")
        });
        let start = Instant::now();
        let mut stall = Stall::new(std::process::id(), tid, start);
        let times: Vec<_> = (1..1000)
            .map(|turn| (turn, start + Duration::from_millis(10) * turn))
            .take_while(|(_, now)| stall.check(7, 0, *now) == Verdict::Busy)
            .collect();
        let limit = FUTEX_LIMIT.as_millis() as usize / 10;
        assert!((limit..limit + 10).contains(&times.len()));
        assert!(stall.to_string().contains("state S"));
        let later = start + FUTEX_LIMIT * 2;
        assert_eq!(stall.check(8, 0, later), Verdict::Busy, "it has called");
        drop(end);
        thread.join().expect("sound");
    }

    /// Goal: a page fault on a busy disk is no wait for another program, even if it takes seconds.
    #[test]
    fn waits_for_the_machine_may_take_longer_than_sleeps() {
        const PAGE_FAULT: &str = "-1";
        const READ: &str = "0";
        assert_eq!(limit('D', Some(PAGE_FAULT)), MACHINE_LIMIT);
        assert_eq!(limit('D', Some(READ)), MACHINE_LIMIT);
        assert_eq!(limit('S', Some(READ)), SLEEP_LIMIT);
        assert_eq!(limit('S', Some(FUTEX)), FUTEX_LIMIT);
    }

    /// Goal: a clock that stands still while calls continue is reported once. Method: check every
    /// second.
    #[test]
    fn calls_without_time_are_reported() {
        let start = Instant::now();
        let mut stall = Stall::new(std::process::id(), 0, start);
        let mut check = |second: u32, clock_ps| {
            let now = start + Duration::from_secs(1) * second;
            stall.check(u64::from(second), clock_ps, now)
        };
        let limit = SPIN_LIMIT.as_secs() as u32;
        for second in 0..3 {
            assert_eq!(check(second, 5), Verdict::Busy);
        }
        for second in 3..3 + limit {
            assert_eq!(check(second, 6), Verdict::Busy, "its clock has gone on");
        }
        assert_eq!(check(3 + limit, 6), Verdict::Standing);
        assert_eq!(check(4 + limit, 6), Verdict::Busy, "said once");
    }
}
