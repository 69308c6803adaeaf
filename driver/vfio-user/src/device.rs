//! The interface of a served device.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::capabilities::ProcessMemory;
use crate::dma::{DmaMap, DmaMessages};
use crate::error::Errno;
use crate::irq::{IrqAction, IrqInfo};
use crate::region::RegionInfo;

/// Description of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Number of regions, including those of size zero. For PCI: [`crate::region::COUNT`].
    pub regions: u32,
    /// Number of kinds of interrupts. For PCI: [`crate::irq::COUNT`].
    pub irqs: u32,
    /// True if the device supports a reset.
    pub resettable: bool,
    /// True if it is a PCI device.
    pub pci: bool,
}

/// A device that a [`crate::Server`] offers.
///
/// The results of the first three methods do not change; they are called when a client connects.
/// All calls come from one thread, in the order of the client's messages that cause them. A long
/// call delays the client, but not the DMA messages of other threads. A method that returns an
/// errno has changed nothing.
pub trait Device {
    /// Returns the description of the device.
    fn info(&self) -> DeviceInfo;

    /// Returns the region `index`, smaller than [`DeviceInfo::regions`]. `None`: there is no such
    /// region; the client sees one of size zero.
    fn region(&self, index: u32) -> Option<RegionInfo>;

    /// Returns the interrupts `index`, smaller than [`DeviceInfo::irqs`]. `None`: there are none of
    /// this kind; the client sees a count of zero.
    fn irqs(&self, index: u32) -> Option<IrqInfo>;

    /// Reads from a region. `data` is not empty and inside of the region.
    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno>;

    /// Writes to a region. `data` is not empty and inside of the region.
    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// Allows the device to access memory of the client. The range consists of whole pages, is not
    /// empty and does not wrap around. More mappings than the server has stated (`max_dma_maps`)
    /// are refused with `ENOSPC`. A range that overlaps an older one is refused with `EEXIST`.
    fn map(&self, map: DmaMap) -> Result<(), Errno>;

    /// Unmaps a range. When this returns, the device no longer accesses the memory in it. The range
    /// is not empty, may cover several mappings, and may cover none: a QEMU guest with an IOMMU
    /// unmaps ranges that it has not mapped, and VFIO in the kernel returns success for that.
    /// `EINVAL`: the range would split a mapping.
    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno>;

    /// Unmaps everything.
    fn unmap_all(&self);

    /// Changes the delivery of interrupts, of a kind that has vectors. Every vector in `action` is
    /// smaller than [`IrqInfo::count`].
    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno>;

    /// Resets the device.
    fn reset(&self) -> Result<(), Errno>;

    /// Returns the memory of the client's process as a file whose offsets are addresses, opened for
    /// reading and writing with this side's own rights, so that no descriptor needs to be sent.
    /// `None`: memory without a file is accessed by messages. Called once for a client, before the
    /// version is agreed on. The client's statement is only a claim: use `connection` to ask the
    /// kernel for the client's credentials.
    fn process_memory(
        &self,
        connection: BorrowedFd<'_>,
        memory: &ProcessMemory,
    ) -> Option<OwnedFd> {
        let _ = (connection, memory);
        None
    }

    /// Reports that a client has connected and agreed on a version; called before all of the above.
    /// `dma` accesses its memory by messages and fails with `ENOTCONN` after the client has
    /// disconnected.
    ///
    /// A thread that waits for `dma` must not hold a lock that a register access needs: a QEMU
    /// client answers DMA messages only between its register accesses. Neither should
    /// [`Device::read`] and [`Device::write`] wait for it themselves.
    fn connected(&self, dma: Arc<DmaMessages>);

    /// Reports that the client has disconnected; the last call. The device discards all mappings
    /// and interrupts.
    fn disconnected(&self);
}
