//! Joins the world before `main`, if the program is linked with a library for RDMA, `FERROCE_HOST`
//! names a host for it, `FERROCE_FROM_START` is set, or a program of the world has started it.
//!
//! Then its threads and its sockets belong to the world from their beginning on, and the time stamp
//! counter has one rate. Other programs join when they ask for the devices: shells, launchers and
//! interpreters run under `ferroce run`, too, and need no host.

#![expect(
    unsafe_code,
    reason = "the dynamic linker's description of what it has loaded"
)]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_timed_protocol::control::Admission;
use ferroce_timed_protocol::host_name;
use libc::dl_phdr_info;

use crate::session;
use crate::trust::{own_name, say};

/// Beginnings of the names of libraries whose programs open an RDMA device: verbs, RDMA CM, UCX,
/// libfabric, and MPI (Open MPI, MPICH).
const LIBRARIES: [&[u8]; 7] = [
    b"libibverbs.so",
    b"librdmacm.so",
    b"libucp.so",
    b"libuct.so",
    b"libfabric.so",
    b"libmpi.so",
    b"libmpich.so",
];

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    join();
}

/// Joins the world if the program belongs to it; tries so once.
pub fn join() {
    static HAS_TRIED: AtomicBool = AtomicBool::new(false);
    if HAS_TRIED.swap(true, Ordering::Relaxed) {
        return;
    }
    if std::env::var_os("FERROCE_WORLD").is_none() {
        return;
    }
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_wanted = is_set(host_name::VARIABLE) || is_set(host_name::FROM_START);
    let admission = if is_wanted || is_linked_with_rdma() {
        Admission::Any
    } else {
        Admission::Members
    };
    let joined = session::join(admission);
    // Other programs may never need the world: the provider reports the error when they ask for the
    // devices.
    if let Some(error) = joined.err().filter(|_| is_wanted) {
        let host = std::env::var_os(host_name::VARIABLE).unwrap_or_default();
        say(format_args!(
            "ferroce: {} could not join its world ({}={}), and runs in real time: {error}\n",
            own_name(),
            host_name::VARIABLE,
            host.to_string_lossy(),
        ));
    }
}

/// Returns true if the program, or a library that it is linked with, needs one of the libraries.
fn is_linked_with_rdma() -> bool {
    // SAFETY: `dl_iterate_phdr` calls the function with valid descriptions.
    unsafe { libc::dl_iterate_phdr(Some(needs_rdma), std::ptr::null_mut()) != 0 }
}

/// Returns 1, which ends the iteration, for an object that needs one of the libraries.
unsafe extern "C" fn needs_rdma(object: *mut dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid description, whose program headers are in memory.
    let (base, headers) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        (
            object.dlpi_addr,
            std::slice::from_raw_parts(object.dlpi_phdr, count),
        )
    };
    let dynamic = headers
        .iter()
        .find(|header| header.p_type == libc::PT_DYNAMIC);
    let Some(dynamic) = dynamic else { return 0 };
    let entries = (base + dynamic.p_vaddr) as *const Entry;
    // SAFETY: the dynamic section of a loaded object is in memory, and ends with a null entry.
    unsafe { needs(entries) }.into()
}

/// `Elf64_Dyn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    tag: u64,
    value: u64,
}

const END: u64 = 0;
const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;

/// Returns true if a dynamic section names one of the libraries.
///
/// # Safety
/// The entries of a loaded object, which end with a null entry.
unsafe fn needs(first: *const Entry) -> bool {
    let entries = || {
        let all = (0..).map(|place| {
            // SAFETY: the caller guarantees entries up to the null entry, and the iteration ends
            // there.
            unsafe { *first.add(place) }
        });
        all.take_while(|entry| entry.tag != END)
    };
    let Some(strings) = entries().find(|entry| entry.tag == STRING_TABLE) else {
        return false;
    };
    entries().filter(|entry| entry.tag == NEEDED).any(|entry| {
        // SAFETY: glibc has relocated the address of the string table, and the entry is the offset
        // of a string in it.
        let name = unsafe { CStr::from_ptr((strings.value + entry.value) as *const _) };
        LIBRARIES
            .iter()
            .any(|library| name.to_bytes().starts_with(library))
    })
}
