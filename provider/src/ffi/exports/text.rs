//! Calls that need no device: texts, rates, sysfs, fork support.

use std::ffi::{CStr, OsStr};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libc::{c_char, c_int, c_void, size_t};

use super::super::boundary::{minus_one, refused};
use crate::abi::IBV_FORK_UNNEEDED;
use crate::errno::Errno;
use crate::os::set_errno;
use crate::strings;

/// `ibv_wc_status_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    strings::completion_status(status).as_ptr()
}

/// `ibv_event_type_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    strings::event_type(event).as_ptr()
}

/// `ibv_node_type_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node: c_int) -> *const c_char {
    strings::node_type(node).as_ptr()
}

/// `ibv_port_state_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    strings::port_state(state).as_ptr()
}

/// `ibv_rate_to_mult`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    strings::rate_to_multiple(rate)
}

/// `mult_to_ibv_rate`.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_int {
    strings::multiple_to_rate(multiple)
}

/// `ibv_rate_to_mbps`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    strings::rate_to_mbps(rate)
}

/// `mbps_to_ibv_rate`.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    strings::mbps_to_rate(mbps)
}

/// `ibv_get_sysfs_path`, to which programs append `class/...`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// `ibv_read_sysfs_file`: reads a file without its last newline; the length, or -1 and errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> c_int {
    minus_one("ibv_read_sysfs_file", || {
        if directory.is_null() || file.is_null() || buffer.is_null() {
            return Err(Errno::null("dir, file or buf"));
        }
        // SAFETY: contract of `ibv_read_sysfs_file`: both are C strings.
        let (directory, file) = unsafe { (CStr::from_ptr(directory), CStr::from_ptr(file)) };
        let name = |text: &CStr| OsStr::from_bytes(text.to_bytes()).to_owned();
        let path = Path::new(&name(directory)).join(name(file));
        let opened = std::fs::File::open(path);
        let io = |error: std::io::Error| Errno::new(error.raw_os_error().unwrap_or(libc::EIO));
        let mut text = Vec::new();
        opened
            .map_err(io)?
            .take(size as u64)
            .read_to_end(&mut text)
            .map_err(io)?;
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        let length = text.len();
        if length < size {
            text.push(0);
        }
        // SAFETY: contract of `ibv_read_sysfs_file`: the program's buffer has `size` bytes, and at
        // most `size` bytes of text were read, with room for the zero where one was added.
        unsafe {
            buffer
                .cast::<u8>()
                .copy_from_nonoverlapping(text.as_ptr(), text.len());
        };
        Ok(c_int::try_from(length).unwrap_or(c_int::MAX))
    })
}

/// `ibv_fork_init`: no page is pinned, so a fork cannot take pages away from the parent.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `ibv_is_fork_initialized`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    IBV_FORK_UNNEEDED
}

/// `ibv_dontfork_range`, historical.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: size_t) -> c_int {
    0
}

/// `ibv_dofork_range`, historical.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: size_t) -> c_int {
    0
}

/// `ibv_register_driver`, historical: drivers of rdma-core cannot be used here.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_register_driver(_name: *const c_char, _init: *mut c_void) {
    let text = "drivers of rdma-core cannot be used here";
    let refusal = Errno::NOT_SUPPORTED.because(text);
    refused("ibv_register_driver", refusal);
    set_errno(refusal);
}
