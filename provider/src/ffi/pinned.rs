//! Calls of libc that change mappings or the handlers of memory faults: registered memory stays
//! where a card finds it ([`mapping_calls`]), and the fault handler stays installed
//! ([`ferroce_platform::os::faults`]).
//!
//! Calls for other memory and other signals are passed on unchanged. The memory calls are system
//! calls, so that they work before any symbol is looked up, and inside allocators.

use ferroce_embed::in_process::mapping_calls;
use ferroce_platform::os::faults;
use libc::{c_int, c_void, off_t, sigaction as Action, sighandler_t, size_t};

use super::next::next;
use crate::errno::Errno;
use crate::os::set_errno;

fn pointer(answer: Result<usize, i32>) -> *mut c_void {
    match answer {
        Ok(address) => std::ptr::with_exposed_provenance_mut(address),
        Err(errno) => {
            set_errno(Errno::new(errno));
            libc::MAP_FAILED
        }
    }
}

fn status(answer: Result<usize, i32>) -> c_int {
    match answer {
        Ok(_) => 0,
        Err(errno) => {
            set_errno(Errno::new(errno));
            -1
        }
    }
}

/// Declares the entries of `mmap`: one for each name of its last argument's type.
macro_rules! mmap_entries {
    ($($name:ident)*) => {$(
        /// `mmap` of libc.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            address: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: off_t,
        ) -> *mut c_void {
            let how = [protection as usize, flags as usize, file as usize, offset as usize];
            pointer(mapping_calls::mmap(address.addr(), length, how))
        }
    )*};
}
mmap_entries!(mmap mmap64);

/// `munmap` of libc.
#[unsafe(no_mangle)]
pub extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    status(mapping_calls::munmap(address.addr(), length))
}

/// `mremap` of libc. C declares it variadic; the optional address is passed like a fifth argument
/// on the supported machines, and the kernel reads it only with `MREMAP_FIXED` or
/// `MREMAP_DONTUNMAP`.
#[unsafe(no_mangle)]
pub extern "C" fn mremap(
    from: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    pointer(mapping_calls::mremap(
        from.addr(),
        old,
        new,
        flags,
        to.addr(),
    ))
}

/// `madvise` of libc.
#[unsafe(no_mangle)]
pub extern "C" fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    status(mapping_calls::madvise(address.addr(), length, advice))
}

/// `mprotect` of libc.
#[unsafe(no_mangle)]
pub extern "C" fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    status(mapping_calls::mprotect(address.addr(), length, protection))
}

/// `sigaction` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const Action,
    before: *mut Action,
) -> c_int {
    match next!(sigaction as faults::Sigaction) {
        // SAFETY: contract of `sigaction`: the pointers are null or valid structs.
        Some(next) => unsafe { faults::program_action(next, signal, action, before) },
        None => status(Err(libc::ENOSYS)),
    }
}

/// `signal` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
    if !matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
        return match next!(signal as Signal) {
            // SAFETY: contract of `signal`: the handler is a valid one; libc checks the signal.
            Some(next) => unsafe { next(signal, handler) },
            None => libc::SIG_ERR,
        };
    }
    // SAFETY: zeros are a valid `sigaction`, with an empty mask, like the one that libc's `signal`
    // passes; both structs are locals.
    unsafe {
        let mut action: Action = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&raw mut action.sa_mask, signal);
        let mut before: Action = std::mem::zeroed();
        match sigaction(signal, &raw const action, &raw mut before) {
            0 => before.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}
