//! On-demand paging: the flags and ranges of such regions, and `ibv_advise_mr`.
//!
//! Nothing of an on-demand region is pinned. The device copies from and to the program's own
//! addresses, so the processor's page tables serve each access: the driver makes such a region a
//! part of the program's address space ([`Translation::OnDemand`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ferroce_driver::{
    Capabilities, MemoryRange, MemoryRegion, MemoryWindow, OnDemandMemory, Translation,
};
use libc::c_int;
use parking_lot::Mutex;

use crate::abi::*;
use crate::domain::Domain;
use crate::errno::{Errno, Right, Shown, within};
use crate::os::memory::{Access, prefetch};

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
            let text = "IBV_ACCESS_ON_DEMAND needs a device that runs in the program itself: not a \
                        card, not one of another process, and not one in simulated time";
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
/// `EINVAL` for an implicit region (null, `SIZE_MAX`) with an IOVA or with huge pages, and for a
/// range that is half implicit.
pub fn check_range(range: &MemoryRange, flags: u32) -> Result<(), Errno> {
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

/// Returns `odp_caps` and `xrc_odp_caps`: of each service of a device with on-demand paging all that
/// it has, as the program's page tables serve every access; of UC nothing, as on ConnectX.
pub fn capabilities(device: &Capabilities) -> (ibv_odp_caps, u32) {
    let when = |condition: bool, bits: u32| if condition { bits } else { 0 };
    let srq = when(device.shared_receive_queues, IBV_ODP_SUPPORT_SRQ_RECV);
    let messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | srq;
    let atomic = when(device.atomics, IBV_ODP_SUPPORT_ATOMIC);
    let reliable = messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | atomic;
    let of = |has_service: bool, bits: u32| when(device.on_demand_paging && has_service, bits);
    let caps = ibv_odp_caps {
        general_caps: match device.on_demand_paging {
            true => IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
            false => 0,
        },
        per_transport_caps: [
            of(device.reliable_connected, reliable),
            0,
            of(device.unreliable_datagram, messages),
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
    /// `ENOENT` if the key is not that of an on-demand region, `EINVAL` if it is that of a window
    /// or of a null region.
    fn find(&self, key: u32) -> Result<OnDemandMemory, Errno> {
        let wrong = |errno: Errno, right: &'static str| {
            errno.argument("sg_list->lkey", Shown::Bits(key.into()), Right::Text(right))
        };
        let unknown = wrong(Errno::NO_ENTRY, "the key of an on-demand region");
        let keys = self.0.lock();
        match keys.get(&index_of(key)) {
            Some(Named::OnDemand(region)) => {
                let region = region.upgrade().filter(|region| region.lkey().0 == key);
                region.and_then(|region| region.on_demand()).ok_or(unknown)
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

/// `enum ibv_advise_mr_advice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advice {
    Prefetch,
    PrefetchWrite,
    PrefetchNoFault,
}

impl Advice {
    fn parse(advice: c_int) -> Result<Self, Errno> {
        match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH => Ok(Self::Prefetch),
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => Ok(Self::PrefetchWrite),
            IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => Ok(Self::PrefetchNoFault),
            _ => {
                let right = Right::Text("one of enum ibv_advise_mr_advice");
                Err(Errno::NOT_SUPPORTED.argument("advice", advice, right))
            }
        }
    }
}

/// `ibv_advise_mr`. Its errors are those of ConnectX. Without the flag FLUSH the pages may come at
/// any time, and what fails then is dropped; here they come before the call returns, too.
///
/// # Errors
/// `EOPNOTSUPP` for another advice, or without on-demand paging; `EINVAL` for unknown flags, an
/// empty list, and keys of windows and null regions; `ENOENT` for other keys; `EPERM` for a region
/// of another domain, or one that the device may not write; `EFAULT` for memory that is not there,
/// only with the flag FLUSH.
pub fn advise(domain: &Domain, advice: c_int, flags: u32, list: &[ibv_sge]) -> Result<(), Errno> {
    let device = domain.adapter.device()?;
    if !device.capabilities().on_demand_paging {
        return Err(Errno::NOT_SUPPORTED.because("the device has no on-demand paging"));
    }
    within(Errno::INVALID, "flags", flags, IBV_ADVISE_MR_FLAG_FLUSH)?;
    if list.is_empty() {
        return Err(Errno::wrong("num_sge", 0usize, "at least 1"));
    }
    let advice = Advice::parse(advice)?;
    let find = |element: &ibv_sge| find(domain, element, advice);
    let memories = list.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let is_synchronous = flags & IBV_ADVISE_MR_FLAG_FLUSH != 0;
    for (element, memory) in list.iter().zip(&memories) {
        let result = bring_in(element, memory, advice);
        if is_synchronous {
            result?;
        }
    }
    Ok(())
}

/// Returns the region of an element, if the advice is allowed for it.
fn find(domain: &Domain, element: &ibv_sge, advice: Advice) -> Result<OnDemandMemory, Errno> {
    const NOT_PERMITTED: Errno = Errno::new(libc::EPERM);
    let memory = domain.adapter.keys.find(element.lkey)?;
    if memory.pd != domain.protection.number() {
        return Err(NOT_PERMITTED.because("the region is of another PD"));
    }
    if advice == Advice::PrefetchWrite && !memory.writable {
        let text = "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE needs a region with IBV_ACCESS_LOCAL_WRITE";
        return Err(NOT_PERMITTED.because(text));
    }
    Ok(memory)
}

/// Brings the pages of an element into memory.
fn bring_in(element: &ibv_sge, memory: &OnDemandMemory, advice: Advice) -> Result<(), Errno> {
    let (start, length) = (element.addr, element.length as usize);
    let address = address_of(&memory.range, start, length).ok_or_else(|| {
        let right = Right::Text("a range inside of the region");
        Errno::FAULT.argument("sg_list->addr", Shown::Bits(start), right)
    })?;
    match advice {
        Advice::Prefetch => prefetch(address, length, Access::Read),
        Advice::PrefetchWrite => prefetch(address, length, Access::Write),
        // The program's page tables have already what is in memory.
        Advice::PrefetchNoFault => Ok(()),
    }
}

/// Returns the program's address of `length` bytes at `start`, if all of them are in the region.
fn address_of(range: &MemoryRange, start: u64, length: usize) -> Option<usize> {
    let offset = usize::try_from(start.checked_sub(range.virtual_address)?).ok()?;
    let is_inside = offset <= range.length && length <= range.length - offset;
    is_inside.then(|| range.address.wrapping_add(offset))
}

#[cfg(test)]
mod tests {
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
        let check = |address, length, virtual_address, flags| {
            let range = MemoryRange {
                address,
                length,
                virtual_address,
            };
            number(check_range(&range, flags))
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
        let (caps, xrc) = capabilities(&device);
        assert_eq!(
            (caps.general_caps, caps.per_transport_caps, xrc),
            (3, [0x2f, 0, 0x23], 0)
        );
        (device.atomics, device.extended_reliable_connected) = (true, true);
        let (caps, xrc) = capabilities(&device);
        assert_eq!((caps.per_transport_caps, xrc), ([0x3f, 0, 0x23], 0x3f));
    }

    #[test]
    fn addresses_are_those_of_the_memory() {
        let range = MemoryRange {
            address: 0x5000,
            length: 100,
            virtual_address: 0x10,
        };
        assert_eq!(address_of(&range, 0x10, 100), Some(0x5000));
        assert_eq!(address_of(&range, 0x74, 0), Some(0x5064));
        for (start, length) in [(0xf, 1), (0x10, 101), (0x75, 0), (u64::MAX, 1)] {
            assert_eq!(address_of(&range, start, length), None);
        }
        assert_eq!(address_of(&MemoryRange::ALL, 0x1234, 8), Some(0x1234));
    }
}
