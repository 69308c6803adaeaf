//! Memory regions of a thread, and the addresses that its messages use in them.

use std::rc::Rc;
use std::sync::Arc;

use ferroce_driver::{
    DataSegment, DeviceMemory, LKey, MemoryAccess, MemoryRange, MemoryRegion, ProtectionDomain,
    RKey, RemoteAddress, Translation,
};

use crate::buffer::Buffer;
use crate::error::Error;
use crate::spec::{PageSize, PerfSpec};

/// Size of the part of a buffer through which the addresses of small messages cycle; the unit in
/// which they advance is the cache line (`cycle_buffer`, `cache_line_size` of perftest).
const CYCLE: u64 = 4096;
pub(super) const LINE: u64 = 64;
/// Page size of a host.
pub(super) const PAGE: u64 = 4096;
/// Bytes of the target region of a host in a `Batch`.
pub(super) const BATCH_REGION: u64 = 1 << 30;
/// Bytes of the target region of a thread in a `Window`.
pub(super) const WINDOW_REGION: u64 = 2 << 20;
/// Bytes before a datagram's payload: room for the GRH.
pub const GRH: u64 = 40;

/// Access rights that perftest's tests need.
const ACCESS: MemoryAccess = MemoryAccess {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    flush_global: false,
    flush_persistent: false,
    window_bind: false,
    relaxed_ordering: false,
};

/// Host memory of a region.
#[derive(Debug, Clone, Copy)]
pub struct HostMemory {
    page_size: PageSize,
    /// Offset from the beginning of the first page.
    offset: u32,
    relaxed_order: bool,
}

impl HostMemory {
    /// Returns the memory of a measurement.
    pub fn of(spec: &PerfSpec) -> Self {
        Self {
            page_size: spec.page_size,
            offset: spec.offset_bytes,
            relaxed_order: spec.placement.relaxed_order,
        }
    }
}

/// A registered piece of memory.
#[derive(Clone)]
pub struct Region {
    /// Memory of the host; `None`: memory of the card.
    pub buffer: Option<Rc<Buffer>>,
    address: u64,
    length: u64,
    region: Arc<MemoryRegion>,
}

impl Region {
    /// Registers `length` bytes of host memory.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::Memory`].
    pub fn new(pd: &Arc<ProtectionDomain>, length: u64, host: HostMemory) -> Result<Self, Error> {
        let page_size = host.page_size;
        let memory = |source| Error::Memory { length, source };
        let alignment = page_size.bytes() as usize;
        let buffer =
            Buffer::new(length as usize, alignment, host.offset as usize).map_err(memory)?;
        let address = buffer.address();
        let range = MemoryRange {
            address,
            length: length as usize,
            virtual_address: address as u64,
        };
        let access = MemoryAccess {
            relaxed_ordering: host.relaxed_order,
            ..ACCESS
        };
        let region = MemoryRegion::register_translated(pd, range, access, page_size.translation())
            .map_err(Error::driver("memory region"))?;
        Ok(Self {
            buffer: Some(Rc::new(buffer)),
            address: address as u64,
            length,
            region,
        })
    }

    /// Registers `length` bytes of the card's memory.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn of_card(pd: &Arc<ProtectionDomain>, length: u64) -> Result<Self, Error> {
        let memory = DeviceMemory::alloc(pd.device(), length, LINE.trailing_zeros())
            .map_err(Error::driver("device memory"))?;
        let region =
            MemoryRegion::register_device_memory(pd, &memory, 0, length as usize, 0, ACCESS)
                .map_err(Error::driver("region of device memory"))?;
        Ok(Self {
            buffer: None,
            address: 0,
            length,
            region,
        })
    }

    /// Returns the `length` bytes at `place`, for a work request.
    pub fn segment(&self, place: u64, length: u32) -> DataSegment {
        let LKey(l_key) = self.region.lkey();
        DataSegment {
            address: self.address + place,
            length,
            l_key,
        }
    }

    /// Returns its address, key and length, for a peer.
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion {
            address: self.address,
            length: self.length,
            key: self.region.rkey(),
        }
    }
}

/// A region of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    address: u64,
    /// Bytes.
    pub length: u64,
    key: RKey,
}

impl RemoteRegion {
    /// Returns the place in it.
    #[inline]
    pub fn at(&self, place: u64) -> RemoteAddress {
        RemoteAddress {
            virtual_address: self.address + place,
            r_key: self.key,
        }
    }
}

impl PageSize {
    /// Returns the bytes of a page; for physical memory, the bytes to which it is aligned.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Small | Self::Physical => 4096,
            Self::Huge2M => 2 << 20,
            Self::Huge1G => 1 << 30,
        }
    }

    fn translation(self) -> Translation {
        match self {
            Self::Small => Translation::Pages(12),
            Self::Huge2M => Translation::Pages(21),
            Self::Huge1G => Translation::Pages(30),
            Self::Physical => Translation::Direct,
        }
    }
}

/// Returns the size of a buffer for messages of `size` bytes (`BUFF_SIZE`).
pub fn buffer_bytes(size: u64) -> u64 {
    size.max(CYCLE)
}

/// Returns the offset of message number `count` of a QP in its buffer. Small messages cycle through
/// it, a cache line or more apart (`increase_loc_addr`).
#[inline]
pub fn place_of(size: u64, count: u64) -> u64 {
    if size > CYCLE / 2 {
        return 0;
    }
    let step = if size > LINE {
        size.next_multiple_of(LINE)
    } else {
        LINE
    };
    count % (CYCLE / step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_messages_cycle_as_in_perftest() {
        let places = |size| {
            (0..66)
                .map(|count| place_of(size, count))
                .collect::<Vec<_>>()
        };
        assert_eq!(places(2)[..3], [0, 64, 128]);
        assert_eq!(places(64)[63..], [63 * 64, 0, 64]);
        assert_eq!(places(65)[31..34], [31 * 128, 0, 128]);
        assert_eq!(places(2048)[..3], [0, 2048, 0]);
        assert_eq!(places(4096)[..3], [0, 0, 0]);
        assert_eq!((buffer_bytes(2), buffer_bytes(65_536)), (4096, 65_536));
    }
}
