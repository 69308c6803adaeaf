//! Child processes in simulated time.
//!
//! The child of a fork joins the world before its parent continues, and so does a program that the
//! parent starts otherwise. A child ends at the simulated time at which it calls `exit`; a parent
//! that waits for it continues at that time. A child that does not join, such as one that is linked
//! statically, runs in real time, and its parent's waits for it are real, too.

#![expect(
    unsafe_code,
    reason = "waits for processes that the kernel does not reap"
)]

use std::ffi::c_int;
use std::time::Duration;

use ferroce_timed_protocol::children::{CHILDREN_ADDRESS, Children, Found};
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;

use crate::os::real_ns;
use crate::own::{Ended, Own};
use crate::{inner_pipes, joined, real, relatives, trust};

/// Real time that a parent waits for a child to join.
const LIMIT_NS: u64 = 2_000_000_000;
/// After each of these, the parent checks that the child lives.
const PERIOD: Duration = Duration::from_millis(20);
/// Any bit: each wake-up of a parent is meant for it.
const ANY: u32 = u32::MAX;

fn children() -> Option<&'static Children> {
    joined::pages().map(|pages| &pages.program.children)
}

/// Returns how many children have joined so far, before the start of another one.
pub fn joined_so_far() -> u32 {
    children().map_or(0, Children::joined)
}

/// Waits until one more child has joined than `before`. `pid`: its process, if that is known.
pub fn await_child(before: u32, pid: Option<libc::pid_t>) {
    let Some(children) = children().filter(|_| joined::is_running()) else {
        return;
    };
    let begun_ns = real_ns();
    while children.joined() == before {
        let has_ended = pid.is_some_and(has_ended) && children.joined() == before;
        if has_ended || real_ns() - begun_ns > LIMIT_NS || joined::has_ended() {
            inner_pipes::note_outsider();
            relatives::note_other_child();
            trust::note_child();
            return;
        }
        children.await_more_than(before, PERIOD);
    }
    relatives::note_child();
}

/// Returns true if a child has ended; it can be reaped afterwards.
fn has_ended(pid: libc::pid_t) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `waitid` writes a local; zero is valid for its integers.
    unsafe {
        let mut information: libc::siginfo_t = std::mem::zeroed();
        let result = real::waitid(
            libc::P_PID,
            pid as libc::id_t,
            &raw mut information,
            options,
        );
        result != 0 || information.si_pid() == pid
    }
}

/// Children for which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Any of them.
    Any,
    /// This one.
    One(u32),
    /// The children in a process group, which the world does not know.
    Group,
}

impl Wanted {
    /// Returns what the first argument of `waitpid` means.
    pub fn of_pid(pid: libc::pid_t) -> Self {
        match u32::try_from(pid) {
            Ok(0) => Self::Group,
            Ok(pid) => Self::One(pid),
            Err(_) if pid == -1 => Self::Any,
            Err(_) => Self::Group,
        }
    }
}

/// Result of a wait for children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// This one has ended, and the kernel has its status.
    Child(u32),
    /// None has ended, and the thread does not wait.
    None,
    /// A signal has interrupted the wait.
    Interrupted,
    /// The world does not know the child: the kernel is to be asked.
    Unknown,
}

/// Waits until a child ends, in simulated time. `options`: of `waitpid`.
pub fn wait(own: &Own, wanted: Wanted, options: c_int) -> Awaited {
    let pid = match wanted {
        Wanted::Any => None,
        Wanted::One(pid) => Some(pid),
        Wanted::Group => return Awaited::Unknown,
    };
    let Some(children) = children() else {
        return Awaited::Unknown;
    };
    own.catch_up();
    loop {
        match children.find(pid) {
            Found::Ended(child) => return Awaited::Child(child),
            Found::Unknown => return Awaited::Unknown,
            Found::Running if options & libc::WNOHANG != 0 => {
                own.yield_turn();
                return Awaited::None;
            }
            Found::Running => {}
        }
        let wait = Wait::OnAddress {
            address: CHILDREN_ADDRESS,
            bits: ANY,
        };
        match own.wait_for_wake(&wait, NEVER_PS) {
            Ended::Interrupted { restarts: false } => return Awaited::Interrupted,
            Ended::NoWorld => return Awaited::Unknown,
            _ => {}
        }
    }
}

/// Notes that the program has reaped a child.
pub fn note_reaped(pid: u32) {
    if let Some(children) = children() {
        children.remove(pid);
    }
}
