//! Accesses that are not inside one mapping of this process's memory: they cross from one mapping
//! into the next, as behind an IOMMU that is filled page by page, or reach remote memory.

use std::sync::atomic::{Ordering, fence};

use ferroce_model::ports::host::{DmaAtomic, DmaError};
use zerocopy::IntoBytes;

use super::remote::RemoteRegion;
use super::{MemoryMap, Place, Region, change, copy_in, copy_out};

/// Kind of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A mapping of either kind.
#[derive(Debug, Clone, Copy)]
enum Piece<'a> {
    Local(Region),
    Remote(&'a RemoteRegion),
}

impl Piece<'_> {
    fn end(&self) -> u64 {
        match self {
            Self::Local(region) => region.end,
            Self::Remote(region) => region.end,
        }
    }

    fn allows(&self, access: Access) -> bool {
        match (self, access) {
            (Self::Local(region), Access::Read) => region.readable,
            (Self::Local(region), Access::Write) => region.writable,
            (Self::Remote(region), Access::Read) => region.readable,
            (Self::Remote(region), Access::Write) => region.writable,
        }
    }
}

impl MemoryMap {
    /// Returns the mapping that contains `iova`, or its contiguous part.
    fn piece_at(&self, iova: u64) -> Option<Piece<'_>> {
        let local = self.regions.range(..=iova).next_back();
        let local = local.map(|(_, region)| region);
        let local = local.and_then(|region| {
            if region.is_moved && iova < region.end {
                self.moved_part(region, iova)
            } else {
                Some(*region)
            }
        });
        let local = local.map(Piece::Local);
        let remote = self.remote.range(..=iova).next_back();
        let remote = remote.map(|(_, region)| Piece::Remote(region));
        [local, remote]
            .into_iter()
            .flatten()
            .find(|piece| iova < piece.end())
    }

    /// Returns the mapping that contains `iova` and how many bytes of an access are inside, at most
    /// `length`, if it allows the access.
    fn part_at(&self, iova: u64, length: usize, access: Access) -> Option<(Piece<'_>, usize)> {
        let piece = self.piece_at(iova).filter(|piece| piece.allows(access))?;
        let inside = (piece.end() - iova).min(length as u64);
        Some((piece, inside as usize))
    }

    /// Returns true if all of an access is mapped. It never has more parts than bytes.
    fn covers(&self, iova: u64, length: usize, access: Access) -> bool {
        let mut done = 0;
        while done < length {
            let part = iova
                .checked_add(done as u64)
                .and_then(|at| self.part_at(at, length - done, access));
            match part {
                Some((_, inside)) => done += inside,
                None => return false,
            }
        }
        true
    }

    pub(super) fn place_of(&self, iova: u64, length: usize, access: Access) -> Option<Place> {
        let (piece, inside) = self.part_at(iova, length, access)?;
        if inside < length && !self.covers(iova, length, access) {
            return None;
        }
        match piece {
            Piece::Local(region) => region.place(iova, inside),
            Piece::Remote(region) => Some(Place {
                address: usize::try_from(region.offset + (iova - region.start)).ok()?,
                physical: region.physical + (iova - region.start),
                is_remote: true,
            }),
        }
    }

    #[cold]
    pub(super) fn read_scattered(
        &mut self,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<(), DmaError> {
        let length = destination.len();
        let refused = DmaError::refused(iova, length);
        if !self.covers(iova, length, Access::Read) {
            return Err(self.refuse(iova, length, Access::Read));
        }
        let (mut at, mut rest) = (iova, destination);
        while !rest.is_empty() {
            let (piece, inside) = self.part_at(at, rest.len(), Access::Read).ok_or(refused)?;
            let (part, behind) = rest.split_at_mut(inside);
            match piece {
                Piece::Local(region) => {
                    if copy_out(&region, at, part).is_err() {
                        self.read_again(at, part).map_err(|_| refused)?;
                    }
                }
                Piece::Remote(region) => region.read(at, part).map_err(|_| refused)?,
            }
            at = at.wrapping_add(inside as u64);
            rest = behind;
        }
        Ok(())
    }

    #[cold]
    pub(super) fn write_scattered(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        let length = source.len();
        let refused = DmaError::refused(iova, length);
        if !self.covers(iova, length, Access::Write) {
            return Err(self.refuse(iova, length, Access::Write));
        }
        let (mut at, mut rest) = (iova, source);
        while !rest.is_empty() {
            let (piece, inside) = self.part_at(at, rest.len(), Access::Write).ok_or(refused)?;
            let (part, behind) = rest.split_at(inside);
            match piece {
                Piece::Local(region) => {
                    if copy_in(&region, at, part).is_err() {
                        self.write_again(at, part).map_err(|_| refused)?;
                    }
                }
                Piece::Remote(region) => region.write(at, part).map_err(|_| refused)?,
            }
            at = at.wrapping_add(inside as u64);
            rest = behind;
        }
        Ok(())
    }

    /// Writes all words but the last in one piece, then the last, by which the reader detects the
    /// others.
    #[cold]
    pub(super) fn write_descriptor_scattered(
        &mut self,
        iova: u64,
        words: &[u64],
    ) -> Result<(), DmaError> {
        let length = size_of_val(words);
        let refused = DmaError::refused(iova, length);
        let Some((last, first)) = words.split_last() else {
            return Ok(());
        };
        if iova % size_of::<u64>() as u64 != 0 || !self.covers(iova, length, Access::Write) {
            return Err(refused);
        }
        self.write_scattered(iova, first.as_bytes())?;
        fence(Ordering::Release);
        let behind = iova + size_of_val(first) as u64;
        self.write_scattered(behind, last.as_bytes())
    }

    /// Handles an access that is not mapped, or whose memory is lost.
    fn refuse(&mut self, iova: u64, length: usize, access: Access) -> DmaError {
        let below = self.regions.range(..=iova).next_back();
        let has_moved = below.is_some_and(|(_, region)| region.is_moved);
        if has_moved {
            self.report_loss(iova, length, access)
        } else {
            DmaError::refused(iova, length)
        }
    }

    /// Executes an atomic operation in moved memory like [`MemoryMap::atomic`]. In remote memory it
    /// reads, changes and writes: atomic only towards this device, which holds its lock.
    #[cold]
    pub(super) fn atomic_elsewhere(
        &mut self,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<u64, DmaError> {
        const LENGTH: usize = size_of::<u64>();
        let refused = DmaError::refused(iova, LENGTH);
        let piece = self.part_at(iova, LENGTH, Access::Read);
        let Some((piece, LENGTH)) = piece.filter(|_| iova % 8 == 0) else {
            return Err(self.refuse(iova, LENGTH, Access::Write));
        };
        if !piece.allows(Access::Write) {
            return Err(refused);
        }
        let region = match piece {
            Piece::Remote(region) => region,
            Piece::Local(region) => {
                let address = region.resolve(iova, LENGTH).ok_or(refused)?;
                let changed = change(address, operation);
                return changed.map_err(|_| self.report_loss(iova, LENGTH, Access::Write));
            }
        };
        let mut bytes = [0; LENGTH];
        region.read(iova, &mut bytes).map_err(|_| refused)?;
        let original = u64::from_ne_bytes(bytes);
        let changed = operation.apply(original);
        if changed != original {
            let bytes = changed.to_ne_bytes();
            region.write(iova, &bytes).map_err(|_| refused)?;
        }
        Ok(original)
    }
}
