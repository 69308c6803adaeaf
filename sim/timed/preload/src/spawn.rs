//! Child programs run in real time.
//!
//! Threads and programs inherit the kernel's trap of the time stamp counter: it is removed before a
//! program is started, and restored if the call returns. A program that is started by a direct
//! system call keeps the trap, and crashes at its first read of the counter, in the dynamic linker.
//!
//! While a thread waits for another program, the world continues without it.
#![expect(unsafe_code, reason = "exported functions of the C library")]

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, id_t, idtype_t, pid_t, rusage, siginfo_t};

use crate::inside::Inside;
use crate::os::set_errno;

/// Makes a call that starts a program.
fn starting<T>(call: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    let _disarmed = crate::joined::is_joined().then(crate::tsc_trap::Disarmed::new);
    call()
}

/// Makes a call that waits for a program.
fn waiting<T>(call: impl FnOnce() -> T) -> T {
    match Inside::enter() {
        Some(inside) => inside.outside(call),
        None => call(),
    }
}

/// Does the same as [`waiting`], unless the options exclude waiting.
fn waiting_with<T, F: FnOnce() -> T>(options: c_int) -> impl FnOnce(F) -> T {
    move |call| match options & libc::WNOHANG {
        0 => waiting(call),
        _ => call(),
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

fn running<T>(call: impl FnOnce() -> T) -> T {
    starting(|| waiting(call))
}

wrap!(
    starting;
    execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int,
    without_function()
);
wrap!(starting; execv(path: *const c_char, arguments: Strings) -> c_int, without_function());
wrap!(starting; execvp(file: *const c_char, arguments: Strings) -> c_int, without_function());
wrap!(
    starting;
    execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int,
    without_function()
);
wrap!(
    starting;
    fexecve(file: c_int, arguments: Strings, environment: Strings) -> c_int,
    without_function()
);
wrap!(
    starting;
    execveat(
        folder: c_int,
        path: *const c_char,
        arguments: Strings,
        environment: Strings,
        flags: c_int
    ) -> c_int,
    without_function()
);
wrap!(
    starting;
    posix_spawn(
        pid: *mut pid_t,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: Strings,
        environment: Strings
    ) -> c_int,
    libc::ENOSYS
);
wrap!(
    starting;
    posix_spawnp(
        pid: *mut pid_t,
        file: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: Strings,
        environment: Strings
    ) -> c_int,
    libc::ENOSYS
);
wrap!(
    starting;
    popen(command: *const c_char, mode: *const c_char) -> *mut FILE,
    std::ptr::null_mut()
);
wrap!(waiting; pclose(stream: *mut FILE) -> c_int, without_function());
wrap!(running; system(command: *const c_char) -> c_int, without_function());
wrap!(waiting; wait(status: *mut c_int) -> pid_t, without_function());
wrap!(
    waiting_with(options);
    waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t,
    without_function()
);
wrap!(
    waiting_with(options);
    wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t,
    without_function()
);
wrap!(
    waiting_with(options);
    wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t,
    without_function()
);
wrap!(
    waiting_with(options);
    waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int,
    without_function()
);

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
