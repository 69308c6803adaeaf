//! The end of the world, and how threads notice it.
//!
//! A thread that waits for its turn checks from time to time ([`is_gone`]); a thread that makes no
//! calls gets the probe's signal.
#![expect(unsafe_code, reason = "system calls about the connection and a timer")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_timed_protocol::event_mark::SET_SIGNAL;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::gettid;

use crate::os::{real_ns, system_call};
use crate::signals::PROBE_SIGNAL;
use crate::{connection, joined, timers};

/// Returns true if the world has ended.
#[cold]
pub fn is_gone() -> bool {
    if joined::pages().is_none_or(|pages| pages.program.has_ended.load(Ordering::Relaxed) != 0) {
        return true;
    }
    let Some(connection) = connection::current() else {
        return true;
    };
    let mut polled = [PollFd::new(&connection, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| {
        ready > 0
            && polled[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
    })
}

/// Printed when the world ends before the program.
const ENDED: &[u8] =
    b"ferroce: the simulated world of this program has ended: its device is gone, and \
                       what it prints from here on is no result\n";

/// Notes the end of the world: waiting threads continue in real time.
#[cold]
pub fn end() {
    if joined::note_end(real_ns()) {
        // SAFETY: the descriptor is used for this call only, which fails if the program has closed
        // it.
        let error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
        let _ = rustix::io::write(error, ENDED);
    }
    timers::world_ended();
    keep_asking();
}

/// `struct f_owner_ex` of the kernel.
#[repr(C)]
struct Owner {
    kind: c_int,
    id: libc::pid_t,
}

/// `F_SETOWN_EX` and `F_OWNER_TID` of the kernel.
const SET_OWNER: c_int = 15;
const OWNER_IS_THREAD: c_int = 0;

/// Requests the probe's signal for this thread when the world ends in any way. A thread that makes
/// no calls would not notice the end, and would run forever.
pub fn signal_the_end() {
    let Some(connection) = connection::current() else {
        return;
    };
    let fd = connection.as_raw_fd();
    let owner = Owner {
        kind: OWNER_IS_THREAD,
        id: gettid().as_raw_nonzero().get(),
    };
    // SAFETY: changes flags of an open descriptor; the kernel only reads the structure.
    unsafe {
        libc::fcntl(fd, SET_OWNER, &raw const owner);
        libc::fcntl(fd, SET_SIGNAL, PROBE_SIGNAL);
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC);
    }
}

/// Processor time between two signals of [`keep_asking`].
const ASKED_AFTER_NS: libc::c_long = 500_000_000;

/// After the end of the world, requests the probe's signal for the calling thread after each
/// interval of processor time. It finds loops that begin after the end and wait for a write of the
/// card. Sleeping threads are not woken.
pub fn keep_asking() {
    static IS_ASKED: AtomicU32 = AtomicU32::new(0);
    if IS_ASKED.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: zero is valid for all fields of a `sigevent`: integers and pointers.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = PROBE_SIGNAL;
    event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
    let period = libc::timespec {
        tv_sec: 0,
        tv_nsec: ASKED_AFTER_NS,
    };
    let setting = libc::itimerspec {
        it_interval: period,
        it_value: period,
    };
    let (mut timer, clock): (c_int, _) = (0, libc::CLOCK_THREAD_CPUTIME_ID);
    // SAFETY: the system calls read and write locals only. If there is no timer, the signal does
    // not come.
    unsafe {
        let (event, made) = ((&raw const event).addr(), (&raw mut timer).addr());
        let arguments = [clock as usize, event, made];
        if system_call(libc::SYS_timer_create, arguments) == 0 {
            let arguments = [timer as usize, 0, (&raw const setting).addr(), 0];
            system_call(libc::SYS_timer_settime, arguments);
        }
    }
}
