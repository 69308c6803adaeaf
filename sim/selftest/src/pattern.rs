//! Memory for the device whose contents are known byte by byte, including the surroundings of the
//! data.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ferroce_driver::bus::PAGE_SIZE;
use ferroce_driver::{
    DataSegment, Error, MemoryAccess, MemoryRegion, ProtectionDomain, RemoteAddress,
};

/// Bytes before and after the data that are checked.
pub const GUARD_LENGTH: usize = 128;
/// Their value.
const GUARD: u8 = 0xa5;
/// Maximum displacement of data that is recognised.
const SHIFT_MAX: usize = 16;

/// Page-aligned memory of this process, registered.
pub struct Memory {
    /// Dropped before the memory.
    region: Arc<MemoryRegion>,
    bytes: Box<[AtomicU8]>,
    start: usize,
}

impl Memory {
    pub fn new(
        pd: &Arc<ProtectionDomain>,
        length: usize,
        access: MemoryAccess,
    ) -> Result<Self, Error> {
        let bytes: Box<[AtomicU8]> = (0..length + PAGE_SIZE).map(|_| AtomicU8::new(0)).collect();
        let address = bytes.as_ptr().expose_provenance();
        let start = address.next_multiple_of(PAGE_SIZE) - address;
        let first = address + start;
        let region = MemoryRegion::register(pd, first, length, first as u64, access)?;
        Ok(Self {
            region,
            bytes,
            start,
        })
    }

    /// Allocates memory with all rights for a peer.
    pub fn open(pd: &Arc<ProtectionDomain>, length: usize) -> Result<Self, Error> {
        let access = MemoryAccess {
            local_write: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            flush_global: false,
            flush_persistent: false,
            ..MemoryAccess::default()
        };
        Self::new(pd, length, access)
    }

    pub fn bytes(&self) -> &[AtomicU8] {
        &self.bytes[self.start..]
    }

    fn address(&self, offset: usize) -> u64 {
        self.bytes()[offset..].as_ptr().expose_provenance() as u64
    }

    pub fn segment(&self, offset: usize, length: usize) -> DataSegment {
        DataSegment {
            address: self.address(offset),
            length: length as u32,
            l_key: self.region.lkey().0,
        }
    }

    pub fn remote(&self, offset: usize) -> RemoteAddress {
        RemoteAddress {
            virtual_address: self.address(offset),
            r_key: self.region.rkey(),
        }
    }

    /// Sets byte `index` to `byte(index)`, for each in `range`.
    pub fn fill(&self, range: Range<usize>, byte: impl Fn(usize) -> u8) {
        let first = range.start;
        for (index, place) in self.bytes()[range].iter().enumerate() {
            place.store(byte(first + index), Ordering::Relaxed);
        }
    }

    /// Fills `length` bytes at `offset` and their surroundings with guard bytes.
    pub fn guard(&self, offset: usize, length: usize) {
        let end = (offset + length + GUARD_LENGTH).min(self.bytes().len());
        self.fill(offset.saturating_sub(GUARD_LENGTH)..end, |_| GUARD);
    }

    pub fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let load = |byte: &AtomicU8| byte.load(Ordering::Acquire);
        self.bytes()[range].iter().map(load).collect()
    }

    pub fn load_word(&self, offset: usize) -> u64 {
        let bytes = self.copy(offset..offset + 8);
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    pub fn store_word(&self, offset: usize, word: u64) {
        let bytes = word.to_le_bytes();
        self.fill(offset..offset + 8, |index| bytes[index - offset]);
    }

    /// Checks that `length` bytes at `offset` equal `expected` for 0, 1, …, and that all bytes
    /// around them are guard bytes.
    pub fn check(
        &self,
        offset: usize,
        length: usize,
        expected: impl Fn(usize) -> u8,
    ) -> Result<(), Damage> {
        let before = offset.saturating_sub(GUARD_LENGTH);
        let end = (offset + length + GUARD_LENGTH).min(self.bytes().len());
        let data = self.bytes()[offset..offset + length].iter().enumerate();
        for (index, byte) in data {
            if byte.load(Ordering::Acquire) != expected(index) {
                return Err(self.diagnose(offset, length, index, expected));
            }
        }
        for at in (before..offset).rev().chain(offset + length..end) {
            let found = self.bytes()[at].load(Ordering::Acquire);
            if found != GUARD {
                return Err(Damage::Beside {
                    distance: at as i64
                        - if at < offset {
                            offset
                        } else {
                            offset + length - 1
                        } as i64,
                    found,
                });
            }
        }
        Ok(())
    }

    fn diagnose(
        &self,
        offset: usize,
        length: usize,
        first: usize,
        expected: impl Fn(usize) -> u8,
    ) -> Damage {
        let found = self.copy(offset..offset + length);
        let wanted: Vec<u8> = (0..length).map(expected).collect();
        let wrong = || (first..length).filter(|&index| found[index] != wanted[index]);
        let count = wrong().count();
        let kind = if wrong().all(|index| found[index] == GUARD) {
            Kind::Missing
        } else {
            shift(&found, &wanted, first).map_or(Kind::Other, Kind::Shifted)
        };
        Damage::Inside {
            first,
            place: offset + first,
            count,
            found: found[first],
            expected: wanted[first],
            kind,
        }
    }
}

/// Returns by how many bytes the data from `first` on are displaced, if at all.
fn shift(found: &[u8], wanted: &[u8], first: usize) -> Option<i64> {
    // Few enough to recognise displaced data that end early.
    let compared = match found.len() - first {
        ..4 => return None,
        4..16 => 4,
        _ => 8,
    };
    let piece = &found[first..first + compared];
    let candidates = first.saturating_sub(SHIFT_MAX)..=first + SHIFT_MAX;
    candidates
        .filter(|&at| at != first)
        .find(|&at| wanted.get(at..at + compared) == Some(piece))
        .map(|at| first as i64 - at as i64)
}

/// Damage of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// A wrong byte of the data.
    Inside {
        /// Offset of the first wrong byte in the data.
        first: usize,
        /// Its offset in a page.
        place: usize,
        /// Number of wrong bytes.
        count: usize,
        found: u8,
        expected: u8,
        kind: Kind,
    },
    /// A byte outside the data has changed: `distance` before the first byte (negative) or after
    /// the last.
    Beside { distance: i64, found: u8 },
}

/// Kind of wrong data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They were not written.
    Missing,
    /// They are correct but displaced by this many bytes.
    Shifted(i64),
    /// Anything else.
    Other,
}

impl Damage {
    /// Returns a description.
    pub fn text(&self) -> String {
        match *self {
            Self::Inside {
                first,
                count,
                found,
                expected,
                kind,
                ..
            } => {
                let how = match kind {
                    Kind::Missing => "was not written".to_owned(),
                    Kind::Shifted(by) => {
                        let direction = if by > 0 { "before" } else { "after" };
                        let bytes = if by.abs() == 1 { "byte" } else { "bytes" };
                        format!("holds what belongs {} {bytes} {direction} it", by.abs())
                    }
                    Kind::Other => format!("is {found:#04x}, not {expected:#04x}"),
                };
                format!("byte {first} {how} ({count} bytes are wrong)")
            }
            Self::Beside { distance, found } => format!(
                "the byte {} the data has become {found:#04x}",
                match distance {
                    -1 => "just before".to_owned(),
                    1 => "just after".to_owned(),
                    ..=0 => format!("{} before", -distance),
                    _ => format!("{distance} after"),
                }
            ),
        }
    }

    /// Returns hints. `source` is the offset of the first source byte in its page.
    pub fn hints(&self, source: usize) -> Vec<String> {
        let mut hints = Vec::new();
        let mut add = |hint: &str| hints.push(hint.to_owned());
        match *self {
            Self::Beside { .. } => add(
                "byte enables of the first and last dword of a write, length rounded up to a \
                 dword or to a flit of the data path",
            ),
            Self::Inside {
                first, place, kind, ..
            } => {
                let at_page = |byte: usize| first > 0 && byte % PAGE_SIZE == 0;
                if at_page(place) {
                    add(
                        "wrong from a 4 KiB boundary of the destination on: no request may cross \
                         one (PCIe base, 2.2.7); is the write split there, and is the next page's \
                         MTT entry used?",
                    );
                } else if at_page(source + first) {
                    add(
                        "wrong from a 4 KiB boundary of the source on: is the read split there, and \
                         is the next page's MTT entry used?",
                    );
                } else if first > 0 && first % 64 == 0 {
                    add(
                        "wrong from a multiple of 64 bytes on: where a request is split at MPS or \
                         MRRS, or completions of a read are put together (RCB)",
                    );
                }
                match kind {
                    Kind::Missing if first == 0 => add(
                        "nothing was written at the start: did the write go to another address \
                         (MTT entry, upper half of the address), or is it still under way when the \
                         CQE is written (order of posted writes)?",
                    ),
                    Kind::Missing => {
                        add("bytes are missing: lost writes, or a CQE that overtakes the data");
                    }
                    Kind::Shifted(_) => {
                        add(
                            "data are displaced: the aligner between source and destination offset",
                        );
                    }
                    Kind::Other => {
                        add(
                            "lanes and byte order of the data path; data of another request (tags)",
                        );
                    }
                }
            }
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displaced_data_are_recognised() {
        let wanted: Vec<u8> = (0..64u8).map(|index| index.wrapping_mul(7)).collect();
        let mut found = wanted.clone();
        found[20..40].copy_from_slice(&wanted[16..36]);
        assert_eq!(shift(&found, &wanted, 20), Some(4));
        found[20..40].copy_from_slice(&wanted[21..41]);
        assert_eq!(shift(&found, &wanted, 20), Some(-1));
        found[20..40].fill(0);
        assert_eq!(shift(&found, &wanted, 20), None);
    }

    #[test]
    fn a_hint_names_the_boundary() {
        let damage = |first, place| Damage::Inside {
            first,
            place,
            count: 1,
            found: 0,
            expected: 1,
            kind: Kind::Missing,
        };
        let hints = |damage: Damage, source| damage.hints(source).join(" ");
        assert!(hints(damage(96, 4096), 0).contains("boundary of the destination"));
        assert!(hints(damage(96, 200), 4000).contains("boundary of the source"));
        assert!(hints(damage(256, 300), 0).contains("MPS"));
        assert!(hints(damage(0, 0), 0).contains("nothing was written at the start"));
    }
}
