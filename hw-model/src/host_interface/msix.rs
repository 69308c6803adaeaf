//! The MSI-X table: which vectors may interrupt, and which have an interrupt pending.

use ferroce_spec::register::{MSIX_ENTRY_SIZE, MSIX_VECTOR_MASKED, VECTOR_COUNT};

/// Words of 32 bits in one table entry.
const ENTRY_WORDS: usize = (MSIX_ENTRY_SIZE / 4) as usize;
/// Index of the vector control word in an entry.
const CONTROL_WORD: usize = 3;

/// The MSI-X table and its pending bits.
#[derive(Debug)]
pub struct MsixTable {
    entries: [[u32; ENTRY_WORDS]; VECTOR_COUNT as usize],
    pending: u64,
}

impl MsixTable {
    /// Returns a table with all vectors masked, as after a reset (PCIe base specification,
    /// 7.7.2.7).
    pub fn new() -> Self {
        let mut entry = [0; ENTRY_WORDS];
        entry[CONTROL_WORD] = MSIX_VECTOR_MASKED;
        Self {
            entries: [entry; VECTOR_COUNT as usize],
            pending: 0,
        }
    }

    /// Reads a word of the table at `offset` from its start.
    pub fn read(&self, offset: u32) -> Option<u32> {
        let word = (offset / 4) as usize;
        self.entries
            .get(word / ENTRY_WORDS)
            .map(|entry| entry[word % ENTRY_WORDS])
    }

    /// Writes a word of the table. Returns a vector that had a pending interrupt and is now
    /// unmasked.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<u16> {
        let word = (offset / 4) as usize;
        let vector = word / ENTRY_WORDS;
        let entry = self.entries.get_mut(vector)?;
        entry[word % ENTRY_WORDS] = value;
        let pending = 1u64 << vector;
        if self.pending & pending != 0 && entry[CONTROL_WORD] & MSIX_VECTOR_MASKED == 0 {
            self.pending &= !pending;
            return Some(vector as u16);
        }
        None
    }

    /// Requests an interrupt. Returns true if the message must be sent now; false: the vector is
    /// masked and the interrupt stays pending.
    pub fn raise(&mut self, vector: u16) -> bool {
        let Some(entry) = self.entries.get(usize::from(vector)) else {
            return false;
        };
        if entry[CONTROL_WORD] & MSIX_VECTOR_MASKED != 0 {
            self.pending |= 1 << vector;
            return false;
        }
        true
    }

    /// Returns the pending bit array.
    pub fn pending(&self) -> u64 {
        self.pending
    }
}

impl Default for MsixTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_vector_is_pending_until_unmasked() {
        let mut table = MsixTable::new();
        assert!(!table.raise(3));
        assert_eq!(table.pending(), 1 << 3);
        assert_eq!(table.write(3 * MSIX_ENTRY_SIZE + 12, 0), Some(3));
        assert_eq!(table.pending(), 0);
        assert!(table.raise(3));
        assert!(!table.raise(VECTOR_COUNT), "a vector that does not exist");
    }
}
