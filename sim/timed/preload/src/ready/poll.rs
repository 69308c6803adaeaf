//! `poll` and `ppoll`.

#![expect(
    unsafe_code,
    reason = "functions of libc, and the program's descriptors"
)]

use std::ffi::{c_int, c_short};

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{nfds_t, pollfd, sigset_t, size_t, timespec};

use super::{PS_PER_MS, Source, Sources, wait_until};
use crate::descriptor::Descriptor;
use crate::own::Own;
use crate::real;
use crate::signals::with_mask;
use crate::time_formats::picoseconds;

/// Events that mean input from another program.
const INCOMING: c_short = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP | libc::POLLHUP;

/// Only this many entries of a call, the first ones, can have their readiness hidden.
const MAX_HIDDEN: usize = 1024;
/// Maximum number of entries of a simulated call.
const MAX_DESCRIPTORS: usize = 1 << 20;

/// Returns the deadline of a call with this time limit; negative: never.
pub fn deadline_of_ms(own: &Own, timeout_ms: c_int) -> u64 {
    u64::try_from(timeout_ms).map_or(NEVER_PS, |timeout_ms| {
        own.now_ps().saturating_add(timeout_ms * PS_PER_MS)
    })
}

/// Returns the deadline of a call with this time limit; null: never. `None`: the time is invalid.
///
/// # Safety
/// `timeout` is null or valid.
pub unsafe fn deadline_of(own: &Own, timeout: *const timespec) -> Option<u64> {
    // SAFETY: the caller guarantees that `timeout` is null or valid.
    match unsafe { timeout.as_ref() } {
        None => Some(NEVER_PS),
        Some(timeout) => {
            let time_ps = picoseconds(timeout.tv_sec, timeout.tv_nsec, 1000)?;
            Some(own.now_ps().saturating_add(time_ps))
        }
    }
}

/// Waits for descriptors, until `deadline_ps` at most.
pub fn wait(own: &Own, descriptors: &mut [pollfd], deadline_ps: u64) -> c_int {
    let polled = descriptors.as_mut_ptr();
    let count = descriptors.len();
    let wait_in_kernel = |timeout_ms| {
        // SAFETY: the contract of `poll`: pointer and count describe one slice, to which no
        // reference is live.
        unsafe { real::poll(polled, count as nfds_t, timeout_ms) }
    };
    // SAFETY: pointer and count describe one slice that is borrowed exclusively, and no other
    // reference is live.
    let all = || unsafe { std::slice::from_raw_parts_mut(polled, count) };
    let check = || {
        let mut hidden = Hidden::default();
        for (place, entry) in all().iter().enumerate() {
            if entry.events & INCOMING == 0 {
                continue;
            }
            if let Some(descriptor) = Descriptor::new(entry.fd) {
                let source = Source::within_world(own, descriptor);
                if source.is_some_and(|source| !source.is_ready(own, descriptor)) {
                    hidden.add(place);
                }
            }
        }
        let mut found = wait_in_kernel(0);
        for (place, entry) in all().iter_mut().enumerate() {
            if found > 0 && entry.revents != 0 && hidden.contains(place) {
                entry.revents &= !INCOMING;
                found -= c_int::from(entry.revents == 0);
            }
        }
        found
    };
    let sources = || {
        let mut sources = Sources::default();
        for entry in all().iter() {
            if let Some(descriptor) = Descriptor::new(entry.fd) {
                sources.add(Source::of(own, descriptor));
            }
        }
        sources
    };
    wait_until(own, deadline_ps, check, sources, wait_in_kernel)
}

/// Entries that are ready in the kernel, but not yet in simulated time.
#[derive(Debug, Default)]
struct Hidden([u64; MAX_HIDDEN / 64]);

impl Hidden {
    fn add(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    fn contains(&self, place: usize) -> bool {
        let word = self.0.get(place / 64);
        word.is_some_and(|word| word >> (place % 64) & 1 != 0)
    }
}

/// Returns the descriptors of a call. `None`: they are invalid, and the kernel is to return the
/// error.
///
/// # Safety
/// `descriptors` is null or has `count` entries, if `count` is within the limit.
unsafe fn array<'a>(descriptors: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    let count = usize::try_from(count).ok()?;
    if count == 0 {
        return Some(&mut []);
    }
    if descriptors.is_null() || count > MAX_DESCRIPTORS {
        return None;
    }
    // SAFETY: the caller guarantees `count` entries; null and counts above the limit are excluded.
    Some(unsafe { std::slice::from_raw_parts_mut(descriptors, count) })
}

/// `poll` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(descriptors: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: by the contract of `poll`, the arguments are valid.
    match (Own::enter("poll"), unsafe { array(descriptors, count) }) {
        (Some(own), Some(entries)) => wait(&own, entries, deadline_of_ms(&own, timeout_ms)),
        // SAFETY: by the contract of `poll`, the arguments are valid.
        _ => unsafe { real::poll(descriptors, count, timeout_ms) },
    }
}

/// `poll` of libc, as `_FORTIFY_SOURCE` calls it with the size of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    room: size_t,
) -> c_int {
    match count as usize <= room / size_of::<pollfd>() {
        // SAFETY: by the contract of `__poll_chk`, the arguments are valid.
        true => unsafe { poll(descriptors, count, timeout_ms) },
        // SAFETY: by the contract of `__poll_chk`, the arguments are valid.
        false => unsafe { real::__poll_chk(descriptors, count, timeout_ms, room) },
    }
}

/// `ppoll` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let own = Own::enter("ppoll");
    // SAFETY: by the contract of `ppoll`, the arguments are valid.
    let (entries, deadline_ps) = unsafe {
        let deadline_ps = own.as_ref().and_then(|own| deadline_of(own, timeout));
        (array(descriptors, count), deadline_ps)
    };
    match (own, entries, deadline_ps) {
        (Some(own), Some(entries), Some(deadline_ps)) => {
            with_mask(mask, || wait(&own, entries, deadline_ps))
        }
        // SAFETY: by the contract of `ppoll`, the arguments are valid.
        _ => unsafe { real::ppoll(descriptors, count, timeout, mask) },
    }
}

/// `ppoll` of libc, as `_FORTIFY_SOURCE` calls it with the size of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    match count as usize <= room / size_of::<pollfd>() {
        // SAFETY: by the contract of `__ppoll_chk`, the arguments are valid.
        true => unsafe { ppoll(descriptors, count, timeout, mask) },
        // SAFETY: by the contract of `__ppoll_chk`, the arguments are valid.
        false => unsafe { real::__ppoll_chk(descriptors, count, timeout, mask, room) },
    }
}
