//! Lets the program join its world and leave it.
#![expect(unsafe_code, reason = "hooks of the C library for forks and the exit")]

use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::thread::sched_yield;

use crate::inside::Inside;
use crate::joined::{self, NotBegun};
use crate::membership::{leave, request_page};
use crate::thread::state;
use crate::{connection, faults, membership, spin, timers, turn, vdso, world_end};
#[cfg(target_arch = "x86_64")]
use crate::{tsc, tsc_trap};

/// Joins the world that `FERROCE_WORLD` names, on the host that `FERROCE_HOST` names, and takes a
/// turn.
///
/// # Errors
/// The reason: `ENODEV` if the variable is not set, `EPERM` if the world belongs to another user,
/// `EADDRNOTAVAIL` if there is no such host, or no host has such a name, `EADDRINUSE` if it has a
/// program.
pub fn join() -> Result<(), Errno> {
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
    let joined = connection::open().and_then(|()| {
        let page = request_page(state)?;
        take_time();
        joined::succeed();
        if turn::wait_for_turn(page) {
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
        unsafe { libc::pthread_atfork(None, None, Some(forget_all)) };
    });
    turn::prepare();
    faults::install();
    vdso::replace();
    #[cfg(target_arch = "x86_64")]
    tsc::prepare();
    joined::note_process();
    timers::begin();
    spin::install();
    world_end::signal_the_end();
    membership::take_time();
}

/// Runs in a child of a fork: it does not belong to the world.
extern "C" fn forget_all() {
    #[cfg(target_arch = "x86_64")]
    tsc_trap::disarm();
    let was_joined = joined::is_joined();
    connection::forget();
    joined::forget();
    if was_joined {
        vdso::restore();
    }
    state().forget();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    if let Some(pages) = joined::pages() {
        pages.program.has_exited.store(1, Ordering::SeqCst);
    }
    leave(state());
}
