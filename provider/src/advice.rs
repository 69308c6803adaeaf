//! `ibv_advise_mr`: prefetching for on-demand regions.

use std::sync::Arc;

use ferroce_driver::{MemoryRange, MemoryRegion};
use libc::c_int;

use crate::abi::*;
use crate::domain::Domain;
use crate::errno::{Errno, Right, Shown, within};
use crate::os::memory::{Access, prefetch};

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

/// `ibv_advise_mr`, with ConnectX's errors. Without the flag FLUSH the pages may come at
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
    let regions = list.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let is_synchronous = flags & IBV_ADVISE_MR_FLAG_FLUSH != 0;
    for (element, region) in list.iter().zip(&regions) {
        let result = bring_in(element, region, advice);
        if is_synchronous {
            result?;
        }
    }
    Ok(())
}

/// Returns the region of an element, if the advice is allowed for it.
fn find(domain: &Domain, element: &ibv_sge, advice: Advice) -> Result<Arc<MemoryRegion>, Errno> {
    const NOT_PERMITTED: Errno = Errno::new(libc::EPERM);
    let region = domain.adapter.keys.find(element.lkey)?;
    let memory = region.on_demand().ok_or(Errno::NO_ENTRY)?;
    if memory.pd != domain.protection.number() {
        return Err(NOT_PERMITTED.because("the region is of another PD"));
    }
    if advice == Advice::PrefetchWrite && !memory.writable {
        let text = "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE needs a region with IBV_ACCESS_LOCAL_WRITE";
        return Err(NOT_PERMITTED.because(text));
    }
    Ok(region)
}

/// Brings the pages of an element into memory.
fn bring_in(element: &ibv_sge, region: &MemoryRegion, advice: Advice) -> Result<(), Errno> {
    let (start, length) = (element.addr, element.length as usize);
    let wrong = |right: &'static str| {
        Errno::FAULT.argument("sg_list->addr", Shown::Bits(start), Right::Text(right))
    };
    let range = region.range().ok_or(Errno::NO_ENTRY)?;
    let address = address_of(&range, start, length);
    let address = address.ok_or_else(|| wrong("a range inside of the region"))?;
    let access = match advice {
        Advice::Prefetch => Access::Read,
        Advice::PrefetchWrite => Access::Write,
        // The program's page tables have already what is in memory. In simulated time the card
        // does not know it: that depends on the machine.
        Advice::PrefetchNoFault => return Ok(()),
    };
    prefetch(address, length, access)?;
    match region.prefetch(address, length)? {
        true => Ok(()),
        false => Err(wrong("memory that permits the accesses of the region")),
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
