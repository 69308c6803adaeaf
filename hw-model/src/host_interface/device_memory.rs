//! The device's own memory (BAR4), accessed by software over PCIe and through memory regions.

use std::fmt::Debug;
use std::sync::Arc;

use ferroce_spec::register::BAR4_SIZE;

use crate::dma::ATOMIC_BYTES;
use crate::ports::host::DmaAtomic;

/// Value of a PCIe read that no device answers.
const UNMAPPED_BYTE: u8 = 0xff;

/// Maximum number of attempts to swap eight bytes that others change, too.
const MAX_SWAPS: usize = 64;

/// The device's memory outside of the model, [`DeviceMemory::LENGTH`] bytes, which the system can
/// give others access to. All ranges are inside.
pub trait LentMemory: Debug + Send + Sync {
    /// Copies the bytes from `offset` on.
    fn read(&self, offset: u64, destination: &mut [u8]);

    /// Replaces the bytes from `offset` on.
    fn write(&self, offset: u64, source: &[u8]);

    /// Executes an atomic on eight bytes, whose offset is a multiple of eight; returns the old
    /// value.
    fn atomic(&self, offset: u64, operation: DmaAtomic) -> u64;
}

/// 256 KiB of memory next to the port. Most programs never use it, so it is allocated at the first
/// access.
#[derive(Debug, Default)]
pub struct DeviceMemory {
    bytes: Box<[u8]>,
    /// Holds the content in place of `bytes`.
    lent: Option<Arc<dyn LentMemory>>,
}

impl DeviceMemory {
    /// Bytes of the memory.
    pub const LENGTH: u64 = BAR4_SIZE as u64;

    /// Returns true if the `length` bytes from `offset` on are inside.
    pub fn contains(offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= Self::LENGTH)
    }

    /// Keeps the content in `memory` until the next reset.
    pub fn lend(&mut self, memory: Arc<dyn LentMemory>) {
        *self = Self {
            bytes: Box::default(),
            lent: Some(memory),
        };
    }

    /// Returns the `length` bytes from `offset` on; `None`: not all of them are inside.
    fn range(&mut self, offset: u64, length: usize) -> Option<&mut [u8]> {
        if !Self::contains(offset, length as u64) {
            return None;
        }
        if self.bytes.is_empty() {
            self.bytes = vec![0; Self::LENGTH as usize].into_boxed_slice();
        }
        let start = offset as usize;
        Some(&mut self.bytes[start..start + length])
    }

    /// Handles a PCIe read: a read that is not completely inside returns ones.
    pub fn read(&mut self, offset: u64, destination: &mut [u8]) {
        if let Some(lent) = self.lent_part(offset, destination.len()) {
            return lent.read(offset, destination);
        }
        match self.range(offset, destination.len()) {
            Some(bytes) => destination.copy_from_slice(bytes),
            None => destination.fill(UNMAPPED_BYTE),
        }
    }

    /// Handles a PCIe write: a write that is not completely inside is dropped.
    pub fn write(&mut self, offset: u64, source: &[u8]) {
        if let Some(lent) = self.lent_part(offset, source.len()) {
            return lent.write(offset, source);
        }
        if let Some(bytes) = self.range(offset, source.len()) {
            bytes.copy_from_slice(source);
        }
    }

    /// Executes an atomic on the eight bytes from `offset` on, which are inside; returns the old
    /// value.
    pub fn atomic(&mut self, offset: u64, operation: DmaAtomic) -> u64 {
        if let Some(lent) = self.lent_part(offset, ATOMIC_BYTES) {
            return lent.atomic(offset, operation);
        }
        let mut value = [0; ATOMIC_BYTES];
        self.read(offset, &mut value);
        let original = u64::from_ne_bytes(value);
        self.write(offset, &operation.apply(original).to_ne_bytes());
        original
    }

    /// Writes the eight bytes from `offset` on, which are inside, at once.
    pub fn store(&mut self, offset: u64, value: u64) {
        let mut compare = 0;
        for _ in 0..MAX_SWAPS {
            let swap = value;
            let original = self.atomic(offset, DmaAtomic::CompareSwap { compare, swap });
            if original == compare {
                return;
            }
            compare = original;
        }
        // A program that changes the bytes all the time reads no meaning into them.
        self.write(offset, &value.to_ne_bytes());
    }

    /// Returns the memory that holds a range, if all of the range is inside.
    fn lent_part(&self, offset: u64, length: usize) -> Option<&dyn LentMemory> {
        let lent = self.lent.as_deref()?;
        Self::contains(offset, length as u64).then_some(lent)
    }

    /// Clears it (reset), so that the next program does not see the data of the last one.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_that_cross_the_end_have_no_effect() {
        let mut memory = DeviceMemory::default();
        memory.write(DeviceMemory::LENGTH - 4, &[7; 8]);
        memory.write(u64::MAX, &[7; 8]);
        let mut bytes = [1; 4];
        memory.read(DeviceMemory::LENGTH - 4, &mut bytes);
        assert_eq!(bytes, [0; 4]);
        memory.write(DeviceMemory::LENGTH - 4, &[7; 4]);
        memory.read(DeviceMemory::LENGTH - 4, &mut bytes);
        assert_eq!(bytes, [7; 4]);
        memory.read(DeviceMemory::LENGTH - 2, &mut bytes);
        assert_eq!(bytes, [UNMAPPED_BYTE; 4]);
        memory.reset();
        memory.read(DeviceMemory::LENGTH - 4, &mut bytes);
        assert_eq!(bytes, [0; 4]);
    }

    /// Memory whose bytes all have one value, for tests.
    #[derive(Debug)]
    struct OneByte(std::sync::Mutex<u8>);

    impl LentMemory for OneByte {
        fn read(&self, _offset: u64, destination: &mut [u8]) {
            destination.fill(*self.0.lock().expect("one thread"));
        }

        fn write(&self, _offset: u64, source: &[u8]) {
            *self.0.lock().expect("one thread") = source[0];
        }

        fn atomic(&self, _offset: u64, _operation: DmaAtomic) -> u64 {
            u64::MAX
        }
    }

    /// Goal: while memory is lent, all accesses inside go to it; the rules for those outside do not
    /// change, and a reset ends the loan.
    #[test]
    fn lent_memory_has_the_content_until_a_reset() {
        let mut memory = DeviceMemory::default();
        let lent = Arc::new(OneByte(std::sync::Mutex::new(5)));
        memory.lend(lent.clone());
        let mut bytes = [0; 4];
        memory.read(0, &mut bytes);
        assert_eq!(bytes, [5; 4]);
        memory.write(DeviceMemory::LENGTH - 1, &[7]);
        assert_eq!(*lent.0.lock().expect("one thread"), 7);
        let operation = DmaAtomic::FetchAdd { add: 1 };
        assert_eq!(memory.atomic(0, operation), u64::MAX);
        memory.write(DeviceMemory::LENGTH - 1, &[9; 2]);
        assert_eq!(*lent.0.lock().expect("one thread"), 7);
        memory.read(DeviceMemory::LENGTH - 2, &mut bytes);
        assert_eq!(bytes, [UNMAPPED_BYTE; 4]);
        memory.reset();
        memory.read(0, &mut bytes);
        assert_eq!(bytes, [0; 4]);
    }
}
