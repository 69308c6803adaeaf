//! Threads, mutexes and condition variables of C11 (`threads.h`).
//!
//! glibc implements them with POSIX threads, in objects of the same layout, but does not call the
//! POSIX functions by name.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_void};

use libc::{pthread_cond_t, pthread_mutex_t, pthread_t, timespec};

use super::{conditions, ends_of_threads, mutexes};
use crate::threads::pthread_create;

/// Results of `threads.h`.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

fn result_of(errno: c_int) -> c_int {
    match errno {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// A thread's function, and its argument.
struct Start {
    function: extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

extern "C-unwind" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `thrd_create` has passed the ownership of `start` to this thread alone.
    let Start { function, argument } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    std::ptr::without_provenance_mut(function(argument) as usize)
}

/// `thrd_create` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    function: extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    let start = Box::into_raw(Box::new(Start { function, argument }));
    // SAFETY: by the contract of `thrd_create`, the arguments are valid; the new thread owns
    // `start`.
    let errno = unsafe { pthread_create(thread, std::ptr::null(), begin, start.cast()) };
    if errno != 0 {
        // SAFETY: no thread was created, so this function still owns `start`.
        drop(unsafe { Box::from_raw(start) });
    }
    match errno {
        libc::EAGAIN => NO_MEMORY,
        errno => result_of(errno),
    }
}

/// `thrd_join` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut value = std::ptr::null_mut();
    // SAFETY: by the contract of `thrd_join`, the thread may be joined.
    let errno = unsafe { ends_of_threads::pthread_join(thread, &raw mut value) };
    if errno == 0 && !result.is_null() {
        // SAFETY: by the contract of `thrd_join`, `result` is null or valid.
        unsafe { *result = value.addr() as c_int };
    }
    result_of(errno)
}

/// `mtx_lock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract of `mtx_lock`, the mutex is valid.
    result_of(unsafe { mutexes::pthread_mutex_lock(mutex) })
}

/// `mtx_timedlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_timedlock(
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `mtx_timedlock`, the arguments are valid.
    result_of(unsafe { mutexes::pthread_mutex_timedlock(mutex, time) })
}

/// `mtx_unlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract of `mtx_unlock`, the mutex is valid.
    result_of(unsafe { mutexes::pthread_mutex_unlock(mutex) })
}

/// `cnd_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: by the contract of `cnd_wait`, the arguments are valid.
    result_of(unsafe { conditions::pthread_cond_wait(condition, mutex) })
}

/// `cnd_timedwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `cnd_timedwait`, the arguments are valid.
    result_of(unsafe { conditions::pthread_cond_timedwait(condition, mutex, time) })
}

/// `cnd_signal` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_signal(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: by the contract of `cnd_signal`, the condition variable is valid.
    result_of(unsafe { conditions::pthread_cond_signal(condition) })
}

/// `cnd_broadcast` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_broadcast(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: by the contract of `cnd_broadcast`, the condition variable is valid.
    result_of(unsafe { conditions::pthread_cond_broadcast(condition) })
}
