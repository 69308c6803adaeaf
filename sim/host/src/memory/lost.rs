//! Accesses that have faulted: the program has unmapped the memory, or removed its rights.

use std::fmt::Debug;
use std::io;

use ferroce_model::ports::host::DmaError;

use super::scattered::Access;
use super::{MemoryMap, Region};

/// Memory of this process, as its operating system reaches it whatever the program's rights to it
/// are.
pub trait OwnMemory: Send + Sync + Debug {
    /// Fills `destination` from `address` on.
    ///
    /// # Errors
    /// Nothing is mapped there, or the system refuses.
    fn read(&self, address: usize, destination: &mut [u8]) -> io::Result<()>;

    /// Writes all of `source` from `address` on.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    fn write(&self, address: usize, source: &[u8]) -> io::Result<()>;

    /// Returns true unless it is known that nothing is mapped at `address`.
    fn may_be_there(&self, address: usize) -> bool;
}

impl MemoryMap {
    /// Repeats a faulted copy out of memory of this process: like the kernel for a card with pinned
    /// pages, or returns the missing range.
    #[cold]
    pub(super) fn read_again(&mut self, iova: u64, bytes: &mut [u8]) -> Result<(), DmaError> {
        let length = bytes.len();
        if let (Some(region), Some(own)) = (self.forced(iova), &self.own) {
            let address = region.resolve(iova, length);
            if address.is_some_and(|address| own.read(address, bytes).is_ok()) {
                return Ok(());
            }
        }
        Err(self.report_loss(iova, length, Access::Read))
    }

    /// Does the same as [`Self::read_again`] for a copy into memory.
    #[cold]
    pub(super) fn write_again(&mut self, iova: u64, bytes: &[u8]) -> Result<(), DmaError> {
        let length = bytes.len();
        if let (Some(region), Some(own)) = (self.forced(iova), &self.own) {
            let address = region.resolve(iova, length);
            if address.is_some_and(|address| own.write(address, bytes).is_ok()) {
                return Ok(());
            }
        }
        if self.is_only_protected(iova) {
            self.report_protection(iova, length);
        }
        Err(self.report_loss(iova, length, Access::Write))
    }

    /// Returns true if the memory at `iova` is there, but out of reach for writes: the program has
    /// removed its rights, and it could not be mapped a second time (`mapping_calls` of `embed`).
    fn is_only_protected(&self, iova: u64) -> bool {
        let address = self.forced(iova).and_then(|region| region.resolve(iova, 1));
        let own = self.own.as_ref();
        address.is_some_and(|address| own.is_some_and(|own| own.may_be_there(address)))
    }

    /// Reports a write that the program's own protection has stopped, in place of a loss.
    fn report_protection(&mut self, iova: u64, length: usize) {
        let below = self.regions.range_mut(..=iova).next_back();
        let Some((_, region)) = below.filter(|(_, region)| !region.has_reported_loss) else {
            return;
        };
        region.has_reported_loss = true;
        tracing::error!(
            "the card cannot write {length} bytes at {:#x}: the program has removed its own right \
             to write there (mprotect), and this memory cannot be reached despite that, as a card \
             would: it is of huge pages, in too many parts, or private in a program that has \
             changed its user",
            region.owner_address as u64 + (iova - region.start),
        );
    }

    /// Returns the mapping at `iova`, if the program has removed rights from its memory. Then it is
    /// known that the memory is still the same, and [`OwnMemory`] reaches it despite that.
    fn forced(&self, iova: u64) -> Option<Region> {
        let (_, region) = self.regions.range(..=iova).next_back()?;
        if !region.is_forced || iova >= region.end {
            return None;
        }
        if region.is_moved {
            self.moved_part(region, iova)
        } else {
            Some(*region)
        }
    }

    /// Reports the mapping in which an access has failed, once.
    #[cold]
    pub(super) fn report_loss(&mut self, iova: u64, length: usize, access: Access) -> DmaError {
        let below = self.regions.range_mut(..=iova).next_back();
        let region = below.map(|(_, region)| region);
        if let Some(region) = region.filter(|region| iova < region.end && !region.has_reported_loss)
        {
            region.has_reported_loss = true;
            let access = match access {
                Access::Read => "read",
                Access::Write => "write",
            };
            if region.is_on_demand {
                tracing::error!(
                    "the card cannot {access} {length} bytes at {:#x} of an on-demand region \
                     (IBV_ACCESS_ON_DEMAND): the program has no memory there that it may {access} \
                     itself",
                    iova - region.start,
                );
                return DmaError::refused(iova, length);
            }
            tracing::error!(
                "the card cannot {access} {length} bytes at {:#x}: that memory is registered \
                 ({:#x}, {} bytes) and is gone: it was unmapped, or its file truncated, before \
                 ibv_dereg_mr",
                region.owner_address as u64 + (iova - region.start),
                region.owner_address,
                region.end - region.start,
            );
        }
        DmaError::refused(iova, length)
    }
}
