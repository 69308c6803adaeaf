//! The connection of the program to its world.
//!
//! There is one. Each side notices the other's end by the end of the connection. Threads request
//! their pages over it, one at a time.
#![expect(unsafe_code, reason = "a descriptor by its number, and socket options")]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use ferroce_timed_protocol::control::{Admission, Message, Refusal};
use ferroce_timed_protocol::host_name::{self, HostName};
use ferroce_timed_protocol::map::SharedPages;
use ferroce_timed_protocol::{MAX_THREADS, VERSION};
use rustix::io::{Errno, IoSliceMut, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use rustix::thread::sched_yield;

use crate::joined;
use crate::os::SignalsBlocked;

/// The connection; negative: none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
/// Not zero: a thread uses the connection.
static IS_BUSY: AtomicU32 = AtomicU32::new(0);
/// The world's last reason for refusing the program or a thread: [`Refusal::to_words`], with the
/// number of the reason in the upper half.
static REFUSAL: AtomicU64 = AtomicU64::new(NO_REFUSAL);
/// No world has refused the program.
const NO_REFUSAL: u64 = u64::MAX;

/// Returns the connection. `None`: there is none.
pub fn current() -> Option<BorrowedFd<'static>> {
    let connection = CONNECTION.load(Ordering::Acquire);
    // SAFETY: the connection stays open until the process ends.
    (connection >= 0).then(|| unsafe { BorrowedFd::borrow_raw(connection) })
}

/// Returns the number of its descriptor.
pub fn number() -> Option<u32> {
    u32::try_from(CONNECTION.load(Ordering::Acquire)).ok()
}

/// Returns true if this is its descriptor.
pub fn is(fd: RawFd) -> bool {
    fd >= 0 && fd == CONNECTION.load(Ordering::Acquire)
}

/// Returns the reason of the last refusal.
pub fn refusal() -> u64 {
    REFUSAL.load(Ordering::Relaxed)
}

/// Connects to the world that `FERROCE_WORLD` names, and maps its pages.
pub fn open(admission: Admission) -> Result<(), Errno> {
    let path = std::env::var_os("FERROCE_WORLD").ok_or(Errno::NODEV)?;
    let host = wanted_host()?;
    let address = SocketAddrUnix::new(path.as_os_str())?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = out_of_the_way(socket_with(family, kind, SocketFlags::CLOEXEC, None)?)?;
    retry_on_intr(|| connect(&socket, &address))?;
    if !is_trusted(socket.as_fd()) {
        return Err(Errno::PERM);
    }
    let join = Message::Join {
        version: VERSION,
        host,
        admission,
    };
    let (answer, file) = exchange(socket.as_fd(), join)?;
    match answer {
        Message::Joined { .. } => {}
        Message::Refused { reason } => return Err(errno_of(reason)),
        _ => return Err(Errno::PROTO),
    }
    let pages = SharedPages::map(file.ok_or(Errno::PROTO)?)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PROTO))?;
    let pages: &'static SharedPages = Box::leak(Box::new(pages));
    if pages.pages().program.version.load(Ordering::Relaxed) != VERSION {
        return Err(Errno::PROTO);
    }
    joined::set_pages(pages.pages());
    CONNECTION.store(socket.into_raw_fd(), Ordering::Release);
    Ok(())
}

/// The lowest number for the descriptor of the connection, if the process may have as many:
/// programs close and replace descriptors with small numbers, and expect to get these numbers.
const FIRST_DESCRIPTOR: RawFd = 500;
/// The first number that is not a standard stream.
const FIRST_OTHER: RawFd = 3;

/// Gives a descriptor a large number.
fn out_of_the_way(socket: OwnedFd) -> Result<OwnedFd, Errno> {
    fcntl_dupfd_cloexec(&socket, FIRST_DESCRIPTOR)
        .or_else(|_| fcntl_dupfd_cloexec(&socket, FIRST_OTHER))
}

/// Returns the host that the environment names, if it names one.
fn wanted_host() -> Result<Option<HostName>, Errno> {
    let name = std::env::var_os(host_name::VARIABLE).filter(|name| !name.is_empty());
    let name = name.map(|name| name.to_str().map_or(Err(host_name::NoHostName), str::parse));
    name.transpose().map_err(|_| {
        REFUSAL.store(NO_REFUSAL, Ordering::Relaxed);
        Errno::ADDRNOTAVAIL
    })
}

/// Returns true if the world belongs to this user, or to root. Its pages are mapped, it controls
/// when this program runs, and its cards reach the program's memory.
fn is_trusted(connection: BorrowedFd) -> bool {
    const ROOT: libc::uid_t = 0;
    let mut peer = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `peer`, for which any content is valid;
    // `geteuid` takes no arguments.
    let (result, own) = unsafe {
        let result = libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        );
        (result, libc::geteuid())
    };
    result == 0 && (peer.uid == own || peer.uid == ROOT)
}

/// Requests a page for the thread of this number in the kernel. Returns the page's number.
pub fn request_thread(tid: u32) -> Result<usize, Errno> {
    match ask(Message::Thread { tid })? {
        Message::ThreadNumber { number } if (number as usize) < MAX_THREADS => Ok(number as usize),
        Message::Refused { reason } => Err(errno_of(reason)),
        _ => Err(Errno::PROTO),
    }
}

/// Requests the card of the host.
pub fn request_card() -> Result<(), Errno> {
    match ask(Message::Card)? {
        Message::Found { .. } => Ok(()),
        Message::Refused { reason } => Err(errno_of(reason)),
        _ => Err(Errno::PROTO),
    }
}

/// Wakes threads that wait for an address, from a thread outside of the world.
pub fn wake(address: u64) {
    // Without an answer the world has ended, and all its threads go on.
    let _ = ask(Message::Wake { address });
}

/// Lets threads of the program that wait for events check again, from a thread outside of the
/// world.
pub fn notify() {
    // Without an answer the world has ended, and all its threads go on.
    let _ = ask(Message::Notify);
}

/// Sends a message over the connection, and returns the world's answer.
fn ask(message: Message) -> Result<Message, Errno> {
    // A handler of this thread may ask, too, and would wait for it forever.
    let _no_handlers = SignalsBlocked::new();
    while IS_BUSY.swap(1, Ordering::Acquire) != 0 {
        sched_yield();
    }
    let answer = match current() {
        Some(connection) => exchange(connection, message),
        None => Err(Errno::NOTCONN),
    };
    IS_BUSY.store(0, Ordering::Release);
    answer.map(|(answer, _)| answer)
}

fn errno_of(reason: Refusal) -> Errno {
    let [number, detail] = reason.to_words();
    let words = u64::from(number) << 32 | u64::from(detail);
    REFUSAL.store(words, Ordering::Relaxed);
    match reason {
        Refusal::Version => Errno::PROTO,
        Refusal::NoHost => Errno::USERS,
        Refusal::NoThread => Errno::AGAIN,
        Refusal::NoSuchHost { .. } | Refusal::NoSuchFunction { .. } => Errno::ADDRNOTAVAIL,
        Refusal::Taken { .. } => Errno::ADDRINUSE,
        Refusal::NoMember => Errno::NOTCONN,
    }
}

/// Sends a message to the world and returns its answer, and the file that comes with it.
fn exchange(socket: BorrowedFd, message: Message) -> Result<(Message, Option<OwnedFd>), Errno> {
    retry_on_intr(|| send(socket, &message.to_bytes(), SendFlags::NOSIGNAL))?;
    let mut bytes = [0; Message::LENGTH];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let buffer = &mut [IoSliceMut::new(&mut bytes)];
        recvmsg(socket, buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match Message::of_bytes(bytes.get(..received.bytes).unwrap_or(&[])) {
        Some(message) => Ok((message, file)),
        None if received.bytes == 0 => Err(Errno::CONNRESET),
        None => Err(Errno::PROTO),
    }
}

/// Closes the connection, if there is one. Ignores whether it is busy: after a fork, the thread
/// that uses it may not exist in the child.
pub fn forget() {
    let connection = CONNECTION.swap(-1, Ordering::AcqRel);
    if connection >= 0 {
        // SAFETY: the descriptor is this library's own, and `CONNECTION` no longer contains it.
        unsafe { rustix::io::close(connection) };
    }
    IS_BUSY.store(0, Ordering::Release);
}
