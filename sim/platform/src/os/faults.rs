//! Accesses to unmapped memory: SIGSEGV and SIGBUS.
//!
//! Two kinds are expected. A guarded copy ([`ferroce_host::memory`]) ends with an error. A
//! truncated file of another process is replaced by memory of this process ([`replace_files_by`]).
//! Every other fault is the program's: its own action for the signal is executed, as if this
//! handler were not there. For that, the library between a program and libc's `sigaction` calls
//! [`program_action`].
//!
//! The kernel calls this handler with the mask and the flags of the program's action, so that
//! passing a fault on is a call.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use ferroce_host::memory::guarded;

/// The program's action for one of the signals.
struct Program {
    handler: AtomicUsize,
    flags: AtomicI32,
}

impl Program {
    const fn nothing() -> Self {
        Self {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicI32::new(0),
        }
    }

    fn set(&self, action: &sigaction) {
        self.handler.store(action.sa_sigaction, Ordering::SeqCst);
        self.flags.store(action.sa_flags, Ordering::SeqCst);
    }
}

static SIGSEGV: Program = Program::nothing();
static SIGBUS: Program = Program::nothing();

/// `sigaction` of libc, or a function that overrides it.
pub type Sigaction = unsafe extern "C" fn(c_int, *const sigaction, *mut sigaction) -> c_int;

fn program_of(signal: c_int) -> Option<&'static Program> {
    match signal {
        libc::SIGSEGV => Some(&SIGSEGV),
        libc::SIGBUS => Some(&SIGBUS),
        _ => None,
    }
}

/// Replaces the mapped file that contains an address, which was truncated. Returns true if there is
/// one. It is called in a signal handler.
type ReplaceFile = fn(usize) -> bool;

static REPLACE_FILE: OnceLock<ReplaceFile> = OnceLock::new();

/// Makes `replace` handle SIGBUS. All calls pass the same `replace`.
pub fn replace_files_by(replace: ReplaceFile) {
    REPLACE_FILE.get_or_init(|| replace);
}

/// Installs the handler, once in a process.
///
/// # Errors
/// The error of sigaction.
pub fn install() -> io::Result<()> {
    static RESULT: OnceLock<Option<i32>> = OnceLock::new();
    let error = RESULT.get_or_init(|| {
        let installed = install_for(libc::SIGSEGV).and_then(|()| install_for(libc::SIGBUS));
        installed
            .err()
            .map(|error| error.raw_os_error().unwrap_or(libc::EIO))
    });
    error.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

fn install_for(signal: c_int) -> io::Result<()> {
    let Some(program) = program_of(signal) else {
        return Ok(());
    };
    let mut before = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: the kernel fills `before`, for which all zero is valid, too; `on_fault` calls only
    // async-signal-safe functions.
    unsafe {
        if sigaction(signal, std::ptr::null(), before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = before.assume_init();
        program.set(&before);
        let ours = ours(&before);
        match sigaction(signal, &raw const ours, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns the action for this handler, with the program's mask and flags. The handler uses the
/// program's alternate signal stack, if there is one: the fault may be a stack overflow.
fn ours(program: &sigaction) -> sigaction {
    let mut action = *program;
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags &= !libc::SA_RESETHAND;
    action.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
    action
}

/// Executes `sigaction` for the program: calls `next`, except that the handler of this library
/// stays installed.
///
/// # Safety
/// The contract of `sigaction`; `next` is libc's, or an equivalent.
pub unsafe fn program_action(
    next: Sigaction,
    signal: c_int,
    action: *const sigaction,
    before: *mut sigaction,
) -> c_int {
    // SAFETY: the caller keeps the contract of `sigaction`: both pointers are null or valid.
    unsafe {
        let Some(program) = program_of(signal) else {
            return next(signal, action, before);
        };
        let wanted = action.as_ref();
        let on_fault = on_fault as *const () as usize;
        if wanted.is_some_and(|wanted| wanted.sa_sigaction == on_fault) {
            return next(signal, action, before);
        }
        let mut found = MaybeUninit::<sigaction>::zeroed();
        let status = next(signal, std::ptr::null(), found.as_mut_ptr());
        let mut found = found.assume_init();
        if status != 0 || found.sa_sigaction != on_fault {
            return next(signal, action, before);
        }
        found.sa_sigaction = program.handler.load(Ordering::SeqCst);
        found.sa_flags = program.flags.load(Ordering::SeqCst);
        if let Some(wanted) = wanted {
            let ours = ours(wanted);
            let status = next(signal, &raw const ours, std::ptr::null_mut());
            if status != 0 {
                return status;
            }
            program.set(wanted);
        }
        if let Some(before) = before.as_mut() {
            *before = found;
        }
        0
    }
}

/// Unblocks the signals in this thread: the kernel ends a process whose thread blocks the signal
/// and accesses unmapped memory.
pub fn allow() {
    // SAFETY: the set is initialised before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGSEGV);
        libc::sigaddset(&raw mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t and the context with which it
    // will continue; only async-signal-safe functions are called.
    unsafe {
        // Not a signal sent by a process.
        if (*info).si_code > 0 {
            let address = (*info).si_addr().addr();
            let replace = REPLACE_FILE.get().filter(|_| signal == libc::SIGBUS);
            let is_replaced = replace.is_some_and(|replace| replace(address));
            if is_replaced || resume_guarded(context) {
                return;
            }
        }
        hand_over(signal, info, context);
    }
}

/// Continues a guarded instruction at its end. Returns true if it was one.
///
/// # Safety
/// `context` is the argument of a signal handler.
#[cfg(target_arch = "x86_64")]
unsafe fn resume_guarded(context: *mut c_void) -> bool {
    // SAFETY: the caller passes the argument of a signal handler, which the kernel has filled.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = &mut registers[libc::REG_RIP as usize];
    let Some(landing) = guarded::landing(*instruction as usize) else {
        return false;
    };
    *instruction = landing as i64;
    true
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn resume_guarded(_context: *mut c_void) -> bool {
    guarded::landing(0).is_some()
}

/// Executes the program's action.
///
/// # Safety
/// The arguments belong to a signal handler.
unsafe fn hand_over(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(program) = program_of(signal) else {
        return;
    };
    let handler = program.handler.load(Ordering::SeqCst);
    let flags = program.flags.load(Ordering::SeqCst);
    // SAFETY: the caller passes the argument of a signal handler, which the kernel has filled.
    let is_fault = unsafe { (*info).si_code } > 0;
    match handler {
        // The kernel does not let a fault be ignored.
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => end_as_without_handler(signal, is_fault),
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                program.handler.store(libc::SIG_DFL, Ordering::SeqCst);
            }
            // SAFETY: the program has set it for this signal, with or without SA_SIGINFO; a handler
            // with one argument ignores the others.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
    }
}

/// Restores the default action: the access is repeated on return, and ends the process with its own
/// signal. A sent signal is sent again.
fn end_as_without_handler(signal: c_int, is_fault: bool) {
    /// The kernel's `struct sigaction` with SIG_DFL, an empty mask and no flags.
    const DEFAULT: [u64; 4] = [0; 4];
    // SAFETY: system calls with pointers to locals; not through libc's names, which may lead to
    // `program_action`.
    unsafe {
        let size = size_of::<u64>();
        let nothing = std::ptr::null_mut::<c_void>();
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            DEFAULT.as_ptr(),
            nothing,
            size,
        );
        if !is_fault {
            let thread = libc::syscall(libc::SYS_gettid);
            libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal);
        }
    }
}
