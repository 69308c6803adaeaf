//! `dlopen` and `dlmopen` of libc: a program that loads libibverbs by any name gets this library.
//!
//! The preload gives this library to programs that are linked with `libibverbs.so.1`. A program
//! that loads `libibverbs.so`, an absolute path or a copy in a Python wheel would get a second
//! libibverbs, which finds no device. libc searches the RUNPATH of its caller, which it finds by
//! the return address; so the entries change the name and jump to libc's function.

use std::arch::naked_asm;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use libc::{Dl_info, c_char, c_int, c_long, c_void, dl_phdr_info, size_t};

use super::boundary::guard;
use super::next::look_up;
use crate::os::set_errno;

/// Where an entry jumps, and the name that it passes. The ABI returns it in two registers.
#[repr(C)]
struct Jump {
    name: *const c_char,
    function: *const c_void,
}

/// Declares an entry. It calls `$target` with its arguments, and jumps where the returned [`Jump`]
/// points, with the new name in the argument register `$x86_64` or `$aarch64`.
macro_rules! entry {
    ($name:ident $target:ident $x86_64:literal $aarch64:literal) => {
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "call {target}",
                "mov r11, rdx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                concat!("mov ", $x86_64, ", rax"),
                "jmp r11",
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "stp x29, x30, [sp, -48]!",
                "stp x0, x1, [sp, 16]",
                "str x2, [sp, 32]",
                "bl {target}",
                "mov x16, x1",
                "mov x17, x0",
                "ldp x0, x1, [sp, 16]",
                "ldr x2, [sp, 32]",
                "ldp x29, x30, [sp], 48",
                concat!("mov ", $aarch64, ", x17"),
                "br x16",
                target = sym $target,
            );
        }
    };
}
// Both are in two nodes of symbols.txt.
entry!(ferroce_dlopen dlopen_target "rdi" "x0");
entry!(ferroce_dlmopen dlmopen_target "rsi" "x1");

/// Returns where `dlopen` jumps to.
///
/// # Safety
/// `name` is null or a C string.
unsafe extern "C" fn dlopen_target(name: *const c_char, flags: c_int) -> Jump {
    if flags & libc::RTLD_DEEPBIND != 0 {
        check_at_exit();
    }
    // SAFETY: the caller guarantees that `name` is null or a C string.
    unsafe { target(name, "dlopen\0") }
}

/// Returns where `dlmopen` jumps to.
///
/// # Safety
/// `name` is null or a C string.
unsafe extern "C" fn dlmopen_target(_namespace: c_long, name: *const c_char, _: c_int) -> Jump {
    check_at_exit();
    // SAFETY: the caller guarantees that `name` is null or a C string.
    unsafe { target(name, "dlmopen\0") }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn target(name: *const c_char, function: &'static str) -> Jump {
    let function = look_up(function);
    let own = guard(|| {
        // SAFETY: the caller guarantees that `name` is null or a C string.
        let is_ours = !name.is_null() && is_libibverbs(unsafe { CStr::from_ptr(name) });
        Ok(is_ours.then(own_path).flatten())
    });
    let own = own.ok().flatten();
    Jump {
        name: own.map_or(name, |own| own.as_ptr()),
        function: if function.is_null() {
            no_loader as *const c_void
        } else {
            function
        },
    }
}

/// Fails in place of a function that libc lacks.
extern "C" fn no_loader() -> *mut c_void {
    set_errno(crate::errno::Errno::new(libc::ENOSYS));
    std::ptr::null_mut()
}

/// Returns true for the names of libibverbs: `libibverbs.so` with or without a version, and the
/// copies in Python wheels, `libibverbs-0123abcd.so.1`; in any folder.
fn is_libibverbs(path: &CStr) -> bool {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.strip_prefix(b"libibverbs").is_some_and(|rest| {
        let is_copy = rest.starts_with(b"-") && rest.windows(3).any(|part| part == b".so");
        rest.starts_with(b".so") || is_copy
    })
}

/// Returns where this library is loaded, and its path.
fn own_place() -> Option<(usize, &'static CStr)> {
    // SAFETY: the struct consists of pointers, for which zeros are valid.
    let mut found: Dl_info = unsafe { std::mem::zeroed() };
    let address = own_place as *const c_void;
    // SAFETY: the function is in this library, and the local is valid for writes. The name that
    // libc returns lives as long as the library, which is never unloaded.
    unsafe {
        let is_known = libc::dladdr(address, &raw mut found) != 0 && !found.dli_fname.is_null();
        is_known.then(|| (found.dli_fbase.addr(), CStr::from_ptr(found.dli_fname)))
    }
}

/// Returns the path of this library, also after the program has changed its directory.
fn own_path() -> Option<&'static CStr> {
    static PATH: OnceLock<Option<CString>> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let (_, path) = own_place()?;
        let path = std::fs::canonicalize(OsStr::from_bytes(path.to_bytes())).ok()?;
        CString::new(path.as_os_str().as_bytes()).ok()
    });
    path.as_deref()
}

/// True once the program has listed the devices of this library.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Notes that the program uses this library.
pub(super) fn note_use() {
    IS_USED.store(true, Ordering::Relaxed);
}

/// The process that checks at its exit; 0: none.
static CHECKER: AtomicU32 = AtomicU32::new(0);

/// Registers a check at exit: reports if the process loaded another libibverbs and did not use this
/// one, because then it found no device. Libraries loaded by `dlmopen` are in another list and are
/// not checked.
pub(crate) fn check_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        CHECKER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the function lives as long as the process: this library is never unloaded.
        unsafe { libc::atexit(check) };
    });
}

/// Reports another libibverbs.
extern "C" fn check() {
    // A child inherits the handler.
    let is_ours = CHECKER.load(Ordering::Relaxed) == std::process::id();
    if !is_ours || IS_USED.load(Ordering::Relaxed) {
        return;
    }
    let _ = guard(|| {
        if let (Some(other), Some(own)) = (another(), own_path()) {
            let folder = Path::new(OsStr::from_bytes(own.to_bytes())).parent();
            let folder = folder.unwrap_or(Path::new("/")).display();
            crate::log::start();
            tracing::error!(
                "another libibverbs was loaded, which finds no device of Ferroce: {}; \
                 load libibverbs.so.1 without a folder, with {folder} first in LD_LIBRARY_PATH",
                other.display()
            );
        }
        Ok(())
    });
}

/// Returns the path of a libibverbs that is loaded beside this library.
fn another() -> Option<&'static Path> {
    struct Search {
        own: usize,
        found: Option<&'static CStr>,
    }
    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: size_t, search: *mut c_void) -> c_int {
        // SAFETY: libc passes a valid struct, and the pointer that `another` passed: a live
        // `Search`. The name lives as long as the library, and this is the exit of the process.
        unsafe {
            let search = &mut *search.cast::<Search>();
            let name = (*info).dlpi_name;
            if !name.is_null() && (*info).dlpi_addr as usize != search.own {
                let name = CStr::from_ptr(name);
                if is_libibverbs(name) {
                    search.found = Some(name);
                }
            }
        }
        0
    }
    let (own, _) = own_place()?;
    let mut search = Search { own, found: None };
    // SAFETY: `visit` requires a live `Search`: it is called only during this call, with the local.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let path = search.found?;
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libibverbs_in_any_folder() {
        for name in [
            c"libibverbs.so",
            c"libibverbs.so.1",
            c"/usr/lib/libibverbs.so.1.14.44.0",
            c"x.libs/libibverbs-1a2b3c4d.so.1.5.22.0",
        ] {
            assert!(is_libibverbs(name), "{name:?}");
        }
        for name in [
            c"",
            c"libibverbs",
            c"libibverbs/x.so",
            c"libmlx5.so.1",
            c"libibverbs-x",
        ] {
            assert!(!is_libibverbs(name), "{name:?}");
        }
    }
}
