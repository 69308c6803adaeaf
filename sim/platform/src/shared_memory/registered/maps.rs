//! The mappings of this process, and the ones that can be shared.
//!
//! Only private, anonymous, unnamed, readable and writable memory can be shared. Heaps and stacks
//! are excluded, because other code writes to the pages at both ends of a buffer in them. The main
//! thread's heap and stack are identified by their names. Stacks of other threads are identified by
//! the inaccessible pages below them, heaps of other threads by the inaccessible pages above them,
//! up to a multiple of a heap's largest size.

use std::ops::Range;
use std::{fs, io};

use super::{unsupported, without};

/// Largest size of a heap of a thread other than the first, in the GNU C library; its address is a
/// multiple of it.
const THREAD_HEAP_BYTES: usize = 64 << 20;

/// Identity of a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Identity {
    /// Major and minor number.
    pub device: (u32, u32),
    pub inode: u64,
}

/// A line of `/proc/self/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Area {
    start: usize,
    end: usize,
    /// `rw-p`.
    rights: [u8; 4],
    offset: u64,
    file: Identity,
    has_name: bool,
}

impl Area {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.as_bytes().try_into().ok()?;
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let (major, minor) = words.next()?.split_once(':')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let number = |text| u32::from_str_radix(text, 16).ok();
        Some(Self {
            start: address(start)?,
            end: address(end)?,
            rights,
            offset,
            file: Identity {
                device: (number(major)?, number(minor)?),
                inode: words.next()?.parse().ok()?,
            },
            has_name: words.next().is_some(),
        })
    }

    fn cut(&self, range: &Range<usize>) -> Range<usize> {
        self.start.max(range.start)..self.end.min(range.end)
    }

    /// Returns true if it maps the file read-write and shared, at the offset that equals its
    /// address.
    fn is_shared(&self, file: &Identity) -> bool {
        self.file == *file && self.rights == *b"rw-s" && self.offset == self.start as u64
    }

    /// Returns true if it is anonymous, and readable and writable.
    fn is_private(&self) -> bool {
        self.file == Identity::default() && self.rights == *b"rw-p" && !self.has_name
    }

    fn is_inaccessible(&self) -> bool {
        self.rights == *b"---p" && !self.has_name
    }

    /// Returns the mapped part of the file.
    fn offsets(&self) -> Range<usize> {
        let start = self.offset as usize;
        start..start.saturating_add(self.end - self.start)
    }
}

/// All mappings, by address.
#[derive(Debug)]
pub(super) struct Maps(Vec<Area>);

impl Maps {
    pub(super) fn read() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/self/maps")?)
    }

    fn parse(text: &str) -> io::Result<Self> {
        let areas = text.lines().map(Area::parse).collect::<Option<_>>();
        areas
            .map(Self)
            .ok_or_else(|| unsupported("the kernel's list of mappings has another format"))
    }

    /// Returns the parts of a range that are private; the others are shared already. `stack` is an
    /// address of the stack that is in use.
    ///
    /// # Errors
    /// If not all of the range can be shared.
    pub(super) fn private_parts(
        &self,
        range: &Range<usize>,
        file: &Identity,
        stack: usize,
    ) -> io::Result<Vec<Range<usize>>> {
        let Self(areas) = self;
        let mut parts = Vec::new();
        let mut at = range.start;
        let first = areas.partition_point(|area| area.end <= range.start);
        for (index, area) in areas.iter().enumerate().skip(first) {
            if area.start >= range.end || area.start > at {
                break;
            }
            at = area.end;
            if area.is_shared(file) {
                continue;
            }
            let is_adjacent = |other: &&Area| other.is_inaccessible();
            let below = index.checked_sub(1).and_then(|below| areas.get(below));
            let below = below.filter(is_adjacent);
            let above = areas.get(index + 1).filter(is_adjacent);
            let is_stack = below.is_some_and(|below| below.end == area.start)
                || (area.start..area.end).contains(&stack);
            let is_heap = above
                .is_some_and(|above| above.start == area.end && above.end % THREAD_HEAP_BYTES == 0);
            if !area.is_private() || is_stack || is_heap {
                return Err(unsupported("it is not plain private memory"));
            }
            parts.push(area.cut(range));
        }
        if at < range.end {
            return Err(unsupported("not all of it is mapped"));
        }
        // The program has moved memory that was shared at the same addresses, without deregistering
        // it.
        let held = self.held_parts(file, &[]);
        let is_held = |part: &Range<usize>| {
            let mut overlapping = held.iter();
            overlapping.any(|held| held.start < part.end && part.start < held.end)
        };
        if parts.iter().any(is_held) {
            Err(unsupported("what was there before is in use"))
        } else {
            Ok(parts)
        }
    }

    /// Returns the parts of a range that are shared.
    pub(super) fn shared_parts(&self, range: &Range<usize>, file: &Identity) -> Vec<Range<usize>> {
        let shared = self.0.iter().filter(|area| area.is_shared(file));
        let parts = shared.map(|area| area.cut(range));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Returns the parts of the file that will still be mapped after the mappings at `private` have
    /// become private.
    pub(super) fn held_parts(
        &self,
        file: &Identity,
        private: &[Range<usize>],
    ) -> Vec<Range<usize>> {
        let areas = || self.0.iter().filter(|area| area.file == *file);
        let shared = areas().filter(|area| area.is_shared(file));
        let shared: Vec<_> = shared.map(Area::offsets).collect();
        let moved = areas().filter(|area| !area.is_shared(file));
        let mut held = without(&shared, private);
        held.extend(moved.map(Area::offsets));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Identity = Identity {
        device: (0, 1),
        inode: 1234,
    };
    /// The mappings of a process: the end of a heap, a file, a buffer below a thread's stack,
    /// shared memory, memory that was shared and moved, a thread's heap, the main thread's stack.
    const TEXT: &str = "\
55d0_0000-55d2_1000 rw-p 00000000 00:00 0                          [heap]
7f00_0000-7f01_0000 r-xp 00010000 fd:00 77                         /usr/lib/a file.so
7f01_0000-7f02_0000 rw-p 00020000 fd:00 77                         /usr/lib/a file.so
7f02_0000-7f04_0000 rw-p 00000000 00:00 0 
7f10_0000-7f12_0000 rw-p 00000000 00:00 0 
7f12_0000-7f12_1000 ---p 00000000 00:00 0 
7f12_1000-7f92_1000 rw-p 00000000 00:00 0 
a000_0000-a001_0000 rw-s a0000000 00:01 1234                       /memfd:x (deleted)
a001_0000-a002_0000 rw-p 00000000 00:00 0 
a002_0000-a003_0000 r--p 00000000 00:00 0 
a004_0000-a005_0000 rw-s 7f100000 00:01 1234                       /memfd:x (deleted)
a005_0000-a006_0000 rw-s a0050000 00:01 99                         /memfd:y (deleted)
b000_0000-b000_8000 rw-p 00000000 00:00 0 
b000_8000-b400_0000 ---p 00000000 00:00 0 
c000_0000-c000_8000 rw-p 00000000 00:00 0 
c000_8000-c001_0000 ---p 00000000 00:00 0 
f000_0000-f002_1000 rw-p 00000000 00:00 0                          [stack]
";

    fn maps() -> Maps {
        Maps::parse(&TEXT.replace('_', "")).expect("well formed")
    }

    fn private(range: Range<usize>) -> Option<Vec<Range<usize>>> {
        maps().private_parts(&range, &FILE, 0xf001_0000).ok()
    }

    #[test]
    fn plain_memory_is_private() {
        let plain = 0x7f02_0000..0x7f03_0000;
        assert_eq!(private(plain.clone()), Some(vec![plain]));
        let behind = 0xc000_0000..0xc000_8000;
        assert_eq!(private(behind.clone()), Some(vec![behind]));
        let partly = private(0xa000_8000..0xa001_8000).expect("plain");
        assert_eq!(partly, std::slice::from_ref(&(0xa001_0000..0xa001_8000)));
        assert_eq!(private(0xa000_8000..0xa000_9000), Some(vec![]));
    }

    #[test]
    fn everything_else_is_left_alone() {
        let cases = [
            ("a heap", 0x55d0_1000..0x55d1_1000),
            ("a file", 0x7f01_0000..0x7f02_0000),
            ("partly a file", 0x7f01_0000..0x7f03_0000),
            ("partly nothing", 0x7f03_0000..0x7f05_0000),
            ("nothing", 0x7f05_0000..0x7f06_0000),
            ("nothing at its start", 0x7f0f_0000..0x7f11_0000),
            ("a stack", 0x7f20_0000..0x7f30_0000),
            ("read only", 0xa001_0000..0xa003_0000),
            ("where moved memory was", 0x7f10_0000..0x7f11_0000),
            ("moved memory", 0xa004_0000..0xa005_0000),
            ("another file", 0xa005_0000..0xa006_0000),
            ("a thread's heap", 0xb000_0000..0xb000_8000),
            ("the stack", 0xf000_0000..0xf001_0000),
            ("behind everything", 0xff00_0000..0xff01_0000),
        ];
        for (what, range) in cases {
            assert_eq!(private(range), None, "{what}");
        }
        let own_stack = maps().private_parts(&(0x7f02_0000..0x7f03_0000), &FILE, 0x7f03_f000);
        assert!(own_stack.is_err());
    }

    #[test]
    fn shared_memory_is_found() {
        let all = 0..usize::MAX;
        let own = 0xa000_0000..0xa001_0000;
        assert_eq!(maps().shared_parts(&all, &FILE), std::slice::from_ref(&own));
        let part = 0xa000_4000..0xa000_5000;
        assert_eq!(
            maps().shared_parts(&part, &FILE),
            std::slice::from_ref(&part)
        );
        let moved = 0x7f10_0000..0x7f11_0000;
        let held = |private: &[Range<usize>]| maps().held_parts(&FILE, private);
        assert_eq!(held(&[]), [own, moved.clone()]);
        let halves = [0xa000_0000..0xa000_8000, 0xa000_8000..0xa001_0000];
        assert_eq!(held(&halves[..1]), [halves[1].clone(), moved.clone()]);
        assert_eq!(held(&halves), std::slice::from_ref(&moved));
    }

    #[test]
    fn invalid_lines_are_refused() {
        for text in [
            "x",
            "1-2 rw-p 0 00:00\n",
            "1-2 rw-pp 0 00:00 0",
            "1-z rw-p 0 00:00 0",
        ] {
            assert!(Maps::parse(text).is_err(), "{text}");
        }
        assert!(Maps::read().is_ok());
    }
}
