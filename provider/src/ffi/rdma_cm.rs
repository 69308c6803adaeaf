//! File calls of libc on `/dev/infiniband/rdma_cm`, whose descriptors `rdma_cm/channel.rs` knows.
//!
//! Every `write` and `close` of the program passes through here, so the check for a channel costs
//! one load. Other descriptors go to libc's function, which is a cancellation point; so is the wait
//! in GET_EVENT, a plain frame (see [`super::blocking`]).

use std::os::fd::RawFd;
use std::sync::OnceLock;

use ferroce_driver::bus::Slept;
use ferroce_platform::os;
use ferroce_rdma_cm::{ChannelId, Command};
use libc::{c_int, c_long, c_void, size_t, ssize_t};

use super::boundary::{guard, or_errno};
use super::netlink::{is_rdma_socket, send_request};
use super::next::next;
use crate::errno::Errno;
use crate::os::event_fd::{EVENT_BYTES, WaitingRoom};
use crate::os::{last_errno, set_errno};
use crate::rdma_cm::DEVICE_NUMBER;
use crate::rdma_cm::channel::{self, Channel, is_channel};

/// Bytes of the longest command that is read: every one of ABI version 4 is shorter.
const MAX_COMMAND: usize = 4096;
/// Result of a GET_EVENT without an event.
const NO_EVENT: ssize_t = -2;
/// Result of a GET_EVENT whose channel was closed while it waited.
const CLOSED: ssize_t = -3;

/// Where threads wait for events. Created before the first channel.
static WAITING_ROOM: OnceLock<WaitingRoom> = OnceLock::new();

/// `PTHREAD_CANCEL_DISABLE` of `<pthread.h>`, which the libc crate lacks.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Opens the device file: a descriptor, or -1 and errno.
pub(super) fn open(flags: c_int) -> c_int {
    super::boundary::minus_one("open of /dev/infiniband/rdma_cm", || {
        prepare_waiting_room()
            .and_then(|()| channel::open(flags))
            .inspect_err(|errno| {
                let error = std::io::Error::from_raw_os_error(errno.number());
                tracing::warn!(%error, "cannot open /dev/infiniband/rdma_cm");
            })
    })
}

fn prepare_waiting_room() -> Result<(), Errno> {
    if WAITING_ROOM.get().is_none() {
        // If two threads create one at the same time, one room stays.
        let _ = WAITING_ROOM.set(WaitingRoom::new()?);
    }
    Ok(())
}

/// `write` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    if is_rdma_socket(fd) {
        // SAFETY: contract of `write`: `buffer` has `count` bytes.
        return unsafe { send_request(fd, buffer, count) };
    }
    if !is_channel(fd) {
        type Write = unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t;
        return match next!(write as Write) {
            // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
            Some(next) => unsafe { next(fd, buffer, count) },
            // SAFETY: the system call takes the same arguments under the same contract.
            None => unsafe { libc::syscall(libc::SYS_write, fd, buffer, count) as ssize_t },
        };
    }
    let mut reader = None;
    loop {
        // SAFETY: contract of `write`: `buffer` has `count` bytes.
        match unsafe { uncancelled_command(fd, buffer, count, &mut reader) } {
            NO_EVENT => {}
            CLOSED => sleep_forever(),
            result => return result,
        }
        // SAFETY: `tee` takes no pointers; a descriptor that is no pipe is an error.
        if unsafe { libc::tee(fd, waiting_room(), EVENT_BYTES, 0) } < 0 {
            match last_errno().number() {
                // The channel was closed meanwhile, and its number may now be another file, which
                // is no pipe: `tee` refuses it.
                libc::EBADF | libc::EINVAL => sleep_forever(),
                _ => return -1,
            }
        }
    }
}

/// Returns the descriptor to which a thread copies the event that it waits for.
#[inline(never)]
extern "C" fn waiting_room() -> c_int {
    WAITING_ROOM.get().map_or(-1, WaitingRoom::enter)
}

/// Blocks the thread that waits for an event of a channel which another thread has closed. Linux
/// does the same: the system call holds the file, which gets no more events. An error would end
/// rping, whose event thread still reads when `main` closes its channel.
fn sleep_forever() -> ! {
    loop {
        // SAFETY: `poll` accesses no memory, because the array has no entries. It is a cancellation
        // point.
        unsafe { libc::poll(std::ptr::null_mut(), 0, -1) };
    }
}

/// Runs [`command`] without cancellation: `command` makes system calls that are cancellation
/// points, while Rust code has values to drop.
///
/// # Safety
/// As for [`command`].
unsafe fn uncancelled_command(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    reader: &mut Option<ChannelId>,
) -> ssize_t {
    let mut state = CANCEL_DISABLE;
    // SAFETY: the function writes to the local `state`.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut state) };
    // SAFETY: the caller guarantees what `command` needs.
    let result = unsafe { command(fd, buffer, count, reader) };
    // SAFETY: as above; the function also reads `state` by value.
    unsafe { pthread_setcancelstate(state, &raw mut state) };
    result
}

/// Executes one command. [`NO_EVENT`]: the caller waits for an event and tries again; [`CLOSED`]:
/// no event can come. `reader` is the channel on which this command has found no event before.
///
/// # Safety
/// `buffer` has `count` bytes, and the memory that the command names is valid.
#[inline(never)]
unsafe extern "C" fn command(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    reader: &mut Option<ChannelId>,
) -> ssize_t {
    or_errno(|| {
        let channel = match (channel::find(fd), *reader) {
            (Ok(channel), None) => channel,
            (Ok(channel), Some(id)) if channel.id() == id => channel,
            (Err(errno), None) => return Err(errno),
            (_, Some(_)) => return Ok(CLOSED),
        };
        // SAFETY: the caller guarantees that `buffer` has `count` bytes.
        let bytes = unsafe { read_memory(buffer.addr() as u64, count.min(MAX_COMMAND))? };
        loop {
            // SAFETY: the caller guarantees that the memory which the command names is valid.
            match unsafe { execute(&channel, &bytes) } {
                Err(errno) if errno == Errno::AGAIN && !is_nonblocking(fd) => {}
                result => {
                    let command = Command::name(&bytes);
                    tracing::debug!(fd, command, ?result, "command of RDMA CM");
                    return result.map(|()| count as ssize_t);
                }
            }
            match channel.sleep_until_event() {
                Some(Slept::Found) => {}
                Some(Slept::Interrupted) => return Err(Errno::new(libc::EINTR)),
                None => {
                    *reader = Some(channel.id());
                    return Ok(NO_EVENT);
                }
            }
        }
    })
}

/// Executes one command.
///
/// # Safety
/// The memory that the command names is valid.
unsafe fn execute(channel: &Channel, bytes: &[u8]) -> Result<(), Errno> {
    let reply = match Command::of(bytes) {
        Command::MigrateId { fd } => channel.migrate(bytes, source_of(fd))?,
        Command::SetOption { address, length } if length <= Command::MAX_OPTION_LENGTH => {
            // SAFETY: the caller guarantees that this memory is valid.
            let option = unsafe { read_memory(address, length as usize)? };
            channel.command(bytes, &option)?
        }
        Command::SetOption { .. } | Command::GetEvent | Command::Other => {
            channel.command(bytes, &[])?
        }
    };
    // SAFETY: the caller guarantees that this memory is valid.
    unsafe { write_memory(reply.address, &reply.bytes) }
}

/// Returns the channel from which an id migrates.
fn source_of(fd: u32) -> Result<ChannelId, ferroce_rdma_cm::Errno> {
    let fd = RawFd::try_from(fd).map_err(|_| ferroce_rdma_cm::Errno::ENOENT)?;
    let channel = channel::find(fd);
    channel
        .map(|channel| channel.id())
        .map_err(|_| ferroce_rdma_cm::Errno::EINVAL)
}

/// Copies memory of the program.
///
/// # Safety
/// No other thread writes the memory meanwhile.
unsafe fn read_memory(address: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let address = usable(address, length, Access::Read)?;
    let mut bytes = vec![0_u8; length];
    if length != 0 {
        let source: *const u8 = std::ptr::with_exposed_provenance(address);
        // SAFETY: the memory can be read, as was just checked, and the caller guarantees that no
        // other thread writes it; the destination is new and as long.
        unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
    }
    Ok(bytes)
}

/// Writes memory of the program.
///
/// # Safety
/// No other thread uses the memory meanwhile.
unsafe fn write_memory(address: u64, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    let address = usable(address, bytes.len(), Access::Write)?;
    let target: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the memory can be written, as was just checked, and the caller guarantees that no
    // other thread uses it; `bytes` is memory of this library.
    unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// An access to memory of the program.
#[derive(PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// Checks memory of the program like the kernel's copies do.
fn usable(address: u64, length: usize, access: Access) -> Result<usize, Errno> {
    const PAGE: usize = 4096;
    let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let end = address.checked_add(length).ok_or(Errno::FAULT)?;
    let first = address / PAGE * PAGE;
    if length == 0 || os::memory_is_usable(first, end - first, access == Access::Write) {
        Ok(address)
    } else {
        Err(Errno::FAULT)
    }
}

/// Returns true if the descriptor must not block. A descriptor that was just closed may.
fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: the system call takes no pointers.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    flags >= 0 && flags & c_long::from(libc::O_NONBLOCK) != 0
}

/// Forgets a channel before its descriptor is closed or replaced.
fn forget(fd: RawFd) {
    let _ = guard(|| {
        drop(channel::forget(fd));
        Ok(())
    });
}

/// `close` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if is_channel(fd) {
        forget(fd);
    }
    match next!(close as unsafe extern "C" fn(c_int) -> c_int) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd) },
        // SAFETY: the system call takes the same arguments under the same contract.
        None => unsafe { libc::syscall(libc::SYS_close, fd) as c_int },
    }
}

/// Notes a duplicate of a descriptor; returns it.
fn duplicated(fd: RawFd, copy: RawFd) -> c_int {
    if copy >= 0 && is_channel(fd) {
        let _ = guard(|| {
            channel::duplicate(fd, copy);
            Ok(())
        });
    }
    copy
}

/// `dup` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    let copy = match next!(dup as unsafe extern "C" fn(c_int) -> c_int) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd) },
        // SAFETY: the system call takes the same arguments under the same contract.
        None => unsafe { libc::syscall(libc::SYS_dup, fd) as c_int },
    };
    duplicated(fd, copy)
}

/// `dup2` of libc. librspreload, which may be the next library, also has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, copy: c_int) -> c_int {
    let made = match next!(dup2 as unsafe extern "C" fn(c_int, c_int) -> c_int) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd, copy) },
        // SAFETY: the system call takes no pointers; it refuses equal numbers.
        None => unsafe { libc::syscall(libc::SYS_dup3, fd, copy, 0) as c_int },
    };
    if fd == copy { made } else { replaced(fd, made) }
}

/// `dup3` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, copy: c_int, flags: c_int) -> c_int {
    let made = match next!(dup3 as unsafe extern "C" fn(c_int, c_int, c_int) -> c_int) {
        // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
        Some(next) => unsafe { next(fd, copy, flags) },
        // SAFETY: the system call takes the same arguments under the same contract.
        None => unsafe { libc::syscall(libc::SYS_dup3, fd, copy, flags) as c_int },
    };
    replaced(fd, made)
}

/// Notes a duplicate of a descriptor that replaces another file; returns it.
fn replaced(fd: RawFd, copy: RawFd) -> c_int {
    if copy >= 0 && is_channel(copy) {
        forget(copy);
    }
    duplicated(fd, copy)
}

/// Declares the entries of `fcntl`. C declares them variadic; the optional argument is passed like
/// a third one on the supported machines.
macro_rules! fcntl_entries {
    ($($name:ident)*) => {$(
        /// `fcntl` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: c_long) -> c_int {
            type Fcntl = unsafe extern "C" fn(c_int, c_int, c_long) -> c_int;
            let result = match next!($name as Fcntl) {
                // SAFETY: the caller keeps this libc function's contract; arguments are unchanged.
                Some(next) => unsafe { next(fd, command, argument) },
                // SAFETY: the system call takes the same arguments under the same contract.
                None => unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) as c_int },
            };
            match command {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, result),
                _ => result,
            }
        }
    )*};
}
fcntl_entries!(fcntl fcntl64);

/// Reads the status of a descriptor, and makes a channel look like a character device.
///
/// # Safety
/// `status` is a `struct stat`.
unsafe fn status_of(fd: c_int, status: *mut libc::stat) -> c_int {
    // SAFETY: the caller guarantees that `status` is a `struct stat`; on 64-bit machines libc's
    // struct is the kernel's.
    unsafe {
        let result = libc::syscall(libc::SYS_fstat, fd, status) as c_int;
        if result == 0 && is_channel(fd) {
            (*status).st_mode = libc::S_IFCHR | 0o666;
            (*status).st_rdev = libc::makedev(DEVICE_NUMBER.0, DEVICE_NUMBER.1);
        }
        result
    }
}

/// Declares the entries that read a descriptor's status: the current ones, and the ones before
/// glibc 2.33, whose first argument is the version of the struct.
macro_rules! fstat_entries {
    ($($name:ident $old:ident;)*) => {$(
        /// `fstat` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, status: *mut libc::stat) -> c_int {
            // SAFETY: contract of `fstat`: the struct is valid for writes.
            unsafe { status_of(fd, status) }
        }

        /// `fstat` of libc before 2.33.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(
            version: c_int,
            fd: c_int,
            status: *mut libc::stat,
        ) -> c_int {
            if version != 0 && version != 1 {
                set_errno(Errno::INVALID);
                return -1;
            }
            // SAFETY: contract of `fstat`: the struct is valid for writes.
            unsafe { status_of(fd, status) }
        }
    )*};
}
fstat_entries! {
    fstat __fxstat;
    fstat64 __fxstat64;
}
