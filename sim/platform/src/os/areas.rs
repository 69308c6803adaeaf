//! Finds the shared mappings of this process without allocating: allocators call the callers.

use std::ops::Range;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::read;

/// Bytes of the kernel's list that are read at a time.
const BUFFER_BYTES: usize = 1024;

/// The part read so far of the head of a line of `/proc/self/maps`: `START-END rw-s …`.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    numbers: [usize; 2],
    field: Field,
    /// Characters of the rights that were read.
    rights: usize,
    is_shared: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Field {
    #[default]
    Start,
    End,
    Rights,
    Rest,
}

/// Place of the `s` or `p` among the rights.
const SHARED_AT: usize = 3;

impl Line {
    /// Takes the next character. Returns the range at the end of the line of a shared mapping.
    fn take(&mut self, character: u8) -> Option<Range<usize>> {
        if character == b'\n' {
            let Self {
                numbers: [start, end],
                is_shared,
                ..
            } = std::mem::take(self);
            return (is_shared && start < end).then_some(start..end);
        }
        match (self.field, character) {
            (Field::Start, b'-') => self.field = Field::End,
            (Field::End, b' ') => self.field = Field::Rights,
            (Field::Start, digit) => push(&mut self.numbers[0], digit),
            (Field::End, digit) => push(&mut self.numbers[1], digit),
            (Field::Rights, right) => {
                self.is_shared = right == b's';
                if self.rights == SHARED_AT {
                    self.field = Field::Rest;
                }
                self.rights += 1;
            }
            (Field::Rest, _) => {}
        }
        None
    }
}

/// Appends a hexadecimal digit.
fn push(number: &mut usize, digit: u8) {
    let value = (digit as char).to_digit(16).unwrap_or(0);
    *number = number.wrapping_shl(4) | value as usize;
}

/// Calls `found` for each shared mapping that overlaps `range`, with the whole mapping. Calls it
/// for none if the kernel's list cannot be read.
pub fn each_shared(range: &Range<usize>, mut found: impl FnMut(Range<usize>)) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    // Not through libc's `open`, which the library overrides.
    let Ok(list) = openat(CWD, c"/proc/self/maps", flags, Mode::empty()) else {
        return;
    };
    let mut buffer = [0; BUFFER_BYTES];
    let mut line = Line::default();
    while let Ok(length @ 1..) = read(&list, &mut buffer) {
        for character in &buffer[..length] {
            let Some(area) = line.take(*character) else {
                continue;
            };
            if area.start >= range.end {
                return;
            }
            if area.end > range.start {
                found(area);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(text: &str) -> Vec<Range<usize>> {
        let mut line = Line::default();
        text.bytes().filter_map(|byte| line.take(byte)).collect()
    }

    #[test]
    fn shared_mappings_are_those_with_an_s() {
        let text = "\
55d000000000-55d000021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000010000 r-xp 00010000 fd:00 77                         /lib/rw-s file
a0000000-a0010000 rw-s a0000000 00:01 1234                       /memfd:x (deleted)
a0010000-a0020000 ---s 00000000 00:01 99                         /dev/zero (deleted)
b0000000-b0008000 rw-p 00000000 00:00 0 
";
        assert_eq!(
            shared(text),
            [0xa000_0000..0xa001_0000, 0xa001_0000..0xa002_0000]
        );
        assert!(shared("x\n\n-\n1-2\n2-1 rw-s\n").is_empty());
    }

    #[test]
    fn private_memory_is_not_among_them() {
        let local = [0_u8; 16];
        let address = local.as_ptr().addr();
        let mut count = 0;
        each_shared(&(address..address + local.len()), |_| count += 1);
        assert_eq!(count, 0);
    }
}
