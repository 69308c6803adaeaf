//! Replaces instructions of the program by jumps.
//!
//! ```text
//!   site:  rdtsc            →   jmp trampoline          trampoline:  lea rsp, [rsp - 128]
//!          shl rdx, 32          (rest of the bytes)                  call stub
//!          or  rax, rdx         or  rax, rdx                         lea rsp, [rsp + 128]
//!                                                                    shl rdx, 32
//!                                                                    jmp site + 6
//! ```
//!
//! A jump has five bytes, more than most instructions, so the instructions after the site move to
//! the trampoline. This is done only if they mean the same there, and if no direct branch of the
//! same mapping leads to them. Indirect branches cannot be seen; but compilers do not end a basic
//! block in the middle of the expression that reads the counter.
//!
//! Only the thread that has the turn rewrites, so that no other thread of the world runs meanwhile.
//! No memory is allocated.
#![expect(unsafe_code, reason = "rewrites code")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use crate::os::SignalsBlocked;

/// Bytes of `jmp rel32`.
const JUMP_BYTES: usize = 5;
/// Maximum length of an instruction, in bytes.
const INSTRUCTION_BYTES: usize = 15;
/// Maximum number of bytes that move: one instruction more than the jump needs.
const MOVED_BYTES: usize = JUMP_BYTES - 1 + INSTRUCTION_BYTES;
/// Functions may keep data this far below the stack pointer.
const RED_ZONE: i32 = 128;
/// Reach of a short branch, plus one instruction.
const SHORT_REACH: usize = 128 + 2 * INSTRUCTION_BYTES;
/// A decoder that starts in the middle of an instruction is in step after this many bytes.
const LEAD_BYTES: usize = 256;
/// Maximum length of a trampoline, in bytes.
const TRAMPOLINE_BYTES: usize = 128;
/// Bytes of a region of trampolines.
const REGION_BYTES: usize = 1 << 16;
/// Maximum number of regions.
const REGIONS: usize = 16;
/// Largest distance of the trampolines from the code.
const REACH: usize = 1 << 30;
/// Maximum number of rewritten sites.
const SITES: usize = 1024;
const PAGE: usize = ferroce_timed_protocol::page::PAGE_SIZE;

/// Memory for trampolines: its address, and the bytes in use. Zero: none yet.
struct Region {
    start: AtomicUsize,
    used: AtomicUsize,
}

static TRAMPOLINES: [Region; REGIONS] = [const {
    Region {
        start: AtomicUsize::new(0),
        used: AtomicUsize::new(0),
    }
}; REGIONS];

/// A site that has been examined.
struct Site {
    /// Its address. Zero: no site.
    at: AtomicUsize,
    /// Bytes that have moved. Zero: it cannot be rewritten.
    length: AtomicUsize,
    /// Bytes at its beginning that have not moved but are replaced.
    skip: AtomicUsize,
    /// Address of the moved bytes.
    copy: AtomicUsize,
}

static KNOWN: [Site; SITES] = [const {
    Site {
        at: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        skip: AtomicUsize::new(0),
        copy: AtomicUsize::new(0),
    }
}; SITES];
static KNOWN_COUNT: AtomicUsize = AtomicUsize::new(0);

fn known() -> impl Iterator<Item = &'static Site> {
    let count = KNOWN_COUNT.load(Ordering::Acquire).min(SITES);
    KNOWN[..count].iter()
}

/// Called once for the program: fills the decoder's tables, which allocates.
pub fn prepare() {
    let mut decoder = Decoder::with_ip(64, &[0x0f, 0x31], 0, DecoderOptions::NONE);
    let code = decoder.decode().code();
    debug_assert_eq!(code, Code::Rdtsc);
}

/// Returns true if the instruction at an address has been replaced.
pub fn is_replaced(at: usize) -> bool {
    known().any(|site| {
        site.at.load(Ordering::Relaxed) == at && site.length.load(Ordering::Relaxed) > 0
    })
}

/// Returns the current address of an instruction, which changes if it moves.
pub fn relocated(address: usize) -> usize {
    for site in known() {
        let [at, length, skip, copy] = [&site.at, &site.length, &site.skip, &site.copy]
            .map(|cell| cell.load(Ordering::Relaxed));
        if address > at && address >= at + skip && address < at + length {
            return copy + (address - at - skip);
        }
    }
    address
}

/// Redirects the program at `at` to `stub`, which replaces the first `skip` bytes; `after` is
/// executed when it returns, and then the rest. Returns the new address of the rest, or `None` if
/// that is not possible.
///
/// `stub` has to preserve all registers that the replaced bytes do.
pub fn redirect(at: usize, skip: usize, stub: usize, after: &[u8]) -> Option<usize> {
    let number = KNOWN_COUNT.load(Ordering::Relaxed);
    let mut site = KNOWN.get(number);
    if let Some(known) = known().find(|site| site.at.load(Ordering::Relaxed) == at) {
        let copy = known.copy.load(Ordering::Relaxed);
        if copy == 0 || is_jump(at) {
            return (copy != 0).then_some(copy);
        }
        // Other code has been mapped there in the meantime.
        site = Some(known);
    }
    let site = site?;
    let rewritten = rewrite(at, skip, stub, after);
    let (length, copy) = rewritten.unwrap_or((0, 0));
    site.at.store(at, Ordering::Relaxed);
    site.length.store(length, Ordering::Relaxed);
    site.skip.store(skip, Ordering::Relaxed);
    site.copy.store(copy, Ordering::Relaxed);
    if std::ptr::eq(site, &raw const KNOWN[number.min(SITES - 1)]) {
        KNOWN_COUNT.store(number + 1, Ordering::Release);
    }
    rewritten.map(|(_, copy)| copy)
}

/// Returns true if there is a jump at an address of code.
fn is_jump(at: usize) -> bool {
    // SAFETY: the byte belongs to an instruction that is being executed, so it is readable.
    unsafe { with_exposed_provenance::<u8>(at).read_volatile() == 0xe9 }
}

/// Writes the trampoline. Returns how many bytes have moved, and their address.
fn rewrite(at: usize, skip: usize, stub: usize, after: &[u8]) -> Option<(usize, usize)> {
    let text = Text::around(at)?;
    let mut trampoline = Assembly::default();
    // lea rsp, [rsp - 128]; call [rip + to the address of the stub]; lea rsp, [rsp + 128]
    trampoline.bytes(&[0x48, 0x8d, 0x64, 0x24, 0x80])?;
    trampoline.bytes(&[0xff, 0x15])?;
    let call = trampoline.length;
    trampoline.bytes(&[0; 4])?;
    trampoline.bytes(&[0x48, 0x8d, 0xa4, 0x24])?;
    trampoline.bytes(&RED_ZONE.to_le_bytes())?;
    trampoline.bytes(after)?;
    let start = allocate(at, TRAMPOLINE_BYTES)?.expose_provenance();
    let copy = start + trampoline.length;
    let length = text.move_instructions(at, skip, start, &mut trampoline)?;
    if text.has_branch_to(at + 1..at + length) {
        return None;
    }
    trampoline.jump(start, at + length)?;
    let pointer = trampoline.length;
    let to_pointer = (pointer - call - 4) as i32;
    trampoline.code[call..call + 4].copy_from_slice(&to_pointer.to_le_bytes());
    trampoline.bytes(&stub.to_le_bytes())?;

    // SAFETY: the memory was allocated for this trampoline, which is not longer.
    unsafe {
        with_exposed_provenance_mut::<u8>(start)
            .copy_from_nonoverlapping(trampoline.code.as_ptr(), trampoline.length);
    }
    text.write_jump(at, length, start)?;
    Some((length, copy))
}

/// Replaces instructions, at least five bytes, by a jump to their replacement. Returns false if a
/// branch leads between them, or it is not possible.
pub fn replace(at: usize, length: usize, to: usize) -> bool {
    let replaced = || {
        let text = Text::around(at).filter(|_| length >= JUMP_BYTES)?;
        if text.has_branch_to(at + 1..at + length) {
            return None;
        }
        text.write_jump(at, length, to)
    };
    replaced().is_some()
}

/// Code under construction.
#[derive(Debug)]
struct Assembly {
    code: [u8; TRAMPOLINE_BYTES],
    length: usize,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            code: [0; TRAMPOLINE_BYTES],
            length: 0,
        }
    }
}

impl Assembly {
    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length + bytes.len();
        self.code.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }

    /// Writes a jump at the end of this code, which begins at `start`.
    fn jump(&mut self, start: usize, to: usize) -> Option<()> {
        let next = start + self.length + JUMP_BYTES;
        let distance = i32::try_from(to.wrapping_sub(next) as isize).ok()?;
        self.bytes(&[0xe9])?;
        self.bytes(&distance.to_le_bytes())
    }
}

/// Allocates memory for code that a jump at `near` can reach, writable and executable. It is never
/// freed.
pub fn allocate(near: usize, length: usize) -> Option<*mut u8> {
    let length = length.next_multiple_of(16);
    for region in &TRAMPOLINES {
        let mut start = region.start.load(Ordering::Relaxed);
        if start == 0 {
            start = map_near(near)?.expose_provenance();
            region.start.store(start, Ordering::Relaxed);
        }
        let used = region.used.load(Ordering::Relaxed);
        if start.abs_diff(near) < REACH && used + length <= REGION_BYTES {
            region.used.store(used + length, Ordering::Relaxed);
            return Some(with_exposed_provenance_mut(start + used));
        }
    }
    None
}

/// Maps a region below or above an address.
fn map_near(near: usize) -> Option<*mut c_void> {
    let step = 16 * REGION_BYTES;
    let base = near & !(REGION_BYTES - 1);
    let below = (1..REACH / step).map(|count| base.checked_sub(count * step));
    let above = (1..REACH / step).map(|count| base.checked_add(count * step));
    below.chain(above).flatten().find_map(|address| {
        let hint = with_exposed_provenance_mut::<c_void>(address);
        let protection = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: the flag forbids replacing a mapping. Kernels without the flag take the address
        // as a hint; a mapping too far away is not used.
        let mapped = unsafe { mmap_anonymous(hint, REGION_BYTES, protection, flags) }.ok()?;
        (mapped.addr().abs_diff(near) < REACH).then_some(mapped)
    })
}

/// A mapping of code from a file.
#[derive(Debug)]
struct Text {
    start: usize,
    code: &'static [u8],
    is_writable: bool,
}

impl Text {
    /// Returns the mapping of an address.
    fn around(address: usize) -> Option<Self> {
        let file = open(
            c"/proc/self/maps",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let mut line = [0; 128];
        let mut length = 0;
        let mut buffer = [0; 512];
        loop {
            let count = read(&file, &mut buffer[..]).ok()?;
            if count == 0 {
                return None;
            }
            for byte in &buffer[..count] {
                if *byte != b'\n' {
                    // If the line is too long, only a part of the name is cut off.
                    if let Some(cell) = line.get_mut(length) {
                        *cell = *byte;
                        length += 1;
                    }
                    continue;
                }
                if let Some(text) = Self::of_line(&line[..length], address) {
                    return text.filter(|text| text.code.len() > 2 * MOVED_BYTES);
                }
                length = 0;
            }
        }
    }

    /// `None`: another mapping. `Some(None)`: it is no code from a file.
    fn of_line(line: &[u8], address: usize) -> Option<Option<Self>> {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        if !(start..end).contains(&address) {
            return None;
        }
        let access = words.next()?.as_bytes();
        let inode = words.nth(2)?;
        let is_code = access.first() == Some(&b'r')
            && access.get(2) == Some(&b'x')
            && access.get(3) == Some(&b'p')
            && inode != "0";
        if !is_code {
            return Some(None);
        }
        // SAFETY: the mapping is readable, because its code is being executed; only this module
        // writes to it, and not while the slice is live.
        let code =
            unsafe { std::slice::from_raw_parts(with_exposed_provenance(start), end - start) };
        let is_writable = access.get(1) == Some(&b'w');
        Some(Some(Self {
            start,
            code,
            is_writable,
        }))
    }

    fn decoder(&self, from: usize) -> Option<Decoder<'static>> {
        let code = self.code.get(from.checked_sub(self.start)?..)?;
        let length = code.len().min(LEAD_BYTES + 2 * SHORT_REACH + MOVED_BYTES);
        Some(Decoder::with_ip(
            64,
            &code[..length],
            from as u64,
            DecoderOptions::NONE,
        ))
    }

    /// Copies the instructions after the first `skip` bytes that the jump replaces. Returns their
    /// end, as an offset from `at`. `None`: one of them has another meaning elsewhere.
    fn move_instructions(
        &self,
        at: usize,
        skip: usize,
        start: usize,
        to: &mut Assembly,
    ) -> Option<usize> {
        let mut decoder = self.decoder(at + skip)?;
        let mut length = skip;
        let mut has_returned = false;
        while length < JUMP_BYTES {
            let instruction = decoder.decode();
            let bytes = self.bytes(at + length, instruction.len())?;
            let is_padding = matches!(
                instruction.code(),
                Code::Nopw | Code::Nopd | Code::Nopq | Code::Int3 | Code::Nop_rm16 | Code::Nop_rm32
            );
            if has_returned && !is_padding {
                return None;
            }
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::Return => has_returned = true,
                FlowControl::Interrupt if is_padding && has_returned => {}
                _ => return None,
            }
            let place = to.length;
            to.bytes(bytes)?;
            if instruction.is_ip_rel_memory_operand() {
                let offsets = decoder.get_constant_offsets(&instruction);
                if offsets.displacement_size() != 4 {
                    return None;
                }
                let next = (start + to.length) as u64;
                let target = instruction.ip_rel_memory_address();
                let distance = i32::try_from(target.wrapping_sub(next) as i64).ok()?;
                let field = place + offsets.displacement_offset();
                to.code
                    .get_mut(field..field + 4)?
                    .copy_from_slice(&distance.to_le_bytes());
            }
            length += instruction.len();
        }
        Some(length)
    }

    fn bytes(&self, at: usize, length: usize) -> Option<&'static [u8]> {
        let from = at.checked_sub(self.start)?;
        (length > 0).then_some(self.code.get(from..from + length)?)
    }

    /// Returns true if a direct branch leads to one of these addresses.
    fn has_branch_to(&self, moved: Range<usize>) -> bool {
        self.has_long_branch_to(&moved) || self.has_short_branch_to(&moved)
    }

    /// Any four bytes after a matching opcode count, even in the middle of an instruction: a chance
    /// match with one of the few addresses is very unlikely.
    fn has_long_branch_to(&self, moved: &Range<usize>) -> bool {
        let targets = |place: usize, length: usize| {
            let bytes = self.code.get(place + length - 4..place + length);
            let distance = bytes.and_then(|bytes| bytes.try_into().ok());
            distance.is_some_and(|distance| {
                let next = self.start + place + length;
                moved.contains(&next.wrapping_add_signed(i32::from_le_bytes(distance) as isize))
            })
        };
        let is_branch = |(place, pair): (usize, &[u8])| match pair {
            [0xe8 | 0xe9, _] => targets(place, 5),
            [0x0f, 0x80..=0x8f] => targets(place, 6),
            _ => false,
        };
        self.code.windows(2).enumerate().any(is_branch)
    }

    /// Searches short branches in the instructions before and after the site. It decodes from
    /// several addresses that are far enough before the site to be in step.
    fn has_short_branch_to(&self, moved: &Range<usize>) -> bool {
        let at = moved.start - 1;
        let first = at.saturating_sub(SHORT_REACH + LEAD_BYTES).max(self.start);
        let last = (first + INSTRUCTION_BYTES).min(at);
        let in_front = (first..=last).any(|from| self.runs_to(from, at, moved) == Some(true));
        let behind = self.runs_to(moved.end, moved.end + SHORT_REACH, moved);
        in_front || behind == Some(true)
    }

    /// Returns true if there is a branch to `moved` among the instructions from one address on.
    /// `None`: no instruction begins at `to`.
    fn runs_to(&self, from: usize, to: usize, moved: &Range<usize>) -> Option<bool> {
        let mut decoder = self.decoder(from)?;
        let mut has_branch = false;
        let mut instruction = Instruction::default();
        while (decoder.ip() as usize) < to && decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let is_branch = matches!(
                instruction.op0_kind(),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
            );
            let is_near = instruction.ip() as usize + SHORT_REACH >= moved.start;
            let target = instruction.near_branch_target() as usize;
            has_branch |= is_branch && is_near && moved.contains(&target);
        }
        // After the site, the end of the last instruction does not matter.
        (decoder.ip() as usize == to || from >= moved.end).then_some(has_branch)
    }

    /// Writes a jump over instructions. `None`: the kernel does not allow it, or the target is too
    /// far.
    fn write_jump(&self, at: usize, length: usize, to: usize) -> Option<()> {
        let mut jump = Assembly::default();
        jump.jump(at, to)?;
        while jump.length < length {
            // int3: never reached.
            jump.bytes(&[0xcc])?;
        }
        self.write(at, &jump.code[..length]).then_some(())
    }

    /// Writes code. Returns false if the kernel does not allow it.
    fn write(&self, at: usize, code: &[u8]) -> bool {
        let start = at & !(PAGE - 1);
        let length = (at + code.len()).next_multiple_of(PAGE) - start;
        let pages = with_exposed_provenance_mut::<c_void>(start);
        let protect = |flags| {
            // SAFETY: the pages belong to the mapping, and stay executable all the time.
            self.is_writable || unsafe { mprotect(pages, length, flags) }.is_ok()
        };
        let usual = MprotectFlags::READ | MprotectFlags::EXEC;
        if !protect(usual | MprotectFlags::WRITE) {
            return false;
        }
        let _blocked = SignalsBlocked::new();
        let offset = at % size_of::<u64>();
        let word = with_exposed_provenance_mut::<u64>(at - offset);
        if offset + code.len() <= size_of::<u64>() {
            // SAFETY: an aligned word of the mapping, which is writable now. It is written at once,
            // for threads of the program that do not belong to the world.
            unsafe {
                let mut bytes = word.read().to_ne_bytes();
                bytes[offset..offset + code.len()].copy_from_slice(code);
                AtomicU64::from_ptr(word).store(u64::from_ne_bytes(bytes), Ordering::SeqCst);
            }
        } else {
            // SAFETY: the bytes belong to the mapping, which is writable now.
            unsafe {
                with_exposed_provenance_mut::<u8>(at)
                    .copy_from_nonoverlapping(code.as_ptr(), code.len());
            }
        }
        // On failure the pages stay writable.
        protect(usual);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    const RDTSC: [u8; 2] = [0x0f, 0x31];
    /// shl rdx, 32
    const SHIFT: [u8; 4] = [0x48, 0xc1, 0xe2, 0x20];
    const NOP: u8 = 0x90;
    /// Offset of the code in its mapping.
    const PLACE: usize = 1024;

    /// As in a program, one thread rewrites at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        prepare();
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps a file as code, at any address or at a given one.
    fn map(file: &std::fs::File, length: usize, at: Option<usize>) -> usize {
        let fixed = at.map_or(MapFlags::empty(), |_| MapFlags::FIXED);
        let address = with_exposed_provenance_mut(at.unwrap_or(0));
        let protection = ProtFlags::READ | ProtFlags::EXEC;
        let flags = MapFlags::PRIVATE | fixed;
        // SAFETY: a new mapping, or a replacement of an earlier one of the same test.
        let mapped =
            unsafe { rustix::mm::mmap(address, length, protection, flags, file.as_fd(), 0) };
        mapped.expect("mapped").expose_provenance()
    }

    /// Returns a file with this code between instructions without effect.
    fn file(code: &[u8]) -> std::fs::File {
        let mut bytes = vec![NOP; 2 * PAGE];
        bytes[PLACE..PLACE + code.len()].copy_from_slice(code);
        let name = rustix::fs::memfd_create("code", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = std::fs::File::from(name.expect("memory"));
        file.write_all(&bytes).expect("room");
        file
    }

    /// Maps this code and returns its address.
    fn code(code: &[u8]) -> usize {
        map(&file(code), 2 * PAGE, None) + PLACE
    }

    fn bytes_at(address: usize, length: usize) -> Vec<u8> {
        // SAFETY: the tests pass addresses that they have mapped.
        unsafe { std::slice::from_raw_parts(with_exposed_provenance(address), length) }.to_vec()
    }

    /// Returns the target of the jump at an address.
    fn target(at: usize) -> usize {
        let bytes = bytes_at(at, JUMP_BYTES);
        assert_eq!(bytes[0], 0xe9);
        let distance = i32::from_le_bytes(bytes[1..].try_into().expect("four bytes"));
        (at + JUMP_BYTES).wrapping_add_signed(distance as isize)
    }

    #[test]
    fn what_follows_moves_and_goes_on_behind() {
        let _alone = alone();
        let at = code(&[&RDTSC[..], &SHIFT, &[NOP]].concat());
        let copy = redirect(at, 2, 0x1234_5678, &[0xb9, 0, 0, 0, 0]).expect("rewritten");
        assert_eq!(bytes_at(copy, 4), SHIFT);
        assert_eq!(target(copy + 4), at + 6);
        assert_eq!(bytes_at(at + 5, 2), [0xcc, NOP]);
        let start = target(at);
        let expected = [
            &[0x48, 0x8d, 0x64, 0x24, 0x80, 0xff, 0x15][..],
            &22_i32.to_le_bytes(),
            &[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0, 0xb9, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes_at(start, expected.len()), expected);
        let pointer = start + 11 + 22;
        assert_eq!(bytes_at(pointer, 8), 0x1234_5678_usize.to_le_bytes());
        assert_eq!(pointer, copy + 4 + JUMP_BYTES);
        assert!(is_replaced(at));
        assert_eq!([at, at + 2, at + 6].map(relocated), [at, copy, at + 6]);
        assert_eq!(redirect(at, 2, 1, &[]), Some(copy), "it is known");
    }

    #[test]
    fn addresses_relative_to_the_instruction_are_adjusted() {
        let _alone = alone();
        // mov rcx, [rip + 256]
        let at = code(&[&RDTSC[..], &[0x48, 0x8b, 0x0d, 0, 1, 0, 0]].concat());
        let copy = redirect(at, 2, 1, &[]).expect("rewritten");
        let moved = bytes_at(copy, 7);
        let distance = i32::from_le_bytes(moved[3..].try_into().expect("four bytes"));
        let meant = (copy + 7).wrapping_add_signed(distance as isize);
        assert_eq!(
            (&moved[..3], meant),
            (&[0x48, 0x8b, 0x0d][..], at + 9 + 256)
        );
    }

    #[test]
    fn instructions_that_branch_stay() {
        let _alone = alone();
        let call = [0xe8, 0, 0, 0, 0];
        let jump = [0x75, 0x10, NOP, NOP];
        let indirect = [0xff, 0xe0, NOP, NOP];
        for follow in [&call[..], &jump, &indirect] {
            let at = code(&[&RDTSC[..], follow].concat());
            assert_eq!(redirect(at, 2, 1, &[]), None, "{follow:x?}");
            assert_eq!(bytes_at(at, 2), RDTSC);
            assert!(!is_replaced(at));
        }
        // The end of a function may move, if there is padding after it.
        let at = code(&[&RDTSC[..], &[0xc3, NOP, NOP]].concat());
        assert!(redirect(at, 2, 1, &[]).is_some());
        let at = code(&[&RDTSC[..], &[0xc3, 0x55, 0x53]].concat());
        assert_eq!(redirect(at, 2, 1, &[]), None);
    }

    #[test]
    fn what_is_jumped_to_stays() {
        let _alone = alone();
        let site = [&RDTSC[..], &SHIFT].concat();
        // jne to the shift, from after it; jmp to it, from before it; a long jump, a long
        // condition.
        let behind = [&site[..], &[0x75, (-6_i8) as u8]].concat();
        let at = code(&behind);
        assert_eq!(redirect(at, 2, 1, &[]), None);
        let at = code(&[&[0xeb, 0x02][..], &site].concat()) + 2;
        assert_eq!(redirect(at, 2, 1, &[]), None);
        let at = code(&[&[0xe9, 2, 0, 0, 0][..], &site].concat()) + 5;
        assert_eq!(redirect(at, 2, 1, &[]), None);
        let at = code(&[&[0x0f, 0x84, 2, 0, 0, 0][..], &site].concat()) + 6;
        assert_eq!(redirect(at, 2, 1, &[]), None);
        // Branches back to the site itself do no harm.
        let at = code(&[&site[..], &[0x75, (-8_i8) as u8]].concat());
        assert!(redirect(at, 2, 1, &[]).is_some());
    }

    #[test]
    fn another_library_at_the_same_place_is_another_site() {
        let _alone = alone();
        let code = file(&[&RDTSC[..], &SHIFT].concat());
        let start = map(&code, 2 * PAGE, None);
        let at = start + PLACE;
        let copy = redirect(at, 2, 1, &[]).expect("rewritten");
        let other = file(&[&RDTSC[..], &[NOP, NOP, NOP]].concat());
        map(&other, 2 * PAGE, Some(start));
        let other_copy = redirect(at, 2, 1, &[]).expect("rewritten");
        assert_ne!(copy, other_copy);
        assert_eq!(bytes_at(other_copy, 3), [NOP; 3]);
        assert_eq!(relocated(at + 2), other_copy);
    }

    #[test]
    fn code_that_is_no_file_stays() {
        let _alone = alone();
        let at = allocate(redirect as *const () as usize, 64).expect("room");
        // SAFETY: `allocate` has returned at least six writable bytes to this test alone.
        unsafe { at.copy_from_nonoverlapping([&RDTSC[..], &SHIFT].concat().as_ptr(), 6) };
        assert_eq!(redirect(at.expose_provenance(), 2, 1, &[]), None);
        assert!(!replace(at.expose_provenance(), 6, at.expose_provenance()));
    }

    /// Goal: all sites of perftest can be rewritten, if it is installed.
    #[test]
    fn sites_of_perftest() {
        let _alone = alone();
        for name in ["ib_write_bw", "ib_write_lat", "ib_send_bw", "ib_read_lat"] {
            let path = format!("/usr/bin/{name}");
            let (Ok(bytes), Ok(file)) = (std::fs::read(&path), std::fs::File::open(&path)) else {
                continue;
            };
            let start = map(&file, bytes.len(), None);
            let sites = bytes
                .windows(2)
                .enumerate()
                .filter(|(_, pair)| *pair == RDTSC);
            for (place, _) in sites {
                assert!(
                    redirect(start + place, 2, 1, &[]).is_some(),
                    "{name} {place:x}"
                );
            }
        }
    }
}
