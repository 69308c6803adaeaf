//! The address space of this process as one mapping, for on-demand regions.
//!
//! The processor's page tables translate each access, as they do for the program: a page that is
//! not there is brought in by the access itself, and memory that the program has unmapped, replaced
//! or discarded is seen as the program sees it. So nothing is pinned: the module that keeps pages
//! (`moved`) leaves this mapping alone.

use super::{MapError, MemoryMap, Region};

impl MemoryMap {
    /// Gives the device access to all memory of this process, within the rights that the process
    /// itself has: the byte at address `a` has the IOVA `iova + a`, for `a < length`.
    ///
    /// # Errors
    /// [`MapError::BadRange`], [`MapError::Overlap`].
    pub fn map_address_space(&mut self, iova: u64, length: u64) -> Result<(), MapError> {
        let end = iova.checked_add(length).ok_or(MapError::BadRange)?;
        if length == 0 || isize::try_from(length).is_err() {
            return Err(MapError::BadRange);
        }
        if self.is_mapped(iova, end) {
            return Err(MapError::Overlap);
        }
        let region = Region {
            start: iova,
            end,
            readable: true,
            writable: true,
            is_on_demand: true,
            ..Region::NONE
        };
        self.regions.insert(iova, region);
        Ok(())
    }
}

impl Region {
    /// Returns true if its pages stay what they are while the program changes its mappings.
    pub(super) fn is_pinned(&self) -> bool {
        !self.is_remote && !self.is_on_demand
    }
}

#[cfg(test)]
mod tests {
    use ferroce_model::ports::host::DmaAtomic;

    use super::super::{NewPlace, Rights};
    use super::*;

    const SPACE: u64 = 1 << 48;
    const LENGTH: u64 = 1 << 47;
    const PINNED: u64 = 0x10_0000;

    /// Returns a map with the address space, memory that is also mapped at [`PINNED`], and the
    /// memory's address.
    fn map_of(memory: &[u64]) -> (MemoryMap, usize) {
        let address = memory.as_ptr().expose_provenance();
        let mut map = MemoryMap::default();
        map.map_address_space(SPACE, LENGTH).expect("free");
        let length = size_of_val(memory) as u64;
        map.map(PINNED, address, length, Rights::Read)
            .expect("free");
        (map, address)
    }

    #[test]
    fn an_iova_is_an_address() {
        let memory = vec![1u64, 2, 3];
        let (mut map, address) = map_of(&memory);
        let at = SPACE + address as u64;
        let mut bytes = [0; 8];
        map.read(at + 8, &mut bytes).expect("mapped");
        assert_eq!(u64::from_ne_bytes(bytes), 2);
        map.write(at + 8, &[0; 8]).expect("mapped");
        let add = DmaAtomic::FetchAdd { add: 4 };
        assert_eq!(map.atomic(at + 8, add), Ok(0));
        map.read(PINNED + 8, &mut bytes).expect("mapped");
        assert_eq!(u64::from_ne_bytes(bytes), 4);
        assert!(map.read(SPACE + LENGTH - 4, &mut bytes).is_err());
        let again = map.map_address_space(SPACE + LENGTH - 1, 1);
        assert_eq!(again, Err(MapError::Overlap));
        assert_eq!(map.map_address_space(0, 0), Err(MapError::BadRange));
        map.unmap(SPACE, LENGTH).expect("mapped");
        assert!(map.read(at, &mut bytes).is_err());
        drop(memory);
    }

    /// Goal: what moves is pinned memory only: the address space stays where it is.
    #[test]
    fn nothing_of_it_moves() {
        let memory = vec![1u64; 512];
        let elsewhere = vec![7u64; 512];
        let (mut map, address) = map_of(&memory);
        let range = address..address + size_of_val(&*memory);
        assert_eq!(map.whole(&range), Some(range.clone()));
        assert!(map.cut_out(&range), "the pinned one");
        let place = elsewhere.as_ptr().expose_provenance();
        map.retarget(&range, NewPlace::Ours(place));
        map.force(&range);
        let mut bytes = [0; 8];
        map.read(PINNED, &mut bytes).expect("mapped");
        assert_eq!(u64::from_ne_bytes(bytes), 7);
        map.read(SPACE + address as u64, &mut bytes)
            .expect("mapped");
        assert_eq!(u64::from_ne_bytes(bytes), 1);
        map.unmap_moved(PINNED, range.len() as u64).expect("mapped");
        assert!(!map.cut_out(&range), "nothing else is pinned there");
        drop(elsewhere);
    }
}
