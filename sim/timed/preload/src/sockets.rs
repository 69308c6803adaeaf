//! The functions of libc that set up sockets, send and receive.
//!
//! Connections to other programs of the world are handled in [`crate::streams`], all other
//! descriptors in [`crate::files`].

#![expect(unsafe_code, reason = "functions of libc, and the program's buffers")]

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::descriptor::Descriptor;
use crate::files::{input, output, part, wait_for_input};
use crate::own::Own;
use crate::real;
use crate::streams::{known, set_up};

/// Returns the parts of a message.
///
/// # Safety
/// `message` is null or valid.
unsafe fn parts_of<'a>(message: *const msghdr) -> &'a [iovec] {
    // SAFETY: the caller guarantees that `message` is null or valid.
    match unsafe { message.as_ref() } {
        Some(message) if !message.msg_iov.is_null() => {
            // SAFETY: a valid message has `msg_iovlen` parts at `msg_iov`.
            unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
        }
        _ => &[],
    }
}

/// `connect` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: by the contract of `connect`, the arguments are valid.
    let real = || unsafe { real::connect(fd, address, length) };
    match (Own::enter("connect"), Descriptor::new(fd)) {
        (Some(own), Some(descriptor)) if descriptor.is_tcp() => {
            // SAFETY: by the contract of `connect`, the address is valid.
            let peer = unsafe { set_up::address_of(address, length) };
            set_up::connect(&own, descriptor, peer, real)
        }
        _ => real(),
    }
}

/// `listen` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let own = Own::enter("listen");
    // SAFETY: the caller keeps the contract of `listen`, which takes no pointers.
    let result = unsafe { real::listen(fd, backlog) };
    if let (Some(own), Some(descriptor), 0) = (own, Descriptor::new(fd), result) {
        set_up::announce(&own, descriptor);
    }
    result
}

/// `accept` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: by the contract of `accept`, the arguments are valid.
    unsafe { accept4(fd, address, length, 0) }
}

/// `accept4` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of `accept4`, the arguments are valid.
    let real = || unsafe { real::accept4(fd, address, length, flags) };
    let (Some(own), Some(descriptor)) = (Own::enter("accept4"), Descriptor::new(fd)) else {
        return real();
    };
    match set_up::known_port(&own, descriptor) {
        Some(port) => set_up::accept(&own, descriptor, port, real),
        None => wait_for_input(&own, descriptor, 0, || real() as ssize_t) as c_int,
    }
}

/// `shutdown` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let own = Own::enter("shutdown");
    let connection = Descriptor::new(fd).and_then(known::connection);
    // SAFETY: `shutdown` takes no pointers.
    let result = unsafe { real::shutdown(fd, how) };
    if let (Some(own), Some(connection), 0) = (own, connection, result) {
        if how != libc::SHUT_RD {
            set_up::end_outgoing(&own, connection);
        }
    }
    result
}

/// `recv` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: by the contract of `recv`, the arguments are valid.
    let real = || unsafe { real::recv(fd, buffer, length, flags) };
    input(fd, &[part(buffer, length)], flags, real)
}

/// `recv` of libc, as `_FORTIFY_SOURCE` calls it with the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: by the contract of `__recv_chk`, the arguments are valid.
    let real = || unsafe { real::__recv_chk(fd, buffer, length, room, flags) };
    if length > room {
        real()
    } else {
        input(fd, &[part(buffer, length)], flags, real)
    }
}

/// `recvfrom` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: by the contract of `recvfrom`, the arguments are valid.
    let real = || unsafe { real::recvfrom(fd, buffer, length, flags, address, address_length) };
    // The kernel does not return the sender's address for a connection, either.
    input(fd, &[part(buffer, length)], flags, real)
}

/// `recvmsg` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the contract of `recvmsg`, the arguments are valid.
    let real = || unsafe { real::recvmsg(fd, message, flags) };
    // SAFETY: by the contract of `recvmsg`, the message is valid.
    let parts = unsafe { parts_of(message) };
    let mut was_stream = true;
    let result = input(fd, parts, flags, || {
        was_stream = false;
        real()
    });
    // SAFETY: by the contract of `recvmsg`, the message is valid.
    if let (true, Some(message)) = (was_stream && result >= 0, unsafe { message.as_mut() }) {
        message.msg_namelen = 0;
        message.msg_controllen = 0;
        message.msg_flags = 0;
    }
    result
}

/// `send` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: by the contract of `send`, the arguments are valid.
    let real = || unsafe { real::send(fd, buffer, length, flags) };
    output(fd, &[part(buffer, length)], flags, real)
}

/// `sendto` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    // SAFETY: by the contract of `sendto`, the arguments are valid.
    let real = || unsafe { real::sendto(fd, buffer, length, flags, address, address_length) };
    output(fd, &[part(buffer, length)], flags, real)
}

/// `sendmsg` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the contract of `sendmsg`, the arguments are valid.
    let real = || unsafe { real::sendmsg(fd, message, flags) };
    // SAFETY: by the contract of `sendmsg`, the message is valid.
    let parts = unsafe { parts_of(message) };
    output(fd, parts, flags, real)
}
