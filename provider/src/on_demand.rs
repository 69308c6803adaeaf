//! On-demand paging: the flags, the ranges and the keys of such regions.
//!
//! Nothing of an on-demand region is pinned. The device copies from and to the program's own
//! addresses, so the processor's page tables serve each access: the driver makes such a region a
//! part of the program's address space ([`Translation::OnDemand`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ferroce_driver::{Capabilities, MemoryRange, MemoryRegion, MemoryWindow, Translation};
use parking_lot::Mutex;

use crate::abi::*;
use crate::errno::{Errno, Right, Shown};

/// Flags of a region that say how its pages are brought in; the others are rights.
pub const PAGING_FLAGS: u32 = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;

/// Bits of a key that are its variant; the others are the index of its object.
const VARIANT_BITS: u32 = 8;

/// How the pages of a region come into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// With the registration, and they stay.
    Pinned,
    /// With each access: what the program has mapped then.
    OnDemand,
}

impl Paging {
    /// Parses the flags of paging.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the device has no on-demand paging, `EINVAL` for huge pages without it.
    pub fn parse(flags: u32, device: &Capabilities) -> Result<Self, Errno> {
        let has = |bit: u32| flags & bit != 0;
        if !has(IBV_ACCESS_ON_DEMAND) {
            let right = "IBV_ACCESS_HUGETLB with IBV_ACCESS_ON_DEMAND only";
            return match has(IBV_ACCESS_HUGETLB) {
                true => Err(Errno::wrong("access", Shown::Bits(flags.into()), right)),
                false => Ok(Self::Pinned),
            };
        }
        if !device.on_demand_paging {
            let text = "IBV_ACCESS_ON_DEMAND needs a device that runs in the program itself or in \
                        simulated time: not a card, and not one of another process";
            return Err(Errno::NOT_SUPPORTED.because(text));
        }
        Ok(Self::OnDemand)
    }

    /// Returns the way in which the device translates addresses.
    pub fn translation(self) -> Translation {
        match self {
            Self::Pinned => Translation::Kernel,
            Self::OnDemand => Translation::OnDemand,
        }
    }
}

/// Checks the range of an on-demand region. The memory need not exist.
///
/// # Errors
/// `EOPNOTSUPP` for an implicit region (null, `SIZE_MAX`) if the device has none, `EINVAL` for one
/// with an IOVA or with huge pages, and for a range that is half implicit.
pub fn check_range(range: &MemoryRange, flags: u32, device: &Capabilities) -> Result<(), Errno> {
    let (is_null, is_all) = (range.address == 0, range.length == usize::MAX);
    match (is_null, is_all) {
        (true, true) if range.virtual_address != 0 => {
            let right = "0 for an implicit on-demand region";
            Err(Errno::wrong(
                "iova",
                Shown::Bits(range.virtual_address),
                right,
            ))
        }
        (true, true) if flags & IBV_ACCESS_HUGETLB != 0 => {
            let right = "no IBV_ACCESS_HUGETLB for an implicit on-demand region";
            Err(Errno::wrong("access", Shown::Bits(flags.into()), right))
        }
        (true, true) if device.page_faults => {
            let text = "an implicit on-demand region needs a device that runs in the program \
                        itself; in simulated time register the buffers";
            Err(Errno::NOT_SUPPORTED.because(text))
        }
        (true, false) if range.length > 0 => {
            let right = "SIZE_MAX for an implicit on-demand region, whose addr is null";
            Err(Errno::wrong("length", range.length, right))
        }
        (false, true) => {
            let right = "null for an implicit on-demand region, whose length is SIZE_MAX";
            Err(Errno::wrong(
                "addr",
                Shown::Bits(range.address as u64),
                right,
            ))
        }
        _ => Ok(()),
    }
}

/// Returns `odp_caps` and `xrc_odp_caps`: of each service of a device with on-demand paging all
/// that it has; of UC nothing, as on ConnectX. A device with page faults loses datagrams to pages
/// that are not present, so that UD can only send.
pub fn capabilities(device: &Capabilities) -> (ibv_odp_caps, u32) {
    let when = |condition: bool, bits: u32| if condition { bits } else { 0 };
    let srq = when(device.shared_receive_queues, IBV_ODP_SUPPORT_SRQ_RECV);
    let messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | srq;
    let atomic = when(device.atomics, IBV_ODP_SUPPORT_ATOMIC);
    let newer = when(device.flush, IBV_ODP_SUPPORT_FLUSH)
        | when(device.atomic_write, IBV_ODP_SUPPORT_ATOMIC_WRITE);
    let reliable = messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | atomic | newer;
    let datagrams = if device.page_faults {
        IBV_ODP_SUPPORT_SEND
    } else {
        messages
    };
    let of = |has_service: bool, bits: u32| when(device.on_demand_paging && has_service, bits);
    let caps = ibv_odp_caps {
        general_caps: match (device.on_demand_paging, device.page_faults) {
            (true, false) => IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
            (true, true) => IBV_ODP_SUPPORT,
            (false, _) => 0,
        },
        per_transport_caps: [
            of(device.reliable_connected, reliable),
            0,
            of(device.unreliable_datagram, datagrams),
        ],
    };
    (caps, of(device.extended_reliable_connected, reliable))
}

/// What a key names.
enum Named {
    OnDemand(Weak<MemoryRegion>),
    Null(Weak<MemoryRegion>),
    Window,
}

/// Objects of an adapter that `ibv_advise_mr` tells apart, by the index in their keys. Other keys
/// are unknown to it.
#[derive(Default)]
pub struct Keys(Mutex<BTreeMap<u32, Named>>);

impl Keys {
    /// Adds an on-demand region.
    pub fn add(&self, region: &Arc<MemoryRegion>) {
        let named = Named::OnDemand(Arc::downgrade(region));
        self.0.lock().insert(index_of(region.lkey().0), named);
    }

    /// Adds a null region.
    pub fn add_null(&self, region: &Arc<MemoryRegion>) {
        let named = Named::Null(Arc::downgrade(region));
        self.0.lock().insert(index_of(region.lkey().0), named);
    }

    /// Adds a window.
    pub fn add_window(&self, window: &MemoryWindow) {
        let index = index_of(window.rkey().0);
        self.0.lock().insert(index, Named::Window);
    }

    /// Removes a region that was deregistered. Another object may have its index by now.
    pub fn forget(&self, region: &Arc<MemoryRegion>) {
        let index = index_of(region.lkey().0);
        let mut keys = self.0.lock();
        if let Some(Named::OnDemand(found) | Named::Null(found)) = keys.get(&index)
            && std::ptr::eq(found.as_ptr(), Arc::as_ptr(region))
        {
            keys.remove(&index);
        }
    }

    /// Removes a window that is about to be deallocated.
    pub fn forget_window(&self, window: &MemoryWindow) {
        self.0.lock().remove(&index_of(window.rkey().0));
    }

    /// Returns the on-demand region of a key.
    ///
    /// # Errors
    /// `ENOENT` if no on-demand region has the key, `EINVAL` if a window or a null region has it.
    pub fn find(&self, key: u32) -> Result<Arc<MemoryRegion>, Errno> {
        let wrong = |errno: Errno, right: &'static str| {
            errno.argument("sg_list->lkey", Shown::Bits(key.into()), Right::Text(right))
        };
        let unknown = wrong(Errno::NO_ENTRY, "the key of an on-demand region");
        let keys = self.0.lock();
        match keys.get(&index_of(key)) {
            Some(Named::OnDemand(region)) => {
                let region = region.upgrade().filter(|region| region.lkey().0 == key);
                region.ok_or(unknown)
            }
            Some(Named::Window) => Err(wrong(Errno::INVALID, "a region's, not a window's")),
            Some(Named::Null(_)) => Err(wrong(Errno::INVALID, "a region's that has memory")),
            None => Err(unknown),
        }
    }
}

fn index_of(key: u32) -> u32 {
    key >> VARIANT_BITS
}

#[cfg(test)]
mod tests {
    use libc::c_int;

    use super::*;

    fn number<T>(result: Result<T, Errno>) -> Result<T, c_int> {
        result.map_err(Errno::number)
    }

    #[test]
    fn huge_pages_are_on_demand_only() {
        let with = Capabilities {
            on_demand_paging: true,
            ..Capabilities::default()
        };
        let without = Capabilities::default();
        let parse = |flags, device| number(Paging::parse(flags, device));
        assert_eq!(parse(IBV_ACCESS_LOCAL_WRITE, &without), Ok(Paging::Pinned));
        assert_eq!(parse(IBV_ACCESS_HUGETLB, &with), Err(libc::EINVAL));
        assert_eq!(parse(PAGING_FLAGS, &with), Ok(Paging::OnDemand));
        assert_eq!(parse(PAGING_FLAGS, &without), Err(libc::EOPNOTSUPP));
    }

    #[test]
    fn implicit_is_all_or_nothing() {
        let device = Capabilities::default();
        let check = |address, length, virtual_address, flags| {
            let range = MemoryRange {
                address,
                length,
                virtual_address,
            };
            number(check_range(&range, flags, &device))
        };
        assert_eq!(check(0, usize::MAX, 0, 0), Ok(()));
        assert_eq!(check(0, usize::MAX, 1, 0), Err(libc::EINVAL));
        assert_eq!(
            check(0, usize::MAX, 0, IBV_ACCESS_HUGETLB),
            Err(libc::EINVAL)
        );
        assert_eq!(check(0, 4096, 0, 0), Err(libc::EINVAL));
        assert_eq!(check(4096, usize::MAX, 0, 0), Err(libc::EINVAL));
        assert_eq!(check(4096, 4096, 7, IBV_ACCESS_HUGETLB), Ok(()));
        let faulting = Capabilities {
            page_faults: true,
            ..Capabilities::default()
        };
        let without = check_range(&MemoryRange::ALL, 0, &faulting);
        assert_eq!(number(without), Err(libc::EOPNOTSUPP));
    }

    #[test]
    fn capabilities_are_those_of_the_services() {
        let mut device = Capabilities {
            reliable_connected: true,
            unreliable_connected: true,
            unreliable_datagram: true,
            shared_receive_queues: true,
            ..Capabilities::default()
        };
        let (caps, xrc) = capabilities(&device);
        assert_eq!(
            (caps.general_caps, caps.per_transport_caps, xrc),
            (0, [0; 3], 0)
        );
        device.on_demand_paging = true;
        device.page_faults = true;
        let (caps, _) = capabilities(&device);
        assert_eq!((caps.general_caps, caps.per_transport_caps[2]), (1, 1));
        device.page_faults = false;
        let (caps, xrc) = capabilities(&device);
        assert_eq!(
            (caps.general_caps, caps.per_transport_caps, xrc),
            (3, [0x2f, 0, 0x23], 0)
        );
        (device.atomics, device.extended_reliable_connected) = (true, true);
        let (caps, xrc) = capabilities(&device);
        assert_eq!((caps.per_transport_caps, xrc), ([0x3f, 0, 0x23], 0x3f));
    }
}
