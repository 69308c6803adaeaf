//! Starting other programs, and waiting for them.
//!
//! Threads and programs inherit the kernel's trap of the time stamp counter: it is removed before a
//! program is started, and restored if the call returns. A program that is started by a direct
//! system call keeps the trap, and crashes at its first read of the counter, in the dynamic linker.
//!
//! While a thread waits for a program outside of the world, the world continues without it.
#![expect(unsafe_code, reason = "exported functions of the C library")]

use std::ffi::{c_char, c_int, c_void};

use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};

use crate::children::{self, Awaited, Wanted};
use crate::os::{SignalsBlocked, set_errno, system_call};
use crate::own::Own;
use crate::signals::PROBE_SET;
use crate::{child_signals, joined, real, session};

/// Makes a call that executes another program, which then joins the world anew.
fn executing<T>(call: impl FnOnce() -> T) -> T {
    let is_joined = joined::is_joined();
    #[cfg(target_arch = "x86_64")]
    let _disarmed = is_joined.then(crate::tsc_trap::Disarmed::new);
    // The next program has no handler of this signal until it joins, and would be killed by a probe
    // for the program before. Until then the signal waits: masks outlast the execution.
    let _unprobed = is_joined.then(|| SignalsBlocked::also(PROBE_SET));
    call()
}

/// Makes a call that starts a program in another process, and writes its process ID to `pid`.
///
/// # Safety
/// `pid` is null or valid.
unsafe fn spawning(pid: *mut pid_t, call: impl FnOnce(*mut pid_t) -> c_int) -> c_int {
    let mut child = 0;
    let before = children::joined_so_far();
    let result = executing(|| call(&raw mut child));
    if result == 0 {
        if !pid.is_null() {
            // SAFETY: the caller guarantees that the pointer is valid.
            unsafe { *pid = child };
        }
        children::await_child(before, Some(child));
    }
    result
}

/// Waits for children: `call` asks the kernel, for the wanted child, with these options.
fn waiting<T>(
    wanted: Wanted,
    options: c_int,
    call: impl Fn(Wanted, c_int) -> T,
    [none, interrupted]: [T; 2],
    is_none: impl Fn(&T) -> bool,
) -> T {
    // As in the kernel, a handler runs after the child that it is for has been reaped.
    let _signals = child_signals::hold_back();
    let Some(own) = Own::enter("waitpid") else {
        return call(wanted, options);
    };
    match children::wait(&own, wanted, options) {
        Awaited::Child(child) => {
            let result = call(Wanted::One(child), options & !libc::WNOHANG);
            if options & libc::WNOWAIT == 0 {
                children::note_reaped(child);
            }
            result
        }
        Awaited::None => none,
        Awaited::Interrupted => {
            set_errno(libc::EINTR);
            interrupted
        }
        Awaited::Unknown => {
            let result = call(wanted, options | libc::WNOHANG);
            if options & libc::WNOHANG == 0 && is_none(&result) {
                own.outside(|| call(wanted, options))
            } else {
                result
            }
        }
    }
}

/// Returns the first argument of `waitpid`: `given` by the program, unless one child is wanted.
fn pid_of(wanted: Wanted, given: pid_t) -> pid_t {
    match wanted {
        Wanted::One(pid) => pid as pid_t,
        Wanted::Any | Wanted::Group => given,
    }
}

fn without_function() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

/// A function that starts a program: its name, arguments and result, how it is called, and its
/// result if it does not exist.
macro_rules! wrap {
    ($how:expr; $name:ident($($argument:ident: $type:ty),*) -> $result:ty, $none:expr) => {
        /// # Safety
        /// The contract of the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => c"",
            };
            static NEXT: crate::next::Next = crate::next::Next::new(NAME);
            // SAFETY: the C library's function of this name has this type, and a null address is
            // `None`.
            let real = unsafe {
                std::mem::transmute::<
                    *mut c_void,
                    Option<unsafe extern "C" fn($($type),*) -> $result>,
                >(NEXT.address())
            };
            match real {
                // SAFETY: the caller keeps the contract of the C library's function; the arguments
                // are passed on.
                Some(real) => ($how)(|| unsafe { real($($argument),*) }),
                None => $none,
            }
        }
    };
}

type Strings = *const *const c_char;

wrap!(
    executing;
    execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int,
    without_function()
);
wrap!(executing; execv(path: *const c_char, arguments: Strings) -> c_int, without_function());
wrap!(executing; execvp(file: *const c_char, arguments: Strings) -> c_int, without_function());
wrap!(
    executing;
    execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int,
    without_function()
);
wrap!(
    executing;
    fexecve(file: c_int, arguments: Strings, environment: Strings) -> c_int,
    without_function()
);
wrap!(
    executing;
    execveat(
        folder: c_int,
        path: *const c_char,
        arguments: Strings,
        environment: Strings,
        flags: c_int
    ) -> c_int,
    without_function()
);

/// `posix_spawn` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller keeps the contract of `posix_spawn`; a process ID may be null.
    unsafe {
        spawning(pid, |pid| {
            real::posix_spawn(pid, path, actions, attributes, arguments, environment)
        })
    }
}

/// `posix_spawnp` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller keeps the contract of `posix_spawnp`; a process ID may be null.
    unsafe {
        spawning(pid, |pid| {
            real::posix_spawnp(pid, file, actions, attributes, arguments, environment)
        })
    }
}

/// `vfork` of libc: a fork, as the child joins the world. The parent continues when it has.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> pid_t {
    // SAFETY: the caller keeps the contract of `vfork`; `fork` allows its child more.
    unsafe { libc::fork() }
}

/// `wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the caller keeps the contract of `wait`.
    unsafe { waitpid(-1, status, 0) }
}

/// `waitpid` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the caller keeps the contract of `waitpid`; no usage is wanted.
    unsafe { wait4(pid, status, options, std::ptr::null_mut()) }
}

/// `wait3` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    // SAFETY: the caller keeps the contract of `wait3`.
    unsafe { wait4(-1, status, options, usage) }
}

/// `wait4` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait4(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    let call = |wanted, options| {
        // SAFETY: the caller keeps the contract of `wait4`.
        unsafe { real::wait4(pid_of(wanted, pid), status, options, usage) }
    };
    let wanted = Wanted::of_pid(pid);
    waiting(wanted, options, call, [0, -1], |reaped| *reaped == 0)
}

/// `waitid` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitid(
    kind: idtype_t,
    id: id_t,
    information: *mut siginfo_t,
    options: c_int,
) -> c_int {
    let wanted = match kind {
        libc::P_ALL => Wanted::Any,
        libc::P_PID => Wanted::One(id),
        _ => Wanted::Group,
    };
    if !information.is_null() {
        // SAFETY: the caller guarantees a valid structure; zero is valid for its integers. The
        // kernel leaves it so if no child has ended.
        unsafe { information.write_bytes(0, 1) };
    }
    let call = |wanted, options| {
        let (kind, id) = match wanted {
            Wanted::One(pid) => (libc::P_PID, pid),
            Wanted::Any | Wanted::Group => (kind, id),
        };
        // SAFETY: the caller keeps the contract of `waitid`.
        unsafe { real::waitid(kind, id, information, options) }
    };
    let is_none = |result: &c_int| {
        // SAFETY: the structure is valid, and was initialised above.
        *result == 0 && !information.is_null() && unsafe { (*information).si_pid() } == 0
    };
    waiting(wanted, options, call, [0, -1], is_none)
}

/// `_exit` of libc.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    session::leave_at_once();
    // SAFETY: `exit_group` takes a number, and does not return.
    unsafe { system_call(libc::SYS_exit_group, [status as usize]) };
    unreachable_end()
}

/// `_Exit` of libc.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// The kernel has ended the process.
fn unreachable_end() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

/// `execl` and its relatives, which take any number of arguments.
#[cfg(target_arch = "x86_64")]
mod variadic {
    use std::ffi::{c_char, c_int};
    use std::ptr::null;

    /// Maximum number of arguments.
    const ARGUMENTS: usize = 1024;
    /// Maximum number of words on the stack: the arguments, their terminating null, and the
    /// environment.
    const STACK_WORDS: usize = ARGUMENTS + 2;

    type Word = *const c_char;

    /// Arguments on the stack. Only their terminator determines their number: the value is never
    /// copied, nor read after the terminator.
    #[repr(C)]
    struct OnStack([Word; STACK_WORDS]);

    /// Returns the arguments with their terminating null, and the word after that.
    ///
    /// # Safety
    /// There is a null among them. The word after it is there if `has_environment`.
    unsafe fn collect(
        registers: &[Word],
        stack: &OnStack,
        has_environment: bool,
    ) -> Option<(Vec<Word>, Word)> {
        let word = |place: usize| match registers.get(place) {
            Some(word) => *word,
            None => {
                let place = (&raw const stack.0)
                    .cast::<Word>()
                    .wrapping_add(place - registers.len());
                // SAFETY: the caller guarantees a terminating null, and the loop stops there. The
                // read is volatile, so that the compiler reads nothing after it.
                unsafe { place.read_volatile() }
            }
        };
        let count = (0..ARGUMENTS).find(|place| word(*place).is_null())?;
        let arguments = (0..=count).map(word).collect();
        let environment = if has_environment {
            word(count + 1)
        } else {
            null()
        };
        Some((arguments, environment))
    }

    fn too_many() -> c_int {
        crate::os::set_errno(libc::E2BIG);
        -1
    }

    macro_rules! wrap {
        (
            $name:ident, $has_environment:expr,
            |$path:ident, $arguments:ident, $environment:ident| $call:expr
        ) => {
            /// # Safety
            /// The contract of the C library's function of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                $path: Word,
                a: Word,
                b: Word,
                c: Word,
                d: Word,
                e: Word,
                stack: OnStack,
            ) -> c_int {
                // SAFETY: by the contract of the C library's function the arguments end with a
                // null, and the environment follows where it has one.
                match unsafe { collect(&[a, b, c, d, e], &stack, $has_environment) } {
                    Some((arguments, environment)) => {
                        let $arguments = arguments.as_ptr();
                        let $environment = environment;
                        // SAFETY: the caller keeps the contract of the C library's function, and
                        // the collected arguments end with a null.
                        unsafe { $call }
                    }
                    None => too_many(),
                }
            }
        };
    }
    wrap!(execl, false, |path, arguments, _none| super::execv(
        path, arguments
    ));
    wrap!(execlp, false, |path, arguments, _none| super::execvp(
        path, arguments
    ));
    wrap!(execle, true, |path, arguments, environment| {
        super::execve(path, arguments, environment.cast())
    });
}
