//! Inputs of the program that would differ between runs: random numbers and thread IDs.
//!
//! They depend on the seed of the world, on the host and on the programs that were on it before.
//! Libraries choose by them: UCX orders two connections by numbers that it derives from thread IDs.
//!
//! The thread IDs are higher than any kernel assigns, so that a function that is not overridden
//! refuses them instead of taking another thread.

#![expect(unsafe_code, reason = "functions of libc, and the program's buffers")]

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_timed_protocol::MAX_THREADS;
use ferroce_timed_protocol::page::ProgramPage;
use libc::{cpu_set_t, pid_t, size_t, ssize_t};

use crate::next::next;
use crate::waits::may_be_simulated;
use crate::{joined, os, real, timers};

/// First thread ID: `PID_MAX_LIMIT` of Linux.
const FIRST_ID: pid_t = 1 << 22;

/// Returns the ID of the calling thread. `None`: the kernel's, because it runs in real time.
pub fn thread_id() -> Option<pid_t> {
    let pages = joined::pages().filter(|_| may_be_simulated())?;
    let number = place_of_program(&pages.program) as usize * MAX_THREADS + timers::own_number()?;
    Some(FIRST_ID + number as pid_t)
}

/// Returns a number that programs of the world have in common only if the host has had many.
fn place_of_program(page: &ProgramPage) -> u32 {
    const MOST_PROGRAMS: u32 = 256;
    let host = page.host.load(Ordering::Relaxed);
    let earlier = page.earlier_programs.load(Ordering::Relaxed);
    host * MOST_PROGRAMS + earlier % MOST_PROGRAMS
}

/// Returns the kernel's ID of the thread that has this ID.
pub fn id_in_kernel(id: pid_t) -> pid_t {
    let Ok(number) = usize::try_from(id - FIRST_ID) else {
        return id;
    };
    let page = joined::pages().map(|pages| &pages.threads[number % MAX_THREADS]);
    page.map_or(id, |page| page.tid.load(Ordering::Relaxed) as pid_t)
}

/// SplitMix64, whose state is the number of values drawn so far.
fn random() -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let seed = joined::pages().map_or(0, |pages| {
        let place = u64::from(place_of_program(&pages.program));
        let seed = pages.program.costs.seed.load(Ordering::Relaxed);
        seed.wrapping_mul(STEP).rotate_left(17) ^ place.wrapping_mul(STEP)
    });
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed) + 1;
    let mut value = seed.wrapping_add(drawn.wrapping_mul(STEP));
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Fills a buffer with random bytes.
///
/// # Safety
/// The buffer has `length` bytes.
unsafe fn fill(buffer: *mut c_void, length: size_t) {
    for place in (0..length).step_by(size_of::<u64>()) {
        let bytes = random().to_ne_bytes();
        let count = bytes.len().min(length - place);
        // SAFETY: the caller guarantees `length` bytes, and `place + count` is not more.
        unsafe {
            buffer
                .byte_add(place)
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), count);
        };
    }
}

/// `getrandom` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    if may_be_simulated() && !buffer.is_null() {
        // SAFETY: by the contract of `getrandom`, the buffer has `length` bytes.
        unsafe { fill(buffer, length) };
        return length as ssize_t;
    }
    let arguments = [buffer.addr(), length, flags as usize];
    // SAFETY: the caller keeps the contract of the system call.
    match unsafe { os::system_call(libc::SYS_getrandom, arguments) } {
        error @ ..0 => real::failed_size(-error as c_int),
        length => length,
    }
}

/// `getentropy` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(buffer: *mut c_void, length: size_t) -> c_int {
    const MOST: size_t = 256;
    if length > MOST {
        return real::failed(libc::EIO);
    }
    // SAFETY: by the contract of `getentropy`, the buffer has `length` bytes.
    match unsafe { getrandom(buffer, length, 0) } {
        all if all == length as ssize_t => 0,
        _ => -1,
    }
}

/// `gettid` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettid() -> pid_t {
    thread_id().unwrap_or_else(|| rustix::thread::gettid().as_raw_nonzero().get())
}

/// `tgkill` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int {
    let thread = id_in_kernel(thread);
    let arguments = [process as usize, thread as usize, signal as usize];
    // SAFETY: `tgkill` takes no pointers.
    match unsafe { os::system_call(libc::SYS_tgkill, arguments) } {
        0 => 0,
        error => real::failed(-error as c_int),
    }
}

type SetAffinity = unsafe extern "C" fn(pid_t, size_t, *const cpu_set_t) -> c_int;
type GetAffinity = unsafe extern "C" fn(pid_t, size_t, *mut cpu_set_t) -> c_int;

/// `sched_setaffinity` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(
    thread: pid_t,
    length: size_t,
    set: *const cpu_set_t,
) -> c_int {
    match next!(c"sched_setaffinity" as SetAffinity) {
        // SAFETY: the caller keeps the contract of libc's function.
        Some(real) => unsafe { real(id_in_kernel(thread), length, set) },
        None => real::failed(libc::ENOSYS),
    }
}

/// `sched_getaffinity` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(
    thread: pid_t,
    length: size_t,
    set: *mut cpu_set_t,
) -> c_int {
    match next!(c"sched_getaffinity" as GetAffinity) {
        // SAFETY: the caller keeps the contract of libc's function.
        Some(real) => unsafe { real(id_in_kernel(thread), length, set) },
        None => real::failed(libc::ENOSYS),
    }
}

/// Replaces IDs of threads in the arguments of a system call.
pub fn arguments_for_kernel(number: c_long, arguments: &mut [usize; 6]) {
    let place = match number {
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => 1,
        libc::SYS_tkill | libc::SYS_sched_setaffinity | libc::SYS_sched_getaffinity => 0,
        _ => return,
    };
    arguments[place] = id_in_kernel(arguments[place] as pid_t) as usize;
}
