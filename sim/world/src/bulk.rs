//! A host's memory for many bytes at once, outside of time: what fast-forward copies.

use ferroce_model::{DmaAtomic, DmaError, Doorbell, Host, WriteOrder};
use ferroce_units::Instant;

use super::host::WorldHost;

/// A host to which accesses take no time. No doorbells come from it, and interrupts get lost.
pub(super) struct Bulk<'a> {
    host: &'a mut WorldHost,
    /// Data is written; or it is only looked whether it could be.
    writes_data: bool,
}

impl<'a> Bulk<'a> {
    pub fn new(host: &'a mut WorldHost) -> Self {
        let writes_data = true;
        Self { host, writes_data }
    }

    /// One to which no data is written.
    pub fn looking(host: &'a mut WorldHost) -> Self {
        let writes_data = false;
        Self { host, writes_data }
    }
}

impl Host for Bulk<'_> {
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError> {
        let host = &mut *self.host;
        let place = host.memory.place_to_read(iova, destination.len())?;
        host.posted
            .apply_overlapping(place.address, destination.len(), &mut host.memory);
        if host.elided(&place, destination.len()) == 0 {
            host.memory.read(iova, destination)?;
        }
        Ok(at)
    }

    /// Refused where a thread waits for it: that thread would have seen when it came.
    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError> {
        let host = &mut *self.host;
        let length = source.len();
        let place = host.memory.place_to_write(iova, length)?;
        if host.watchers.watches(place.address, length) {
            return Err(DmaError { iova, length });
        }
        if self.writes_data && host.elided(&place, length) == 0 {
            host.memory.write(iova, source)?;
        }
        Ok(order.at)
    }

    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError> {
        self.host.memory.write_descriptor(iova, words)?;
        Ok(order.at)
    }

    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        let original = self.host.memory.atomic(iova, operation)?;
        Ok((original, at))
    }

    fn interrupt(&mut self, _order: WriteOrder, _vector: u16) {}

    fn next_doorbell(&mut self) -> Option<Doorbell> {
        None
    }
}
