//! The memory map of the process, as the kernel lists it.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{read, retry_on_intr};

use crate::thread::state;

/// Longest line that is understood: addresses, rights, offset, device and inode come before the
/// name, which may be cut.
const LINE_BYTES: usize = 100;

/// The memory at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// No other process has it.
    Private,
    /// Other processes may have mapped it, too.
    Shared {
        /// Inode of the file that is mapped.
        file: u64,
        /// Place of the address in the file.
        offset: u64,
    },
}

/// Returns what is at this address. `None`: nothing, or it cannot be found out.
pub fn of(address: usize) -> Option<Memory> {
    // How often this is called depends on addresses: its calls must not count as the program's.
    let state = state();
    state.enter();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(c"/proc/self/maps", flags, Mode::empty()).ok();
    let found = file.and_then(|file| find(&file, address));
    state.leave();
    found
}

/// Returns the memory at an address, as this file describes it. `None`: there is none.
fn find(file: &OwnedFd, address: usize) -> Option<Memory> {
    let mut line = [0; LINE_BYTES];
    let mut length = 0;
    let mut bytes = [0; 1024];
    loop {
        let count = retry_on_intr(|| read(file, &mut bytes)).ok()?;
        if count == 0 {
            return None;
        }
        for byte in &bytes[..count] {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = *byte;
                    length += 1;
                }
                continue;
            }
            let found = line.get(..length).and_then(|line| memory(line, address));
            if found.is_some() {
                return found;
            }
            length = 0;
        }
    }
}

/// Returns the memory at an address, if this line describes it:
/// `7f0000000000-7f0000001000 rw-p 00000000 00:00 0`.
fn memory(line: &[u8], address: usize) -> Option<Memory> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16));
    let (start, end) = (start.ok()?, end.ok()?);
    if !(start..end).contains(&address) {
        return None;
    }
    let (rights, offset) = (words.next()?, words.next()?);
    if rights.as_bytes().get(3) == Some(&b'p') {
        return Some(Memory::Private);
    }
    let offset = u64::from_str_radix(offset, 16).ok()?;
    Some(Memory::Shared {
        file: words.nth(1)?.parse().ok()?,
        offset: offset + (address - start) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = b"7f00-7f10 rw-p 00000000 00:00 0 [heap]";
        assert_eq!(memory(line, 0x7f00), Some(Memory::Private));
        assert_eq!(memory(line, 0x7f10), None);
        let shared = Memory::Shared {
            file: 7,
            offset: 0x100f,
        };
        assert_eq!(
            memory(b"7f00-7f10 rw-s 00001000 00:01 7 /dev/zero", 0x7f0f),
            Some(shared)
        );
        assert_eq!(memory(b"", 5), None);
    }

    #[test]
    fn the_stack_is_private_and_a_hole_is_not() {
        let local = 5;
        assert_eq!(of((&raw const local).addr()), Some(Memory::Private));
        assert_eq!(of(64), None);
    }
}
