//! The functions that the kernel maps into each process to read the time without a system call.
//!
//! The C library calls them, and so do programs that bypass it: they are replaced in place. Where
//! the kernel does not allow that, only the functions of the C library ([`crate::libc_time`]) are
//! simulated.
#![expect(unsafe_code, reason = "rewrites code")]

use std::ffi::{CStr, c_void};
use std::sync::Mutex;

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

    /// Reads a value at an offset. `None`: it is outside of the mapping.
    fn read<T: Copy>(&self, offset: usize) -> Option<T> {
        let address = self.start.checked_add(offset)?;
        if address.checked_add(size_of::<T>())? > self.end {
            return None;
        }
        let pointer = std::ptr::with_exposed_provenance::<T>(address);
        // SAFETY: the value is within the mapping, which is readable, and the types are integers.
        Some(unsafe { pointer.read_unaligned() })
    }

    /// Returns the address of a function that has room for a jump.
    fn function(&self, name: &CStr) -> Option<usize> {
        let header: libc::Elf64_Ehdr = self.read(0)?;
        let mut dynamic = None;
        let mut bias = 0;
        for number in 0..usize::from(header.e_phnum) {
            let place = header.e_phoff as usize + number * size_of::<libc::Elf64_Phdr>();
            let segment: libc::Elf64_Phdr = self.read(place)?;
            match segment.p_type {
                libc::PT_LOAD => bias = segment.p_vaddr as usize,
                libc::PT_DYNAMIC => dynamic = Some(segment.p_offset as usize),
                _ => {}
            }
        }
        let (mut symbols, mut strings, mut hash) = (None, None, None);
        for number in 0..64 {
            let [tag, value]: [u64; 2] = self.read(dynamic? + number * 16)?;
            let place = (value as usize).wrapping_sub(bias);
            match tag {
                0 => break,
                4 => hash = Some(place),
                5 => strings = Some(place),
                6 => symbols = Some(place),
                _ => {}
            }
        }
        // The second word of the hash table is the number of symbols. Newer kernels have another
        // table, whose length does not matter while the symbols are few.
        let count = match hash {
            Some(hash) => self.read::<[u32; 2]>(hash)?[1] as usize,
            None => 64,
        };
        (1..count.min(256))
            .map_while(|number| {
                let place = symbols? + number * size_of::<libc::Elf64_Sym>();
                self.read::<libc::Elf64_Sym>(place)
            })
            .find(|symbol| {
                let string = strings.map(|strings| strings + symbol.st_name as usize);
                symbol.st_size as usize >= JUMP_BYTES && self.is_string(string, name)
            })
            .map(|symbol| self.start + (symbol.st_value as usize).wrapping_sub(bias))
            .filter(|address| (self.start..self.end - JUMP_BYTES).contains(address))
    }

    fn is_string(&self, place: Option<usize>, string: &CStr) -> bool {
        let bytes = string.to_bytes_with_nul();
        place.is_some_and(|place| {
            (0..bytes.len()).all(|offset| self.read::<u8>(place + offset) == Some(bytes[offset]))
        })
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
