//! Reading and writing descriptors of any kind.
//!
//! Ready data is read at once. A thread that has to wait for an event of the program itself
//! (events, timers) waits in simulated time; one that has to wait for anything else is outside of
//! the world meanwhile.

#![expect(unsafe_code, reason = "functions of libc, and the program's buffers")]

use std::ffi::{c_int, c_uint, c_void};

use ferroce_timed_protocol::store::StoreKind;
use libc::{iovec, size_t, ssize_t};
use rustix::event::PollFlags;

use crate::descriptor::{Descriptor, Kind};
use crate::own::{Ended, Own};
use crate::streams::{known, set_up, transfer};
use crate::{connection, inner_pipes, os, ready, real, relatives, timers};

/// Receives from a descriptor into `parts`; `real` calls libc for descriptors that are not streams.
pub fn input(fd: c_int, parts: &[iovec], flags: c_int, real: impl FnOnce() -> ssize_t) -> ssize_t {
    let (Some(own), Some(descriptor)) = (Own::enter("input"), Descriptor::new(fd)) else {
        return real();
    };
    match known::connection(descriptor) {
        Some(connection) => transfer::receive(&own, descriptor, connection, parts, flags, real),
        // A read of no bytes only checks the descriptor.
        None if parts.iter().all(|part| part.iov_len == 0) => real(),
        None => wait_for_input(&own, descriptor, flags, real),
    }
}

/// Sends `parts` to a descriptor; `real` calls libc for descriptors that are not streams.
pub fn output(fd: c_int, parts: &[iovec], flags: c_int, real: impl FnOnce() -> ssize_t) -> ssize_t {
    let (Some(own), Some(descriptor)) = (Own::enter("output"), Descriptor::new(fd)) else {
        let result = real();
        if result > 0 {
            os::keeping_errno(|| inner_pipes::note_real_output(fd));
        }
        return result;
    };
    match known::connection(descriptor) {
        Some(connection) => transfer::transmit(&own, descriptor, connection, parts, flags),
        None => {
            let result = real();
            if result > 0 {
                os::keeping_errno(|| notify(&own, descriptor));
            }
            result
        }
    }
}

/// Lets other threads that wait for events check again, after a write to one of their descriptors.
fn notify(own: &Own, descriptor: Descriptor) {
    if is_awaited_by_others(descriptor) {
        own.store(StoreKind::Notify, 0, &[]);
    }
}

/// Returns true if other threads may wait for what happens to a descriptor.
fn is_awaited_by_others(descriptor: Descriptor) -> bool {
    relatives::others_may_act() && descriptor.kind() == Kind::Event
}

/// Waits until there is something to read, and calls `real` to read it. `flags`: of `recv`.
pub fn wait_for_input(
    own: &Own,
    descriptor: Descriptor,
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if !descriptor.ready(PollFlags::IN).is_empty() {
        return real();
    }
    own.catch_up();
    if flags & libc::MSG_DONTWAIT != 0 || descriptor.is_nonblocking() {
        let result = real();
        if result < 0 {
            os::keeping_errno(|| own.spend_call());
        }
        return result;
    }
    match descriptor.kind() {
        Kind::Event => match ready::wait_for_event(own, descriptor) {
            Ended::Interrupted { .. } => real::failed_size(libc::EINTR),
            _ => real(),
        },
        Kind::Other => {
            own.name(descriptor.wait_for_input());
            own.outside(real)
        }
    }
}

/// `read` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: by the contract of `read`, the arguments are valid.
    let real = || unsafe { real::read(fd, buffer, length) };
    input(fd, &[part(buffer, length)], 0, real)
}

/// `read` of libc, as `_FORTIFY_SOURCE` calls it with the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: by the contract of `__read_chk`, the arguments are valid.
    let real = || unsafe { real::__read_chk(fd, buffer, length, room) };
    if length > room {
        real()
    } else {
        input(fd, &[part(buffer, length)], 0, real)
    }
}

/// `readv` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the contract of `readv`, the arguments are valid.
    let real = || unsafe { real::readv(fd, parts, count) };
    // SAFETY: by the contract of `readv`, the arguments are valid.
    match unsafe { array(parts, count) } {
        Some(parts) => input(fd, parts, 0, real),
        None => real(),
    }
}

/// `write` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: by the contract of `write`, the arguments are valid.
    let real = || unsafe { real::write(fd, buffer, length) };
    output(fd, &[part(buffer, length)], 0, real)
}

/// `writev` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the contract of `writev`, the arguments are valid.
    let real = || unsafe { real::writev(fd, parts, count) };
    // SAFETY: by the contract of `writev`, the arguments are valid.
    match unsafe { array(parts, count) } {
        Some(parts) => output(fd, parts, 0, real),
        None => real(),
    }
}

/// `eventfd_write` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eventfd_write(fd: c_int, value: libc::eventfd_t) -> c_int {
    let own = Own::enter("eventfd_write");
    // SAFETY: `eventfd_write` takes no pointers.
    let result = unsafe { real::eventfd_write(fd, value) };
    if let (0, Some(own), Some(descriptor)) = (result, own, Descriptor::new(fd)) {
        notify(&own, descriptor);
    }
    result
}

/// `close` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if connection::is(fd) {
        // The program has not opened it. Some close all numbers before they execute another one.
        return real::failed(libc::EBADF);
    }
    let own = Own::enter("close");
    let mut is_awaited = false;
    if let (Some(own), Some(descriptor)) = (&own, Descriptor::new(fd)) {
        set_up::before_close(own, descriptor);
        timers::before_close(descriptor);
        is_awaited = is_awaited_by_others(descriptor);
    }
    // SAFETY: the caller keeps the contract of `close`, which takes no pointers.
    let result = unsafe { real::close(fd) };
    if let (Some(own), true) = (own, is_awaited) {
        // The other end of a pipe may have come to its end.
        os::keeping_errno(|| own.store(StoreKind::Notify, 0, &[]));
    }
    result
}

/// `close_range` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller keeps the contract of `close_range`, which takes no pointers.
    let close = |first, last| unsafe { real::close_range(first, last, flags) };
    match connection::number().filter(|number| (first..=last).contains(number)) {
        // Without the connection.
        Some(number) => {
            let below = number.checked_sub(1).filter(|below| first <= *below);
            let result = below.map_or(0, |below| close(first, below));
            match number < last && result == 0 {
                true => close(number + 1, last),
                false => result,
            }
        }
        None => close(first, last),
    }
}

/// `closefrom` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the caller keeps the contract of `closefrom`, which takes no pointers.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// Returns a buffer as the only part of a message.
pub fn part(buffer: *const c_void, length: size_t) -> iovec {
    iovec {
        iov_base: buffer.cast_mut(),
        iov_len: length,
    }
}

/// Returns the parts of a message. `None`: they are invalid, and the kernel is to return the error.
///
/// # Safety
/// `parts` is null or has `count` entries, if `count` is within the limit.
unsafe fn array<'a>(parts: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    let count = usize::try_from(count).ok()?;
    if parts.is_null() || count > libc::UIO_MAXIOV as usize {
        return None;
    }
    // SAFETY: the caller guarantees `count` entries; null and counts above the limit are excluded.
    Some(unsafe { std::slice::from_raw_parts(parts, count) })
}
