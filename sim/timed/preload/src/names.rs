//! The name of the host, as a program of the world sees it: `n0`, `n1` and so on.
//!
//! Launchers and MPI libraries decide by it which processes share memory. For TCP the name of each
//! host has an address of its loopback network: a server that listens on all addresses of the
//! machine is found there.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write as _;
use std::sync::atomic::Ordering;

use libc::{addrinfo, hostent, size_t, utsname};

use crate::joined;
use crate::next::next;
use crate::os::set_errno;

/// Longest name with its terminating zero.
const NAME_BYTES: usize = 8;

/// Returns the number of the host, also for a thread that has left simulated time. `None`: the
/// program has not joined a world.
fn host() -> Option<u32> {
    joined::pages().map(|pages| pages.program.host_of_name.load(Ordering::Relaxed))
}

/// Returns the name of the host with its terminating zero, and its length without that. `None`: the
/// program has not joined a world.
fn own_name() -> Option<([u8; NAME_BYTES], usize)> {
    let host = host()?;
    let mut name = [0; NAME_BYTES];
    let mut rest = &mut name[..NAME_BYTES - 1];
    write!(rest, "n{host}").ok()?;
    let left = rest.len();
    Some((name, NAME_BYTES - 1 - left))
}

/// Files with the name of the host.
const NAME_FILES: [&CStr; 2] = [c"/proc/sys/kernel/hostname", c"/etc/hostname"];
/// Libraries compare its content to find out which processes share memory.
const BOOT_ID_FILE: &CStr = c"/proc/sys/kernel/random/boot_id";

/// Returns true if the content of this file depends on the host.
pub fn is_file(path: &CStr) -> bool {
    NAME_FILES.contains(&path) || path == BOOT_ID_FILE
}

/// Returns what the kernel's file at `path` has for the host. `None`: as on this machine.
pub fn file(path: &CStr) -> Option<String> {
    let host = host()?;
    match path {
        _ if NAME_FILES.contains(&path) => Some(format!("n{host}\n")),
        _ if path == BOOT_ID_FILE => {
            let id = format!("{host:08x}-{host:04x}-4{host:03x}-8{host:03x}-{host:012x}\n");
            Some(id)
        }
        _ => None,
    }
}

/// Returns the address for TCP of the host of the world that has this name. `None`: there is none.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn address_of(name: *const c_char) -> Option<CString> {
    let hosts = joined::pages().map_or(0, |pages| pages.program.hosts.load(Ordering::Relaxed));
    if name.is_null() || hosts == 0 {
        return None;
    }
    // SAFETY: the caller guarantees a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("");
    let number: u32 = name.strip_prefix('n')?.parse().ok()?;
    let [.., high, low] = (number + 1).to_be_bytes();
    let address = (number < hosts).then(|| format!("127.77.{high}.{low}"))?;
    CString::new(address).ok()
}

/// `gethostname` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(buffer: *mut c_char, length: size_t) -> c_int {
    type Function = unsafe extern "C" fn(*mut c_char, size_t) -> c_int;
    match (own_name(), next!(c"gethostname" as Function)) {
        (Some((name, used)), _) if used < length && !buffer.is_null() => {
            // SAFETY: by the contract of `gethostname`, the buffer has `length` bytes, which is
            // more than the name has without its zero.
            unsafe { buffer.copy_from_nonoverlapping(name.as_ptr().cast(), used + 1) };
            0
        }
        // SAFETY: the caller keeps the contract of libc's function.
        (_, Some(real)) => unsafe { real(buffer, length) },
        (_, None) => {
            set_errno(libc::ENOSYS);
            -1
        }
    }
}

/// `uname` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uname(system: *mut utsname) -> c_int {
    type Function = unsafe extern "C" fn(*mut utsname) -> c_int;
    let Some(real) = next!(c"uname" as Function) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    // SAFETY: the caller keeps the contract of libc's function.
    let result = unsafe { real(system) };
    if let (0, Some((name, used))) = (result, own_name()) {
        // SAFETY: the call has filled a valid structure, whose names have room for 64 bytes.
        let node = unsafe { &mut (*system).nodename };
        for (cell, byte) in node.iter_mut().zip(&name[..=used]) {
            *cell = *byte as c_char;
        }
    }
    result
}

/// `getaddrinfo` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    type Function = unsafe extern "C" fn(
        *const c_char,
        *const c_char,
        *const addrinfo,
        *mut *mut addrinfo,
    ) -> c_int;
    // SAFETY: by the contract of `getaddrinfo`, the name is null or a C string.
    let address = unsafe { address_of(node) };
    let node = address.as_ref().map_or(node, |address| address.as_ptr());
    match next!(c"getaddrinfo" as Function) {
        // SAFETY: the caller keeps the contract of libc's function, and the name is a C string.
        Some(real) => unsafe { real(node, service, hints, found) },
        None => libc::EAI_FAIL,
    }
}

/// `gethostbyname` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut hostent {
    type Function = unsafe extern "C" fn(*const c_char) -> *mut hostent;
    // SAFETY: by the contract of `gethostbyname`, the name is a C string.
    let address = unsafe { address_of(name) };
    let name = address.as_ref().map_or(name, |address| address.as_ptr());
    let real = next!(c"gethostbyname" as Function);
    // SAFETY: the caller keeps the contract of libc's function, and the name is a C string.
    real.map_or(std::ptr::null_mut(), |real| unsafe { real(name) })
}
