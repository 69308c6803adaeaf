//! System calls that std does not wrap, each behind a safe function.
#![expect(unsafe_code, reason = "calls into libc")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub mod areas;
pub mod faults;
pub mod limits;
pub mod memory_calls;
pub mod network;
pub mod service;
pub mod signals;
pub mod time_stamp;

use rustix::process::Signal;

pub use ferroce_linux::eventfds::with_signals_blocked;

/// Upper bound of addresses taken from the machine; more would not fit a GID table anyway.
const MAX_INTERFACE_ADDRESSES: usize = 64;

/// Returns the effective user of this process.
pub fn user_id() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

fn byte_lock(kind: libc::c_int, byte: u64) -> libc::flock {
    // SAFETY: flock is a plain C struct for which all zeroes is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = 1;
    lock
}

/// Tries to take the POSIX record lock of one byte: `Ok(false)` if another process holds it.
///
/// The kernel releases the lock when the process ends, or when it closes *any* descriptor of the
/// same file. A child made by fork does not inherit it.
pub fn try_lock_byte(file: &File, byte: u64) -> io::Result<bool> {
    let lock = byte_lock(libc::F_WRLCK, byte);
    // SAFETY: the descriptor is open for the duration of the call, `lock` is a valid flock.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Releases the record lock of one byte.
pub fn unlock_byte(file: &File, byte: u64) {
    let lock = byte_lock(libc::F_UNLCK, byte);
    // SAFETY: the descriptor is open for the duration of the call, `lock` is a valid flock.
    // Unlocking a lock that is not held is not an error.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
}

/// Returns the process that holds the record lock of one byte. `None` if it is free *or this
/// process holds it*.
pub fn byte_locked_by(file: &File, byte: u64) -> io::Result<Option<i32>> {
    let mut lock = byte_lock(libc::F_WRLCK, byte);
    // SAFETY: the descriptor is open for the duration of the call; the kernel writes into the local
    // `lock`.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_free = i32::from(lock.l_type) == libc::F_UNLCK;
    Ok((!is_free).then_some(lock.l_pid))
}

/// Returns true if another process holds the record lock of any byte but the first.
pub fn is_any_byte_locked(file: &File) -> io::Result<bool> {
    let mut lock = byte_lock(libc::F_WRLCK, 1);
    // Zero: to the end of the file.
    lock.l_len = 0;
    // SAFETY: the descriptor is open for the duration of the call; the kernel writes into the local
    // `lock`.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

/// Makes the file `length` bytes long with its pages allocated, so that no later access through
/// a mapping can end in SIGBUS because the file system is full.
pub fn allocate_file(file: &File, length: u64) -> io::Result<()> {
    allocate_part(file, 0..length)
}

/// Does the same as [`allocate_file`] for a part of the file, which becomes longer if need be.
pub fn allocate_part(file: &File, part: Range<u64>) -> io::Result<()> {
    const MAX_ATTEMPTS: u32 = 100;
    let (start, length) = (part.start as libc::off_t, part.end - part.start);
    for _ in 0..MAX_ATTEMPTS {
        // SAFETY: the descriptor is open; posix_fallocate returns the error number.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), start, length as libc::off_t) } {
            0 => return Ok(()),
            libc::EINTR => {}
            number => return Err(io::Error::from_raw_os_error(number)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINTR))
}

/// Returns the bytes that may still be allocated in the file system of a file.
pub fn free_space(file: &File) -> io::Result<u64> {
    let statistics = rustix::fs::fstatvfs(file)?;
    Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

/// Writes to standard error without a lock of this process. A lost line is not reported.
pub fn write_to_stderr(line: &str) {
    // SAFETY: the bytes are those of a string; the kernel only reads them.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Takes the whole-file lock between processes that append to the same file; waits.
pub fn lock_file(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Releases the lock of [`lock_file`].
pub fn unlock_file(file: &File) {
    // SAFETY: the descriptor is open; unlocking what is not locked is harmless.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Sleeps while `word` is `expected`, at most `timeout_ns`. May return at any time.
///
/// The word may be in memory that several processes share.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout_ns: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `word` and `timeout` are valid for the call. Not FUTEX_PRIVATE: it may be shared.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        )
    };
}

/// Wakes the threads that sleep in [`futex_wait`] on this word, in any process.
pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the kernel only uses the address as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Yields this processor.
pub fn yield_processor() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::sched_yield() };
}

/// Kills this process, as `kill -9` does.
pub fn kill_this_process() {
    // A process may send itself any signal.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}

/// Requests short time slices for this thread. The scheduler runs such a thread sooner: when a
/// frame wakes it while a program spins on its processor, a kernel that supports them (Linux 6.12)
/// runs it at once. Older kernels ignore the request.
pub fn request_short_time_slices() {
    /// The shortest that the kernel grants.
    const SHORT_NS: u64 = 100_000;
    /// struct sched_attr of the kernel, first version.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    let size = size_of::<SchedAttr>() as u32;
    let mut attributes = SchedAttr {
        size,
        ..SchedAttr::default()
    };
    // SAFETY: the kernel writes at most `size` bytes into the local `attributes`.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if got != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.runtime_ns = SHORT_NS;
    // SAFETY: the kernel only reads `attributes`.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Lets timed sleeps of this thread end when they are due, not up to 50 us later (prctl(2),
/// PR_SET_TIMERSLACK).
pub fn request_exact_timers() {
    const SLACK_NS: libc::c_ulong = 1;
    const NONE: libc::c_ulong = 0;
    // SAFETY: this option only reads its number; the C library passes five words on.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS, NONE, NONE, NONE) };
}

/// Gives this thread a real-time priority above the program's, if the program has one: threads of
/// the same priority that spin on every processor would never let it run. Returns false if the
/// program has the highest priority, or the system refuses.
pub fn outrank_program() -> bool {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: both calls access the local `parameters` only; 0 is this thread.
    unsafe {
        let policy = libc::sched_getscheduler(0);
        if !matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR) {
            return true;
        }
        if libc::sched_getparam(0, &raw mut parameters) != 0 {
            return false;
        }
        parameters.sched_priority += 1;
        libc::sched_setscheduler(0, policy, &raw const parameters) == 0
    }
}

/// Lets a write to a closed pipe end this process silently, as in other command-line tools.
pub fn end_on_broken_pipe() {
    // SAFETY: SIG_DFL is a valid disposition, and no other thread depends on the old one.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The processors on which this thread may run.
pub struct Processors(libc::cpu_set_t);

impl Processors {
    /// Returns the processors of the calling thread.
    pub fn of_this_thread() -> Option<Self> {
        // SAFETY: cpu_set_t is a plain bit set for which all zeroes is a valid value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most the given size.
        let got = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        (got == 0).then_some(Self(set))
    }

    /// Lets the calling thread run on all of them again.
    pub fn allow_all(&self) {
        // SAFETY: the kernel only reads the set.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) };
    }

    /// Lets the calling thread run on all of them but its current one. Returns false if there is no
    /// other.
    pub fn leave_this_one(&self) -> bool {
        let mut others = self.0;
        // SAFETY: sched_getcpu has no preconditions.
        let Ok(current) = usize::try_from(unsafe { libc::sched_getcpu() }) else {
            return false;
        };
        // SAFETY: CPU_CLR and CPU_COUNT stay inside the set; the kernel only reads it.
        unsafe {
            libc::CPU_CLR(current, &mut others);
            libc::CPU_COUNT(&others) > 0
                && libc::sched_setaffinity(0, size_of_val(&others), &raw const others) == 0
        }
    }
}

/// Returns the machine's IP addresses with the names of their interfaces, in the kernel's order.
/// Returns none if the system call fails.
pub fn interface_addresses() -> Vec<(String, IpAddr)> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let named = interfaces.into_iter().map(|interface| {
        let address = interface.ip();
        (interface.name, address)
    });
    named.take(MAX_INTERFACE_ADDRESSES).collect()
}

/// Returns the effective group of this process.
pub fn group_id() -> u32 {
    // SAFETY: getegid has no preconditions and cannot fail.
    unsafe { libc::getegid() }
}

/// Returns true if a file gives capabilities to the process that executes it.
pub fn has_file_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: both strings end with NUL; with size 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Returns true if this user may execute a file.
pub fn is_executable(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the string ends with NUL.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}

/// Returns true if `length` bytes from `address` on are memory that may be read (and written, if
/// requested), which pinning them for a real card would check. Populates the pages of a small
/// range, like pinning. Looks up a larger range in the list of mappings: most of it may never be
/// used, for example in tables of a driver.
pub fn memory_is_usable(address: usize, length: usize, write: bool) -> bool {
    /// For larger ranges, reading the list of mappings is faster than populating the pages.
    const POPULATE_LIMIT: usize = 256 << 10;
    // Linux 5.14; older kernels return EINVAL for unknown advice.
    const MADV_POPULATE_READ: libc::c_int = 22;
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    if length > POPULATE_LIMIT || !is_populate_known() {
        let maps = std::fs::read_to_string("/proc/self/maps");
        // If there is no list, the memory is assumed to be accessible.
        return maps.map_or(true, |maps| covers(&maps, address..address + length, write));
    }
    let advice = if write {
        MADV_POPULATE_WRITE
    } else {
        MADV_POPULATE_READ
    };
    let start = std::ptr::without_provenance_mut(address);
    // SAFETY: populating changes neither content nor protection of memory; an invalid range returns
    // an error.
    unsafe { libc::madvise(start, length, advice) == 0 }
}

/// Returns true if mappings that may be read (and written, if requested) cover all of a range.
/// `maps` is the kernel's list, in the order of addresses: `7f0000000000-7f0000200000 rw-p …`.
fn covers(maps: &str, range: Range<usize>, write: bool) -> bool {
    let mut next = range.start;
    for line in maps.lines() {
        let mut words = line.split([' ', '-']);
        let mut address = || usize::from_str_radix(words.next()?, 16).ok();
        let (Some(start), Some(end)) = (address(), address()) else {
            continue;
        };
        if end <= next {
            continue;
        }
        let rights = words.next().unwrap_or_default();
        let is_usable = rights.starts_with('r') && (!write || rights[1..].starts_with('w'));
        if start > next || !is_usable {
            return false;
        }
        next = end;
        if next >= range.end {
            return true;
        }
    }
    false
}

fn is_populate_known() -> bool {
    const MADV_POPULATE_READ: libc::c_int = 22;
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *KNOWN.get_or_init(|| {
        // SAFETY: an empty range returns success, unknown advice EINVAL.
        unsafe { libc::madvise(std::ptr::null_mut(), 0, MADV_POPULATE_READ) == 0 }
    })
}

/// Returns a flag that the first interrupt from the terminal (SIGINT) sets instead of ending the
/// process. The second interrupt ends the process.
pub fn note_interrupt() -> &'static AtomicBool {
    static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);
    extern "C" fn note(_signal: libc::c_int) {
        IS_INTERRUPTED.store(true, Ordering::Relaxed);
    }
    // SAFETY: all zero is an action without flags and with an empty mask; the handler calls only
    // async-signal-safe functions.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
    &IS_INTERRUPTED
}

/// Registers `action` for the end of the process by exit() or by returning from main.
pub fn at_exit(action: extern "C" fn()) {
    // SAFETY: `action` is a function of this library, which is never unloaded before exit.
    unsafe { libc::atexit(action) };
}

/// Reads the time stamp counter, which is comparable between the processors of this machine.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC; Linux does not forbid it unless a process requests
    // that.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Returns true if [`time_stamp()`] counts at one rate, in all power states, on all processors.
#[cfg(target_arch = "x86_64")]
pub fn time_stamp_is_invariant() -> bool {
    // CPUID leaf 0x8000_0007, EDX bit 8: invariant TSC.
    const LEAF: u32 = 0x8000_0007;
    use core::arch::x86_64::__cpuid;
    let highest = __cpuid(0x8000_0000).eax;
    let processor = highest >= LEAF && __cpuid(LEAF).edx & 1 << 8 != 0;
    // The kernel tested the processors against each other before it chose the TSC.
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    processor || std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
}

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns CLOCK_REALTIME in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `timespec` into the local `time`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_hold_a_range_without_a_gap() {
        let maps = "\
1000-3000 r--p 00000000 fe:00 1 /bin/x
3000-5000 rw-p 00000000 00:00 0
5000-6000 rw-s 00000000 00:01 2 /memfd:a (deleted)
7000-8000 ---p 00000000 00:00 0
8000-9000 rw-p 00000000 00:00 0 [stack]
";
        let usable = |range, write| covers(maps, range, write);
        assert!(usable(0x1000..0x6000, false) && usable(0x3000..0x6000, true));
        assert!(usable(0x4000..0x4800, true) && usable(0x8fff..0x9000, true));
        assert!(!usable(0x2000..0x4000, true), "not writable");
        assert!(!usable(0x0..0x2000, false), "a gap before");
        assert!(!usable(0x5000..0x7000, false), "a gap behind");
        assert!(!usable(0x6000..0x7000, false), "nothing");
        assert!(!usable(0x7000..0x9000, false), "no rights");
        assert!(!usable(0x8000..0xa000, false), "the end");
    }

    #[test]
    fn large_memory_is_looked_up() {
        const LENGTH: usize = 8 << 20;
        let memory = crate::shared_memory::Mapping::anonymous(LENGTH).expect("memory");
        let address = memory.word(0).as_ptr() as usize;
        assert!(memory_is_usable(address, LENGTH, true));
        drop(memory);
        assert!(!memory_is_usable(0x1000, LENGTH, false));
    }
}
