//! Memory of the application, and what the device may do with it.

use ferroce_spec::context::{AccessRights, MemoryEntryWord};

use crate::bus::DmaAccess;

/// Access rights of a memory region. Reading by the local device is always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryAccess {
    /// True if the local device may write, for receives and READs.
    pub local_write: bool,
    /// True if peers may write by RDMA WRITE. Needs `local_write`.
    pub remote_write: bool,
    /// True if peers may read by RDMA READ.
    pub remote_read: bool,
    /// True if peers may execute atomics. Needs `local_write`.
    pub remote_atomic: bool,
    /// True if peers may make their writes visible to all readers by FLUSH.
    pub flush_global: bool,
    /// True if peers may make their writes persistent by FLUSH.
    pub flush_persistent: bool,
    /// True if memory windows may be bound.
    pub window_bind: bool,
    /// True if the device's writes may be reordered (relaxed ordering).
    pub relaxed_ordering: bool,
}

impl MemoryAccess {
    /// Returns true if the device may write.
    pub(crate) fn writes(self) -> bool {
        self.local_write || self.remote_write || self.remote_atomic
    }

    /// Returns what the device does with the memory.
    pub(crate) fn of_device(self) -> DmaAccess {
        if self.writes() {
            DmaAccess::ReadWrite
        } else {
            DmaAccess::Read
        }
    }
}

impl From<MemoryAccess> for AccessRights {
    fn from(access: MemoryAccess) -> Self {
        let mut rights = Self::default();
        rights.set_local_write(access.local_write);
        rights.set_remote_write(access.remote_write);
        rights.set_remote_read(access.remote_read);
        rights.set_remote_atomic(access.remote_atomic);
        rights.set_flush_global(access.flush_global);
        rights.set_flush_persistent(access.flush_persistent);
        rights.set_window_bind(access.window_bind);
        rights.set_relaxed_ordering(access.relaxed_ordering);
        rights
    }
}

/// Memory of the application, and the virtual address of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// First address in this process.
    pub address: usize,
    /// Bytes.
    pub length: usize,
    /// Virtual address of the first byte in WQEs and for peers: its address, an IOVA that the
    /// application chose, or zero.
    pub virtual_address: u64,
}

impl MemoryRange {
    /// All addresses: the range of an implicit on-demand region, and of a null region.
    pub const ALL: Self = Self {
        address: 0,
        length: usize::MAX,
        virtual_address: 0,
    };

    /// Returns true if `length` bytes at `address` lie in it.
    pub(crate) fn contains(&self, address: usize, length: usize) -> bool {
        let offset = address.wrapping_sub(self.address);
        address >= self.address && offset <= self.length && length <= self.length - offset
    }
}

/// Returns the first word of a valid entry with small pages, changed by `set`.
pub(super) fn word(set: impl FnOnce(&mut MemoryEntryWord)) -> MemoryEntryWord {
    let mut word = MemoryEntryWord::default();
    word.set_log_page_size(12);
    word.set_valid(true);
    set(&mut word);
    word
}
