//! A host with memory at every address, except for refused lines.

use std::collections::{BTreeMap, BTreeSet};

use ferroce_model::ports::host::{DmaError, UntimedHost};
use ferroce_rtl::LINE;

/// Memory by lines; unwritten memory is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    lines: BTreeMap<u64, [u8; LINE]>,
    /// Addresses of lines that the host refuses.
    pub refused: BTreeSet<u64>,
    /// Interrupts and descriptors so far, in order.
    pub log: Vec<Effect>,
}

/// The effects of a card that software can see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Descriptor(u64, Vec<u8>),
    Interrupt(u16),
}

impl Memory {
    /// Returns the line that begins at `iova`.
    pub fn line(&self, iova: u64) -> [u8; LINE] {
        assert_eq!(iova % LINE as u64, 0);
        self.lines.get(&iova).copied().unwrap_or([0; LINE])
    }

    pub fn refuses(&self, iova: u64) -> bool {
        self.refused.contains(&(iova & !(LINE as u64 - 1)))
    }

    /// Writes the bytes of a line that `strobe` selects.
    pub fn write_line(&mut self, iova: u64, line: &[u8; LINE], strobe: u64) {
        let mut new = self.line(iova);
        for (i, byte) in line
            .iter()
            .enumerate()
            .filter(|(i, _)| strobe >> i & 1 != 0)
        {
            new[i] = *byte;
        }
        self.lines.insert(iova, new);
    }
}

impl UntimedHost for Memory {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        if self.refuses(iova) {
            return Err(DmaError::refused(iova, destination.len()));
        }
        for (at, byte) in (iova..).zip(destination) {
            *byte = self.line(at & !(LINE as u64 - 1))[at as usize % LINE];
        }
        Ok(())
    }

    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        if self.refuses(iova) {
            return Err(DmaError::refused(iova, source.len()));
        }
        for (at, byte) in (iova..).zip(source) {
            let place = at as usize % LINE;
            self.write_line(at & !(LINE as u64 - 1), &[*byte; LINE], 1 << place);
        }
        Ok(())
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(iova, &bytes)?;
        self.log.push(Effect::Descriptor(iova, bytes));
        Ok(())
    }

    fn interrupt(&mut self, vector: u16) {
        self.log.push(Effect::Interrupt(vector));
    }
}
