//! The part of host memory that a function has read or written.

use std::collections::BTreeMap;

use crate::reader::Position;

/// Bytes of a line.
pub const LINE: u64 = 64;

/// A line of memory.
#[derive(Debug, Clone)]
struct Line {
    bytes: [u8; LINE as usize],
    /// Bitmap of known bytes.
    known: u64,
    /// Bitmap of bytes that the function has written.
    written: u64,
    /// The newest write.
    by: Position,
}

/// The memory.
#[derive(Debug, Default)]
pub struct Image {
    lines: BTreeMap<u64, Line>,
}

/// Bytes that the function has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Bytes from the address on; unwritten bytes are zero.
    pub bytes: Vec<u8>,
    /// True for each byte that was written.
    pub mask: Vec<bool>,
    /// The newest write among them.
    pub by: Position,
}

impl Image {
    /// Records that the function has read these bytes.
    pub fn read(&mut self, iova: u64, data: &[u8]) {
        self.store(iova, data, None);
    }

    /// Records that the function has written these bytes.
    pub fn write(&mut self, iova: u64, data: &[u8], by: Position) {
        self.store(iova, data, Some(by));
    }

    fn store(&mut self, iova: u64, data: &[u8], by: Option<Position>) {
        let mut at = iova;
        let mut rest = data;
        while !rest.is_empty() {
            let place = (at % LINE) as usize;
            let count = rest.len().min(LINE as usize - place);
            let line = self.lines.entry(at / LINE).or_insert_with(|| Line {
                bytes: [0; LINE as usize],
                known: 0,
                written: 0,
                by: Position::default(),
            });
            let ones = (u64::MAX >> (LINE as usize - count)) << place;
            line.bytes[place..place + count].copy_from_slice(&rest[..count]);
            line.known |= ones;
            if let Some(by) = by {
                line.written |= ones;
                line.by = by;
            }
            at = at.wrapping_add(count as u64);
            rest = &rest[count..];
        }
    }

    /// Returns the bytes from `iova` on. `None`: not all of them are known.
    pub fn get(&self, iova: u64, length: usize) -> Option<Vec<u8>> {
        let end = iova.checked_add(length as u64)?;
        (iova..end)
            .map(|at| {
                let line = self.lines.get(&(at / LINE))?;
                let place = (at % LINE) as usize;
                (line.known >> place & 1 == 1).then_some(line.bytes[place])
            })
            .collect()
    }

    /// Returns a structure of the contract.
    pub fn get_as<T: zerocopy::FromBytes>(&self, iova: u64) -> Option<T> {
        let bytes = self.get(iova, size_of::<T>())?;
        T::read_from_bytes(&bytes).ok()
    }

    /// Returns true if the function has written a byte of this range since `since`.
    pub fn was_written(&self, iova: u64, length: u64, since: u64) -> bool {
        let lines = iova / LINE..=iova.saturating_add(length - 1) / LINE;
        let mut lines = self.lines.range(lines);
        lines.any(|(_, line)| line.written != 0 && line.by.sequence >= since)
    }

    /// Returns the function's writes to this range since `since`; `None` if there are none.
    pub fn written(&self, iova: u64, length: usize, since: u64) -> Option<Written> {
        let mut found = Written {
            bytes: vec![0; length],
            mask: vec![false; length],
            by: Position::default(),
        };
        for (index, at) in (0..length).zip(iova..) {
            let Some(line) = self.lines.get(&(at / LINE)) else {
                continue;
            };
            let place = (at % LINE) as usize;
            if line.written >> place & 1 == 1 && line.by.sequence >= since {
                found.bytes[index] = line.bytes[place];
                found.mask[index] = true;
                found.by = found.by.max(line.by);
            }
        }
        found.mask.contains(&true).then_some(found)
    }
}
