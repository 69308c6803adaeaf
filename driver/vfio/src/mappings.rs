//! DMA mappings: checks them before the kernel sees them, counts them, and explains the kernel's
//! refusals.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::iommu::Iommu;
use super::iommu_info::IommuInfo;
use super::memlock;
use ferroce_driver::bus::{BusError, DmaMapping, PAGE_SIZE};

/// IOVAs when the kernel does not report them: the range that the smallest IOMMUs of the last
/// decade translate.
const DEFAULT_RANGE: Range<u64> = 0..1 << 39;
/// Part of a larger range that is used: the bits that a four-level page table translates. The first
/// pages are omitted, so that a small number taken for an IOVA is not mapped.
const USABLE: Range<u64> = 0x1_0000..1 << 48;

/// The mappings of a card.
pub(super) struct Mappings {
    iommu: Box<dyn Iommu>,
    range: Range<u64>,
    /// Maximum number of simultaneous mappings that the kernel allows.
    limit: Option<u32>,
    /// Returns the limit of memory that this process may pin, if there is one.
    memory_limit: fn() -> Option<u64>,
    live: Mutex<Live>,
    /// True if the warning about a small RLIMIT_MEMLOCK was logged.
    limit_is_explained: AtomicBool,
}

/// Mappings that exist or are being made.
#[derive(Default)]
struct Live {
    /// Length by IOVA.
    lengths: BTreeMap<u64, u64>,
    /// Sum of the lengths.
    bytes: u64,
}

impl Mappings {
    /// Creates an empty set of mappings.
    ///
    /// # Errors
    ///
    /// The error of the kernel on the query of its IOMMU.
    pub(super) fn new(iommu: Box<dyn Iommu>) -> io::Result<Self> {
        let IommuInfo { ranges, entries } = iommu.info()?;
        let range = widest(&ranges);
        tracing::debug!(?ranges, used = ?range, limit = ?entries, "IOVAs of the card");
        Ok(Self {
            iommu,
            range,
            limit: entries,
            memory_limit: memlock::limit,
            live: Mutex::default(),
            limit_is_explained: AtomicBool::new(false),
        })
    }

    /// Returns the I/O virtual addresses that mappings may use.
    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Makes memory visible to the card.
    pub(super) fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.check(mapping)?;
        let (iova, length) = (mapping.iova, mapping.length as u64);
        let pinned = self.reserve(iova, length)?;
        // Called without the lock: pinning a large range takes milliseconds.
        self.iommu.map(mapping).map_err(|error| {
            self.live.lock().remove(iova);
            self.explain(&error, pinned, length)
        })
    }

    /// Removes exactly one mapping.
    pub(super) fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let length = length as u64;
        if self.live.lock().lengths.get(&iova) != Some(&length) {
            return Err(BusError::NotMapped);
        }
        let unmapped = self.iommu.unmap(iova, length).map_err(|error| os(&error))?;
        // Type 1 reports an unmap of an unmapped range as success with zero bytes.
        if unmapped != length {
            tracing::error!(iova, length, unmapped, "the kernel unmapped something else");
            return Err(BusError::NotMapped);
        }
        self.live.lock().remove(iova);
        Ok(())
    }

    fn check(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let page = PAGE_SIZE as u64;
        let length = mapping.length as u64;
        let is_aligned = mapping.iova % page == 0
            && mapping.address % PAGE_SIZE == 0
            && mapping.length % PAGE_SIZE == 0;
        let end = mapping.iova.checked_add(length);
        let is_inside =
            mapping.iova >= self.range.start && end.is_some_and(|end| end <= self.range.end);
        let is_memory = mapping.address.checked_add(mapping.length).is_some();
        if is_aligned && is_inside && is_memory && length > 0 {
            Ok(())
        } else {
            Err(BusError::InvalidMapping)
        }
    }

    /// Records a mapping that is about to be made; returns the number of bytes mapped before.
    fn reserve(&self, iova: u64, length: u64) -> Result<u64, BusError> {
        let mut live = self.live.lock();
        let before = live.lengths.range(..iova + length).next_back();
        if before.is_some_and(|(other, size)| other + size > iova) {
            return Err(BusError::AlreadyMapped);
        }
        let count = live.lengths.len();
        if self.limit.is_some_and(|limit| count >= limit as usize) {
            tracing::error!(
                count,
                "the kernel allows no more DMA mappings; as root: set the parameter \
                 dma_entry_limit of the module vfio_iommu_type1"
            );
            return Err(BusError::LimitReached);
        }
        let pinned = live.bytes;
        live.lengths.insert(iova, length);
        live.bytes += length;
        Ok(pinned)
    }

    /// Explains why the kernel did not map `wanted` bytes, with `pinned` bytes mapped.
    fn explain(&self, error: &io::Error, pinned: u64, wanted: u64) -> BusError {
        match error.raw_os_error() {
            Some(libc::ENOMEM) => match (self.memory_limit)() {
                Some(limit) => self.explain_limit(BusError::MemoryLockLimit {
                    pinned,
                    wanted,
                    limit,
                }),
                None => BusError::LimitReached,
            },
            Some(libc::ENOSPC) => BusError::LimitReached,
            Some(libc::EFAULT) => BusError::BadAddress,
            Some(libc::EEXIST | libc::EADDRINUSE) => BusError::AlreadyMapped,
            Some(libc::EINVAL) => BusError::InvalidMapping,
            _ => os(error),
        }
    }

    /// Logs the explanation once: most programs report only an errno.
    fn explain_limit(&self, error: BusError) -> BusError {
        if !self.limit_is_explained.swap(true, Ordering::Relaxed) {
            tracing::error!("{error}");
        }
        error
    }
}

impl Live {
    fn remove(&mut self, iova: u64) {
        self.bytes -= self.lengths.remove(&iova).unwrap_or(0);
    }
}

fn os(error: &io::Error) -> BusError {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => BusError::Disconnected,
        Some(libc::ENOENT) => BusError::NotMapped,
        errno => BusError::Os(errno.unwrap_or(libc::EIO)),
    }
}

/// Returns the widest usable one of the ranges that the kernel reports. On a PC there are two:
/// below and above the addresses of the interrupt messages.
fn widest(ranges: &[Range<u64>]) -> Range<u64> {
    let page = PAGE_SIZE as u64;
    let usable = |range: &Range<u64>| {
        let start = range.start.max(USABLE.start).next_multiple_of(page);
        let end = range.end.min(USABLE.end) / page * page;
        start..end.max(start)
    };
    ranges
        .iter()
        .map(usable)
        .max_by_key(|range| range.end - range.start)
        .unwrap_or_else(|| usable(&DEFAULT_RANGE))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use ferroce_driver::bus::DmaAccess;

    /// An IOMMU that records the requests that it gets.
    #[derive(Default)]
    struct FakeIommu {
        info: IommuInfo,
        /// Error that the next maps fail with.
        refusal: Mutex<Option<i32>>,
        mapped: Mutex<BTreeMap<u64, DmaMapping>>,
    }

    impl Iommu for Arc<FakeIommu> {
        fn info(&self) -> io::Result<IommuInfo> {
            Ok(self.info.clone())
        }

        fn map(&self, mapping: &DmaMapping) -> io::Result<()> {
            if let Some(errno) = *self.refusal.lock() {
                return Err(io::Error::from_raw_os_error(errno));
            }
            self.mapped.lock().insert(mapping.iova, *mapping);
            Ok(())
        }

        fn unmap(&self, iova: u64, _length: u64) -> io::Result<u64> {
            let removed = self.mapped.lock().remove(&iova);
            Ok(removed.map_or(0, |mapping| mapping.length as u64))
        }
    }

    const PAGE: u64 = PAGE_SIZE as u64;
    const IOVA: u64 = 0x1000_0000;

    fn fake(ranges: &[Range<u64>], entries: Option<u32>) -> (Arc<FakeIommu>, Mappings) {
        let iommu = Arc::new(FakeIommu {
            info: IommuInfo {
                ranges: ranges.to_vec(),
                entries,
            },
            ..FakeIommu::default()
        });
        let mappings = Mappings::new(Box::new(iommu.clone())).expect("its properties");
        (iommu, mappings)
    }

    fn mapping(iova: u64, pages: usize) -> DmaMapping {
        DmaMapping {
            iova,
            address: 0x7000_0000_0000,
            length: pages * PAGE_SIZE,
            access: DmaAccess::ReadWrite,
            is_buffer: false,
            file: None,
        }
    }

    #[test]
    fn the_widest_range_is_used() {
        // A PC with a 39-bit IOMMU: the interrupt messages lie in between.
        let ranges = [0..0xfee0_0000, 0xfef0_0000..1 << 39];
        assert_eq!(widest(&ranges), 0xfef0_0000..1 << 39);
        assert_eq!(
            widest(&[0..0xfee0_0000, 0xfef0_0000..0xffff_ffff]),
            0x1_0000..0xfee0_0000
        );
        // A kernel before 5.4 reports none.
        assert_eq!(widest(&[]), 0x1_0000..1 << 39);
        // More than four levels are not needed; the end is rounded down to pages.
        assert_eq!(widest(&[0..u64::MAX]), 0x1_0000..1 << 48);
        assert_eq!(widest(&[0x1_0001..0x2_0fff]), 0x1_1000..0x2_0000);
        assert!(widest(&[0..0x1000]).is_empty());
    }

    #[test]
    fn what_is_mapped_can_be_unmapped_once() {
        let (iommu, mappings) = fake(&[0..1 << 39], None);
        mappings.map(&mapping(IOVA, 2)).expect("the range is free");
        assert_eq!(iommu.mapped.lock()[&IOVA], mapping(IOVA, 2));
        assert_eq!(mappings.live.lock().bytes, 2 * PAGE);
        assert_eq!(mappings.unmap(IOVA, PAGE_SIZE), Err(BusError::NotMapped));
        assert_eq!(
            mappings.unmap(IOVA + PAGE, PAGE_SIZE),
            Err(BusError::NotMapped)
        );
        assert_eq!(mappings.unmap(IOVA, 2 * PAGE_SIZE), Ok(()));
        assert_eq!(
            mappings.unmap(IOVA, 2 * PAGE_SIZE),
            Err(BusError::NotMapped)
        );
        assert!(iommu.mapped.lock().is_empty());
        assert_eq!(mappings.live.lock().bytes, 0);
    }

    #[test]
    fn overlaps_and_bad_mappings_do_not_reach_the_kernel() {
        let (iommu, mappings) = fake(&[0x10_0000..0x20_0000_0000], None);
        mappings.map(&mapping(IOVA, 4)).expect("the range is free");
        for (iova, pages) in [
            (IOVA, 4),
            (IOVA + 3 * PAGE, 1),
            (IOVA - PAGE, 2),
            (IOVA - PAGE, 8),
        ] {
            let result = mappings.map(&mapping(iova, pages));
            assert_eq!(
                result,
                Err(BusError::AlreadyMapped),
                "{iova:#x}, {pages} pages"
            );
        }
        let odd = |change: fn(&mut DmaMapping)| {
            let mut mapping = mapping(0x40_0000, 1);
            change(&mut mapping);
            mapping
        };
        for bad in [
            odd(|m| m.iova += 8),
            odd(|m| m.address += 8),
            odd(|m| m.length += 8),
            odd(|m| m.length = 0),
            odd(|m| m.iova = 0xf_f000),
            odd(|m| m.iova = 0x20_0000_0000),
            odd(|m| m.iova = u64::MAX - 0xfff),
            odd(|m| m.address = usize::MAX - 0xfff),
        ] {
            assert_eq!(mappings.map(&bad), Err(BusError::InvalidMapping), "{bad:?}");
        }
        assert_eq!(iommu.mapped.lock().len(), 1);
        mappings
            .map(&mapping(IOVA + 4 * PAGE, 1))
            .expect("adjacent is no overlap");
    }

    #[test]
    fn the_limit_of_mappings_holds() {
        let (_, mappings) = fake(&[], Some(2));
        mappings.map(&mapping(IOVA, 1)).expect("the first");
        mappings.map(&mapping(IOVA + PAGE, 1)).expect("the second");
        let third = mapping(IOVA + 2 * PAGE, 1);
        assert_eq!(mappings.map(&third), Err(BusError::LimitReached));
        mappings.unmap(IOVA, PAGE_SIZE).expect("it is mapped");
        mappings.map(&third).expect("there is room again");
    }

    /// Goal: each refusal of the kernel is converted to the matching error, and no mapping remains.
    #[test]
    fn refusals_of_the_kernel_are_translated() {
        let (iommu, mut mappings) = fake(&[], None);
        mappings.memory_limit = || Some(5000);
        for (errno, expected) in [
            (libc::ENOSPC, BusError::LimitReached),
            (libc::EFAULT, BusError::BadAddress),
            (libc::EEXIST, BusError::AlreadyMapped),
            (libc::EINVAL, BusError::InvalidMapping),
            (libc::ENODEV, BusError::Disconnected),
            (libc::EPERM, BusError::Os(libc::EPERM)),
        ] {
            *iommu.refusal.lock() = Some(errno);
            assert_eq!(
                mappings.map(&mapping(IOVA, 1)),
                Err(expected),
                "errno {errno}"
            );
        }
        *iommu.refusal.lock() = None;
        mappings
            .map(&mapping(IOVA, 3))
            .expect("no mapping was left behind");
        *iommu.refusal.lock() = Some(libc::ENOMEM);
        let error = mappings.map(&mapping(0x40_0000, 1)).expect_err("no memory");
        assert_eq!(error.errno(), libc::ENOMEM);
        assert_eq!(
            error,
            BusError::MemoryLockLimit {
                pinned: 3 * PAGE,
                wanted: PAGE,
                limit: 5000
            }
        );
        for word in [
            "12288",
            "4096",
            "allows 5000",
            "ulimit -l unlimited",
            "LimitMEMLOCK",
        ] {
            assert!(error.to_string().contains(word), "{error}");
        }
        mappings.memory_limit = || None;
        let error = mappings.map(&mapping(0x40_0000, 1));
        assert_eq!(error, Err(BusError::LimitReached));
    }
}
