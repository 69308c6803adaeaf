//! Threads that have their turn and do not give it back.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use ferroce_platform::os::service::send_signal;

/// A thread that waits in the kernel for so long, and does nothing, is outside.
const PATIENCE: Duration = Duration::from_millis(100);
/// A thread that waits in a futex, or nobody knows where: perhaps only for another one of its
/// program, which has less luck with the processors of the machine.
const FUTEX_PATIENCE: Duration = Duration::from_secs(2);
/// First pause before a thread that computes is asked whether it goes round without end; the next
/// ones are twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// A thread that has computed for so long, and could not be proven to wait for memory, is mentioned.
const SPIN_PATIENCE: Duration = Duration::from_secs(5);
/// The library in the program looks, when it gets this, whether the thread goes round in a loop
/// that only a change of memory ends.
const PROBE_SIGNAL: i32 = 48;
/// What waits for another thread.
#[cfg(target_arch = "x86_64")]
const FUTEX: &str = "202";
#[cfg(not(target_arch = "x86_64"))]
const FUTEX: &str = "98";

/// What the kernel says of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    /// `R`, `S`, `D`, `T`…
    state: char,
    /// How often it has got a processor, and for how long.
    schedule: String,
}

/// What is to be thought of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Busy,
    /// It waits in the kernel, for something of which the world knows nothing.
    Outside,
    /// It has computed for long. Said once.
    Spinning,
    /// It has made calls for long, and its clock has stood. Said once.
    Standing,
}

/// A wait for a thread that has its turn.
#[derive(Debug)]
pub struct Stall {
    pid: u32,
    tid: u32,
    calls: Option<u64>,
    since: Instant,
    /// What it was like at a look, and when it was first like that.
    look: Option<(Look, Instant)>,
    pause: Duration,
    probed: Instant,
    is_mentioned: bool,
    /// The thread's clock, and since when it has stood there.
    clock: Option<(u64, Instant)>,
    is_standing: bool,
}

impl Stall {
    /// A wait from `now` on for thread `tid` of process `pid`.
    pub fn new(pid: u32, tid: u32, now: Instant) -> Self {
        Self {
            pid,
            tid,
            calls: None,
            since: now,
            look: None,
            pause: FIRST_PAUSE,
            probed: now,
            is_mentioned: false,
            clock: None,
            is_standing: false,
        }
    }

    /// Looks at the thread. It is outside if it sleeps and has not run since a look some time ago;
    /// while it computes it is asked now and then whether it goes round without end. `calls`: what
    /// it has done, by its clock.
    pub fn look(&mut self, calls: u64, clock_ps: u64, now: Instant) -> Verdict {
        if self.calls != Some(calls) {
            let (clock, is_standing) = (self.clock, self.is_standing);
            *self = Self::new(self.pid, self.tid, now);
            self.calls = Some(calls);
            self.is_standing = is_standing;
            self.clock = clock.filter(|(at_ps, _)| *at_ps == clock_ps);
            let (_, since) = *self.clock.get_or_insert((clock_ps, now));
            let is_long = now - since >= SPIN_PATIENCE;
            return match is_long && !std::mem::replace(&mut self.is_standing, is_long) {
                true => Verdict::Standing,
                false => Verdict::Busy,
            };
        }
        if now - self.since < FIRST_PAUSE {
            return Verdict::Busy;
        }
        let Some(look) = self.look_now() else {
            return Verdict::Busy;
        };
        if "SDTt".contains(look.state) {
            return self.is_outside(look, now);
        }
        self.look = None;
        if now - self.probed >= self.pause {
            self.probed = now;
            self.pause = (self.pause * 2).min(LAST_PAUSE);
            if self.takes_probes() {
                send_signal(self.pid, self.tid, PROBE_SIGNAL);
            }
        }
        let is_long = now - self.since >= SPIN_PATIENCE;
        match is_long && !std::mem::replace(&mut self.is_mentioned, is_long) {
            true => Verdict::Spinning,
            false => Verdict::Busy,
        }
    }

    fn is_outside(&mut self, look: Look, now: Instant) -> Verdict {
        let since = match &self.look {
            Some((last, since)) if *last == look => *since,
            _ => {
                self.look = Some((look, now));
                return Verdict::Busy;
            }
        };
        let patience = match self.system_call().as_deref() {
            None | Some(FUTEX) => FUTEX_PATIENCE,
            Some(_) => PATIENCE,
        };
        match now - since >= patience {
            true => Verdict::Outside,
            false => Verdict::Busy,
        }
    }

    /// Whether the signal has a handler, without which it would end the program.
    fn takes_probes(&self) -> bool {
        let status = self.read("status").unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask >> (PROBE_SIGNAL - 1) & 1 != 0)
    }

    /// The number of the system call in which the thread is.
    fn system_call(&self) -> Option<String> {
        let text = self.read("syscall")?;
        text.split_whitespace().next().map(str::to_owned)
    }

    fn look_now(&self) -> Option<Look> {
        let stat = self.read("stat")?;
        // The name of the program, in brackets, may contain anything.
        let (_, behind) = stat.rsplit_once(')')?;
        Some(Look {
            state: behind.trim_start().chars().next()?,
            schedule: self.read("schedstat").unwrap_or_default(),
        })
    }

    fn read(&self, name: &str) -> Option<String> {
        let Self { pid, tid, .. } = self;
        fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok()
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.look_now().map_or('?', |look| look.state);
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
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn who_sleeps_is_outside_once_he_has_slept_for_a_while() {
        let (tell, told) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            tell.send(own as u32).expect("somebody waits");
            // In a futex, until the test is over.
            let _ = is_over.recv();
        });
        let tid = told.recv().expect("it runs");
        thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        let mut stall = Stall::new(std::process::id(), tid, start);
        let times: Vec<_> = (1..1000)
            .map(|turn| (turn, start + Duration::from_millis(10) * turn))
            .take_while(|(_, now)| stall.look(7, 0, *now) == Verdict::Busy)
            .collect();
        let patience = FUTEX_PATIENCE.as_millis() as usize / 10;
        assert!((patience..patience + 10).contains(&times.len()));
        assert!(stall.to_string().contains("state S"));
        let later = start + FUTEX_PATIENCE * 2;
        assert_eq!(stall.look(8, 0, later), Verdict::Busy, "it has called");
        drop(end);
        thread.join().expect("sound");
    }

    /// Goal: a clock that stands while calls go on is told of, once. Method: looks every second.
    #[test]
    fn who_calls_on_and_on_at_one_time_is_told_of() {
        let start = Instant::now();
        let mut stall = Stall::new(std::process::id(), 0, start);
        let mut look = |second: u32, clock_ps| {
            let now = start + Duration::from_secs(1) * second;
            stall.look(u64::from(second), clock_ps, now)
        };
        let patience = SPIN_PATIENCE.as_secs() as u32;
        for second in 0..3 {
            assert_eq!(look(second, 5), Verdict::Busy);
        }
        for second in 3..3 + patience {
            assert_eq!(look(second, 6), Verdict::Busy, "its clock has gone on");
        }
        assert_eq!(look(3 + patience, 6), Verdict::Standing);
        assert_eq!(look(4 + patience, 6), Verdict::Busy, "said once");
    }
}
