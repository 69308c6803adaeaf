//! Pipes and socket pairs of which both ends belong to this program, or to its relatives in the
//! world.
//!
//! What comes out of one has been written by a thread of the world, so a thread that reads from it
//! waits in simulated time. That is no longer known when the program has started a process outside
//! of the world, which may have inherited ends, or has a thread outside of the world.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_timed_protocol::inner_pipes::InnerPipes;
use rustix::fs::fstat;

use crate::{connection, joined, real};

/// Ends that the program has made before it has joined the world.
static EARLY: InnerPipes = InnerPipes::new();
/// True if something outside of the world may have ends.
static HAS_OUTSIDERS: AtomicBool = AtomicBool::new(false);

/// Returns the ends that are known.
fn known() -> &'static InnerPipes {
    joined::pages().map_or(&EARLY, |pages| &pages.program.inner_pipes)
}

/// Hands the ends that are known to the world, when the program joins.
pub fn join() {
    known().add_all(&EARLY);
}

fn inode_of(fd: c_int) -> Option<u64> {
    if fd < 0 {
        return None;
    }
    // SAFETY: `borrow_raw` forbids -1, which is excluded. The descriptor is used for this call
    // only, which fails if it is closed.
    let end = unsafe { BorrowedFd::borrow_raw(fd) };
    fstat(end).ok().map(|status| status.st_ino)
}

/// Notes that the program has started a process outside of the world, or has a thread there.
pub fn note_outsider() {
    HAS_OUTSIDERS.store(true, Ordering::Relaxed);
}

/// Returns true if this is an end of a pipe or socket pair that belongs to the world alone.
pub fn contains(inode: u64) -> bool {
    known().contains(inode) && !HAS_OUTSIDERS.load(Ordering::Relaxed)
}

/// Lets threads of the world check again, after a thread outside of it has written to this
/// descriptor.
#[cold]
pub fn note_real_output(fd: c_int) {
    if !joined::is_running() {
        return;
    }
    if inode_of(fd).is_some_and(contains) {
        connection::notify();
    }
}

/// Notes the ends that a call has made.
///
/// # Safety
/// `ends` has room for two descriptors, as the call requires.
unsafe fn note(result: c_int, ends: *const c_int) -> c_int {
    if result == 0 {
        // SAFETY: the call has written both.
        let ends = unsafe { [*ends, *ends.add(1)] };
        for inode in ends.into_iter().filter_map(inode_of) {
            known().add(inode);
        }
    }
    result
}

/// `pipe` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe(ends: *mut c_int) -> c_int {
    // SAFETY: by the contract of `pipe`, there is room for two descriptors.
    unsafe { note(real::pipe(ends), ends) }
}

/// `pipe2` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(ends: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: by the contract of `pipe2`, there is room for two descriptors.
    unsafe { note(real::pipe2(ends, flags), ends) }
}

/// `socketpair` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    ends: *mut c_int,
) -> c_int {
    // SAFETY: by the contract of `socketpair`, there is room for two descriptors.
    unsafe { note(real::socketpair(domain, kind, protocol, ends), ends) }
}
