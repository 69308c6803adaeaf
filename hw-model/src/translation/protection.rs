//! Reasons why an access to memory was refused.

use crate::ports::host::DmaError;
use crate::translation::page_faults::AbsentPage;

/// A protection check that failed, or the DMA that followed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtectionFault {
    /// The key does not name a region, or names an older one of the same index.
    #[error("key {key:#x} names no memory region")]
    InvalidKey {
        /// The key.
        key: u32,
    },
    /// QP and region are in different protection domains.
    #[error("key {key:#x} belongs to another protection domain")]
    ProtectionDomain {
        /// The key.
        key: u32,
    },
    /// A window of type 2 is bound to another QP.
    #[error("key {key:#x} belongs to another queue pair")]
    QueuePair {
        /// The key.
        key: u32,
    },
    /// The window or region cannot be bound or invalidated in this way, or not now.
    #[error("key {key:#x} cannot be bound or invalidated so")]
    Binding {
        /// The key.
        key: u32,
    },
    /// The address of an atomic is not a multiple of eight bytes.
    #[error("atomic at {address:#x} is not aligned in memory")]
    Alignment {
        /// Virtual address in the region.
        address: u64,
    },
    /// The access starts before the region or ends after it.
    #[error("access of {length} bytes at {address:#x} is outside the memory region")]
    Bounds {
        /// First byte of the access.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// The region does not grant the right.
    #[error("key {key:#x} does not grant the right")]
    Rights {
        /// The key.
        key: u32,
    },
    /// A page is not present, or the host refused the access.
    #[error("page of {address:#x} is not present")]
    Page {
        /// Virtual address in the region.
        address: u64,
    },
    /// A page of an on-demand region is not present: the access is put off.
    #[error("page {} of the on-demand region {:#x} is not present yet", .0.page, .0.key)]
    NotPresent(AbsentPage),
    /// The host refused the DMA.
    #[error(transparent)]
    Dma(#[from] DmaError),
}
