//! Whether the program has left simulated time, and what it says about that when it ends.
//!
//! While a thread is outside of the world, time goes on without it, and when it comes back depends
//! on the machine. Then the program's figures can differ between runs, and its parent's, too. With
//! `FERROCE_STRICT` such a program fails, even if it has succeeded otherwise; its children that are
//! in the world, too, leave that to it.

#![expect(unsafe_code, reason = "hooks of the C library for the exit")]

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use ferroce_timed_protocol::trust::{EXIT_NOT_REPEATABLE, STRICT};

use crate::{joined, relatives};

/// Longest line of [`report`], in bytes.
const LINE_BYTES: usize = 256;

/// The status with which the program exits.
static STATUS: AtomicI32 = AtomicI32::new(0);
static IS_STRICT: AtomicBool = AtomicBool::new(false);

/// Prepares the program; called once, when it joins.
pub fn prepare() {
    let is_strict = std::env::var_os(STRICT).is_some_and(|value| value == "1");
    IS_STRICT.store(is_strict, Ordering::Relaxed);
    // SAFETY: `on_exit` gets a function of its type. On failure (no memory) the status is taken for
    // zero.
    unsafe { on_exit(note_status, std::ptr::null_mut()) };
}

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn fflush(stream: *mut libc::FILE) -> c_int;
}

extern "C" fn note_status(status: c_int, _: *mut c_void) {
    STATUS.store(status, Ordering::Relaxed);
}

/// Notes that a thread leaves simulated time in this call.
pub fn note_departure(call: &str) {
    if let Some(pages) = joined::pages() {
        pages.program.departures.note(call);
    }
}

/// Notes that the program has started a process that runs in real time.
pub fn note_child() {
    if joined::is_running() {
        note_departure("a child process");
    }
}

/// Says when the program exits whether its run can be repeated, and ends it if it must be
/// repeatable and is not.
pub fn report() {
    let Some(pages) = joined::pages().filter(|_| joined::is_own_process()) else {
        return;
    };
    let departures = &pages.program.departures;
    let (count, is_strict) = (departures.count(), IS_STRICT.load(Ordering::Relaxed));
    if count > 0 {
        let times = if count == 1 { "once" } else { "several times" };
        say(format_args!(
            "ferroce: repeatable: no: a thread of {} has left simulated time {times}, first in {}; \
             figures can differ between runs\n",
            own_name(),
            departures.first(),
        ));
    } else if is_strict && relatives::may_exist() && !joined::is_member() {
        // MPI jobs with several ranks on a host were seen to differ by up to 2 %.
        say(format_args!(
            "ferroce: repeatable: not proven: no process has left simulated time, but figures of \
             several processes were seen to differ a little\n"
        ));
    } else if is_strict && !joined::is_member() {
        say(format_args!("ferroce: repeatable: yes\n"));
    }
    if count > 0 && is_strict && !joined::is_member() && STATUS.load(Ordering::Relaxed) == 0 {
        // SAFETY: `fflush` of no stream flushes all. `_exit` ends the process: handlers of the
        // program have run.
        unsafe {
            fflush(std::ptr::null_mut());
            libc::_exit(EXIT_NOT_REPEATABLE);
        }
    }
}

/// Returns the name of the program, as the kernel has it.
pub fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm");
    name.map_or("this program".to_owned(), |name| name.trim().to_owned())
}

/// Writes a line to the standard error.
pub fn say(line: std::fmt::Arguments<'_>) {
    let mut bytes = [0; LINE_BYTES];
    let mut rest = &mut bytes[..];
    // What does not fit is cut.
    let _ = rest.write_fmt(line);
    let left = rest.len();
    // SAFETY: the descriptor is used for this call only, which fails if the program has closed it.
    let error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let _ = rustix::io::write(error, &bytes[..LINE_BYTES - left]);
}
