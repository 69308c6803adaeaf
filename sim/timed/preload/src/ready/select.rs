//! `select` and `pselect`.

#![expect(
    unsafe_code,
    reason = "functions of libc, and the program's descriptors"
)]

use std::ffi::{c_int, c_short};

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{fd_set, pollfd, sigset_t, timespec, timeval};

use super::poll;
use crate::own::Own;
use crate::real;
use crate::signals::with_mask;
use crate::time_formats::picoseconds;

/// Descriptors that a set has room for.
const MAX_DESCRIPTORS: usize = libc::FD_SETSIZE;
/// Picoseconds of a microsecond.
const PS_PER_US: u64 = 1_000_000;

/// The three sets; null: empty.
struct Sets([*mut fd_set; 3]);

/// Events that each set requests, and the events that satisfy the request.
const EVENTS: [(c_short, c_short); 3] = [
    (
        libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND,
        libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
    ),
    (
        libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND,
        libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
    ),
    (libc::POLLPRI, libc::POLLPRI),
];

impl Sets {
    /// Waits for the descriptors below `count` that are in the sets.
    ///
    /// # Safety
    /// Each set is null or valid.
    unsafe fn wait(&self, own: &Own, count: c_int, deadline_ps: u64) -> c_int {
        let Some(count) = usize::try_from(count)
            .ok()
            .filter(|c| *c <= MAX_DESCRIPTORS)
        else {
            return real::failed(libc::EINVAL);
        };
        let nothing = pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        };
        let mut entries = [nothing; MAX_DESCRIPTORS];
        let mut used = 0;
        for fd in 0..count {
            let mut events = 0;
            for (set, (asks, _)) in self.0.iter().zip(EVENTS) {
                // SAFETY: the set is valid, and `fd` is below `FD_SETSIZE`.
                if !set.is_null() && unsafe { libc::FD_ISSET(fd as c_int, *set) } {
                    events |= asks;
                }
            }
            if events != 0 {
                entries[used] = pollfd {
                    fd: fd as c_int,
                    events,
                    revents: 0,
                };
                used += 1;
            }
        }
        let entries = &mut entries[..used];
        let found = poll::wait(own, entries, deadline_ps);
        if found < 0 {
            return found;
        }
        if entries
            .iter()
            .any(|entry| entry.revents & libc::POLLNVAL != 0)
        {
            return real::failed(libc::EBADF);
        }
        let mut total = 0;
        for (set, (asks, answers)) in self.0.iter().zip(EVENTS) {
            for entry in entries.iter().filter(|entry| entry.events & asks != 0) {
                if entry.revents & answers != 0 {
                    total += 1;
                } else {
                    // SAFETY: the set is valid, and the descriptor was in it, so it is below
                    // `FD_SETSIZE`.
                    unsafe { libc::FD_CLR(entry.fd, *set) };
                }
            }
        }
        total
    }
}

/// `select` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: by the contract of `select`, the time is valid or null.
    let limit_ps = match unsafe { timeout.as_ref() } {
        None => Some(NEVER_PS),
        Some(timeout) => picoseconds(timeout.tv_sec, timeout.tv_usec, PS_PER_US),
    };
    let (Some(own), Some(limit_ps)) = (Own::enter("select"), limit_ps) else {
        // SAFETY: by the contract of `select`, the arguments are valid.
        return unsafe { real::select(count, read, write, except, timeout) };
    };
    let deadline_ps = own.now_ps().saturating_add(limit_ps);
    // SAFETY: by the contract of `select`, the sets are valid or null.
    let found = unsafe { Sets([read, write, except]).wait(&own, count, deadline_ps) };
    // SAFETY: by the contract of `select`, the time is valid or null.
    if let Some(timeout) = unsafe { timeout.as_mut() } {
        let left_us = deadline_ps.saturating_sub(own.now_ps()) / PS_PER_US;
        timeout.tv_sec = (left_us / 1_000_000) as libc::time_t;
        timeout.tv_usec = (left_us % 1_000_000) as libc::suseconds_t;
    }
    found
}

/// `pselect` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let own = Own::enter("pselect");
    // SAFETY: by the contract of `pselect`, the time is valid or null.
    let deadline_ps = own
        .as_ref()
        .and_then(|own| unsafe { poll::deadline_of(own, timeout) });
    let (Some(own), Some(deadline_ps)) = (own, deadline_ps) else {
        // SAFETY: by the contract of `pselect`, the arguments are valid.
        return unsafe { real::pselect(count, read, write, except, timeout, mask) };
    };
    let sets = Sets([read, write, except]);
    // SAFETY: by the contract of `pselect`, the sets are valid or null.
    with_mask(mask, || unsafe { sets.wait(&own, count, deadline_ps) })
}
