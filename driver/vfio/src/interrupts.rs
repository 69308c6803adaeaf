//! Connects interrupts to eventfds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use ferroce_spec::register::VECTOR_COUNT;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, vfio_irq_set,
};

use super::iommu::vfio_ioctl;

const VFIO_DEVICE_SET_IRQS: libc::c_ulong = vfio_ioctl(10);
/// Maximum number of vectors that are connected.
const MAX_VECTORS: usize = VECTOR_COUNT as usize;

/// `struct vfio_irq_set` with the eventfds that follow it.
#[repr(C)]
struct Connections {
    header: vfio_irq_set,
    files: [RawFd; MAX_VECTORS],
}

/// Enables the interrupts `index` of a device (`VFIO_PCI_*_IRQ_INDEX`), as many as there are
/// `files`, each connected to its file.
///
/// # Errors
///
/// The error of the kernel; also, when it has fewer interrupts left than requested.
pub(super) fn connect<'a>(
    device: RawFd,
    index: u32,
    files: impl Iterator<Item = BorrowedFd<'a>>,
) -> io::Result<()> {
    let mut connections = Connections {
        header: vfio_irq_set {
            flags: VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
            index,
            ..Default::default()
        },
        files: [-1; MAX_VECTORS],
    };
    let mut count = 0;
    for (place, file) in connections.files.iter_mut().zip(files) {
        *place = file.as_raw_fd();
        count += 1;
    }
    connections.header.count = count;
    connections.header.argsz = (size_of::<vfio_irq_set>() + 4 * count as usize) as u32;
    // SAFETY: the request takes this structure and reads `argsz` bytes of it: the header and the
    // first `count` of MAX_VECTORS descriptors, which are open during the call.
    let result = unsafe { libc::ioctl(device, VFIO_DEVICE_SET_IRQS, &raw const connections) };
    match result {
        0 => Ok(()),
        // The result is the number of vectors available; none was enabled (vfio_msi_enable).
        1.. => Err(io::Error::other(format!(
            "only {result} of {count} interrupts are left in this machine"
        ))),
        _ => Err(io::Error::last_os_error()),
    }
}
