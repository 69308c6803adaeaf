//! Checks that a bus makes before it maps memory for a model in the same program.

use ferroce_driver::bus::{BusError, DmaAccess, DmaMapping};
use ferroce_host::mapping;
use ferroce_host::memory::Rights;

use crate::os;

/// Returns the device's rights to the memory of a mapping, if the mapping is valid.
///
/// # Errors
/// The error of [`mapping::rights_of`]; [`BusError::BadAddress`] if this process does not have the
/// memory, or not with these rights.
pub fn rights_of(mapping: &DmaMapping) -> Result<Rights, BusError> {
    let rights = mapping::rights_of(mapping)?;
    let writes = mapping.access == DmaAccess::ReadWrite;
    let is_known = mapping.is_buffer || mapping.file.is_some();
    if is_known || os::memory_is_usable(mapping.address, mapping.length, writes) {
        Ok(rights)
    } else {
        Err(BusError::BadAddress)
    }
}
