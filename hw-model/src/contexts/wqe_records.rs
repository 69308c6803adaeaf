//! WQEs of READs and atomics that stay on the chip until their response arrives.
//!
//! A WRITE or SEND completes when it is acknowledged: the queue pair knows its index and its CQ. A
//! response needs the scatter list and therefore the WQE. A card keeps a limited number of WQEs;
//! the WQE of any other request is read again when its response arrives.

use ferroce_spec::counter::Counter;
use ferroce_spec::wqe::BLOCK_SIZE;
use ferroce_units::Duration;

use crate::config::WqeCacheShape;
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::time::registers::Registers;
use crate::wqe::WqeRecord;

/// Records for WQEs of READs and atomics.
#[derive(Debug)]
pub struct WqeRecords {
    /// Number of records; 0: unlimited.
    entries: u32,
    in_use: u32,
    /// For WQEs that are read again.
    registers: Registers,
}

impl WqeRecords {
    /// Returns a set of free records.
    pub fn new(shape: WqeCacheShape) -> Self {
        Self {
            entries: shape.entries,
            in_use: 0,
            registers: Registers::new(shape.mshrs as usize),
        }
    }

    /// Takes a record for a READ or an atomic, if one is free.
    #[inline]
    pub fn take(&mut self) -> WqeRecord {
        if self.entries > 0 && self.in_use == self.entries {
            return WqeRecord::Missing;
        }
        self.in_use += 1;
        WqeRecord::Kept
    }

    /// Takes `count` records back.
    #[inline]
    pub fn give_back(&mut self, count: u32) {
        self.in_use -= count;
    }

    /// Returns the number of registers for WQEs that are read again, and the time for which they
    /// were in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.registers.usage()
    }

    /// Frees all records (reset).
    pub fn clear(&mut self) {
        self.in_use = 0;
    }

    /// Reads the WQE at `iova` again; the flow continues when it has arrived. Its content is known,
    /// so a failed read changes nothing.
    #[cold]
    pub fn read_again<H: Host>(&mut self, iova: u64, dma: &mut Dma<'_, H>) {
        dma.counters.add(Counter::wqe_refetches, 1);
        let lease = self.registers.take(dma.begun, dma.at);
        dma.at = lease.at;
        let mut block = [0; BLOCK_SIZE];
        let _ = dma.read(iova, &mut block);
        self.registers.give_back(lease, dma.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_room_has_no_record() {
        let mut records = WqeRecords::new(WqeCacheShape {
            entries: 2,
            mshrs: 1,
        });
        let taken = [(); 3].map(|()| records.take());
        assert_eq!(
            taken,
            [WqeRecord::Kept, WqeRecord::Kept, WqeRecord::Missing]
        );
        records.give_back(1);
        assert_eq!(records.take(), WqeRecord::Kept);
        let mut unlimited = WqeRecords::new(WqeCacheShape::UNLIMITED);
        assert!((0..10_000).all(|_| unlimited.take() == WqeRecord::Kept));
    }
}
