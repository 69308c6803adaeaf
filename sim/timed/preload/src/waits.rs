//! Threads of a program that wait for one another.
//!
//! A lock that is taken is tried again until its owner has had its turn and has given it free. All
//! other waiting is outside of the world: who is woken comes back when the kernel lets it, so that
//! the order of threads that wait in this way is not the same in every run. Time limits are those
//! of the world.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_void};

use ferroce_timed_protocol::PS_PER_NS;
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use libc::{
    clockid_t, pthread_barrier_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_t,
    sem_t, timespec,
};

use crate::clock::real_ns;
use crate::own::{Ended, Own};
use crate::sleep::read_absolute;
use crate::thread::state;
use crate::{real, session};

/// Pauses between two tries: the first, and the longest.
const FIRST_PAUSE_PS: u64 = 100_000;
const LONGEST_PAUSE_PS: u64 = 100_000_000;
/// Tries after which the thread waits in the kernel: the owner is outside of the world.
const MAX_TRIES: u32 = 1000;

/// Whether the calling thread may be in simulated time. Costs next to nothing.
#[inline]
pub fn may_be_simulated() -> bool {
    session::is_running() && state().is_outermost()
}

/// Tries until it is not busy any more, until `deadline_ps` at most; then waits with `in_kernel`.
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
        if session::thread_count() < 2 {
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

/// When the machine's monotonic clock has gone on as far as the world's has to until `deadline_ps`.
fn real_deadline(own: &Own, deadline_ps: u64) -> timespec {
    let left_ns = deadline_ps.saturating_sub(own.now_ps()).div_ceil(PS_PER_NS);
    let end_ns = real_ns().saturating_add(left_ns);
    timespec {
        tv_sec: (end_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (end_ns % 1_000_000_000) as _,
    }
}

/// Waits in the kernel, as `wait` does until a real time that it gets. If that is over, so is the
/// simulated one.
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
    // SAFETY: the caller's mutex.
    let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
    // SAFETY: the caller's mutex.
    let lock = || unsafe { real::pthread_mutex_lock(mutex) };
    lock_for(attempt, lock)
}

/// `pthread_mutex_timedlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, time) }
}

/// `pthread_mutex_clocklock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's mutex.
    let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
    // SAFETY: the caller's arguments.
    let lock = |clock, time| unsafe { real::pthread_mutex_clocklock(mutex, clock, time) };
    // SAFETY: the caller's time.
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

/// Takes a lock, which `attempt` tries to and `lock` waits for in the kernel or the processor.
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
    // SAFETY: the caller's lock.
    let attempt = || unsafe { real::pthread_rwlock_tryrdlock(rwlock) };
    // SAFETY: the caller's lock.
    lock_for(attempt, || unsafe { real::pthread_rwlock_rdlock(rwlock) })
}

/// `pthread_rwlock_wrlock` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's lock.
    let attempt = || unsafe { real::pthread_rwlock_trywrlock(rwlock) };
    // SAFETY: the caller's lock.
    lock_for(attempt, || unsafe { real::pthread_rwlock_wrlock(rwlock) })
}

/// `pthread_barrier_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's barrier.
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
    // SAFETY: the caller's arguments.
    let wait = || unsafe { real::pthread_cond_wait(condition, mutex) };
    match Own::enter("pthread_cond_wait") {
        Some(own) => own.outside(wait),
        None => wait(),
    }
}

/// `pthread_cond_timedwait` of libc.
///
/// The clock that a condition variable was made for is not known here: a time that is less than
/// half a realtime clock's is one of the monotonic clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    const HALF: i64 = (ferroce_timed_protocol::REALTIME_EPOCH_S / 2) as i64;
    let Some(own) = Own::enter("pthread_cond_timedwait") else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_cond_timedwait(condition, mutex, time) };
    };
    // SAFETY: the caller's time, or null.
    let is_monotonic = unsafe { time.as_ref() }.is_some_and(|time| time.tv_sec < HALF);
    let clock = match is_monotonic {
        true => libc::CLOCK_MONOTONIC,
        false => libc::CLOCK_REALTIME,
    };
    // SAFETY: the caller's arguments.
    unsafe { wait_for_condition(&own, (condition, mutex), clock, time) }
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
        // SAFETY: the caller's arguments.
        Some(own) => unsafe { wait_for_condition(&own, (condition, mutex), clock, time) },
        // SAFETY: the caller's arguments.
        None => unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) },
    }
}

/// Waits for a condition until a time of a clock.
///
/// # Safety
/// As `pthread_cond_clockwait`.
unsafe fn wait_for_condition(
    own: &Own,
    (condition, mutex): (*mut pthread_cond_t, *mut pthread_mutex_t),
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract.
    let wait = |clock, time| unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) };
    // SAFETY: by the contract.
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
    // SAFETY: the caller's semaphore.
    let wait = || unsafe { real::sem_wait(semaphore) };
    let Some(own) = Own::enter("sem_wait") else {
        return wait();
    };
    // SAFETY: the caller's semaphore.
    match unsafe { real::sem_trywait(semaphore) } {
        0 => 0,
        _ => own.outside(wait),
    }
}

/// `sem_timedwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { sem_clockwait(semaphore, libc::CLOCK_REALTIME, time) }
}

/// `sem_clockwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    let wait = |clock, time| unsafe { real::sem_clockwait(semaphore, clock, time) };
    // SAFETY: the caller's time.
    let deadline_ps = unsafe { read_absolute(clock, time) };
    let (Some(own), Some(deadline_ps)) = (Own::enter("sem_clockwait"), deadline_ps) else {
        return wait(clock, time);
    };
    // SAFETY: the caller's semaphore.
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
    // SAFETY: the caller's arguments.
    let join = || unsafe { real::pthread_join(thread, result) };
    let Some(own) = Own::enter("pthread_join") else {
        return join();
    };
    // SAFETY: the caller's arguments.
    match unsafe { libc::pthread_tryjoin_np(thread, result) } {
        libc::EBUSY => own.outside(join),
        joined => joined,
    }
}

/// `pause` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pause() -> c_int {
    // SAFETY: no arguments.
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
