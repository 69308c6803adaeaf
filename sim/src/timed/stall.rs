//! Threads that have their turn and do not give it back.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// A thread that has done nothing for so long is looked at.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the kernel says of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    /// `R`, `S`, `D`, `T`…
    state: char,
    /// How often it has got a processor, and for how long.
    schedule: String,
}

/// A wait for a thread that has its turn.
#[derive(Debug)]
pub struct Stall {
    pid: u32,
    tid: u32,
    calls: Option<u64>,
    since: Instant,
    look: Option<Look>,
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
        }
    }

    /// Whether the thread waits in the kernel, for something of which the world knows nothing: it
    /// sleeps, and has not run since the look before. `calls`: how many it has made.
    pub fn is_outside(&mut self, calls: u64, now: Instant) -> bool {
        if self.calls != Some(calls) {
            self.calls = Some(calls);
            self.since = now;
            self.look = None;
            return false;
        }
        if now - self.since < PATIENCE {
            return false;
        }
        let look = self.look_now();
        let is_waiting = look
            .as_ref()
            .is_some_and(|look| "SDTt".contains(look.state));
        if is_waiting && self.look.is_some() && self.look == look {
            return true;
        }
        self.look = look;
        self.since = now;
        false
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
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread;

    #[test]
    fn who_sleeps_is_outside_and_who_computes_is_not() {
        let (tid, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let computes = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                tid.store(
                    rustix::thread::gettid().as_raw_nonzero().get() as u32,
                    Ordering::SeqCst,
                );
                while computes.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                while !is_over.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_secs(1));
                }
            });
            while tid.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            let start = Instant::now();
            let mut stall = Stall::new(std::process::id(), tid.load(Ordering::SeqCst), start);
            let mut looks = |count: u64| {
                (1..=count).any(|turn| stall.is_outside(7, start + PATIENCE * turn as u32))
            };
            assert!(!looks(5), "it computes");
            computes.store(false, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(100));
            assert!(looks(20), "it sleeps");
            assert!(!stall.is_outside(8, start + PATIENCE * 30), "it has called");
            is_over.store(true, Ordering::SeqCst);
        });
    }
}
