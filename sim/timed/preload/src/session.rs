//! Lets the program join its world and leave it.
#![expect(unsafe_code, reason = "hooks of the C library for forks and the exit")]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{self, Relaxed};

use ferroce_timed_protocol::control::Admission;

use rustix::io::Errno;
use rustix::thread::sched_yield;

use crate::inner_pipes;
use crate::inside::Inside;
use crate::joined::{self, NotBegun};
use crate::membership::{give_stores, leave, request_page};
use crate::thread::state;
use crate::waits::sleepers;
use crate::{
    children, connection, faults, membership, sleeper_counts, spin, thread_table, timers, trust,
    turn, vdso, world_end,
};
#[cfg(target_arch = "x86_64")]
use crate::{tsc, tsc_trap};

/// Joins the world that `FERROCE_WORLD` names, on the host that `FERROCE_HOST` names, and takes a
/// turn. `admission`: which programs may join.
///
/// # Errors
/// The reason: `ENODEV` if the variable is not set, `EPERM` if the world belongs to another user,
/// `EADDRNOTAVAIL` if there is no such host, or no host has such a name, `EADDRINUSE` if it has a
/// program, `ENOTCONN` if only members may join.
pub fn join(admission: Admission) -> Result<(), Errno> {
    loop {
        match joined::begin() {
            Ok(()) => break,
            Err(NotBegun::Joined) if joined::has_ended() => return Err(Errno::CONNRESET),
            Err(NotBegun::Joined) => {
                // The calling thread takes its turn.
                drop(Inside::enter());
                return Ok(());
            }
            Err(NotBegun::Joining) => sched_yield(),
        }
    }
    let state = state();
    state.enter();
    let joined = connection::open(admission).and_then(|()| {
        let page = request_page(state)?;
        take_time();
        joined::succeed();
        if turn::wait_for_turn(page) {
            // A child must not begin before its parent started it.
            let since_ps = joined::pages().map_or(0, |pages| pages.program.since_ps.load(Relaxed));
            page.clock_ps.fetch_max(since_ps, Relaxed);
            Ok(())
        } else {
            Err(Errno::CONNRESET)
        }
    });
    if !joined::is_joined() {
        connection::forget();
        joined::forget();
    }
    state.leave();
    joined
}

/// Begins simulated time for the program.
fn take_time() {
    static HOOKS: std::sync::Once = std::sync::Once::new();
    HOOKS.call_once(|| {
        // SAFETY: `pthread_atfork` gets a function without arguments. On failure (no memory)
        // children of a fork keep simulated time; nothing can be done about it.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(begin_child));
        }
        trust::prepare();
    });
    inner_pipes::join();
    turn::prepare();
    faults::install();
    vdso::replace();
    #[cfg(target_arch = "x86_64")]
    tsc::prepare();
    joined::note_process();
    if has_other_threads() {
        inner_pipes::note_outsider();
    }
    timers::begin();
    spin::install();
    world_end::signal_the_end();
    membership::take_time();
}

/// Returns true if the program has started threads already: they stay outside.
fn has_other_threads() -> bool {
    /// Links of a folder without folders in it.
    const EMPTY: u64 = 2;
    rustix::fs::stat(c"/proc/self/task").is_ok_and(|status| status.st_nlink > EMPTY + 1)
}

/// Children that had joined before the fork. One thread has the turn, so one forks at a time.
static CHILDREN_BEFORE: AtomicU32 = AtomicU32::new(0);

extern "C" fn before_fork() {
    sleepers::forget_private();
    CHILDREN_BEFORE.store(children::joined_so_far(), Relaxed);
}

/// Runs in the parent.
extern "C" fn after_fork() {
    children::await_child(CHILDREN_BEFORE.load(Relaxed), None);
}

/// Runs in the child: it joins the world as another program.
extern "C" fn begin_child() {
    #[cfg(target_arch = "x86_64")]
    tsc_trap::disarm();
    let (was_joined, is_in_time) = (joined::is_joined(), joined::is_running());
    connection::forget();
    joined::forget();
    if was_joined {
        vdso::restore();
    }
    thread_table::forget();
    sleeper_counts::forget();
    state().forget();
    if is_in_time {
        // If it cannot join, the parent says so.
        let _ = join(Admission::Members);
    }
}

/// Leaves the world without the handlers of the exit.
pub fn leave_at_once() {
    if joined::is_own_process() {
        note_exit();
    }
}

fn note_exit() {
    give_stores(state());
    if let Some(pages) = joined::pages() {
        pages.program.has_exited.store(1, Ordering::SeqCst);
    }
    leave(state());
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    note_exit();
    trust::report();
}
