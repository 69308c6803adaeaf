//! The card's address space in the IOMMU: a VFIO container of type 1, or an IOAS of iommufd. A
//! trait, so that its users can be tested without a card.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use iommufd_bindings::iommufd::{
    IOMMUFD_CMD_IOAS_IOVA_RANGES, IOMMUFD_TYPE, iommu_ioas_iova_ranges, iommu_ioas_map,
    iommu_ioas_unmap, iommu_iova_range, iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE,
};
use vfio_bindings::bindings::vfio::{
    VFIO_BASE, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_TYPE,
    vfio_iommu_type1_dma_map, vfio_iommu_type1_dma_unmap, vfio_iommu_type1_info,
};
use vfio_ioctls::{VfioContainer, VfioIommufd};

use super::iommu_info::IommuInfo;
use super::type1_info;
use ferroce_driver::bus::{DmaAccess, DmaMapping};

/// Upper bound of IOVA ranges that an IOMMU reports; usually there are two or three.
const MAX_RANGES: u32 = 1024;
/// Room for all capabilities of a container.
const CAPABILITY_BYTES: usize = 8192;

/// `_IO(VFIO_TYPE, VFIO_BASE + number)`, for groups, containers and devices alike (linux/vfio.h).
pub(super) const fn vfio_ioctl(number: u32) -> libc::c_ulong {
    (VFIO_TYPE as libc::c_ulong) << 8 | (VFIO_BASE + number) as libc::c_ulong
}

const VFIO_IOMMU_GET_INFO: libc::c_ulong = vfio_ioctl(12);
const VFIO_IOMMU_MAP_DMA: libc::c_ulong = vfio_ioctl(13);
const VFIO_IOMMU_UNMAP_DMA: libc::c_ulong = vfio_ioctl(14);
// linux/iommufd.h: _IO(IOMMUFD_TYPE, IOMMUFD_CMD_IOAS_IOVA_RANGES).
const IOMMU_IOAS_IOVA_RANGES: libc::c_ulong =
    (IOMMUFD_TYPE as libc::c_ulong) << 8 | IOMMUFD_CMD_IOAS_IOVA_RANGES as libc::c_ulong;

/// An address space of the card.
pub(super) trait Iommu: Send + Sync {
    /// Returns the properties of the IOMMU.
    fn info(&self) -> io::Result<IommuInfo>;

    /// Makes memory visible to the card.
    fn map(&self, mapping: &DmaMapping) -> io::Result<()>;

    /// Removes a mapping and returns the number of bytes that were mapped there.
    fn unmap(&self, iova: u64, length: u64) -> io::Result<u64>;
}

/// Calls an ioctl that takes a pointer to `argument`.
///
/// # Safety
///
/// `request` is defined for the kind of file that `file` is, and takes a `T` that it may change;
/// the pointers in `T` are valid as the kernel's documentation requires.
unsafe fn ioctl<T>(file: RawFd, request: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: the caller guarantees that `request` takes a `T` (see above); the kernel checks the
    // descriptor itself.
    match unsafe { libc::ioctl(file, request, std::ptr::from_mut(argument)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Answer of VFIO_IOMMU_GET_INFO, followed by room for capabilities.
#[repr(C)]
struct InfoWithCapabilities {
    header: vfio_iommu_type1_info,
    capabilities: [u8; CAPABILITY_BYTES],
}

/// A container of a VFIO group, type 1, version 2.
pub(super) struct Type1(pub(super) Arc<VfioContainer>);

impl Iommu for Type1 {
    fn info(&self) -> io::Result<IommuInfo> {
        let mut argument = InfoWithCapabilities {
            header: vfio_iommu_type1_info {
                argsz: size_of::<InfoWithCapabilities>() as u32,
                ..Default::default()
            },
            capabilities: [0; CAPABILITY_BYTES],
        };
        // SAFETY: the request takes this structure: a header that holds the total size in bytes,
        // followed by room for capabilities.
        unsafe { ioctl(self.0.as_raw_fd(), VFIO_IOMMU_GET_INFO, &mut argument)? };
        let InfoWithCapabilities {
            header,
            capabilities,
        } = argument;
        Ok(type1_info::parse(&header, &capabilities))
    }

    fn map(&self, mapping: &DmaMapping) -> io::Result<()> {
        let write = match mapping.access {
            DmaAccess::Read => 0,
            DmaAccess::ReadWrite => VFIO_DMA_MAP_FLAG_WRITE,
        };
        let mut argument = vfio_iommu_type1_dma_map {
            argsz: size_of::<vfio_iommu_type1_dma_map>() as u32,
            flags: VFIO_DMA_MAP_FLAG_READ | write,
            vaddr: mapping.address as u64,
            iova: mapping.iova,
            size: mapping.length as u64,
        };
        // SAFETY: the request takes this structure. The kernel pins the memory at the address or
        // fails; the caller of `Bus::map` guarantees that a device may read and write that memory.
        unsafe { ioctl(self.0.as_raw_fd(), VFIO_IOMMU_MAP_DMA, &mut argument) }
    }

    fn unmap(&self, iova: u64, length: u64) -> io::Result<u64> {
        let mut argument = vfio_iommu_type1_dma_unmap {
            argsz: size_of::<vfio_iommu_type1_dma_unmap>() as u32,
            iova,
            size: length,
            ..Default::default()
        };
        // SAFETY: the request takes this structure, and without flags no data after it.
        unsafe { ioctl(self.0.as_raw_fd(), VFIO_IOMMU_UNMAP_DMA, &mut argument)? };
        Ok(argument.size)
    }
}

/// An IOAS of iommufd.
pub(super) struct Iommufd(pub(super) Arc<VfioIommufd>);

impl Iommu for Iommufd {
    fn info(&self) -> io::Result<IommuInfo> {
        let file = self.0.iommufd().as_raw_fd();
        let mut ranges = vec![iommu_iova_range::default(); MAX_RANGES as usize];
        let mut argument = iommu_ioas_iova_ranges {
            size: size_of::<iommu_ioas_iova_ranges>() as u32,
            ioas_id: self.0.ioas().id(),
            num_iovas: MAX_RANGES,
            allowed_iovas: ranges.as_mut_ptr() as u64,
            ..Default::default()
        };
        // SAFETY: the request takes this structure, and writes at most `num_iovas` ranges to
        // `allowed_iovas`, which has room for them.
        unsafe { ioctl(file, IOMMU_IOAS_IOVA_RANGES, &mut argument)? };
        ranges.truncate(argument.num_iovas as usize);
        let half_open = |range: &iommu_iova_range| range.start..range.last.saturating_add(1);
        Ok(IommuInfo {
            ranges: ranges.iter().map(half_open).collect(),
            entries: None,
        })
    }

    fn map(&self, mapping: &DmaMapping) -> io::Result<()> {
        let write = match mapping.access {
            DmaAccess::Read => 0,
            DmaAccess::ReadWrite => iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE,
        };
        let argument = iommu_ioas_map {
            size: size_of::<iommu_ioas_map>() as u32,
            flags: iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA
                | iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE
                | write,
            ioas_id: self.0.ioas().id(),
            user_va: mapping.address as u64,
            length: mapping.length as u64,
            iova: mapping.iova,
            ..Default::default()
        };
        let result = self.0.iommufd().map_iommu_ioas(&argument);
        result.map_err(|_| io::Error::last_os_error())
    }

    fn unmap(&self, iova: u64, length: u64) -> io::Result<u64> {
        let mut argument = iommu_ioas_unmap {
            size: size_of::<iommu_ioas_unmap>() as u32,
            ioas_id: self.0.ioas().id(),
            iova,
            length,
        };
        let result = self.0.iommufd().unmap_iommu_ioas(&mut argument);
        result.map_err(|_| io::Error::last_os_error())?;
        Ok(argument.length)
    }
}
