//! What a served device answers.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::capabilities::ProcessMemory;
use crate::dma::{DmaMap, DmaMessages};
use crate::error::Errno;
use crate::irq::{IrqAction, IrqInfo};
use crate::region::RegionInfo;

/// What the device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Regions that it has, also those of size zero. For PCI: [`crate::region::COUNT`].
    pub regions: u32,
    /// Kinds of interrupts. For PCI: [`crate::irq::COUNT`].
    pub irqs: u32,
    /// It obeys a reset.
    pub resettable: bool,
    /// It is a PCI device.
    pub pci: bool,
}

/// A device that a [`crate::Server`] offers.
///
/// What the first three methods say does not change; they are called when a client comes. All calls
/// come from one thread, in the order in which the client sent what causes them. What
/// takes long holds up the client, but not the DMA messages of other threads. A method that returns
/// an errno has changed nothing.
pub trait Device {
    /// What the device is.
    fn info(&self) -> DeviceInfo;

    /// The region `index`, smaller than [`DeviceInfo::regions`]. `None`: there is no such region,
    /// which the client sees as one of size zero.
    fn region(&self, index: u32) -> Option<RegionInfo>;

    /// The interrupts `index`, smaller than [`DeviceInfo::irqs`]. `None`: there are none of this
    /// kind, which the client sees as a count of zero.
    fn irqs(&self, index: u32) -> Option<IrqInfo>;

    /// Reads from a region. `data` is not empty and inside of the region.
    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno>;

    /// Writes to a region. `data` is not empty and inside of the region.
    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno>;

    /// From now on the device may reach memory of the client. The range consists of whole pages, is
    /// not empty and does not wrap around. More mappings than the server has stated (`max_dma_maps`)
    /// are refused with `ENOSPC`. A range that overlaps an older one is refused with `EEXIST`.
    fn map(&self, map: DmaMap) -> Result<(), Errno>;

    /// When this returns, the device reaches none of the memory in the range any more. The range is
    /// not empty, may cover several mappings, and may cover none: a QEMU guest with an IOMMU unmaps
    /// what it has not mapped, and VFIO in the kernel takes that for success. `EINVAL`: it would
    /// cut a mapping in two.
    fn unmap(&self, iova: u64, length: u64) -> Result<(), Errno>;

    /// Unmaps everything.
    fn unmap_all(&self);

    /// Changes how interrupts are sent, of a kind that has vectors. Every vector in `action` is
    /// smaller than [`IrqInfo::count`].
    fn set_irqs(&self, index: u32, action: IrqAction) -> Result<(), Errno>;

    /// Resets the device.
    fn reset(&self) -> Result<(), Errno>;

    /// The memory of the client's process as a file whose offsets are addresses, opened for reading
    /// and writing by this side's own rights, so that no descriptor needs to come. `None`: memory
    /// without a file is reached by messages. Called once for a client, before it has agreed on a
    /// version. What the client says is a claim: `connection` is for asking the kernel who it is.
    fn process_memory(
        &self,
        connection: BorrowedFd<'_>,
        memory: &ProcessMemory,
    ) -> Option<OwnedFd> {
        let _ = (connection, memory);
        None
    }

    /// A client has connected and agreed on a version; before all of the above. `dma` reaches its memory by
    /// messages and fails with `ENOTCONN` after it has gone.
    ///
    /// A thread that waits for `dma` must not hold a lock that a register access needs: a QEMU
    /// client answers DMA messages only between its register accesses. Neither should
    /// [`Device::read`] and [`Device::write`] wait for it themselves.
    fn connected(&self, dma: Arc<DmaMessages>);

    /// The client has gone; the last call. The device forgets all mappings and interrupts.
    fn disconnected(&self);
}
