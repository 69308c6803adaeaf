//! Commands of a shell: `system` and `popen`.
//!
//! The C library starts them by functions that it does not call by their names; here they are
//! children like others.

#![expect(unsafe_code, reason = "exported functions of the C library")]

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use libc::{FILE, pid_t};

use crate::inner_pipes::pipe2;
use crate::next::next;
use crate::os::set_errno;
use crate::spawn::{posix_spawn, waitpid};
use crate::{joined, real};

const SHELL: &std::ffi::CStr = c"/bin/sh";
/// Streams of `popen` at a time. Others are not simulated.
const MAX_STREAMS: usize = 32;

/// A stream of `popen`, or an empty entry.
struct Stream {
    file: AtomicPtr<FILE>,
    pid: AtomicI32,
}

static STREAMS: [Stream; MAX_STREAMS] = [const {
    Stream {
        file: AtomicPtr::new(null_mut()),
        pid: AtomicI32::new(0),
    }
}; MAX_STREAMS];

unsafe extern "C" {
    static mut environ: *const *const c_char;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
}

/// Starts a shell with a command.
///
/// # Safety
/// `command` is a string; the actions and attributes are null, or valid for `posix_spawn`.
unsafe fn start(
    command: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
) -> Result<pid_t, c_int> {
    let arguments = [
        c"sh".as_ptr(),
        c"-c".as_ptr(),
        c"--".as_ptr(),
        command,
        null(),
    ];
    let mut pid = 0;
    // SAFETY: the arguments end with a null; the caller guarantees the rest, and the environment is
    // the program's.
    let error = unsafe {
        posix_spawn(
            &raw mut pid,
            SHELL.as_ptr(),
            actions.cast(),
            attributes.cast(),
            arguments.as_ptr(),
            environ,
        )
    };
    if error == 0 { Ok(pid) } else { Err(error) }
}

/// Waits for a child. Returns its status, or -1.
fn status_of(pid: pid_t) -> c_int {
    let mut status = 0;
    // SAFETY: `waitpid` writes a local.
    while unsafe { waitpid(pid, &raw mut status, 0) } < 0 {
        if real::errno() != libc::EINTR {
            return -1;
        }
    }
    status
}

/// While it lives, the program ignores the signals that the user sends to its command, and learns
/// of the command's end from its status only (POSIX, `system`).
struct Ignored {
    interrupt: libc::sigaction,
    quit: libc::sigaction,
    mask: libc::sigset_t,
}

impl Ignored {
    fn new() -> Self {
        // SAFETY: zero is valid for these structures of integers and an optional function; the
        // calls read and write locals.
        unsafe {
            let mut ignore: libc::sigaction = MaybeUninit::zeroed().assume_init();
            ignore.sa_sigaction = libc::SIG_IGN;
            let mut before: Self = MaybeUninit::zeroed().assume_init();
            libc::sigaction(libc::SIGINT, &raw const ignore, &raw mut before.interrupt);
            libc::sigaction(libc::SIGQUIT, &raw const ignore, &raw mut before.quit);
            let mut blocked = MaybeUninit::zeroed().assume_init();
            libc::sigaddset(&raw mut blocked, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before.mask);
            before
        }
    }

    /// Returns the attributes of a child that has the signals as they were.
    fn attributes(&self) -> libc::posix_spawnattr_t {
        let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: zero is valid for the structures; the calls read and write locals.
        unsafe {
            let mut attributes = MaybeUninit::zeroed().assume_init();
            libc::posix_spawnattr_init(&raw mut attributes);
            let mut defaults = MaybeUninit::zeroed().assume_init();
            for (signal, action) in [(libc::SIGINT, &self.interrupt), (libc::SIGQUIT, &self.quit)] {
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&raw mut defaults, signal);
                }
            }
            libc::posix_spawnattr_setsigdefault(&raw mut attributes, &raw const defaults);
            libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const self.mask);
            libc::posix_spawnattr_setflags(&raw mut attributes, flags as libc::c_short);
            attributes
        }
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        let errno = real::errno();
        // SAFETY: the calls read what was saved.
        unsafe {
            libc::sigaction(libc::SIGINT, &raw const self.interrupt, null_mut());
            libc::sigaction(libc::SIGQUIT, &raw const self.quit, null_mut());
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, null_mut());
        }
        set_errno(errno);
    }
}

/// `system` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    /// Status of a shell that cannot be started (POSIX, `system`).
    const NO_SHELL: c_int = 127 << 8;
    if command.is_null() || !joined::is_running() {
        // SAFETY: the caller keeps the contract of `system`.
        return unsafe { real::system(command) };
    }
    let ignored = Ignored::new();
    let attributes = ignored.attributes();
    // SAFETY: by the contract of `system`, the command is a string.
    match unsafe { start(command, null(), &raw const attributes) } {
        Ok(pid) => status_of(pid),
        Err(_) => NO_SHELL,
    }
}

/// `popen` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    let free = STREAMS
        .iter()
        .find(|stream| stream.pid.load(Ordering::Relaxed) == 0);
    let Some(stream) = free.filter(|_| joined::is_running()) else {
        type Popen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;
        let real = next!(c"popen" as Popen);
        // SAFETY: the caller keeps the contract of `popen`.
        return real.map_or(null_mut(), |real| unsafe { real(command, mode) });
    };
    // SAFETY: by the contract of `popen`, both are strings.
    match unsafe { open(command, mode) } {
        Ok((file, pid)) => {
            stream.pid.store(pid, Ordering::Relaxed);
            stream.file.store(file, Ordering::Relaxed);
            file
        }
        Err(errno) => {
            set_errno(errno);
            null_mut()
        }
    }
}

/// Starts a command with a pipe.
///
/// # Safety
/// Both are strings.
unsafe fn open(command: *const c_char, mode: *const c_char) -> Result<(*mut FILE, pid_t), c_int> {
    // SAFETY: the caller guarantees a string.
    let letters = unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes();
    let (own, childs, mode) = match letters.first() {
        Some(b'r') => (0, 1, c"r"),
        Some(b'w') => (1, 0, c"w"),
        _ => return Err(libc::EINVAL),
    };
    let mut ends = [-1; 2];
    // SAFETY: there is room for two descriptors. Those that the program keeps are closed when it
    // executes another one. Zero is valid for the actions, which `posix_spawn` reads only.
    unsafe {
        if pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(real::errno());
        }
        let mut actions = MaybeUninit::zeroed().assume_init();
        libc::posix_spawn_file_actions_init(&raw mut actions);
        // Standard output is the writing end, standard input the reading end.
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, ends[childs], childs as c_int);
        let started = start(command, &raw const actions, null());
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        libc::close(ends[childs]);
        let file = fdopen(ends[own], mode.as_ptr());
        if !letters.contains(&b'e') {
            libc::fcntl(ends[own], libc::F_SETFD, 0);
        }
        match started {
            Ok(pid) if !file.is_null() => Ok((file, pid)),
            _ => {
                libc::close(ends[own]);
                Err(started.err().unwrap_or(libc::ENOMEM))
            }
        }
    }
}

/// `pclose` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pclose(file: *mut FILE) -> c_int {
    let own = STREAMS
        .iter()
        .find(|stream| !file.is_null() && stream.file.load(Ordering::Relaxed) == file);
    let Some(stream) = own else {
        // SAFETY: the caller keeps the contract of `pclose`.
        return unsafe { real::pclose(file) };
    };
    stream.file.store(null_mut(), Ordering::Relaxed);
    let pid = stream.pid.swap(0, Ordering::Relaxed);
    // SAFETY: `popen` has opened the stream, and the program does not use it any more.
    unsafe { libc::fclose(file) };
    status_of(pid)
}
