//! Memory regions: access flags and ranges, checked before the device sees them.

use std::sync::Arc;

use ferroce_driver::{Lease, MemoryAccess, MemoryRange, MemoryRegion, Reregistration};
use parking_lot::Mutex;

use crate::abi::*;
use crate::adapter::Adapter;
use crate::dm::Dm;
use crate::domain::Domain;
use crate::errno::{Errno, Shown, within};
use crate::on_demand::{self, PAGING_FLAGS, Paging};
use crate::os::memory::{FileMapping, populate};

/// Flags that a region may be registered with, in addition to the optional ones.
const KNOWN: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_FLUSH_GLOBAL
    | IBV_ACCESS_FLUSH_PERSISTENT;

/// Memory of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    DeviceMemory,
    DmaBuf,
    Null,
}

/// Body of `struct ibv_mr`.
pub struct Mr {
    pub adapter: Arc<Adapter>,
    pub region: Arc<MemoryRegion>,
    kind: Kind,
    changeable: Mutex<Changeable>,
    _memory: Option<Lease>,
    /// Unmapped last: the region has ended before.
    _mapping: Option<FileMapping>,
}

/// State that reregistration may change.
struct Changeable {
    _domain: Lease,
    zero_based: bool,
    /// True if it has the right to be flushed to persistence.
    is_persistent: bool,
}

/// Changes of `ibv_rereg_mr`; `None`: unchanged.
pub struct Change<'a> {
    pub domain: Option<&'a Domain>,
    /// Address and length.
    pub range: Option<(usize, usize)>,
    /// `enum ibv_access_flags`.
    pub flags: Option<u32>,
}

impl Mr {
    fn new(domain: &Domain, region: Arc<MemoryRegion>, kind: Kind, flags: u32) -> Self {
        Self {
            adapter: domain.adapter.clone(),
            region,
            kind,
            changeable: Mutex::new(Changeable {
                _domain: domain.lease(),
                zero_based: flags & IBV_ACCESS_ZERO_BASED != 0,
                is_persistent: flags & IBV_ACCESS_FLUSH_PERSISTENT != 0,
            }),
            _memory: None,
            _mapping: None,
        }
    }

    /// Registers memory. `iova` is the address of its start for work requests and the peer, unless
    /// the flags request address zero.
    pub fn register(
        domain: &Domain,
        address: usize,
        length: usize,
        iova: u64,
        flags: u32,
    ) -> Result<Self, Errno> {
        let device = domain.adapter.device()?;
        let access = access(flags & !PAGING_FLAGS)?;
        check_flush(&domain.adapter, access, Some((address, length)))?;
        let paging = Paging::parse(flags, device.capabilities())?;
        check_pinned(paging, access)?;
        check_range(address as u64, length)?;
        let zero_based = flags & IBV_ACCESS_ZERO_BASED != 0;
        let iova = if zero_based { 0 } else { iova };
        check_range(iova, length)?;
        let range = MemoryRange {
            address,
            length,
            virtual_address: iova,
        };
        match paging {
            Paging::Pinned => populate(address, length, access.local_write)?,
            Paging::OnDemand => {
                on_demand::check_range(&range, flags, device.capabilities())?;
            }
        }
        let (protection, translation) = (&domain.protection, paging.translation());
        let region = MemoryRegion::register_translated(protection, range, access, translation)?;
        if paging == Paging::OnDemand {
            domain.adapter.keys.add(&region);
        }
        Ok(Self::new(domain, region, Kind::Memory, flags))
    }

    /// `ibv_alloc_null_mr`.
    pub fn null(domain: &Domain) -> Result<Self, Errno> {
        domain.adapter.check()?;
        let region = MemoryRegion::register_null(&domain.protection)?;
        domain.adapter.keys.add_null(&region);
        Ok(Self::new(domain, region, Kind::Null, 0))
    }

    /// `ibv_reg_dm_mr`.
    ///
    /// # Errors
    /// `EINVAL` for a range that is not in the memory, and for addresses that do not begin at zero:
    /// device memory has no address. `EOPNOTSUPP` for unsupported rights.
    pub fn of_device_memory(
        domain: &Domain,
        memory: &Dm,
        offset: u64,
        length: usize,
        flags: u32,
    ) -> Result<Self, Errno> {
        domain.adapter.check()?;
        let access = access(flags)?;
        check_flush(&domain.adapter, access, None)?;
        if flags & IBV_ACCESS_ZERO_BASED == 0 {
            let right = "with IBV_ACCESS_ZERO_BASED, device memory has no address";
            return Err(Errno::wrong("access", Shown::Bits(flags.into()), right));
        }
        memory.check_range(offset, length as u64)?;
        let region = MemoryRegion::register_device_memory(
            &domain.protection,
            &memory.memory,
            offset,
            length,
            0,
            access,
        )?;
        Ok(Self {
            _memory: Some(memory.lease()),
            ..Self::new(domain, region, Kind::DeviceMemory, flags)
        })
    }

    /// Returns the region of a dma-buf, which is registered in its mapping.
    pub fn of_dma_buf(domain: &Domain, region: Arc<MemoryRegion>, mapping: FileMapping) -> Self {
        Self {
            _mapping: Some(mapping),
            ..Self::new(domain, region, Kind::DmaBuf, 0)
        }
    }

    /// `ibv_rereg_mr`. After a failure the region is unchanged.
    ///
    /// # Errors
    /// As for registration; `EOPNOTSUPP` for regions that are not memory of the program; `EBUSY`
    /// while windows are bound to it.
    pub fn change(&self, change: &Change<'_>) -> Result<(), Errno> {
        self.adapter.check()?;
        if self.kind != Kind::Memory {
            let text = "the region is not one of the program's memory";
            return Err(Errno::NOT_SUPPORTED.because(text));
        }
        let mut changeable = self.changeable.lock();
        let rights = change.flags.map(|flags| flags & !PAGING_FLAGS);
        let access = rights.map(access).transpose()?;
        let is_persistent =
            access.map_or(changeable.is_persistent, |access| access.flush_persistent);
        let zero_based = change.flags.map_or(changeable.zero_based, |flags| {
            flags & IBV_ACCESS_ZERO_BASED != 0
        });
        let old = self
            .region
            .range()
            .ok_or(Errno::INVALID.because("the region was deregistered"))?;
        let (address, length) = change.range.unwrap_or((old.address, old.length));
        check_range(address as u64, length)?;
        let flushed = MemoryAccess {
            flush_persistent: is_persistent,
            ..access.unwrap_or_default()
        };
        check_flush(&self.adapter, flushed, Some((address, length)))?;
        let paging = self.paging_after(change, &old)?;
        check_pinned(paging, flushed)?;
        if paging == Paging::Pinned && (change.range.is_some() || access.is_some()) {
            populate(
                address,
                length,
                access.is_some_and(|access| access.local_write),
            )?;
        }
        let range = change.range.map(|(address, length)| MemoryRange {
            address,
            length,
            virtual_address: if zero_based { 0 } else { address as u64 },
        });
        self.region.reregister(&Reregistration {
            pd: change.domain.map(|domain| domain.protection.clone()),
            range,
            access,
            translation: Some(paging.translation()),
        })?;
        if paging == Paging::OnDemand {
            self.adapter.keys.add(&self.region);
        }
        changeable.zero_based = zero_based;
        changeable.is_persistent = is_persistent;
        if let Some(domain) = change.domain {
            changeable._domain = domain.lease();
        }
        Ok(())
    }

    /// `ibv_dereg_mr`.
    ///
    /// # Errors
    /// `EBUSY` while windows are bound to it.
    pub fn deregister(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        self.region.deregister()?;
        self.adapter.keys.forget(&self.region);
        Ok(())
    }

    /// Returns how the pages come into memory after a change.
    fn paging_after(&self, change: &Change<'_>, old: &MemoryRange) -> Result<Paging, Errno> {
        let present = match self.region.on_demand() {
            Some(_) => Paging::OnDemand,
            None => Paging::Pinned,
        };
        let device = self.adapter.device()?;
        let wanted = change
            .flags
            .map(|flags| Paging::parse(flags, device.capabilities()));
        let paging = wanted.transpose()?.unwrap_or(present);
        let is_implicit = present == Paging::OnDemand && *old == MemoryRange::ALL;
        if is_implicit && paging == Paging::Pinned && change.range.is_none() {
            let text = "an implicit on-demand region without IBV_ACCESS_ON_DEMAND needs a range";
            return Err(Errno::INVALID.because(text));
        }
        Ok(paging)
    }
}

/// Refuses the right to be flushed on a device without FLUSH, as the kernel does. `memory`: address
/// and length of the region; `None`: it is not memory of the program.
///
/// # Errors
/// `EOPNOTSUPP` if the device lacks the FLUSH; `EINVAL` if the region is to be flushed to
/// persistence and is not persistent memory, as with rxe of Linux.
fn check_flush(
    adapter: &Adapter,
    access: MemoryAccess,
    memory: Option<(usize, usize)>,
) -> Result<(), Errno> {
    let device = adapter.device()?;
    let capabilities = device.capabilities();
    if access.flush_global && !capabilities.flush {
        let text = "access has IBV_ACCESS_FLUSH_GLOBAL, and the device has no FLUSH";
        return Err(Errno::NOT_SUPPORTED.because(text));
    }
    if !access.flush_persistent {
        return Ok(());
    }
    if !capabilities.persistent_flush {
        let text = "access has IBV_ACCESS_FLUSH_PERSISTENT, and the host has no persistent memory: \
                    that is there in simulated time, with `ferroce world --persistent`";
        return Err(Errno::NOT_SUPPORTED.because(text));
    }
    if memory.is_some_and(|(address, length)| device.has_persistent(address, length)) {
        return Ok(());
    }
    let text = "access has IBV_ACCESS_FLUSH_PERSISTENT, and not all of the region is a shared \
                mapping of the file that is the host's persistent memory";
    Err(Errno::INVALID.because(text))
}

/// Refuses an on-demand region of persistent memory.
fn check_pinned(paging: Paging, access: MemoryAccess) -> Result<(), Errno> {
    if paging == Paging::OnDemand && access.flush_persistent {
        let text = "access has IBV_ACCESS_FLUSH_PERSISTENT and IBV_ACCESS_ON_DEMAND";
        return Err(Errno::NOT_SUPPORTED.because(text));
    }
    Ok(())
}

/// Parses `enum ibv_access_flags`.
///
/// # Errors
/// `EINVAL` for unknown flags and for remote write or atomic without local write. Unknown flags of
/// the optional range are ignored, as their name implies.
pub fn access(flags: u32) -> Result<MemoryAccess, Errno> {
    let required = flags & !IBV_ACCESS_OPTIONAL_RANGE;
    within(Errno::INVALID, "access", required, KNOWN)?;
    let has = |bit: u32| flags & bit != 0;
    let writes = has(IBV_ACCESS_REMOTE_WRITE) || has(IBV_ACCESS_REMOTE_ATOMIC);
    if writes && !has(IBV_ACCESS_LOCAL_WRITE) {
        let right = "remote write and atomic with IBV_ACCESS_LOCAL_WRITE only";
        return Err(Errno::wrong("access", Shown::Bits(flags.into()), right));
    }
    Ok(MemoryAccess {
        local_write: has(IBV_ACCESS_LOCAL_WRITE),
        remote_write: has(IBV_ACCESS_REMOTE_WRITE),
        remote_read: has(IBV_ACCESS_REMOTE_READ),
        remote_atomic: has(IBV_ACCESS_REMOTE_ATOMIC),
        flush_global: has(IBV_ACCESS_FLUSH_GLOBAL),
        flush_persistent: has(IBV_ACCESS_FLUSH_PERSISTENT),
        window_bind: has(IBV_ACCESS_MW_BIND),
        relaxed_ordering: has(IBV_ACCESS_RELAXED_ORDERING),
    })
}

/// Checks that a range does not exceed the address space. It may be empty.
pub fn check_range(start: u64, length: usize) -> Result<(), Errno> {
    match start.checked_add(length as u64) {
        Some(_) => Ok(()),
        None => {
            let right = "an end below 2^64";
            Err(Errno::wrong("length", length, right))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_writes_need_the_local_right() {
        assert_eq!(access(IBV_ACCESS_REMOTE_WRITE).err(), Some(Errno::INVALID));
        assert_eq!(access(IBV_ACCESS_REMOTE_ATOMIC).err(), Some(Errno::INVALID));
        assert!(access(IBV_ACCESS_REMOTE_READ).is_ok());
        assert!(access(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE).is_ok());
    }

    #[test]
    fn optional_flags_are_ignored_and_unknown_ones_refused() {
        assert!(access(IBV_ACCESS_OPTIONAL_RANGE).is_ok());
        assert_eq!(access(1 << 15).err(), Some(Errno::INVALID));
        assert!(access(IBV_ACCESS_FLUSH_GLOBAL).is_ok());
        assert!(access(IBV_ACCESS_FLUSH_PERSISTENT).is_ok());
        // A flag of paging, which is no right: device memory is never paged.
        assert_eq!(access(IBV_ACCESS_ON_DEMAND).err(), Some(Errno::INVALID));
    }

    #[test]
    fn ranges_are_not_empty_and_do_not_wrap() {
        assert_eq!(check_range(u64::MAX - 5, 10), Err(Errno::INVALID));
        assert_eq!(check_range(u64::MAX, usize::MAX), Err(Errno::INVALID));
        for length in [0, 1] {
            assert!(check_range(0x1000, length).is_ok());
        }
    }
}
