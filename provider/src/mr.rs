//! Memory regions: access flags and ranges, checked before the device sees them.

use crate::errno::Errno;
use crate::ffi::abi::*;
use ferroce_driver::MemoryAccess;

/// Flags that a region may be registered with, beside the optional ones.
const KNOWN: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED;
/// Flags that verbs.h defines and this device has not: on-demand paging, and remote flush.
const NOT_SUPPORTED: u32 = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | 0x300;

/// Parses `enum ibv_access_flags`.
///
/// # Errors `EINVAL` for unknown flags and for remote write or atomic without local write,
/// `EOPNOTSUPP` for on-demand paging and remote flush. Unknown flags of the optional range are
/// ignored, as their name says.
pub fn access(flags: u32) -> Result<MemoryAccess, Errno> {
    let flags = match flags & !IBV_ACCESS_OPTIONAL_RANGE {
        flags if flags & NOT_SUPPORTED != 0 => return Err(Errno::NOT_SUPPORTED),
        flags if flags & !KNOWN != 0 => return Err(Errno::INVALID),
        _ => flags,
    };
    let has = |bit: u32| flags & bit != 0;
    let writes = has(IBV_ACCESS_REMOTE_WRITE) || has(IBV_ACCESS_REMOTE_ATOMIC);
    if writes && !has(IBV_ACCESS_LOCAL_WRITE) {
        return Err(Errno::INVALID);
    }
    Ok(MemoryAccess {
        local_write: has(IBV_ACCESS_LOCAL_WRITE),
        remote_write: has(IBV_ACCESS_REMOTE_WRITE),
        remote_read: has(IBV_ACCESS_REMOTE_READ),
        remote_atomic: has(IBV_ACCESS_REMOTE_ATOMIC),
        window_bind: has(IBV_ACCESS_MW_BIND),
        relaxed_ordering: false,
    })
}

/// Checks that a range is neither empty nor beyond the end of the address space.
pub fn check_range(start: u64, length: usize) -> Result<(), Errno> {
    match u64::try_from(length)
        .ok()
        .and_then(|length| start.checked_add(length))
    {
        Some(end) if end > start => Ok(()),
        _ => Err(Errno::INVALID),
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
        assert_eq!(
            access(IBV_ACCESS_ON_DEMAND).err(),
            Some(Errno::NOT_SUPPORTED)
        );
    }

    #[test]
    fn ranges_are_not_empty_and_do_not_wrap() {
        assert_eq!(check_range(0x1000, 0), Err(Errno::INVALID));
        assert_eq!(check_range(u64::MAX - 5, 10), Err(Errno::INVALID));
        assert_eq!(check_range(u64::MAX, usize::MAX), Err(Errno::INVALID));
        assert!(check_range(0x1000, 1).is_ok());
    }
}
