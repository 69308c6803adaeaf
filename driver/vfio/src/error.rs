//! Errors of opening a card, with remedies.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::pci::{Bdf, FERROCE, PciId};

/// Errors of opening a card through kernel VFIO. The text is all that the user sees: it states what
/// was found, what would be right, and how to get there.
#[derive(Debug, thiserror::Error)]
pub enum VfioOpenError {
    /// No PCI function has this address.
    #[error("there is no PCI function {bdf}; {}", Cards(.cards))]
    NoSuchDevice {
        /// The address.
        bdf: Bdf,
        /// Ferroce cards in this machine.
        cards: Vec<Bdf>,
    },
    /// The function is another device.
    #[error("{bdf} is {found}, not a Ferroce card ({FERROCE}); {}", Cards(.cards))]
    NotFerroce {
        /// The address.
        bdf: Bdf,
        /// Its vendor and device ID.
        found: PciId,
        /// Ferroce cards in this machine.
        cards: Vec<Bdf>,
    },
    /// No IOMMU confines what the card reads and writes.
    #[error(
        "{bdf} is in no IOMMU group: {}. A card without an IOMMU could write to all of the \
         machine's memory, so it is not opened",
        if *.has_iommu {
            "the IOMMU of this machine does not cover it (another slot may help)"
        } else {
            "the kernel runs no IOMMU. Switch VT-d or AMD-Vi on in the firmware, and boot with \
             intel_iommu=on (Intel; AMD needs no option) on the kernel's command line; in a \
             virtual machine the hypervisor has to offer one (QEMU: -device \
             intel-iommu,intremap=on,caching-mode=on, or -device virtio-iommu-pci)"
        }
    )]
    NoIommuGroup {
        /// The address.
        bdf: Bdf,
        /// True if the kernel runs an IOMMU for other devices.
        has_iommu: bool,
    },
    /// Its IOMMU group was made by the kernel's unsafe mode without an IOMMU.
    #[error(
        "{bdf} is bound in VFIO's unsafe mode without an IOMMU (enable_unsafe_noiommu_mode), in \
         which the card could write to all of the machine's memory; it is not supported: boot \
         with an IOMMU"
    )]
    UnsafeNoIommu {
        /// The address.
        bdf: Bdf,
    },
    /// It is bound to another driver, or to none.
    #[error(
        "{bdf} is bound to {}, not to vfio-pci; as root: ferroce bind {bdf}",
        Driver(.driver)
    )]
    NotBound {
        /// The address.
        bdf: Bdf,
        /// The driver that it is bound to.
        driver: Option<String>,
    },
    /// The IOMMU cannot separate this function from functions that host drivers use.
    #[error(
        "IOMMU group {group} of {bdf} cannot be used: the IOMMU cannot distinguish its functions, \
         and {}. Unbind them or bind them to vfio-pci (as root: ferroce bind --any ADDRESS), or \
         put the card into another slot",
        Members(.others)
    )]
    GroupNotViable {
        /// The address.
        bdf: Bdf,
        /// Its group.
        group: u32,
        /// The other functions with their drivers.
        others: Vec<(Bdf, String)>,
    },
    /// A device node is missing.
    #[error("there is no {}: as root: modprobe {module}", path.display())]
    NoNode {
        /// The node.
        path: PathBuf,
        /// The kernel module that creates it.
        module: &'static str,
    },
    /// A device node may not be opened by this user.
    #[error(
        "no permission to open {} ({owner}); as root: ferroce bind {bdf} --user NAME, or a udev \
         rule for the group that may",
        path.display()
    )]
    NoPermission {
        /// The address.
        bdf: Bdf,
        /// The node.
        path: PathBuf,
        /// Its owner and mode.
        owner: NodeOwner,
    },
    /// Another process has opened the card.
    #[error(
        "{bdf} is in use{}: a function of a card belongs to one process at a time; several \
         processes need several functions",
        Holders(.holders)
    )]
    Busy {
        /// The address.
        bdf: Bdf,
        /// Processes that have it open, if visible to this user.
        holders: Vec<u32>,
    },
    /// The kernel has no IOMMU driver for VFIO containers.
    #[error("VFIO has no IOMMU driver of type 1, version 2; as root: modprobe vfio_iommu_type1")]
    NoType1,
    /// Interrupts of the card are not confined.
    #[error(
        "the kernel does not hand out {bdf}, because the IOMMU does not remap interrupts: a \
         device could raise any interrupt. If you trust it, as root: modprobe -r \
         vfio_iommu_type1; modprobe vfio_iommu_type1 allow_unsafe_interrupts=1 (in QEMU: \
         intel-iommu with intremap=on)"
    )]
    UnsafeInterrupts {
        /// The address.
        bdf: Bdf,
    },
    /// The kernel refused another step.
    #[error("the kernel refused to {what} for {bdf}: {reason}")]
    Kernel {
        /// The address.
        bdf: Bdf,
        /// The step.
        what: &'static str,
        /// Its reason.
        reason: String,
    },
}

impl VfioOpenError {
    /// Returns the errno that corresponds to this error.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NoSuchDevice { .. } | Self::NotFerroce { .. } | Self::NoNode { .. } => {
                libc::ENODEV
            }
            Self::NoPermission { .. } => libc::EACCES,
            Self::NoIommuGroup { .. }
            | Self::UnsafeNoIommu { .. }
            | Self::UnsafeInterrupts { .. } => libc::EPERM,
            Self::Busy { .. } => libc::EBUSY,
            Self::NotBound { .. } | Self::GroupNotViable { .. } | Self::NoType1 => libc::ENODEV,
            Self::Kernel { .. } => libc::EIO,
        }
    }

    /// Creates an error for a refusal of the operating system.
    pub(super) fn kernel(bdf: Bdf, what: &'static str, error: &io::Error) -> Self {
        Self::Kernel {
            bdf,
            what,
            reason: error.to_string(),
        }
    }
}

/// Owner and mode of a device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOwner {
    /// User ID.
    pub user: u32,
    /// Group ID.
    pub group: u32,
    /// Permission bits.
    pub mode: u32,
}

impl fmt::Display for NodeOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, group, mode } = self;
        write!(f, "owner: user {user}, group {group}, mode {mode:04o}")
    }
}

/// Displays the Ferroce cards of this machine.
struct Cards<'a>(&'a [Bdf]);

impl fmt::Display for Cards<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => write!(f, "this machine has no Ferroce card (lspci -d {FERROCE})"),
            cards => {
                let names: Vec<_> = cards.iter().map(ToString::to_string).collect();
                write!(f, "Ferroce cards of this machine: {}", names.join(", "))
            }
        }
    }
}

struct Driver<'a>(&'a Option<String>);

impl fmt::Display for Driver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "the driver {name}"),
            None => f.write_str("no driver"),
        }
    }
}

struct Members<'a>(&'a [(Bdf, String)]);

impl fmt::Display for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .0
            .iter()
            .map(|(bdf, driver)| format!("{bdf} is bound to {driver}"))
            .collect();
        match &names[..] {
            [] => f.write_str("a driver of the host has one of the others"),
            names => f.write_str(&names.join(", ")),
        }
    }
}

struct Holders<'a>(&'a [u32]);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str(" by another process"),
            [pid] => write!(f, " by process {pid}"),
            pids => {
                let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
                write!(f, " by processes {}", pids.join(", "))
            }
        }
    }
}
