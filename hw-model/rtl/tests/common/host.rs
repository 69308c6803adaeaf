//! A host with a table in its memory; some of its lines cannot be accessed.

use ferroce_model::ports::host::{DmaError, UntimedHost};
use ferroce_rtl::LINE;

/// IOVA of the table.
pub const BASE: u64 = 0x1_0000_0000;

/// A table of 64-byte lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub lines: Vec<[u8; LINE]>,
    /// Lines that the host refuses to read.
    pub unreadable: Vec<bool>,
    /// Lines that the host refuses to write.
    pub unwritable: Vec<bool>,
    /// Every access so far: IOVA, and whether it is a write.
    pub accesses: Vec<(u64, bool)>,
}

impl Table {
    pub fn new(lines: Vec<[u8; LINE]>) -> Self {
        let none = vec![false; lines.len()];
        Self {
            unreadable: none.clone(),
            unwritable: none,
            lines,
            accesses: Vec::new(),
        }
    }

    fn line(&mut self, iova: u64, length: usize, is_write: bool) -> Result<usize, DmaError> {
        assert_eq!((iova % LINE as u64, length), (0, LINE), "not a line");
        self.accesses.push((iova, is_write));
        let line = (iova - BASE) as usize / LINE;
        let refused = if is_write {
            &self.unwritable
        } else {
            &self.unreadable
        };
        if refused[line] {
            Err(DmaError::refused(iova, length))
        } else {
            Ok(line)
        }
    }
}

impl UntimedHost for Table {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        let line = self.line(iova, destination.len(), false)?;
        destination.copy_from_slice(&self.lines[line]);
        Ok(())
    }

    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let line = self.line(iova, source.len(), true)?;
        self.lines[line].copy_from_slice(source);
        Ok(())
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        panic!("a table has no descriptors: {words:x?} at {iova:#x}")
    }
}
