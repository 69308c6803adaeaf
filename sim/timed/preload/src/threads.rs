//! Threads that the program starts.
//!
//! A new thread has its page before its creator continues, so the world learns of it at the same
//! simulated time in every run. Threads that are started outside of the world stay outside.
#![expect(unsafe_code, reason = "an exported function of the C library")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::{pthread_attr_t, pthread_t};
use rustix::thread::futex;

use crate::next::next;
use crate::thread::state;
use crate::{joined, membership};

type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Routine, *mut c_void) -> c_int;

/// Time limit of the creator's wait for the new thread.
const LIMIT: Duration = Duration::from_secs(5);

/// Data for the new thread from its creator.
struct Start {
    routine: Routine,
    argument: *mut c_void,
    /// True if the thread does not belong to the world.
    is_real: bool,
    /// The creator's clock.
    since_ps: u64,
    /// Not zero: the thread has its page, or has none.
    is_known: Arc<AtomicU32>,
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = next!(c"pthread_create" as Create) else {
        return libc::ENOSYS;
    };
    if !joined::is_running() {
        // SAFETY: the caller keeps the contract of `pthread_create`; the arguments are passed on.
        return unsafe { real(thread, attributes, routine, argument) };
    }
    let is_known = Arc::new(AtomicU32::new(0));
    let start = Box::into_raw(Box::new(Start {
        routine,
        argument,
        is_real: !state().is_outermost(),
        since_ps: state()
            .page()
            .map_or(0, |page| page.clock_ps.load(Ordering::Relaxed)),
        is_known: Arc::clone(&is_known),
    }));
    // SAFETY: the caller keeps the contract of `pthread_create`; the new thread owns `start`.
    let result = unsafe { real(thread, attributes, begin, start.cast()) };
    if result != 0 {
        // SAFETY: no thread was created, so this function still owns `start`.
        drop(unsafe { Box::from_raw(start) });
        return result;
    }
    if state().is_outermost() {
        wait_for(&is_known);
    }
    0
}

/// Waits until the world knows of the new thread, with a limit in case the world does not answer.
fn wait_for(is_known: &AtomicU32) {
    let limit = futex::Timespec {
        tv_sec: LIMIT.as_secs() as i64,
        tv_nsec: 0,
    };
    while is_known.load(Ordering::Acquire) == 0 {
        let flags = futex::Flags::PRIVATE;
        match futex::wait(is_known, flags, 0, Some(&limit)) {
            Err(rustix::io::Errno::TIMEDOUT) => return,
            _ if joined::has_ended() => return,
            _ => {}
        }
    }
}

extern "C-unwind" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` has passed the ownership of `start` to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let state = state();
    if start.is_real {
        state.enter_real();
        #[cfg(target_arch = "x86_64")]
        crate::tsc_trap::disarm();
    }
    state.enter();
    let page = if start.is_real {
        None
    } else {
        membership::request_page(state).ok()
    };
    start.is_known.store(1, Ordering::Release);
    // The creator may have stopped waiting.
    let _ = futex::wake(&start.is_known, futex::Flags::PRIVATE, 1);
    if let Some(page) = page {
        membership::begin_thread(page);
        // The thread must not begin before its creator started it.
        page.clock_ps.fetch_max(start.since_ps, Ordering::Relaxed);
    }
    state.leave();
    let Start {
        routine, argument, ..
    } = *start;
    #[cfg(target_arch = "x86_64")]
    crate::caller::begin_stack();
    routine(argument)
}
