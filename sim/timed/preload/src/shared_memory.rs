//! Memory that processes share by name.
//!
//! What one process writes there, another one sees when it looks next, and when that is may depend
//! on the machine. Memory that a child has inherited, with objects of the C library in it, is
//! simulated; for memory with a name the run is said not to be repeatable.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::mode_t;
use rustix::process::getpid;

use crate::next::next;
use crate::waits::may_be_simulated;
use crate::{real, relatives, trust};

/// Where Linux has memory with a name.
const FOLDER: &[u8] = b"/dev/shm/";

/// Notes that the program opens a file with these flags, which may be memory of a relative.
pub fn note_open(path: &CStr, flags: c_int) {
    if path.to_bytes().starts_with(FOLDER) {
        note_attach(flags);
    }
}

/// Notes that the program opens memory with a name, unless it makes it or only reads it.
fn note_attach(flags: c_int) {
    if flags & libc::O_ACCMODE == libc::O_RDWR && flags & libc::O_CREAT == 0 {
        note();
    }
}

/// Notes that the program and its relatives may share memory.
fn note() {
    if may_be_simulated() && relatives::may_exist() {
        trust::note_departure("shared memory");
    }
}

/// `shm_open` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    type Function = unsafe extern "C" fn(*const c_char, c_int, mode_t) -> c_int;
    note_attach(flags);
    match next!(c"shm_open" as Function) {
        // SAFETY: the caller keeps the contract of libc's function.
        Some(real) => unsafe { real(name, flags, mode) },
        None => real::failed(libc::ENOSYS),
    }
}

/// Returns true if another process has made a segment of System V.
fn is_foreign(segment: c_int) -> bool {
    // SAFETY: zero is valid for the structure of integers, which the call fills.
    unsafe {
        let mut status: libc::shmid_ds = std::mem::zeroed();
        libc::shmctl(segment, libc::IPC_STAT, &raw mut status) == 0
            && status.shm_cpid != getpid().as_raw_nonzero().get()
    }
}

/// `shmat` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(
    segment: c_int,
    address: *const c_void,
    flags: c_int,
) -> *mut c_void {
    type Function = unsafe extern "C" fn(c_int, *const c_void, c_int) -> *mut c_void;
    if is_foreign(segment) {
        note();
    }
    match next!(c"shmat" as Function) {
        // SAFETY: the caller keeps the contract of libc's function.
        Some(real) => unsafe { real(segment, address, flags) },
        None => std::ptr::without_provenance_mut(real::failed(libc::ENOSYS) as usize),
    }
}
