//! The processes of programs, as the kernel knows them.
//!
//! A process may live on after the end of its connection: it executes another program, and joins
//! again, or it has closed the connection and left the world. Its turn stays with it meanwhile, so
//! simulated time waits for it.

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::program::Program;

/// A process that has not joined again by then has left the world.
const LIMIT: Duration = Duration::from_secs(5);

/// Period of checks that a process has taken a signal.
const PERIOD: Duration = Duration::from_micros(100);

/// A process between two programs.
#[derive(Debug)]
struct Executing {
    program: Arc<Program>,
    process: OwnedFd,
    until: Instant,
}

/// The processes that may join again. Each had a connection, so their number is bounded by the
/// number of processes.
#[derive(Debug, Default)]
pub struct ExecutingProcesses(Vec<Executing>);

/// Opens a process. `None`: it has ended, or belongs to another PID namespace.
fn open(program: &Program) -> Option<OwnedFd> {
    let pid = i32::try_from(program.pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

impl ExecutingProcesses {
    /// Adds a program whose connection has ended. Returns false if its process has ended, too.
    pub fn add(&mut self, program: &Arc<Program>, now: Instant) -> bool {
        let process = open(program);
        let is_alive = process.is_some();
        self.0.extend(process.map(|process| Executing {
            program: Arc::clone(program),
            process,
            until: now + LIMIT,
        }));
        is_alive
    }

    /// Returns what becomes readable when one of the processes ends.
    pub fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let all = self.0.iter();
        all.map(|executing| PollFd::new(&executing.process, PollFlags::IN))
    }

    /// Returns the programs.
    pub fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.0.iter().map(|executing| &executing.program)
    }

    /// Returns the time limit of the next of them.
    pub fn next_limit(&self, now: Instant) -> Option<Duration> {
        let limits = self.0.iter();
        let limits = limits.map(|executing| executing.until.saturating_duration_since(now));
        limits.min()
    }

    /// Takes the program of a process that joins again.
    pub fn take(&mut self, pid: u32) -> Option<Arc<Program>> {
        let place = self.programs().position(|program| program.pid == pid)?;
        Some(self.0.swap_remove(place).program)
    }

    /// Takes the programs whose processes have ended, or have not joined again in time.
    pub fn take_ended(&mut self, now: Instant) -> Vec<Arc<Program>> {
        let is_over = |executing: &mut Executing| {
            let has_ended = has_ended(&executing.process, Duration::ZERO);
            let has_left = !has_ended && executing.until <= now;
            if has_left {
                executing.program.note_left();
            }
            if has_ended || has_left {
                // It was killed, or what it executes is not in the world.
                executing.program.note_departure("another program");
            }
            has_ended || has_left
        };
        let ended = self.0.extract_if(.., is_over);
        ended.map(|executing| executing.program).collect()
    }
}

/// Returns true if a process ends within `limit`.
fn has_ended(process: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0)
}

/// Waits until the process of a program that has exited has ended, for `limit` at most.
pub fn await_end(program: &Program, limit: Duration) {
    if let Some(process) = open(program) {
        has_ended(&process, limit);
    }
}

/// Returns the parent of a process.
pub fn parent_of(pid: u32) -> Option<u32> {
    field_of(pid, "PPid:")?.parse().ok()
}

/// Waits until the kernel has given a program the signal for the end of a child, for `limit` at most.
/// A program whose threads block the signal gets it later.
pub fn await_signal(parent: &Program, limit: Duration) {
    let Some(process) = open(parent) else { return };
    // The kernel marks a process as ended before it signals the parent, with a lock that this call
    // needs, too.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let _ = waitid(WaitId::All, options);
    let of_ends = 1_u64 << (Signal::CHILD.as_raw() - 1);
    let set_of = |name| {
        let set = field_of(parent.pid, name);
        set.and_then(|set| u64::from_str_radix(&set, 16).ok())
            .unwrap_or(0)
    };
    let is_under_way = || set_of("ShdPnd:") & !set_of("SigBlk:") & of_ends != 0;
    let until = Instant::now() + limit;
    while is_under_way() && Instant::now() < until && !has_ended(&process, PERIOD) {}
}

/// Returns a field of the status of a process, or of its first thread.
fn field_of(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(field.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_the_parent_of_a_process() {
        let parent = std::os::unix::process::parent_id();
        assert_eq!(parent_of(std::process::id()), Some(parent));
        assert_eq!(parent_of(0), None, "there is no such process");
    }
}
