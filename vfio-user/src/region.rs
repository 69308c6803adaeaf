//! Regions of the device: what they are, and how a reply describes them.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Index of BAR0; BAR1 to BAR5 follow.
pub const BAR0: u32 = 0;
/// Index of BAR2.
pub const BAR2: u32 = 2;
/// Index of BAR4.
pub const BAR4: u32 = 4;
/// Index of the expansion ROM.
pub const ROM: u32 = 6;
/// Index of the configuration space.
pub const CONFIG: u32 = 7;
/// Index of the legacy VGA ranges.
pub const VGA: u32 = 8;
/// Regions of a PCI device.
pub const COUNT: u32 = 9;

/// `VFIO_REGION_INFO_FLAG_READ`: the region can be read.
pub const FLAG_READ: u32 = 1;
/// `VFIO_REGION_INFO_FLAG_WRITE`: the region can be written.
pub const FLAG_WRITE: u32 = 1 << 1;
/// `VFIO_REGION_INFO_FLAG_MMAP`: the region, or areas of it, can be mapped.
pub const FLAG_MMAP: u32 = 1 << 2;
/// `VFIO_REGION_INFO_FLAG_CAPS`: capabilities follow the description.
pub const FLAG_CAPS: u32 = 1 << 3;

/// A region.
#[derive(Debug, Clone)]
pub struct RegionInfo {
    /// [`FLAG_READ`] and [`FLAG_WRITE`]. A server adds the other flags itself.
    pub flags: u32,
    /// Bytes.
    pub size: u64,
    /// Memory behind it, where it can be mapped.
    pub mmap: Option<RegionMmap>,
}

/// The memory behind areas of a region.
#[derive(Debug, Clone)]
pub struct RegionMmap {
    /// What to map.
    pub file: Arc<OwnedFd>,
    /// Where in the file the region begins.
    pub offset: u64,
    /// The areas that can be mapped, as bytes of the region, page-aligned. An area's first byte is
    /// at `offset` plus its start in the file.
    pub areas: Vec<Range<u64>>,
}
