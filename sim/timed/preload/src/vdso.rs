//! The functions that the kernel maps into each process to read the time without a system call.
//!
//! The C library calls them, and so do programs that bypass it, so they are replaced in place.
//! Where the kernel does not allow that, only the functions of the C library ([`crate::libc_time`])
//! are simulated.
#![expect(unsafe_code, reason = "rewrites code")]

use std::ffi::{CStr, c_void};
use std::sync::Mutex;

use elf::ElfBytes;
use elf::abi;
use elf::dynamic::DynamicTable;
use elf::endian::NativeEndian;
use elf::file::Class;
use elf::hash::{GnuHashTable, SysVHashTable};
use elf::string_table::StringTable;
use elf::symbol::SymbolTable;
use rustix::mm::{MprotectFlags, mprotect};

use crate::libc_time;

/// Bytes of a jump to any address.
const JUMP_BYTES: usize = 16;

/// Returns the names and their replacements.
fn replacements() -> [(&'static CStr, *const c_void); 3] {
    let clock_gettime = libc_time::vdso_clock_gettime as *const c_void;
    let gettimeofday = libc_time::vdso_gettimeofday as *const c_void;
    let time = libc_time::vdso_time as *const c_void;
    if cfg!(target_arch = "aarch64") {
        [
            (c"__kernel_clock_gettime", clock_gettime),
            (c"__kernel_gettimeofday", gettimeofday),
            (c"__kernel_time", time),
        ]
    } else {
        [
            (c"__vdso_clock_gettime", clock_gettime),
            (c"__vdso_gettimeofday", gettimeofday),
            (c"__vdso_time", time),
        ]
    }
}

/// Returns code that jumps to an address, and changes only registers that a call may change.
fn jump(to: *const c_void) -> [u8; JUMP_BYTES] {
    let mut code = [0; JUMP_BYTES];
    let address = to.addr().to_le_bytes();
    #[cfg(target_arch = "x86_64")]
    {
        // movabs rax, to; jmp rax
        code[..2].copy_from_slice(&[0x48, 0xb8]);
        code[2..10].copy_from_slice(&address);
        code[10..12].copy_from_slice(&[0xff, 0xe0]);
    }
    #[cfg(target_arch = "aarch64")]
    {
        // ldr x16, #8; br x16; to
        code[..4].copy_from_slice(&0x5800_0050_u32.to_le_bytes());
        code[4..8].copy_from_slice(&0xd61f_0200_u32.to_le_bytes());
        code[8..].copy_from_slice(&address);
    }
    code
}

/// The replaced bytes, to be restored in a child of a fork.
static SAVED: Mutex<Vec<(usize, [u8; JUMP_BYTES])>> = Mutex::new(Vec::new());

/// Replaces the functions. Returns false if the kernel does not allow it, or there are none.
pub fn replace() -> bool {
    let Some(image) = Image::of_process() else {
        return false;
    };
    let Ok(mut saved) = SAVED.lock() else {
        return false;
    };
    let functions: Vec<(usize, [u8; JUMP_BYTES])> = replacements()
        .into_iter()
        .filter_map(|(name, to)| Some((image.function(name)?, jump(to))))
        .collect();
    saved.clear();
    image.write(&functions, |before| saved.push(before))
}

/// Restores the replaced bytes.
pub fn restore() {
    if let (Some(image), Ok(saved)) = (Image::of_process(), SAVED.try_lock()) {
        image.write(&saved, |_| {});
    }
}

/// The mapping.
struct Image {
    start: usize,
    end: usize,
}

impl Image {
    fn of_process() -> Option<Self> {
        // SAFETY: `getauxval` takes no pointers.
        let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let line = maps
            .lines()
            .find(|line| line.starts_with(&format!("{start:x}-")))?;
        let (_, rest) = line.split_once('-')?;
        let (end, _) = rest.split_once(' ')?;
        let end = usize::from_str_radix(end, 16).ok()?;
        (start != 0).then_some(Self { start, end })
    }

    /// Returns the address of a function that has room for a jump.
    fn function(&self, name: &CStr) -> Option<usize> {
        let start = std::ptr::with_exposed_provenance::<u8>(self.start);
        // SAFETY: the mapping is readable, and this library writes to it only in `write`, when the
        // slice does not exist any more.
        let image = unsafe { std::slice::from_raw_parts(start, self.end - self.start) };
        let (offset, size) = symbol(image, name.to_bytes())?;
        let end = offset.checked_add(JUMP_BYTES)?;
        (size >= JUMP_BYTES && end <= image.len()).then(|| self.start + offset)
    }

    /// Writes code. `before` gets the replaced bytes of each place.
    fn write(
        &self,
        functions: &[(usize, [u8; JUMP_BYTES])],
        mut before: impl FnMut((usize, [u8; JUMP_BYTES])),
    ) -> bool {
        let start = std::ptr::with_exposed_provenance_mut::<c_void>(self.start);
        let length = self.end - self.start;
        let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
        // SAFETY: the range is the whole mapping, as the kernel requires; it stays executable all
        // the time.
        if unsafe { mprotect(start, length, writable) }.is_err() {
            return false;
        }
        for (address, code) in functions {
            let place = std::ptr::with_exposed_provenance_mut::<[u8; JUMP_BYTES]>(*address);
            // SAFETY: the bytes are within the mapping, inside one function. A thread that is
            // inside it would crash: the documentation asks programs to join before they start
            // threads that read the time without pause.
            unsafe {
                before((*address, place.read()));
                place.write(*code);
            }
            synchronise(*address);
        }
        let usual = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the range is the whole mapping, as the kernel requires. On failure the code stays
        // writable.
        let _ = unsafe { mprotect(start, length, usual) };
        true
    }
}

/// Finds a symbol of a loaded library. Returns its offset and its size. Section headers are not
/// used: a kernel may leave them out.
fn symbol(image: &[u8], name: &[u8]) -> Option<(usize, usize)> {
    let elf = ElfBytes::<NativeEndian>::minimal_parse(image).ok()?;
    let segments = elf.segments()?;
    let segment = |kind| segments.iter().find(|segment| segment.p_type == kind);
    let bias = segment(abi::PT_LOAD)?.p_vaddr;
    let dynamic = elf.segment_data(&segment(abi::PT_DYNAMIC)?).ok()?;
    let dynamic = DynamicTable::new(NativeEndian, Class::ELF64, dynamic);
    let offset = |address: u64| usize::try_from(address.wrapping_sub(bias)).ok();
    let table = |tag| {
        let entry = dynamic.iter().find(|entry| entry.d_tag == tag)?;
        image.get(offset(entry.d_ptr())?..)
    };
    let symbols = SymbolTable::new(NativeEndian, Class::ELF64, table(abi::DT_SYMTAB)?);
    let strings = StringTable::new(table(abi::DT_STRTAB)?);
    // Kernels have one or both of the hash tables.
    let found = match table(abi::DT_GNU_HASH) {
        Some(hash) => GnuHashTable::new(NativeEndian, Class::ELF64, hash)
            .and_then(|hash| hash.find(name, &symbols, &strings)),
        None => SysVHashTable::new(NativeEndian, Class::ELF64, table(abi::DT_HASH)?)
            .and_then(|hash| hash.find(name, &symbols, &strings)),
    };
    let (_, symbol) = found.ok()??;
    Some((offset(symbol.st_value)?, symbol.st_size as usize))
}

/// Makes new code visible to instruction fetches.
fn synchronise(address: usize) {
    #[cfg(target_arch = "aarch64")]
    for line in [address, address + JUMP_BYTES - 1] {
        // SAFETY: the address is mapped; the instructions only write caches back.
        unsafe {
            std::arch::asm!(
                "dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb",
                in(reg) line, options(nostack),
            );
        }
    }
    // On x86-64 caches are coherent.
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the functions of the running kernel are found where the C library finds them. Method:
    /// calls the one that was found.
    #[test]
    fn functions_of_this_kernel_are_found() {
        let Some(image) = Image::of_process() else {
            return; // The kernel maps none.
        };
        let [(clock_gettime, _), ..] = replacements();
        let address = image.function(clock_gettime).expect("every kernel has it");
        type ClockGettime = extern "C" fn(libc::clockid_t, &mut libc::timespec) -> libc::c_int;
        let function = std::ptr::with_exposed_provenance::<c_void>(address);
        // SAFETY: the symbol of this name is a function of this type.
        let function: ClockGettime = unsafe { std::mem::transmute(function) };
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        assert_eq!(function(libc::CLOCK_REALTIME, &mut time), 0);
        assert!(time.tv_sec > 1_700_000_000);
        assert_eq!(image.function(c"__vdso_no_such_function"), None);
    }

    #[test]
    fn arbitrary_bytes_have_no_symbols() {
        assert_eq!(symbol(&[], b"time"), None);
        assert_eq!(symbol(&[0x7f; 4096], b"time"), None);
    }
}
