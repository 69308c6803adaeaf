//! Connecting, accepting and closing.

#![expect(unsafe_code, reason = "addresses as C has them")]

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ferroce_timed_protocol::STREAM_LATENCY_PS;
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;
use libc::{sockaddr, socklen_t};
use rustix::event::PollFlags;

use super::known::{self, KNOWN};
use super::name::Connection;
use crate::descriptor::Descriptor;
use crate::own::{Ended, Own};
use crate::{foreign_peers, joined, real};

/// Longest time that the kernel takes for a connection within one machine; a slower one counts as a
/// connection to another machine.
const LOCAL_MS: i32 = 20;
/// The world's answer: one of its programs listens there, or has announced the connection.
const YES: u64 = 1;
/// Descriptors that are searched for copies.
const MAX_DESCRIPTORS: c_int = 1024;

/// A bit for each port: the world knows that this program listens there.
static ANNOUNCED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// For each port: connections that the world has granted and that have not been accepted.
static GRANTED: [AtomicU32; 65536] = [const { AtomicU32::new(0) }; 65536];

/// Reads a C address. `None`: it is not an IPv4 or IPv6 address.
///
/// # Safety
/// `address` has `length` bytes, or is null.
pub unsafe fn address_of(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the length was checked to include the family.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if length as usize >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the match arm has checked that `address` has at least the bytes of a
            // `sockaddr_in`, for which any content is valid.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            let port = u16::from_be(address.sin_port);
            Some(SocketAddr::new(specified(ip.into()), port))
        }
        libc::AF_INET6 if length as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the match arm has checked that `address` has at least the bytes of a
            // `sockaddr_in6`, for which any content is valid.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddr::new(specified(ip.into()), port))
        }
        _ => None,
    }
}

/// Returns the destination of a connection to an address: the unspecified address is this machine.
fn specified(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        specified => specified,
    }
}

/// Connects; `real` connects in the kernel.
pub fn connect(
    own: &Own,
    descriptor: Descriptor,
    peer: Option<SocketAddr>,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let waits = !descriptor.is_nonblocking();
    let result = if waits {
        connect_without_delay(own, descriptor, real)
    } else {
        real()
    };
    let is_under_way = result < 0 && real::errno() == libc::EINPROGRESS;
    let Some(peer) = peer.filter(|_| result == 0 || is_under_way) else {
        return result;
    };
    let connection = Connection::of(descriptor).or_else(|| Connection::to_peer(descriptor, peer));
    let Some(connection) = connection else {
        return result;
    };
    own.store(
        StoreKind::Connect,
        peer.port().into(),
        &[connection.outgoing.0],
    );
    let round_trip_ps = if waits { 2 * STREAM_LATENCY_PS } else { 0 };
    if is_affirmed(own, own.now_ps().saturating_add(round_trip_ps)) == Some(true) {
        declare(own, connection);
    }
    if is_under_way {
        real::set_errno(libc::EINPROGRESS);
    }
    result
}

/// Waits until `time_ps` for the world's answer to a report. `None`: there is no world.
fn is_affirmed(own: &Own, time_ps: u64) -> Option<bool> {
    let mut is_affirmed = false;
    // Signals may interrupt the wait.
    loop {
        match own.wait(&Wait::At { time_ps }, NEVER_PS) {
            Ended::Answered(answer) => is_affirmed |= answer == YES,
            Ended::NoWorld => return None,
            Ended::TimedOut | Ended::Interrupted { .. } => {}
        }
        if own.now_ps() >= time_ps {
            return Some(is_affirmed);
        }
    }
}

/// Connects without delaying the world: within a machine that takes no time, to another one it may.
fn connect_without_delay(own: &Own, descriptor: Descriptor, real: impl FnOnce() -> c_int) -> c_int {
    descriptor.set_nonblocking(true);
    let result = real();
    let errno = real::errno();
    let mut outcome = if result < 0 { Err(errno) } else { Ok(()) };
    if outcome == Err(libc::EINPROGRESS) {
        let wait = |limit_ms| descriptor.ready_within(PollFlags::OUT, limit_ms);
        if wait(LOCAL_MS).is_empty() {
            // Wait until the kernel has finished.
            own.outside(|| wait(-1));
        }
        outcome = descriptor.connect_error();
    }
    descriptor.set_nonblocking(false);
    match outcome {
        Ok(()) => 0,
        Err(errno) => real::failed(errno),
    }
}

/// Reports a connection within the world.
fn declare(own: &Own, connection: Connection) {
    if KNOWN.add(connection.outgoing) {
        own.store(StoreKind::Send, 0, &[connection.outgoing.0, 0]);
    }
}

/// Reports the port on which a socket listens, if it does.
pub fn announce(own: &Own, descriptor: Descriptor) {
    if let Some(port) = descriptor.listening_port() {
        GRANTED[usize::from(port)].store(0, Ordering::Relaxed);
        announced(port).fetch_or(bit(port), Ordering::Relaxed);
        own.store(StoreKind::Listen, port.into(), &[]);
    }
}

fn announced(port: u16) -> &'static AtomicU64 {
    &ANNOUNCED[usize::from(port) / 64]
}

fn bit(port: u16) -> u64 {
    1 << (port % 64)
}

/// Returns the port of a listening socket, which the world knows from now on.
pub fn known_port(own: &Own, descriptor: Descriptor) -> Option<u16> {
    let port = descriptor.listening_port()?;
    if announced(port).load(Ordering::Relaxed) & bit(port) == 0 {
        // It was listening before the program joined.
        announce(own, descriptor);
    }
    Some(port)
}

/// Waits for a connection to a port, until `deadline_ps` at most. It stays until it is accepted.
pub fn wait_connection(own: &Own, port: u16, deadline_ps: u64) -> Ended {
    let granted = &GRANTED[usize::from(port)];
    if granted.load(Ordering::Relaxed) > 0 {
        return Ended::Answered(1);
    }
    let ended = own.wait(&Wait::OnConnection { port }, deadline_ps);
    if let Ended::Answered(_) = ended {
        granted.fetch_add(1, Ordering::Relaxed);
    }
    ended
}

/// Accepts a connection to a port of the world; `real` accepts in the kernel.
pub fn accept(own: &Own, descriptor: Descriptor, port: u16, real: impl Fn() -> c_int) -> c_int {
    let is_nonblocking = descriptor.is_nonblocking();
    let deadline_ps = if is_nonblocking {
        own.now_ps()
    } else {
        NEVER_PS
    };
    loop {
        let ended = foreign_peers::refused_while(descriptor, is_nonblocking, || {
            wait_connection(own, port, deadline_ps)
        });
        match ended {
            Ended::Answered(_) => break,
            Ended::Interrupted { restarts: false } => return real::failed(libc::EINTR),
            // The programs that could connect have lost their world, too.
            Ended::NoWorld => return real::failed(libc::ENETDOWN),
            Ended::TimedOut | Ended::Interrupted { restarts: true } => {}
        }
        if is_nonblocking {
            own.spend_call();
            return real::failed(libc::EAGAIN);
        }
    }
    GRANTED[usize::from(port)].fetch_sub(1, Ordering::Relaxed);
    accept_granted(own, descriptor, port, real)
}

/// Accepts a connection that the world has granted, and refuses foreign connections before it in
/// the backlog.
fn accept_granted(own: &Own, descriptor: Descriptor, port: u16, real: impl Fn() -> c_int) -> c_int {
    loop {
        descriptor.await_input();
        let accepted = real();
        let Some((socket, connection)) =
            Descriptor::new(accepted).and_then(|socket| Some((socket, Connection::of(socket)?)))
        else {
            return accepted;
        };
        own.store(StoreKind::Accept, port.into(), &[connection.incoming.0]);
        match is_affirmed(own, own.now_ps()) {
            Some(true) => declare(own, connection),
            Some(false) => {
                foreign_peers::refuse(socket);
                continue;
            }
            None => {}
        }
        return accepted;
    }
}

/// Reports that the program sends no more.
pub fn end_outgoing(own: &Own, connection: Connection) {
    own.store(StoreKind::Close, 0, &[connection.outgoing.0]);
}

/// Reports the end of a connection before its descriptor is closed.
pub fn before_close(own: &Own, descriptor: Descriptor) {
    let Some(connection) = known::connection(descriptor) else {
        return;
    };
    if descriptor.has_copies(MAX_DESCRIPTORS) || !joined::is_own_process() {
        return;
    }
    KNOWN.remove(connection.outgoing);
    end_outgoing(own, connection);
    own.store(StoreKind::Close, 0, &[connection.incoming.0]);
}
