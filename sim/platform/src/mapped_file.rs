//! Memory of this process that is a mapping of a known file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use ferroce_host::mapping::FileIdentity;

/// How much of a range is a shared mapping of a file.
#[derive(Debug)]
pub enum Mapped {
    /// Nothing.
    Nothing,
    /// Some of it, or all of it but not in the order of the file.
    Part,
    /// All of it, from this offset of the file on.
    Whole(File, u64),
}

/// Returns the identity of an open or named file.
#[must_use]
pub fn identity_of(metadata: &Metadata) -> FileIdentity {
    FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
    }
}

/// Returns how much of `range` is a shared mapping of the file `wanted`.
///
/// A mapping names the path of its file, and the path is looked up: on some file systems
/// (overlayfs, btrfs) the device and inode of the mapping differ from what `stat` returns. A file
/// that has no path any more is not found.
///
/// # Errors
/// The error of the system.
pub fn shared_mapping(range: &Range<usize>, wanted: FileIdentity) -> io::Result<Mapped> {
    let text = fs::read_to_string("/proc/self/maps")?;
    let areas = text.lines().filter_map(Area::parse);
    let is_wanted = |area: &Area<'_>| {
        let named = fs::metadata(area.path);
        named.is_ok_and(|named| identity_of(&named) == wanted)
    };
    let within = areas.filter(|area| area.start < range.end && area.end > range.start);
    let found: Vec<_> = within.filter(is_wanted).collect();
    let Some(first) = found.first() else {
        return Ok(Mapped::Nothing);
    };
    let mut covered = range.start;
    for area in &found {
        if area.start > covered || area.place() != first.place() {
            return Ok(Mapped::Part);
        }
        covered = area.end;
    }
    if covered < range.end {
        return Ok(Mapped::Part);
    }
    let file = OpenOptions::new().read(true).write(true).open(first.path)?;
    let offset = first.place().wrapping_add(range.start as u64);
    Ok(Mapped::Whole(file, offset))
}

/// A shared mapping of a file: a line of `/proc/self/maps` such as
/// `a0000000-a0010000 rw-s 00000000 00:01 1234      /dev/shm/log`.
#[derive(Debug, PartialEq, Eq)]
struct Area<'a> {
    start: usize,
    end: usize,
    offset: u64,
    path: &'a str,
}

impl<'a> Area<'a> {
    /// Parses a line. Returns `None` if it is no shared mapping of a file with a path.
    fn parse(line: &'a str) -> Option<Self> {
        let (range, line) = line.split_once(' ')?;
        let (rights, line) = line.split_once(' ')?;
        let (offset, line) = line.split_once(' ')?;
        let path = line.find('/').map(|place| &line[place..])?;
        let (start, end) = range.split_once('-')?;
        let is_shared = rights.ends_with('s');
        is_shared.then_some(Self {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            path,
        })
    }

    /// Returns the file's offset of address zero: the same for mappings in the order of the file.
    fn place(&self) -> u64 {
        self.offset.wrapping_sub(self.start as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_mappings_of_named_files_count() {
        let line = "a0000000-a0010000 rw-s 00002000 00:01 1234      /dev/shm/a log";
        let area = Area {
            start: 0xa000_0000,
            end: 0xa001_0000,
            offset: 0x2000,
            path: "/dev/shm/a log",
        };
        assert_eq!(Area::parse(line), Some(area));
        for other in [
            "a0000000-a0010000 rw-p 00002000 00:01 1234      /dev/shm/log",
            "a0000000-a0010000 rw-s 00000000 00:00 0",
            "a0000000",
        ] {
            assert_eq!(Area::parse(other), None, "{other}");
        }
    }

    #[test]
    fn memory_that_maps_nothing_is_not_found() {
        let value = 5u64;
        let start = std::ptr::from_ref(&value).addr();
        let own = fs::metadata("/proc/self/exe").expect("everywhere");
        let found = shared_mapping(&(start..start + 8), identity_of(&own));
        assert!(matches!(found, Ok(Mapped::Nothing)));
    }
}
