//! The answers of memory_unit, computed by rules instead of tables: a key determines the rights of
//! its region.

use std::collections::BTreeMap;

use ferroce_transport::AtomicOperation;
use ferroce_units::random::mixed;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Rights, as in AccessRights.
pub const LOCAL_WRITE: u8 = 1;
pub const REMOTE_WRITE: u8 = 2;
pub const REMOTE_READ: u8 = 4;
pub const REMOTE_ATOMIC: u8 = 8;
/// Codes of a fault.
const FAULT_RIGHTS: u8 = 4;
const FAULT_PAGE: u8 = 7;

/// A key whose region has all pages and rights.
pub const KEY_GOOD: u32 = 0x100;
/// A key without any rights.
pub const KEY_BAD: u32 = 0x200;
/// A key whose region lacks every eighth page.
pub const KEY_HOLES: u32 = 0x300;
/// A key of a region that peers may only read.
pub const KEY_READ: u32 = 0x400;

/// A requested range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub key: u32,
    pub pd: u32,
    pub qpn: u32,
    pub rights: u8,
    pub address: u64,
    pub length: u32,
    pub check_only: bool,
}

/// A contiguous range: IOVA and length.
pub type Piece = (u64, u16);

/// Returns the pieces of a range, up to a fault.
pub fn translate(request: &Request) -> (Vec<Piece>, Option<u8>) {
    if request.length == 0 {
        return (vec![(0, 0)], None);
    }
    let allowed = match request.key {
        KEY_GOOD | KEY_HOLES => LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC,
        KEY_READ => REMOTE_READ,
        _ => 0,
    };
    if request.rights & !allowed != 0 || request.pd != PD {
        return (Vec::new(), Some(FAULT_RIGHTS));
    }
    if request.check_only {
        return (vec![(0, 0)], None);
    }
    let (mut pieces, mut at) = (Vec::new(), request.address);
    let end = at.wrapping_add(u64::from(request.length));
    while at != end {
        let page = at / PAGE;
        if request.key == KEY_HOLES && mixed(page).is_multiple_of(8) {
            return (pieces, Some(FAULT_PAGE));
        }
        let bytes = (PAGE - at % PAGE).min(end.wrapping_sub(at));
        let iova = mixed(page ^ u64::from(request.key)) / PAGE * PAGE + at % PAGE;
        pieces.push((iova, bytes as u16));
        at = at.wrapping_add(bytes);
    }
    (pieces, None)
}

/// One of this many words cannot be read, and another one cannot be written.
const BAD_WORDS: u64 = 32;

/// The words of host memory that atomics have changed.
#[derive(Debug, Default)]
pub struct Words(pub BTreeMap<u64, u64>);

impl Words {
    /// Returns a word; `None`: it cannot be read.
    pub fn read(&self, iova: u64) -> Option<u64> {
        let word = self.0.get(&iova).copied().unwrap_or(mixed(iova));
        (mixed(iova) % BAD_WORDS != 0).then_some(word)
    }

    /// Returns true if the word can be written.
    pub fn write(&mut self, iova: u64, value: u64) -> bool {
        let is_right = mixed(iova) % BAD_WORDS != 1;
        if is_right {
            self.0.insert(iova, value);
        }
        is_right
    }

    /// Executes an atomic; returns the word before it, unless memory fails.
    pub fn execute(&mut self, iova: u64, operation: AtomicOperation) -> Option<u64> {
        let original = self.read(iova)?;
        let changed = match operation {
            AtomicOperation::CompareSwap { compare, swap } if original == compare => swap,
            AtomicOperation::CompareSwap { .. } => original,
            AtomicOperation::FetchAdd { add } => original.wrapping_add(add),
        };
        self.write(iova, changed).then_some(original)
    }
}

/// The protection domain of all QPs.
pub const PD: u32 = 0x77;

/// A data segment of a receive WQE.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub address: u64,
    pub length: u32,
    pub l_key: u32,
}

/// Returns the ranges of a list that hold `length` bytes from `offset` on.
pub fn ranges(list: &[Segment], offset: u32, length: u32) -> Vec<Segment> {
    let (mut skip, mut left, mut ranges) = (offset, length, Vec::new());
    for segment in list {
        let bytes = segment.length.saturating_sub(skip).min(left);
        if bytes > 0 {
            ranges.push(Segment {
                address: segment.address.wrapping_add(u64::from(skip)),
                length: bytes,
                l_key: segment.l_key,
            });
        }
        skip = skip.saturating_sub(segment.length);
        left -= bytes;
    }
    ranges
}
