//! How the program and its threads join and leave the world.
//!
//! The program has one connection; its end shows each side that the other has ended. Threads
//! request their pages over it, one at a time.
#![expect(
    unsafe_code,
    reason = "hooks of the C library for forks and ends of threads"
)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use ferroce_timed_protocol::control::{Message, Refusal};
use ferroce_timed_protocol::event_mark::SET_SIGNAL;
use ferroce_timed_protocol::host_name::{self, HostName};
use ferroce_timed_protocol::map::SharedPages;
use ferroce_timed_protocol::page::{ThreadPage, Turn};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::{MAX_THREADS, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSliceMut, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use rustix::process::getpid;
use rustix::thread::{gettid, sched_yield};

use crate::joined::{self, NotBegun};
use crate::os::real_ns;
use crate::thread::{ThreadState, state};
use crate::{faults, signals, spin, timers, turn, vdso};
#[cfg(target_arch = "x86_64")]
use crate::{tsc, tsc_trap};

/// The connection; negative: none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
/// Not zero: a thread uses the connection.
static IS_BUSY: AtomicU32 = AtomicU32::new(0);
/// One more than the key of the C library whose destructor reports the end of a thread; zero: not
/// created yet.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Why the world has refused the program or a thread, the last time: [`Refusal::to_words`], the
/// number of the reason in the upper half.
static REFUSAL: AtomicU64 = AtomicU64::new(NO_REFUSAL);
/// The program has not been refused by a world.
const NO_REFUSAL: u64 = u64::MAX;

/// Printed when the world ends before the program.
const ENDED: &[u8] =
    b"ferroce: the simulated world of this program has ended: its device is gone, and \
                       what it prints from here on is no result\n";

/// Notes the end of the world: waiting threads continue in real time.
#[cold]
pub fn end() {
    if joined::note_end(real_ns()) {
        // SAFETY: the descriptor is used for this call only, which fails if the program has closed
        // it.
        let error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
        let _ = rustix::io::write(error, ENDED);
    }
    timers::world_ended();
    keep_asking();
}

/// Returns the reason of the last refusal.
pub fn refusal() -> u64 {
    REFUSAL.load(Ordering::Relaxed)
}

/// Joins the world that `FERROCE_WORLD` names, on the host that `FERROCE_HOST` names, and takes a
/// turn.
///
/// # Errors
/// The reason: `ENODEV` if the variable is not set, `EPERM` if the world belongs to another user,
/// `EADDRNOTAVAIL` if there is no such host, or no host has such a name, `EADDRINUSE` if it has a
/// program.
pub fn join() -> Result<(), Errno> {
    loop {
        match joined::begin() {
            Ok(()) => break,
            Err(NotBegun::Joined) if joined::has_ended() => return Err(Errno::CONNRESET),
            Err(NotBegun::Joined) => {
                // The calling thread takes its turn.
                drop(turn::Inside::enter());
                return Ok(());
            }
            Err(NotBegun::Joining) => sched_yield(),
        }
    }
    let state = state();
    state.enter();
    let joined = connect_to_world().and_then(|()| {
        let page = request_page(state)?;
        take_time();
        joined::succeed();
        match turn::wait_for_turn(page) {
            true => Ok(()),
            false => Err(Errno::CONNRESET),
        }
    });
    if !joined::is_joined() {
        forget_connection();
        joined::forget();
    }
    state.leave();
    joined
}

/// Begins simulated time for the program.
fn take_time() {
    static HOOKS: std::sync::Once = std::sync::Once::new();
    HOOKS.call_once(|| {
        // SAFETY: `pthread_atfork` gets a function without arguments. On failure (no memory)
        // children of a fork keep simulated time; nothing can be done about it.
        unsafe { libc::pthread_atfork(None, None, Some(forget_all)) };
    });
    turn::prepare();
    faults::install();
    vdso::replace();
    #[cfg(target_arch = "x86_64")]
    tsc::prepare();
    joined::note_process();
    timers::begin();
    spin::install();
    signal_the_end();
    take_thread_time();
}

/// Begins simulated time for the calling thread.
fn take_thread_time() {
    signals::unblock_needed();
    #[cfg(target_arch = "x86_64")]
    tsc_trap::arm();
}

fn connect_to_world() -> Result<(), Errno> {
    let path = std::env::var_os("FERROCE_WORLD").ok_or(Errno::NODEV)?;
    let host = wanted_host()?;
    let address = SocketAddrUnix::new(path.as_os_str())?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    retry_on_intr(|| connect(&socket, &address))?;
    if !is_trusted(socket.as_fd()) {
        return Err(Errno::PERM);
    }
    let pid = getpid().as_raw_nonzero().get() as u32;
    let version = VERSION;
    let (answer, file) = exchange(socket.as_fd(), Message::Join { version, pid, host })?;
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

/// `struct f_owner_ex` of the kernel.
#[repr(C)]
struct Owner {
    kind: c_int,
    id: libc::pid_t,
}

/// `F_SETOWN_EX` and `F_OWNER_TID` of the kernel.
const SET_OWNER: c_int = 15;
const OWNER_IS_THREAD: c_int = 0;

/// Requests the probe's signal for this thread when the world ends in any way: a thread that makes
/// no calls would not notice. Without it such a thread runs forever.
fn signal_the_end() {
    let fd = CONNECTION.load(Ordering::Acquire);
    let owner = Owner {
        kind: OWNER_IS_THREAD,
        id: gettid().as_raw_nonzero().get(),
    };
    // SAFETY: changes flags of an open descriptor; the kernel only reads the structure.
    unsafe {
        libc::fcntl(fd, SET_OWNER, &raw const owner);
        libc::fcntl(fd, SET_SIGNAL, signals::PROBE_SIGNAL);
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC);
    }
}

/// Processor time between two signals of [`keep_asking`].
const ASKED_AFTER_NS: libc::c_long = 500_000_000;

/// Requests the probe's signal for the calling thread after each interval of processor time, once
/// the world has ended. So a loop that begins after the end and waits for a write of the card is
/// found, too. Sleeping threads are not woken.
pub fn keep_asking() {
    static IS_ASKED: AtomicU32 = AtomicU32::new(0);
    if IS_ASKED.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: zero is valid for all fields.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signals::PROBE_SIGNAL;
    event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
    let period = libc::timespec {
        tv_sec: 0,
        tv_nsec: ASKED_AFTER_NS,
    };
    let setting = libc::itimerspec {
        it_interval: period,
        it_value: period,
    };
    let (mut timer, clock): (c_int, _) = (0, libc::CLOCK_THREAD_CPUTIME_ID);
    // SAFETY: system calls with pointers to locals; without a timer the signal does not come.
    unsafe {
        let made = libc::syscall(
            libc::SYS_timer_create,
            clock,
            &raw const event,
            &raw mut timer,
        );
        if made == 0 {
            let none = std::ptr::null_mut::<libc::itimerspec>();
            libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const setting, none);
        }
    }
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

/// Gets the calling thread a page and its first turn. `None`: it cannot join and stays outside of
/// the world, or the world has ended.
#[cold]
pub fn join_thread(state: &ThreadState) -> Option<&'static ThreadPage> {
    match request_page(state) {
        Ok(page) => begin_thread(page).then_some(page),
        Err(_) => {
            state.enter_real();
            None
        }
    }
}

/// Waits for the first turn of the calling thread, which has this page. Returns false if the world
/// has ended.
pub fn begin_thread(page: &ThreadPage) -> bool {
    take_thread_time();
    turn::wait_for_turn(page)
}

/// Requests a page for the calling thread.
pub fn request_page(state: &ThreadState) -> Result<&'static ThreadPage, Errno> {
    let pages = joined::pages().ok_or(Errno::NOTCONN)?;
    let tid = gettid().as_raw_nonzero().get() as u32;
    while IS_BUSY.swap(1, Ordering::Acquire) != 0 {
        sched_yield();
    }
    let connection = CONNECTION.load(Ordering::Acquire);
    let answer = match connection {
        // SAFETY: the connection stays open until the process ends.
        0.. => exchange(
            unsafe { BorrowedFd::borrow_raw(connection) },
            Message::Thread { tid },
        ),
        _ => Err(Errno::NOTCONN),
    };
    IS_BUSY.store(0, Ordering::Release);
    let number = match answer?.0 {
        Message::ThreadNumber { number } if (number as usize) < MAX_THREADS => number as usize,
        Message::Refused { reason } => return Err(errno_of(reason)),
        _ => return Err(Errno::PROTO),
    };
    let page = &pages.threads[number];
    state.set_page(Some(page));
    joined::count_thread();
    watch_end_of_thread();
    Ok(page)
}

/// Returns true if there is no world any more.
#[cold]
pub fn is_world_gone() -> bool {
    if joined::pages().is_none_or(|pages| pages.program.has_ended.load(Ordering::Relaxed) != 0) {
        return true;
    }
    let connection = CONNECTION.load(Ordering::Acquire);
    if connection < 0 {
        return true;
    }
    // SAFETY: the connection stays open until the process ends.
    let connection = unsafe { BorrowedFd::borrow_raw(connection) };
    let mut polled = [PollFd::new(&connection, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| {
        ready > 0
            && polled[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
    })
}

/// Arranges for a call of `end_thread` when the thread ends.
fn watch_end_of_thread() {
    let mut key = KEY.load(Ordering::Relaxed);
    if key == 0 {
        let mut made: libc::pthread_key_t = 0;
        // SAFETY: `pthread_key_create` writes the key; the destructor accepts any value.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(end_thread)) } != 0 {
            // No more keys: the world notices the end of the program only.
            return;
        }
        key = made + 1;
        if let Err(earlier) = KEY.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: the key was just created, and no other thread has it.
            unsafe { libc::pthread_key_delete(made) };
            key = earlier;
        }
    }
    // SAFETY: the key exists; any value but null lets the destructor be called.
    unsafe { libc::pthread_setspecific(key - 1, std::ptr::without_provenance(1)) };
}

extern "C" fn end_thread(_: *mut c_void) {
    leave(state());
}

/// Ends the thread for the world, or the program: its further calls are real.
fn leave(state: &ThreadState) {
    let Some(page) = state.page() else { return };
    if page.turn() == Turn::Thread {
        page.request.set(&Wait::End);
        page.pass(Turn::World);
    }
    joined::count_end_of_thread();
    state.set_page(None);
    state.enter_real();
}

/// Runs in a child of a fork: it does not belong to the world.
extern "C" fn forget_all() {
    #[cfg(target_arch = "x86_64")]
    tsc_trap::disarm();
    let was_joined = joined::is_joined();
    forget_connection();
    joined::forget();
    if was_joined {
        vdso::restore();
    }
    IS_BUSY.store(0, Ordering::Relaxed);
    state().forget();
}

fn forget_connection() {
    let connection = CONNECTION.swap(-1, Ordering::AcqRel);
    if connection >= 0 {
        // SAFETY: the descriptor is this library's own, and `CONNECTION` no longer contains it.
        unsafe { rustix::io::close(connection) };
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    if let Some(pages) = joined::pages() {
        pages.program.has_exited.store(1, Ordering::SeqCst);
    }
    leave(state());
}
