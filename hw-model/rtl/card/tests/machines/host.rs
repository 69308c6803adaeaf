//! Host memory of a machine, and a check of each write that the function makes.

use std::collections::VecDeque;
use std::ops::Range;

use ferroce_model::{DmaError, DmaFault, Doorbell, UntimedHost};
use ferroce_units::random::SplitMix64;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of memory. IOVAs from here on are not mapped.
pub const MEMORY_SIZE: usize = 1 << 20;
/// IOVAs below this are not mapped.
pub const UNMAPPED: u64 = 0x1000;
/// Maximum number of forbidden writes that are kept for the error message.
const MAX_KEPT: usize = 4;

/// DMA errors at random.
#[derive(Debug)]
pub struct DmaFaults {
    /// One of this many accesses fails.
    pub one_in: u64,
    pub random: SplitMix64,
}

/// Memory, received doorbells, interrupts.
#[derive(Debug)]
pub struct TestHost {
    memory: Vec<u8>,
    pub doorbells: VecDeque<Doorbell>,
    pub interrupts: usize,
    /// Ranges that the function may write.
    pub writable: Vec<Range<u64>>,
    /// The function's writes to mapped memory outside of these ranges.
    pub stray_writes: Vec<Range<u64>>,
    /// The function's accesses to unmapped addresses: address and length.
    pub refused: Vec<(u64, usize)>,
    pub faults: Option<DmaFaults>,
}

impl TestHost {
    pub fn new() -> Self {
        Self {
            memory: vec![0; MEMORY_SIZE],
            doorbells: VecDeque::new(),
            interrupts: 0,
            writable: Vec::new(),
            stray_writes: Vec::new(),
            refused: Vec::new(),
            faults: None,
        }
    }

    fn range(&self, iova: u64, length: usize) -> Result<Range<usize>, DmaError> {
        let refused = DmaError::refused(iova, length);
        let end = iova.checked_add(length as u64).ok_or(refused)?;
        let is_mapped = iova >= UNMAPPED && end <= MEMORY_SIZE as u64;
        is_mapped
            .then_some(iova as usize..end as usize)
            .ok_or(refused)
    }

    /// Writes memory for software; ignores unmapped addresses.
    pub fn store(&mut self, iova: u64, bytes: &[u8]) {
        if let Ok(range) = self.range(iova, bytes.len()) {
            self.memory[range].copy_from_slice(bytes);
        }
    }

    /// Reads memory for software.
    pub fn load<T: FromBytes>(&self, iova: u64) -> T {
        let bytes = &self.memory[iova as usize..];
        T::read_from_prefix(bytes).expect("inside of memory").0
    }

    pub fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.memory[range.start as usize..range.end as usize]
    }

    pub fn bytes_mut(&mut self, range: Range<u64>) -> &mut [u8] {
        &mut self.memory[range.start as usize..range.end as usize]
    }

    /// As [`TestHost::range`], for the function.
    fn access(&mut self, iova: u64, length: usize) -> Result<Range<usize>, DmaError> {
        let range = self.range(iova, length);
        if range.is_err() && self.refused.len() < MAX_KEPT {
            self.refused.push((iova, length));
        }
        range
    }

    fn fails(&mut self) -> bool {
        self.faults
            .as_mut()
            .is_some_and(|faults| faults.random.below(faults.one_in) == 0)
    }

    fn note_stray(&mut self, written: Range<u64>) {
        let is_allowed = self
            .writable
            .iter()
            .any(|range| range.start <= written.start && written.end <= range.end);
        if !is_allowed && self.stray_writes.len() < MAX_KEPT {
            self.stray_writes.push(written);
        }
    }
}

impl UntimedHost for TestHost {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        if self.fails() {
            return Err(DmaError {
                iova,
                length: destination.len(),
                fault: DmaFault::Poisoned,
            });
        }
        let range = self.access(iova, destination.len())?;
        destination.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        if self.fails() {
            return Err(DmaError::refused(iova, source.len()));
        }
        let range = self.access(iova, source.len())?;
        self.note_stray(range.start as u64..range.end as u64);
        self.memory[range].copy_from_slice(source);
        Ok(())
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        UntimedHost::write(self, iova, words.as_bytes())
    }

    fn interrupt(&mut self, _vector: u16) {
        self.interrupts += 1;
    }

    fn next_doorbell(&mut self) -> Option<Doorbell> {
        self.doorbells.pop_front()
    }
}
