//! Interrupts: what the device has, and what the client does with them.

use std::os::fd::OwnedFd;

/// Index of the legacy interrupt.
pub const INTX: u32 = 0;
/// Index of the MSI vectors.
pub const MSI: u32 = 1;
/// Index of the MSI-X vectors.
pub const MSIX: u32 = 2;
/// Index of the error interrupt.
pub const ERROR: u32 = 3;
/// Index of the interrupt by which the device asks for itself back.
pub const REQUEST: u32 = 4;
/// Kinds of interrupts of a PCI device.
pub const COUNT: u32 = 5;

/// `VFIO_IRQ_INFO_EVENTFD`: an eventfd can be connected.
pub const FLAG_EVENTFD: u32 = 1;
/// `VFIO_IRQ_INFO_MASKABLE`: the vectors can be masked.
pub const FLAG_MASKABLE: u32 = 1 << 1;
/// `VFIO_IRQ_INFO_AUTOMASKED`: a vector masks itself when it is sent.
pub const FLAG_AUTOMASKED: u32 = 1 << 2;
/// `VFIO_IRQ_INFO_NORESIZE`: vectors cannot be added while others are connected.
pub const FLAG_NORESIZE: u32 = 1 << 3;

/// Interrupts of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrqInfo {
    /// `FLAG_…` of this module.
    pub flags: u32,
    /// Vectors.
    pub count: u32,
}

/// What the client does with the interrupts of one kind.
#[derive(Debug)]
pub enum IrqAction {
    /// Forgets all eventfds of this kind.
    Disable,
    /// Sends these vectors, as if the device had (a loopback test).
    Trigger(Vec<u32>),
    /// Sends vectors from `start` on by these eventfds; `None` forgets the vector's eventfd. Other
    /// vectors stay as they are.
    Connect {
        /// The vector of the first eventfd.
        start: u32,
        /// One for each vector.
        events: Vec<Option<OwnedFd>>,
    },
    /// Keeps these vectors pending.
    Mask(Vec<u32>),
    /// Lets these vectors through again, and sends what is pending.
    Unmask(Vec<u32>),
}
