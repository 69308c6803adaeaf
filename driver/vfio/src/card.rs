//! A card opened through VFIO: its group or device node, and its regions.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use iommufd_ioctls::IommuFd;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_REQ_IRQ_INDEX, VFIO_REGION_INFO_FLAG_MMAP,
};
use vfio_ioctls::{VfioContainer, VfioDevice, VfioError, VfioIommufd, VfioRegionInfoCap};

use super::error::VfioOpenError;
use super::inspect::{Candidate, explain_node, spoilers};
use super::iommu::{Iommu, Iommufd, Type1};
use super::region::Region;
use crate::pci::{Bdf, Roots};
use ferroce_linux::fork::ForkMark;

/// Kernel module that creates the nodes below /dev/vfio.
const VFIO_MODULE: &str = "vfio-pci";
/// Kernel module that creates /dev/iommu.
const IOMMUFD_MODULE: &str = "iommufd";

/// A card opened by this process.
pub(super) struct Card {
    device: ManuallyDrop<VfioDevice>,
    fork: ForkMark,
}

/// Opens the card through its device node and iommufd, or with its whole group.
///
/// # Errors
///
/// The error of the kernel, explained.
pub(super) fn take(
    roots: &Roots,
    candidate: &Candidate,
) -> Result<(Card, Box<dyn Iommu>), VfioOpenError> {
    let bdf = candidate.bdf;
    if let Some(node) = &candidate.device_node {
        match take_device(roots, bdf, node) {
            Ok(taken) => {
                tracing::info!(%bdf, node = %node.display(), "opened through iommufd");
                return Ok(taken);
            }
            Err(error) if !roots.group_node(candidate.group).exists() => return Err(error),
            Err(error) => tracing::debug!(%bdf, %error, "not through iommufd"),
        }
    }
    let taken = take_group(roots, candidate)?;
    tracing::info!(%bdf, group = candidate.group, "opened through its VFIO group");
    Ok(taken)
}

fn take_device(
    roots: &Roots,
    bdf: Bdf,
    node: &Path,
) -> Result<(Card, Box<dyn Iommu>), VfioOpenError> {
    let open = |path: &Path, module| {
        let result = File::options().read(true).write(true).open(path);
        result.map_err(|error| explain_node(roots, bdf, path, module, &error))
    };
    let iommu = open(&roots.dev.join("iommu"), IOMMUFD_MODULE)?;
    let file = open(node, VFIO_MODULE)?;
    let explain = |error| explain_device(roots, bdf, node, &error);
    let iommufd = Arc::new(IommuFd::new_from_fd(iommu));
    let space = Arc::new(VfioIommufd::new(iommufd, None, None).map_err(explain)?);
    let device = VfioDevice::new_from_fd(file, space.clone(), true).map_err(explain)?;
    Ok((Card::new(device), Box::new(Iommufd(space))))
}

/// Converts an error of opening the device through its device node.
pub(super) fn explain_device(
    roots: &Roots,
    bdf: Bdf,
    node: &Path,
    error: &VfioError,
) -> VfioOpenError {
    let busy = || VfioOpenError::Busy {
        bdf,
        holders: roots.holders(node),
    };
    match error {
        // A node can be opened twice, but only one of the descriptors can be bound.
        VfioError::VfioDeviceBindIommufd(errno) if errno.errno() == libc::EBUSY => busy(),
        VfioError::VfioDeviceBindIommufd(errno) if errno.errno() == libc::EINVAL => busy(),
        VfioError::VfioDeviceAttachIommufdPt(errno) if errno.errno() == libc::EPERM => {
            VfioOpenError::UnsafeInterrupts { bdf }
        }
        other => VfioOpenError::Kernel {
            bdf,
            what: "hand it over through iommufd",
            reason: other.to_string(),
        },
    }
}

fn take_group(
    roots: &Roots,
    candidate: &Candidate,
) -> Result<(Card, Box<dyn Iommu>), VfioOpenError> {
    let explain = |error| explain_group(roots, candidate, &error);
    let container = Arc::new(VfioContainer::new(None).map_err(explain)?);
    let device = VfioDevice::new(&candidate.path, container.clone(), false).map_err(explain)?;
    Ok((Card::new(device), Box::new(Type1(container))))
}

/// Converts an error of opening a group.
pub(super) fn explain_group(
    roots: &Roots,
    candidate: &Candidate,
    error: &VfioError,
) -> VfioOpenError {
    let &Candidate { bdf, group, .. } = candidate;
    let node = roots.group_node(group);
    match error {
        VfioError::OpenContainer(error) => {
            let container = roots.dev.join("vfio/vfio");
            explain_node(roots, bdf, &container, VFIO_MODULE, error)
        }
        VfioError::OpenGroup(error, _) => explain_node(roots, bdf, &node, VFIO_MODULE, error),
        VfioError::VfioExtension => VfioOpenError::NoType1,
        VfioError::GroupViable => VfioOpenError::GroupNotViable {
            bdf,
            group,
            others: spoilers(roots, bdf, group),
        },
        VfioError::ContainerSetIOMMU(errno) if errno.errno() == libc::EPERM => {
            VfioOpenError::UnsafeInterrupts { bdf }
        }
        VfioError::GroupGetDeviceFD(errno) if errno.errno() == libc::EBUSY => VfioOpenError::Busy {
            bdf,
            holders: roots.holders(&node),
        },
        other => VfioOpenError::Kernel {
            bdf,
            what: "hand it over with its group",
            reason: other.to_string(),
        },
    }
}

impl Card {
    fn new(device: VfioDevice) -> Self {
        Self {
            device: ManuallyDrop::new(device),
            fork: ForkMark::of_this_process(),
        }
    }

    /// Returns region `index` with its mappable parts mapped.
    ///
    /// # Errors
    ///
    /// No file descriptors are left.
    pub(super) fn region(&self, index: u32) -> io::Result<Region> {
        let device = &self.device;
        let size = device.get_region_size(index);
        let is_mappable = device.get_region_flags(index) & VFIO_REGION_INFO_FLAG_MMAP != 0;
        let areas = if is_mappable {
            areas(&device.get_region_caps(index), size)
        } else {
            Vec::new()
        };
        let offset = device.get_region_offset(index);
        Ok(Region::new(self.file()?, offset, size, &areas))
    }

    /// Returns BAR `number`.
    ///
    /// # Errors
    ///
    /// As [`Self::region`].
    pub(super) fn bar(&self, number: u32) -> io::Result<Region> {
        self.region(VFIO_PCI_BAR0_REGION_INDEX + number)
    }

    /// Returns the region of configuration space.
    ///
    /// # Errors
    ///
    /// As [`Self::region`].
    pub(super) fn config(&self) -> io::Result<Region> {
        self.region(VFIO_PCI_CONFIG_REGION_INDEX)
    }

    /// Returns the number of MSI-X vectors.
    pub(super) fn vectors(&self) -> u32 {
        let info = self.device.get_irq_info(VFIO_PCI_MSIX_IRQ_INDEX);
        info.map_or(0, |info| info.count)
    }

    /// Returns true if the kernel can request the card's release from this process.
    pub(super) fn has_request_interrupt(&self) -> bool {
        let info = self.device.get_irq_info(VFIO_PCI_REQ_IRQ_INDEX);
        info.is_some_and(|info| info.count > 0)
    }

    /// Resets the function, if it supports a reset.
    pub(super) fn reset(&self) {
        self.device.reset();
    }

    /// Returns the device, for its interrupts.
    pub(super) fn device(&self) -> &VfioDevice {
        &self.device
    }

    fn file(&self) -> io::Result<File> {
        // SAFETY: the descriptor is the device's, which is open while `self` lives.
        let borrowed = unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) };
        borrowed.try_clone_to_owned().map(File::from)
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // Closing the card issues ioctls on descriptors that a child of fork shares with its
        // parent.
        if self.fork.is_foreign() {
            return;
        }
        // The crate panics when the kernel refuses one of them, as it may after the card was pulled
        // out. Nothing more can be done then; the kernel cleans up when the process ends.
        let device = &mut self.device;
        // SAFETY: `self.device` is not used after this.
        let result = catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(device) }));
        if result.is_err() {
            tracing::warn!("the kernel did not take the card back");
        }
    }
}

/// Returns the areas of a mappable region of `size` bytes that may be mapped: the areas in the
/// kernel's list, or the whole region when there is no list.
fn areas(capabilities: &[VfioRegionInfoCap], size: u64) -> Vec<Range<u64>> {
    let listed = capabilities.iter().find_map(|capability| match capability {
        VfioRegionInfoCap::SparseMmap(sparse) => Some(&sparse.areas),
        _ => None,
    });
    match listed {
        Some(areas) => areas
            .iter()
            .map(|area| area.offset..area.offset.saturating_add(area.size))
            .collect(),
        None => vec![Range {
            start: 0,
            end: size,
        }],
    }
}
