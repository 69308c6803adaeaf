//! The place in the program that calls the library.

use std::ffi::{CStr, c_int, c_void};
use std::path::PathBuf;

use ferroce_platform::explain;
use libc::{dl_phdr_info, size_t};

/// Frames that are looked at.
const MAX_FRAMES: usize = 48;
/// Frames that are named: the inline functions of verbs.h are functions of the program.
const MAX_CALLERS: usize = 3;

// The unwinder of the C++ ABI (Itanium C++ ABI, exception handling, 1.2 and 1.3); Rust's standard
// library links it.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// Return addresses of this thread's calls, the newest first.
struct Frames {
    addresses: [usize; MAX_FRAMES],
    count: usize,
}

/// A program or library in memory.
struct Module {
    path: PathBuf,
    /// Distance between its addresses in memory and in its file.
    bias: usize,
    /// Its segments, as first and last address.
    segments: Vec<std::ops::RangeInclusive<usize>>,
}

/// Returns the call by which the program has entered this library, and its callers: each as
/// `FILE+0xOFFSET` with the file's own addresses. `None`: the frames cannot be read.
#[cold]
pub(crate) fn site() -> Option<String> {
    let modules = modules();
    let of = |address: usize| {
        let is_in = |module: &&Module| module.segments.iter().any(|part| part.contains(&address));
        modules.iter().find(is_in)
    };
    let own = of(site as *const () as usize)?.bias;
    let frames = frames();
    // A return address is the one after the call.
    let calls = frames.addresses[..frames.count]
        .iter()
        .map(|address| address.wrapping_sub(1));
    let calls = calls.filter_map(|address| Some((address, of(address)?)));
    let calls = calls.skip_while(|(_, module)| module.bias != own);
    let outside = calls.skip_while(|(_, module)| module.bias == own);
    let names = outside.take(MAX_CALLERS).map(|(address, module)| {
        let offset = address.wrapping_sub(module.bias);
        format!("{}+{offset:#x}", module.path.display())
    });
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| names.join(explain::SITE_SEPARATOR))
}

fn frames() -> Frames {
    unsafe extern "C" fn visit(frame: *mut c_void, frames: *mut c_void) -> c_int {
        const GOES_ON: c_int = 0;
        const END: c_int = 5; // _URC_END_OF_STACK
        // SAFETY: the unwinder passes a valid frame, and the pointer that `frames` passed: a live
        // `Frames`.
        let (frames, address) = unsafe { (&mut *frames.cast::<Frames>(), _Unwind_GetIP(frame)) };
        let Some(place) = frames.addresses.get_mut(frames.count) else {
            return END;
        };
        *place = address;
        frames.count += 1;
        GOES_ON
    }
    let mut frames = Frames {
        addresses: [0; MAX_FRAMES],
        count: 0,
    };
    // SAFETY: `visit` requires a live `Frames`: it is called only during this call, with the local.
    unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
    frames
}

fn modules() -> Vec<Module> {
    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
        // SAFETY: libc passes a valid struct, whose name and headers are valid during the call, and
        // the pointer that `modules` passed: a live vector.
        let (found, info, name, headers) = unsafe {
            let info = &*info;
            let name = (!info.dlpi_name.is_null()).then(|| CStr::from_ptr(info.dlpi_name));
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            (&mut *found.cast::<Vec<Module>>(), info, name, headers)
        };
        let bias = info.dlpi_addr as usize;
        let name = name.map(|name| name.to_string_lossy().into_owned());
        // The program itself has no name.
        let path = match name.filter(|name| !name.is_empty()) {
            Some(name) => PathBuf::from(name),
            None => std::env::current_exe().unwrap_or_default(),
        };
        let loaded = headers.iter().filter(|one| one.p_type == libc::PT_LOAD);
        let segments = loaded.map(|one| {
            let first = bias.wrapping_add(one.p_vaddr as usize);
            first..=first.wrapping_add((one.p_memsz as usize).saturating_sub(1))
        });
        found.push(Module {
            path,
            bias,
            segments: segments.collect(),
        });
        0
    }
    let mut found: Vec<Module> = Vec::new();
    // SAFETY: `visit` requires a live vector: it is called only during this call, with the local.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the frames lead to this test, and modules hold its address.
    #[test]
    fn frames_are_found_in_modules() {
        let frames = frames();
        assert!(frames.count > 2);
        let modules = modules();
        let address = frames.addresses[0];
        let is_in = |module: &&Module| module.segments.iter().any(|part| part.contains(&address));
        let own = std::env::current_exe().expect("this program has a path");
        assert_eq!(modules.iter().find(is_in).map(|one| &one.path), Some(&own));
    }
}
