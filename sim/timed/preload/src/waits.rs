//! Threads of a program that wait for one another.
//!
//! An attempt to take a busy lock is repeated until its owner has had a turn and has released it.
//! All other waiting is outside of the world: a woken thread returns when the kernel schedules it,
//! so the order of threads that wait like this differs between runs. Time limits are in the world's
//! time.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_void};

use ferroce_timed_protocol::PS_PER_NS;
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use libc::{
    clockid_t, pthread_barrier_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_t,
    sem_t, timespec,
};

use crate::os::real_ns;
use crate::own::{Ended, Own};
use crate::thread::state;
use crate::time_formats::read_absolute;
use crate::{joined, real};

/// Pauses between two attempts: the first, and the longest.
const FIRST_PAUSE_PS: u64 = 100_000;
const LONGEST_PAUSE_PS: u64 = 100_000_000;
/// Attempts after which the thread waits in the kernel: the owner is outside of the world.
const MAX_TRIES: u32 = 1000;

/// Returns true if the calling thread may be in simulated time. Costs next to nothing.
#[inline]
pub fn may_be_simulated() -> bool {
    joined::is_running() && state().is_outermost()
}

/// Tries a lock until it is not busy, until `deadline_ps` at most; then waits with `in_kernel`.
fn try_until(
    own: &Own,
    deadline_ps: u64,
    mut attempt: impl FnMut() -> c_int,
    in_kernel: impl FnOnce() -> c_int,
) -> c_int {
    let mut pause_ps = FIRST_PAUSE_PS;
    for _ in 0..MAX_TRIES {
        if own.now_ps() >= deadline_ps {
            return libc::ETIMEDOUT;
        }
        if joined::thread_count() < 2 {
            break;
        }
        let time_ps = own.now_ps().saturating_add(pause_ps).min(deadline_ps);
        pause_ps = (2 * pause_ps).min(LONGEST_PAUSE_PS);
        if own.wait(&Wait::At { time_ps }, NEVER_PS) == Ended::NoWorld {
            break;
        }
        match attempt() {
            libc::EBUSY => {}
            result => return result,
        }
    }
    let result = own.outside(in_kernel);
    if result == libc::ETIMEDOUT {
        sleep_until(own, deadline_ps);
    }
    result
}

/// Returns the machine's monotonic time at which as much real time will have passed as simulated
/// time until `deadline_ps`.
fn real_deadline(own: &Own, deadline_ps: u64) -> timespec {
    let left_ns = deadline_ps.saturating_sub(own.now_ps()).div_ceil(PS_PER_NS);
    let end_ns = real_ns().saturating_add(left_ns);
    timespec {
        tv_sec: (end_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (end_ns % 1_000_000_000) as _,
    }
}

/// Waits in the kernel: `wait` gets a real deadline. When it has passed, the simulated deadline has
/// passed, too.
fn wait_outside(
    own: &Own,
    deadline_ps: u64,
    has_timed_out: impl FnOnce(c_int) -> bool,
    wait: impl FnOnce(*const timespec) -> c_int,
) -> c_int {
    let limit = real_deadline(own, deadline_ps);
    let result = own.outside(|| wait(&raw const limit));
    let errno = real::errno();
    if has_timed_out(result) {
        sleep_until(own, deadline_ps);
    }
    real::set_errno(errno);
    result
}

fn sleep_until(own: &Own, time_ps: u64) {
    while own.now_ps() < time_ps {
        if own.wait(&Wait::At { time_ps }, NEVER_PS) == Ended::NoWorld {
            break;
        }
    }
}

/// `pthread_mutex_lock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the contract of `pthread_mutex_lock`, the mutex is valid.
    let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
    // SAFETY: by the contract of `pthread_mutex_lock`, the mutex is valid.
    let lock = || unsafe { real::pthread_mutex_lock(mutex) };
    lock_for(attempt, lock)
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
    let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
    // SAFETY: by the contract of `pthread_mutex_clocklock`, the arguments are valid.
    let lock = |clock, time| unsafe { real::pthread_mutex_clocklock(mutex, clock, time) };
    // SAFETY: by the contract of `pthread_mutex_clocklock`, the time is valid.
    let deadline_ps = unsafe { read_absolute(clock, time) };
    let (true, Some(deadline_ps)) = (may_be_simulated(), deadline_ps) else {
        return lock(clock, time);
    };
    match attempt() {
        libc::EBUSY => match Own::enter("pthread_mutex_clocklock") {
            Some(own) => try_until(&own, deadline_ps, attempt, || {
                let limit = real_deadline(&own, deadline_ps);
                lock(libc::CLOCK_MONOTONIC, &raw const limit)
            }),
            None => lock(clock, time),
        },
        result => result,
    }
}

/// Takes a lock: `attempt` tries it, and `lock` waits in the kernel or spins.
pub fn lock_for(attempt: impl Fn() -> c_int, lock: impl FnOnce() -> c_int) -> c_int {
    if !may_be_simulated() {
        return lock();
    }
    match attempt() {
        libc::EBUSY => match Own::enter("lock_for") {
            Some(own) => try_until(&own, NEVER_PS, attempt, lock),
            None => lock(),
        },
        result => result,
    }
}

/// `pthread_rwlock_rdlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_rdlock`, the lock is valid.
    let attempt = || unsafe { real::pthread_rwlock_tryrdlock(rwlock) };
    // SAFETY: by the contract of `pthread_rwlock_rdlock`, the lock is valid.
    lock_for(attempt, || unsafe { real::pthread_rwlock_rdlock(rwlock) })
}

/// `pthread_rwlock_wrlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the contract of `pthread_rwlock_wrlock`, the lock is valid.
    let attempt = || unsafe { real::pthread_rwlock_trywrlock(rwlock) };
    // SAFETY: by the contract of `pthread_rwlock_wrlock`, the lock is valid.
    lock_for(attempt, || unsafe { real::pthread_rwlock_wrlock(rwlock) })
}

/// `pthread_barrier_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: by the contract of `pthread_barrier_wait`, the barrier is valid.
    let wait = || unsafe { real::pthread_barrier_wait(barrier) };
    match Own::enter("pthread_barrier_wait") {
        Some(own) => own.outside(wait),
        None => wait(),
    }
}

/// `pthread_cond_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: by the contract of `pthread_cond_wait`, the arguments are valid.
    let wait = || unsafe { real::pthread_cond_wait(condition, mutex) };
    match Own::enter("pthread_cond_wait") {
        Some(own) => own.outside(wait),
        None => wait(),
    }
}

/// `pthread_cond_timedwait` of libc.
///
/// The clock of a condition variable is not known here: a time of less than half the realtime
/// clock's is taken for monotonic time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    const HALF: i64 = (ferroce_timed_protocol::REALTIME_EPOCH_S / 2) as i64;
    let Some(own) = Own::enter("pthread_cond_timedwait") else {
        // SAFETY: by the contract of `pthread_cond_timedwait`, the arguments are valid.
        return unsafe { real::pthread_cond_timedwait(condition, mutex, time) };
    };
    // SAFETY: by the contract of `pthread_cond_timedwait`, the time is valid or null.
    let is_monotonic = unsafe { time.as_ref() }.is_some_and(|time| time.tv_sec < HALF);
    let clock = if is_monotonic {
        libc::CLOCK_MONOTONIC
    } else {
        libc::CLOCK_REALTIME
    };
    // SAFETY: by the contract of `pthread_cond_timedwait`, the arguments are valid.
    unsafe { wait_for_condition(&own, condition, mutex, clock, time) }
}

/// `pthread_cond_clockwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    match Own::enter("pthread_cond_clockwait") {
        // SAFETY: by the contract of `pthread_cond_clockwait`, the arguments are valid.
        Some(own) => unsafe { wait_for_condition(&own, condition, mutex, clock, time) },
        // SAFETY: by the contract of `pthread_cond_clockwait`, the arguments are valid.
        None => unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) },
    }
}

/// Waits for a condition until a time of a clock.
///
/// # Safety
/// The contract of `pthread_cond_clockwait`.
unsafe fn wait_for_condition(
    own: &Own,
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller keeps the contract of `pthread_cond_clockwait`; only the deadline differs.
    let wait = |clock, time| unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) };
    // SAFETY: by the contract of `pthread_cond_clockwait`, `time` is valid.
    match unsafe { read_absolute(clock, time) } {
        Some(deadline_ps) => {
            let has_timed_out = |result| result == libc::ETIMEDOUT;
            wait_outside(own, deadline_ps, has_timed_out, |limit| {
                wait(libc::CLOCK_MONOTONIC, limit)
            })
        }
        None => own.outside(|| wait(clock, time)),
    }
}

/// `sem_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: by the contract of `sem_wait`, the semaphore is valid.
    let wait = || unsafe { real::sem_wait(semaphore) };
    let Some(own) = Own::enter("sem_wait") else {
        return wait();
    };
    // SAFETY: by the contract of `sem_wait`, the semaphore is valid.
    match unsafe { real::sem_trywait(semaphore) } {
        0 => 0,
        _ => own.outside(wait),
    }
}

/// `sem_timedwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, time: *const timespec) -> c_int {
    // SAFETY: by the contract of `sem_timedwait`, the arguments are valid.
    unsafe { sem_clockwait(semaphore, libc::CLOCK_REALTIME, time) }
}

/// `sem_clockwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `sem_clockwait`, the arguments are valid.
    let wait = |clock, time| unsafe { real::sem_clockwait(semaphore, clock, time) };
    // SAFETY: by the contract of `sem_clockwait`, the time is valid.
    let deadline_ps = unsafe { read_absolute(clock, time) };
    let (Some(own), Some(deadline_ps)) = (Own::enter("sem_clockwait"), deadline_ps) else {
        return wait(clock, time);
    };
    // SAFETY: by the contract of `sem_clockwait`, the semaphore is valid.
    if unsafe { real::sem_trywait(semaphore) } == 0 {
        return 0;
    }
    let has_timed_out = |result| result != 0 && real::errno() == libc::ETIMEDOUT;
    wait_outside(&own, deadline_ps, has_timed_out, |limit| {
        wait(libc::CLOCK_MONOTONIC, limit)
    })
}

/// `pthread_join` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: by the contract of `pthread_join`, the arguments are valid.
    let join = || unsafe { real::pthread_join(thread, result) };
    let Some(own) = Own::enter("pthread_join") else {
        return join();
    };
    // SAFETY: by the contract of `pthread_join`, the arguments are valid.
    match unsafe { libc::pthread_tryjoin_np(thread, result) } {
        libc::EBUSY => own.outside(join),
        joined => joined,
    }
}

/// `pause` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pause() -> c_int {
    // SAFETY: the caller keeps the contract of `pause`, which takes no arguments.
    let pause = || unsafe { real::pause() };
    let Some(own) = Own::enter("pause") else {
        return pause();
    };
    loop {
        let time_ps = crate::timers::next_due_ps();
        if time_ps == NEVER_PS {
            return own.outside(pause);
        }
        match own.wait(&Wait::At { time_ps }, NEVER_PS) {
            Ended::Interrupted { .. } => return real::failed(libc::EINTR),
            Ended::NoWorld => return pause(),
            Ended::Answered(_) | Ended::TimedOut => {}
        }
    }
}
