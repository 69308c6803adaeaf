//! The device's own memory (BAR4), accessed by software over PCIe and through memory regions.

use ferroce_spec::register::BAR4_SIZE;

/// Value of a PCIe read that no device answers.
const UNMAPPED_BYTE: u8 = 0xff;

/// 256 KiB of memory next to the port. Most programs never use it, so it is allocated at the first
/// access.
#[derive(Debug, Default)]
pub struct DeviceMemory {
    bytes: Box<[u8]>,
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

    /// Returns the `length` bytes from `offset` on; `None`: not all of them are inside.
    pub fn range(&mut self, offset: u64, length: usize) -> Option<&mut [u8]> {
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
        match self.range(offset, destination.len()) {
            Some(bytes) => destination.copy_from_slice(bytes),
            None => destination.fill(UNMAPPED_BYTE),
        }
    }

    /// Handles a PCIe write: a write that is not completely inside is dropped.
    pub fn write(&mut self, offset: u64, source: &[u8]) {
        if let Some(bytes) = self.range(offset, source.len()) {
            bytes.copy_from_slice(source);
        }
    }

    /// Clears it (reset), so that the next program does not see the data of the last one.
    pub fn reset(&mut self) {
        self.bytes = Box::default();
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
}
