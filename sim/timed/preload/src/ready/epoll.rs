//! `epoll_wait` and its relatives.
//!
//! The descriptors that an epoll descriptor watches are read from `/proc` at each wait, because it
//! can be copied and changed in more ways than can be observed.

#![expect(unsafe_code, reason = "functions of libc, and the program's events")]

use std::ffi::c_int;

use libc::{epoll_event, sigset_t, timespec};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::read;

use super::{Source, Sources, poll, wait_until};
use crate::descriptor::Descriptor;
use crate::own::Own;
use crate::real;
use crate::signals::with_mask;

/// Maximum number of an epoll descriptor's entries that are checked.
const MAX_WATCHED: usize = 256;
/// Bytes of the list in `/proc` that are read: a line has less than 100.
const LIST_BYTES: usize = 100 * MAX_WATCHED;
/// Events that mean input from another program.
const INCOMING: u32 =
    (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLRDHUP | libc::EPOLLHUP) as u32;
/// Modes in which an event is reported only once.
const ONCE: u32 = (libc::EPOLLET | libc::EPOLLONESHOT) as u32;

/// A watched descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    fd: c_int,
    events: u32,
    data: u64,
}

/// All descriptors that an epoll descriptor watches.
struct List {
    entries: [Watched; MAX_WATCHED],
    length: usize,
}

impl List {
    fn of(epoll: Descriptor) -> Self {
        let mut list = Self {
            entries: [Watched {
                fd: -1,
                events: 0,
                data: 0,
            }; MAX_WATCHED],
            length: 0,
        };
        let mut text = [0; LIST_BYTES];
        let length = Self::read(epoll, &mut text);
        for line in text[..length].split(|byte| *byte == b'\n') {
            let Some(watched) = std::str::from_utf8(line).ok().and_then(parse) else {
                continue;
            };
            if let Some(entry) = list.entries.get_mut(list.length) {
                *entry = watched;
                list.length += 1;
            }
        }
        list
    }

    fn read(epoll: Descriptor, text: &mut [u8]) -> usize {
        let mut path = [0; 40];
        let Some(path) = epoll.path_in_proc("fdinfo", &mut path) else {
            return 0;
        };
        let Ok(file) = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            return 0;
        };
        let mut length = 0;
        while length < text.len() {
            match read(&file, &mut text[length..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => length += count,
            }
        }
        length
    }

    fn entries(&self) -> &[Watched] {
        &self.entries[..self.length]
    }
}

/// Parses a line of the list: `tfd: 5 events: 19 data: 5 pos:0 ino:… sdev:…`, the numbers after the
/// first in hexadecimal.
fn parse(line: &str) -> Option<Watched> {
    let mut words = line.split_ascii_whitespace();
    let mut value = |name| (words.next()? == name).then(|| words.next())?;
    Some(Watched {
        fd: value("tfd:")?.parse().ok()?,
        events: u32::from_str_radix(value("events:")?, 16).ok()?,
        data: u64::from_str_radix(value("data:")?, 16).ok()?,
    })
}

/// Waits for events of an epoll descriptor, until `deadline_ps` at most.
///
/// # Safety
/// `events` has room for `count`.
unsafe fn wait(
    own: &Own,
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    deadline_ps: u64,
) -> c_int {
    let wait_in_kernel = |timeout_ms| {
        // SAFETY: the contract of `epoll_wait`: the caller of `wait` guarantees room for `count`
        // events.
        unsafe { real::epoll_wait(fd, events, count, timeout_ms) }
    };
    let Some(epoll) = Descriptor::new(fd).filter(|_| count > 0) else {
        return wait_in_kernel(0);
    };
    let list = List::of(epoll);
    let within = |watched: &Watched| {
        let descriptor = Descriptor::new(watched.fd)?;
        Some((Source::within_world(own, descriptor)?, descriptor))
    };
    let check = || {
        let mut hidden = [false; MAX_WATCHED];
        for (hidden, watched) in hidden.iter_mut().zip(list.entries()) {
            if watched.events & INCOMING != 0 {
                *hidden = within(watched).is_some_and(|(s, d)| !s.is_ready(own, d));
            }
        }
        let found = wait_in_kernel(0);
        let Some(found) = usize::try_from(found)
            .ok()
            .filter(|_| hidden.contains(&true))
        else {
            return found;
        };
        // SAFETY: the kernel has written `found` events, and the caller guarantees the room.
        let reported = unsafe { std::slice::from_raw_parts_mut(events, found) };
        let kept = remove_hidden(&list, &hidden, reported);
        for (watched, _) in list
            .entries()
            .iter()
            .zip(hidden)
            .filter(|(_, hidden)| *hidden)
        {
            if watched.events & ONCE != 0 {
                report_again(fd, watched);
            }
        }
        kept as c_int
    };
    let sources = || {
        let mut sources = Sources::default();
        for watched in list.entries() {
            if let Some(descriptor) = Descriptor::new(watched.fd) {
                sources.add(Source::of(own, descriptor));
            }
        }
        sources
    };
    wait_until(own, deadline_ps, check, sources, wait_in_kernel)
}

/// Removes the incoming data of `hidden` entries from the events that the kernel has reported.
/// Returns how many events are left.
fn remove_hidden(list: &List, hidden: &[bool; MAX_WATCHED], reported: &mut [epoll_event]) -> usize {
    let is_hidden = |event: &epoll_event| {
        let data = event.u64;
        let entries = list.entries().iter().zip(hidden);
        let mut of_data = entries
            .filter(|(watched, _)| watched.data == data)
            .peekable();
        of_data.peek().is_some() && of_data.all(|(_, hidden)| *hidden)
    };
    let mut kept = 0;
    for place in 0..reported.len() {
        let mut event = reported[place];
        if is_hidden(&event) {
            event.events &= !INCOMING;
        }
        if event.events != 0 {
            reported[kept] = event;
            kept += 1;
        }
    }
    kept
}

/// Makes the kernel report a descriptor again.
fn report_again(epoll: c_int, watched: &Watched) {
    let mut event = epoll_event {
        events: watched.events,
        u64: watched.data,
    };
    // SAFETY: `epoll_ctl` reads one local event. It fails without effect for a descriptor that is
    // no longer watched.
    unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, watched.fd, &raw mut event) };
}

/// `epoll_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
) -> c_int {
    let Some(own) = Own::enter("epoll_wait") else {
        // SAFETY: by the contract of `epoll_wait`, the arguments are valid.
        return unsafe { real::epoll_wait(fd, events, count, timeout_ms) };
    };
    let deadline_ps = poll::deadline_of_ms(&own, timeout_ms);
    // SAFETY: by the contract of `epoll_wait`, the arguments are valid.
    unsafe { wait(&own, fd, events, count, deadline_ps) }
}

/// `epoll_pwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let Some(own) = Own::enter("epoll_pwait") else {
        // SAFETY: by the contract of `epoll_pwait`, the arguments are valid.
        return unsafe { real::epoll_pwait(fd, events, count, timeout_ms, mask) };
    };
    let deadline_ps = poll::deadline_of_ms(&own, timeout_ms);
    // SAFETY: by the contract of `epoll_pwait`, the arguments are valid.
    with_mask(mask, || unsafe {
        wait(&own, fd, events, count, deadline_ps)
    })
}

/// `epoll_pwait2` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let own = Own::enter("epoll_pwait2");
    // SAFETY: by the contract of `epoll_pwait2`, the time is valid or null.
    let deadline_ps = own
        .as_ref()
        .and_then(|own| unsafe { poll::deadline_of(own, timeout) });
    let (Some(own), Some(deadline_ps)) = (own, deadline_ps) else {
        // SAFETY: by the contract of `epoll_pwait2`, the arguments are valid.
        return unsafe { real::epoll_pwait2(fd, events, count, timeout, mask) };
    };
    // SAFETY: by the contract of `epoll_pwait2`, the arguments are valid.
    with_mask(mask, || unsafe {
        wait(&own, fd, events, count, deadline_ps)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list_are_understood() {
        let line = "tfd:       17 events: 80000019 data:         ff00000011  pos:0 ino:3d sdev:f";
        let watched = Watched {
            fd: 17,
            events: 0x8000_0019,
            data: 0xff_0000_0011,
        };
        assert_eq!(parse(line), Some(watched));
        assert_eq!(parse("pos:\t0"), None);
        assert_eq!(parse(""), None);
    }
}
