//! Threads that yield, and failed attempts to take locks.
//!
//! A program that spins until another of its threads has done something calls one of these
//! functions in each iteration. In simulated time the other thread runs only when this one passes
//! its turn. So each function passes it, for the time of a system call (`host.syscall_ns`).

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::c_int;

use libc::{pthread_mutex_t, pthread_rwlock_t, pthread_spinlock_t, sem_t};

use crate::own::Own;
use crate::real;
use crate::waits::may_be_simulated;

/// `thrd_busy` of `threads.h`.
const THREAD_BUSY: c_int = 1;

/// Yields the turn of the calling thread. Returns false if it runs in real time.
fn yield_turn() -> bool {
    let own = Own::enter("yield");
    own.as_ref().inspect(|own| own.yield_turn()).is_some()
}

/// Returns the result of an attempt to take a lock. Yields first if it failed with `busy`, because
/// the thread will try again.
#[inline]
fn after_try(result: c_int, busy: c_int) -> c_int {
    if result == busy && may_be_simulated() {
        let errno = real::errno();
        yield_turn();
        real::set_errno(errno);
    }
    result
}

/// `sched_yield` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_yield() -> c_int {
    match yield_turn() {
        true => 0,
        // SAFETY: `sched_yield` takes no arguments.
        false => unsafe { real::sched_yield() },
    }
}

/// `pthread_yield` of libc, the older name of [`sched_yield`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_yield() -> c_int {
    // SAFETY: `sched_yield` takes no arguments.
    unsafe { sched_yield() }
}

/// `thrd_yield` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_yield() {
    // SAFETY: `sched_yield` takes no arguments. It cannot fail on Linux.
    let _ = unsafe { sched_yield() };
}

/// `pthread_spin_trylock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_spin_trylock`, the lock is valid.
    after_try(unsafe { real::pthread_spin_trylock(lock) }, libc::EBUSY)
}

/// `pthread_mutex_trylock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract of `pthread_mutex_trylock`, the mutex is valid.
    after_try(unsafe { real::pthread_mutex_trylock(mutex) }, libc::EBUSY)
}

/// `pthread_rwlock_tryrdlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_tryrdlock`, the lock is valid.
    after_try(unsafe { real::pthread_rwlock_tryrdlock(lock) }, libc::EBUSY)
}

/// `pthread_rwlock_trywrlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_trywrlock`, the lock is valid.
    after_try(unsafe { real::pthread_rwlock_trywrlock(lock) }, libc::EBUSY)
}

/// `mtx_trylock` of libc, whose `mtx_t` is at an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_trylock(mutex: *mut std::ffi::c_void) -> c_int {
    // SAFETY: by the contract of `mtx_trylock`, the mutex is valid.
    after_try(unsafe { real::mtx_trylock(mutex) }, THREAD_BUSY)
}

/// `sem_trywait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: by the contract of `sem_trywait`, the semaphore is valid.
    let result = unsafe { real::sem_trywait(semaphore) };
    match real::errno() {
        libc::EAGAIN => after_try(result, -1),
        _ => result,
    }
}
