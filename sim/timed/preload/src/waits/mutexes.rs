//! Mutexes, read-write locks and spin locks.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::c_int;

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{clockid_t, pthread_mutex_t, pthread_rwlock_t, pthread_spinlock_t, timespec};

use super::sleepers::{self, ALL};
use super::{may_be_simulated, outside_until};
use crate::own::{Ended, Own};
use crate::real;
use crate::time_formats::read_absolute;

/// A time that has passed: a call with this limit does not wait.
const PAST: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Returns the result of an attempt to take a lock. If it is busy, `by` gets a time that has
/// passed, and says whether a wait is refused (`EDEADLK`).
#[inline]
fn attempted(result: c_int, by: impl FnOnce(clockid_t, *const timespec) -> c_int) -> c_int {
    if result != libc::EBUSY {
        return result;
    }
    match by(libc::CLOCK_MONOTONIC, &PAST) {
        // -1: the C library has no such function.
        libc::ETIMEDOUT | -1 => libc::EBUSY,
        result => result,
    }
}

/// Tries to take a mutex.
///
/// # Safety
/// The contract of `pthread_mutex_lock`.
unsafe fn try_mutex(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller guarantees that the mutex is valid; the time is a constant.
    unsafe {
        attempted(real::pthread_mutex_trylock(mutex), |clock, time| {
            real::pthread_mutex_clocklock(mutex, clock, time)
        })
    }
}

/// Tries to take a lock for reading.
///
/// # Safety
/// The contract of `pthread_rwlock_rdlock`.
unsafe fn try_to_read(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller guarantees that the lock is valid; the time is a constant.
    unsafe {
        attempted(real::pthread_rwlock_tryrdlock(rwlock), |clock, time| {
            real::pthread_rwlock_clockrdlock(rwlock, clock, time)
        })
    }
}

/// Tries to take a lock for writing.
///
/// # Safety
/// The contract of `pthread_rwlock_wrlock`.
unsafe fn try_to_write(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller guarantees that the lock is valid; the time is a constant.
    unsafe {
        attempted(real::pthread_rwlock_trywrlock(rwlock), |clock, time| {
            real::pthread_rwlock_clockwrlock(rwlock, clock, time)
        })
    }
}

/// Takes a lock: `attempt` tries it, and `in_kernel` waits for it in real time.
fn lock(address: usize, attempt: impl Fn() -> c_int, in_kernel: impl FnOnce() -> c_int) -> c_int {
    if !may_be_simulated() {
        return in_kernel();
    }
    match attempt() {
        libc::EBUSY => match Own::enter("lock") {
            Some(own) => lock_until(&own, address, NEVER_PS, attempt, in_kernel),
            None => in_kernel(),
        },
        result => result,
    }
}

/// Takes a lock, until `deadline_ps` at most.
fn lock_until(
    own: &Own,
    address: usize,
    deadline_ps: u64,
    attempt: impl Fn() -> c_int,
    in_kernel: impl FnOnce() -> c_int,
) -> c_int {
    if !sleepers::are_simulated(address) {
        return own.outside(in_kernel);
    }
    loop {
        // Also the first time: a thread that has just joined the world has waited for its turn.
        match attempt() {
            libc::EBUSY => {}
            result => return result,
        }
        if own.now_ps() >= deadline_ps {
            return libc::ETIMEDOUT;
        }
        let ended = sleepers::sleep(own, address, sleepers::ANY, deadline_ps);
        if ended == Ended::NoWorld {
            return in_kernel();
        }
    }
}

/// Takes a lock until a time of a clock.
///
/// # Safety
/// `time` is null or valid.
unsafe fn lock_by(
    address: usize,
    clock: clockid_t,
    time: *const timespec,
    attempt: impl Fn() -> c_int,
    in_kernel: impl Fn(clockid_t, *const timespec) -> c_int,
) -> c_int {
    // SAFETY: the caller guarantees that the time is null or valid.
    let deadline_ps = unsafe { read_absolute(clock, time) };
    let (true, Some(deadline_ps)) = (may_be_simulated(), deadline_ps) else {
        return in_kernel(clock, time);
    };
    match attempt() {
        libc::EBUSY => match Own::enter("lock") {
            Some(own) => lock_until(&own, address, deadline_ps, attempt, || {
                outside_until(&own, deadline_ps, &in_kernel)
            }),
            None => in_kernel(clock, time),
        },
        result => result,
    }
}

/// Returns the result of a lock's release, after which `most` waiting threads try again.
#[inline]
fn released(result: c_int, address: usize, most: u32) -> c_int {
    if result == 0 {
        sleepers::wake(address, most);
    }
    result
}

/// Takes a mutex for a thread that is in another call.
///
/// # Safety
/// The contract of `pthread_mutex_lock`.
pub unsafe fn take_again(own: &Own, mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller guarantees that the mutex is valid.
    let attempt = || unsafe { try_mutex(mutex) };
    lock_until(own, mutex.addr(), NEVER_PS, attempt, || {
        // SAFETY: the caller guarantees that the mutex is valid.
        unsafe { real::pthread_mutex_lock(mutex) }
    })
}

/// `pthread_mutex_lock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract of `pthread_mutex_lock`, the mutex is valid.
    let attempt = || unsafe { try_mutex(mutex) };
    // SAFETY: by the contract of `pthread_mutex_lock`, the mutex is valid.
    lock(mutex.addr(), attempt, || unsafe {
        real::pthread_mutex_lock(mutex)
    })
}

/// `pthread_mutex_unlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract of `pthread_mutex_unlock`, the mutex is valid.
    released(
        unsafe { real::pthread_mutex_unlock(mutex) },
        mutex.addr(),
        1,
    )
}

/// `pthread_mutex_timedlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_mutex_timedlock`, the arguments are valid.
    unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, time) }
}

/// `pthread_mutex_clocklock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_mutex_clocklock`, the mutex is valid.
    let attempt = || unsafe { try_mutex(mutex) };
    // SAFETY: by the contract of `pthread_mutex_clocklock`, the arguments are valid.
    let lock = |clock, time| unsafe { real::pthread_mutex_clocklock(mutex, clock, time) };
    // SAFETY: by the contract of `pthread_mutex_clocklock`, the time is valid.
    unsafe { lock_by(mutex.addr(), clock, time, attempt, lock) }
}

/// `pthread_rwlock_rdlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_rdlock`, the lock is valid.
    let attempt = || unsafe { try_to_read(rwlock) };
    // SAFETY: by the contract of `pthread_rwlock_rdlock`, the lock is valid.
    lock(rwlock.addr(), attempt, || unsafe {
        real::pthread_rwlock_rdlock(rwlock)
    })
}

/// `pthread_rwlock_wrlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_wrlock`, the lock is valid.
    let attempt = || unsafe { try_to_write(rwlock) };
    // SAFETY: by the contract of `pthread_rwlock_wrlock`, the lock is valid.
    lock(rwlock.addr(), attempt, || unsafe {
        real::pthread_rwlock_wrlock(rwlock)
    })
}

/// `pthread_rwlock_timedrdlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_timedrdlock(
    rwlock: *mut pthread_rwlock_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_timedrdlock`, the arguments are valid.
    unsafe { pthread_rwlock_clockrdlock(rwlock, libc::CLOCK_REALTIME, time) }
}

/// `pthread_rwlock_timedwrlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_timedwrlock(
    rwlock: *mut pthread_rwlock_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_timedwrlock`, the arguments are valid.
    unsafe { pthread_rwlock_clockwrlock(rwlock, libc::CLOCK_REALTIME, time) }
}

/// `pthread_rwlock_clockrdlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_clockrdlock(
    rwlock: *mut pthread_rwlock_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_clockrdlock`, the lock is valid.
    let attempt = || unsafe { try_to_read(rwlock) };
    // SAFETY: by the contract of `pthread_rwlock_clockrdlock`, the arguments are valid.
    let lock = |clock, time| unsafe { real::pthread_rwlock_clockrdlock(rwlock, clock, time) };
    // SAFETY: by the contract of `pthread_rwlock_clockrdlock`, the time is valid.
    unsafe { lock_by(rwlock.addr(), clock, time, attempt, lock) }
}

/// `pthread_rwlock_clockwrlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_clockwrlock(
    rwlock: *mut pthread_rwlock_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_clockwrlock`, the lock is valid.
    let attempt = || unsafe { try_to_write(rwlock) };
    // SAFETY: by the contract of `pthread_rwlock_clockwrlock`, the arguments are valid.
    let lock = |clock, time| unsafe { real::pthread_rwlock_clockwrlock(rwlock, clock, time) };
    // SAFETY: by the contract of `pthread_rwlock_clockwrlock`, the time is valid.
    unsafe { lock_by(rwlock.addr(), clock, time, attempt, lock) }
}

/// `pthread_rwlock_unlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_unlock`, the lock is valid.
    let result = unsafe { real::pthread_rwlock_unlock(rwlock) };
    released(result, rwlock.addr(), ALL)
}

/// `pthread_spin_lock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_lock(lock_word: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_spin_lock`, the lock is valid.
    let attempt = || unsafe { real::pthread_spin_trylock(lock_word) };
    // SAFETY: by the contract of `pthread_spin_lock`, the lock is valid.
    lock(lock_word.addr(), attempt, || unsafe {
        real::pthread_spin_lock(lock_word)
    })
}

/// `pthread_spin_unlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(lock_word: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_spin_unlock`, the lock is valid.
    let result = unsafe { real::pthread_spin_unlock(lock_word) };
    released(result, lock_word.addr(), 1)
}
