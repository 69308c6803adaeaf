//! Sockets of RDMA netlink.
//!
//! A program gets a netlink socket of the protocol that the kernel leaves to programs, so binding,
//! waiting and receiving need no further support. `crate::netlink` answers the requests that the
//! program sends, and a second socket delivers the answers.
//!
//! The other sockets of a program pass through plain frames, as threads may be cancelled in them
//! (see [`super::blocking`]).

use std::mem::zeroed;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, c_long, c_void, size_t, sockaddr, socklen_t, ssize_t};

use super::boundary::{guard, minus_one, or_errno};
use super::loading::check_at_exit;
use super::next::next;
use crate::errno::Errno;
use crate::netlink::{MAX_REQUEST, answers};
use crate::os::descriptor::FileIdentity;
use crate::os::{last_errno, set_errno};

/// Protocol of the kernel's RDMA subsystem: `<linux/netlink.h>`.
const NETLINK_RDMA: c_int = 20;
/// Protocol that the kernel leaves to programs.
const NETLINK_USERSOCK: c_int = 2;

/// Maximum number of RDMA netlink sockets of a process; most programs have one. A further socket
/// replaces the oldest.
const SOCKETS_LIMIT: usize = 64;

/// The sockets. A closed one stays until its place is needed: its inode number is reused only after
/// the kernel's counter has wrapped around, and then by a socket.
static SOCKETS: Mutex<Vec<FileIdentity>> = Mutex::new(Vec::new());
/// How many have been opened.
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// `socket` of libc.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == NETLINK_RDMA {
        return minus_one("socket(AF_NETLINK, …, NETLINK_RDMA)", || open(kind));
    }
    // The next `socket` may be librspreload's, for example.
    type Socket = extern "C" fn(c_int, c_int, c_int) -> c_int;
    match next!(socket as Socket) {
        Some(next) => next(domain, kind, protocol),
        // SAFETY: the system call reads no memory.
        None => unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int },
    }
}

/// Opens a socket of RDMA netlink.
///
/// # Errors
/// `EPROTONOSUPPORT`, as in a kernel without RDMA, where the system has no such sockets.
fn open(kind: c_int) -> Result<c_int, Errno> {
    let fd = open_socket(kind).map_err(|_| Errno::new(libc::EPROTONOSUPPORT))?;
    let identity = FileIdentity::of(fd)?;
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    if !sockets.contains(&identity) {
        if sockets.len() == SOCKETS_LIMIT {
            sockets.remove(0);
        }
        sockets.push(identity);
    }
    check_at_exit();
    OPENED.fetch_add(1, Ordering::Release);
    Ok(fd)
}

fn open_socket(kind: c_int) -> Result<c_int, Errno> {
    // SAFETY: the system call reads no memory.
    let fd = unsafe { libc::syscall(libc::SYS_socket, libc::AF_NETLINK, kind, NETLINK_USERSOCK) };
    checked(fd).map(|fd| fd as c_int)
}

fn checked(result: c_long) -> Result<c_long, Errno> {
    match result {
        -1 => Err(last_errno()),
        result => Ok(result),
    }
}

/// Returns true for a socket of RDMA netlink; for programs without one it costs a load.
pub(super) fn is_rdma_socket(fd: c_int) -> bool {
    OPENED.load(Ordering::Acquire) != 0 && is_one_of_them(fd)
}

#[cold]
#[inline(never)]
extern "C" fn is_one_of_them(fd: c_int) -> bool {
    let errno = last_errno();
    let found = guard(|| {
        let identity = FileIdentity::of(fd)?;
        let sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sockets.contains(&identity))
    });
    set_errno(errno);
    found.unwrap_or(false)
}

/// Answers a datagram that a program sends to the kernel; returns its length.
///
/// # Safety
/// There are `count` parts, which are memory that can be read.
#[cold]
#[inline(never)]
unsafe extern "C" fn send_parts(fd: c_int, parts: *const libc::iovec, count: usize) -> ssize_t {
    let parts = match count {
        0 => &[],
        // SAFETY: the caller guarantees `count` parts.
        _ => unsafe { std::slice::from_raw_parts(parts, count) },
    };
    or_errno(|| {
        let mut request = Vec::new();
        for part in parts.iter().filter(|part| part.iov_len != 0) {
            if request.len().saturating_add(part.iov_len) > MAX_REQUEST {
                return Err(Errno::new(libc::EMSGSIZE));
            }
            // SAFETY: the caller guarantees memory that can be read.
            let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
            request.extend_from_slice(bytes);
        }
        let mut address = port_of(fd)?;
        let own = open_socket(libc::SOCK_RAW | libc::SOCK_CLOEXEC)?;
        let sent = answers(&request, address.nl_pid)
            .iter()
            .try_for_each(|answer| send_answer(own, answer, &mut address));
        // SAFETY: the descriptor is ours, and no other code has it.
        unsafe { libc::syscall(libc::SYS_close, own) };
        sent.map(|()| request.len() as ssize_t)
    })
}

/// Answers a datagram of one part.
///
/// # Safety
/// `buffer` has `count` bytes.
pub(super) unsafe fn send_request(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    let part = libc::iovec {
        iov_base: buffer.cast_mut(),
        iov_len: count,
    };
    // SAFETY: the caller guarantees the bytes of the one part.
    unsafe { send_parts(fd, &raw const part, 1) }
}

/// Returns the address of a socket, which the kernel gives to one that has none at its first use.
fn port_of(fd: c_int) -> Result<libc::sockaddr_nl, Errno> {
    // SAFETY: the struct consists of integers, for which zeros are valid.
    let mut address: libc::sockaddr_nl = unsafe { zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    let mut length = size_of_val(&address) as socklen_t;
    // SAFETY: the kernel reads and writes the two locals, whose sizes it is given.
    unsafe {
        let (address, length) = (&raw mut address, &raw mut length);
        checked(libc::syscall(libc::SYS_getsockname, fd, address, length))?;
        if (*address).nl_pid == 0 {
            checked(libc::syscall(libc::SYS_bind, fd, address, *length))?;
            checked(libc::syscall(libc::SYS_getsockname, fd, address, length))?;
        }
    }
    Ok(address)
}

/// Sends an answer without blocking: the program that would have to read it is in this call.
fn send_answer(own: c_int, answer: &[u8], to: &mut libc::sockaddr_nl) -> Result<(), Errno> {
    // To the port only: a group would have other receivers.
    to.nl_groups = 0;
    let (address, length) = (&raw const *to, size_of_val(to));
    let (bytes, count) = (answer.as_ptr(), answer.len());
    let call = libc::SYS_sendto;
    // SAFETY: the kernel reads the answer and the address, whose lengths are given.
    checked(unsafe {
        libc::syscall(call, own, bytes, count, libc::MSG_DONTWAIT, address, length)
    })?;
    Ok(())
}

/// `send` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    if is_rdma_socket(fd) {
        // SAFETY: contract of `send`: `buffer` has `count` bytes.
        return unsafe { send_request(fd, buffer, count) };
    }
    type Send = unsafe extern "C" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    match next!(send as Send) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd, buffer, count, flags) },
        // SAFETY: the system call takes the same arguments under the same contract.
        None => unsafe {
            libc::syscall(libc::SYS_sendto, fd, buffer, count, flags, 0, 0) as ssize_t
        },
    }
}

/// `sendto` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    if is_rdma_socket(fd) {
        // SAFETY: contract of `sendto`: `buffer` has `count` bytes.
        return unsafe { send_request(fd, buffer, count) };
    }
    type SendTo = unsafe extern "C" fn(
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t;
    match next!(sendto as SendTo) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd, buffer, count, flags, address, length) },
        // SAFETY: the system call takes the same arguments under the same contract.
        None => unsafe {
            let call = libc::SYS_sendto;
            libc::syscall(call, fd, buffer, count, flags, address, length) as ssize_t
        },
    }
}

/// `sendmsg` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t {
    if is_rdma_socket(fd) && !message.is_null() {
        // SAFETY: contract of `sendmsg`: the message has `msg_iovlen` parts that can be read.
        return unsafe { send_parts(fd, (*message).msg_iov, (*message).msg_iovlen) };
    }
    type SendMsg = unsafe extern "C" fn(c_int, *const libc::msghdr, c_int) -> ssize_t;
    match next!(sendmsg as SendMsg) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd, message, flags) },
        // SAFETY: the system call takes the same arguments under the same contract.
        None => unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, flags) as ssize_t },
    }
}
