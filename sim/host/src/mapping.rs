//! Checks of a DMA mapping that each bus to a model makes first.

use std::ops::Range;

use ferroce_driver::bus::{BusError, DmaAccess, DmaMapping, PAGE_SIZE};

use crate::memory::{MapError, Rights};

/// IOVAs that the driver may use: all 48-bit addresses, except the first pages.
pub const IOVAS: Range<u64> = 0x1_0000..1 << 48;

/// IOVAs of the address space of a process, for on-demand regions: above those that the driver
/// chooses. It is as long as the addresses that x86-64 gives to programs.
pub const ADDRESS_SPACE: Range<u64> = 1 << 48..(1 << 48) + (1 << 47);

/// Device and inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// The device, as `stat` numbers it.
    pub device: u64,
    /// The inode; never zero.
    pub inode: u64,
}

/// Returns the device's rights to the memory of a mapping, if the mapping is valid.
///
/// # Errors
/// [`BusError::InvalidMapping`] if it is empty, not aligned or outside of [`IOVAS`].
pub fn rights_of(mapping: &DmaMapping) -> Result<Rights, BusError> {
    let DmaMapping {
        iova,
        address,
        length,
        access,
        is_buffer: _,
        file: _,
    } = *mapping;
    let page = PAGE_SIZE as u64;
    let is_aligned = iova % page == 0 && address % PAGE_SIZE == 0 && length % PAGE_SIZE == 0;
    let end = iova.checked_add(length as u64);
    let is_inside = iova >= IOVAS.start && end.is_some_and(|end| end <= IOVAS.end);
    if !is_aligned || !is_inside || length == 0 {
        return Err(BusError::InvalidMapping);
    }
    Ok(match access {
        DmaAccess::Read => Rights::Read,
        DmaAccess::ReadWrite => Rights::ReadWrite,
    })
}

impl From<MapError> for BusError {
    fn from(error: MapError) -> Self {
        match error {
            MapError::BadRange => BusError::InvalidMapping,
            MapError::Overlap => BusError::AlreadyMapped,
            MapError::NotMapped => BusError::NotMapped,
        }
    }
}
