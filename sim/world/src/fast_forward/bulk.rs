//! Bulk access to a host's memory that takes no time: fast-forward copies payload with it.

use ferroce_model::{DmaAtomic, DmaError, UntimedHost};

use crate::host::WorldHost;

/// A host to which accesses take no time. It has no doorbells, and drops interrupts.
pub struct Bulk<'a> {
    host: &'a mut WorldHost,
    /// True if data is written; false if it is only checked whether it could be.
    writes_data: bool,
}

impl<'a> Bulk<'a> {
    pub fn new(host: &'a mut WorldHost) -> Self {
        let writes_data = true;
        Self { host, writes_data }
    }

    /// Returns a view that checks writes of data and does not perform them.
    pub fn checking(host: &'a mut WorldHost) -> Self {
        let writes_data = false;
        Self { host, writes_data }
    }
}

impl UntimedHost for Bulk<'_> {
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        let host = &mut *self.host;
        let place = host.memory.place_to_read(iova, destination.len())?;
        host.posted
            .apply_overlapping(place.address, destination.len(), &mut host.memory);
        if host.elided(&place, destination.len()) == 0 {
            host.memory.read(iova, destination)?;
        }
        Ok(())
    }

    /// Fails where a polling thread watches: it would have seen each part at its time.
    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let host = &mut *self.host;
        let length = source.len();
        let place = host.memory.place_to_write(iova, length)?;
        if host.watchers.watches(place.address, length) {
            return Err(DmaError::refused(iova, length));
        }
        if self.writes_data && host.elided(&place, length) == 0 {
            host.memory.write(iova, source)?;
        }
        Ok(())
    }

    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        self.host.memory.write_descriptor(iova, words)
    }

    fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        self.host.memory.atomic(iova, operation)
    }
}
