//! The messages: their common header, and the fixed structures that follow it.
//!
//! All fields are in the byte order of the host; both ends are on one machine. This crate reads and
//! writes little-endian, the byte order of all supported machines.

use std::os::fd::OwnedFd;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Errno;

/// Command of a message. Any number is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command(pub(crate) u16);

impl Command {
    pub(crate) const VERSION: Self = Self(1);
    pub(crate) const DMA_MAP: Self = Self(2);
    pub(crate) const DMA_UNMAP: Self = Self(3);
    pub(crate) const DEVICE_GET_INFO: Self = Self(4);
    pub(crate) const DEVICE_GET_REGION_INFO: Self = Self(5);
    pub(crate) const DEVICE_GET_IRQ_INFO: Self = Self(7);
    pub(crate) const DEVICE_SET_IRQS: Self = Self(8);
    pub(crate) const REGION_READ: Self = Self(9);
    pub(crate) const REGION_WRITE: Self = Self(10);
    pub(crate) const DMA_READ: Self = Self(11);
    pub(crate) const DMA_WRITE: Self = Self(12);
    pub(crate) const DEVICE_RESET: Self = Self(13);
    pub(crate) const REGION_WRITE_MULTI: Self = Self(15);
}

/// The type bits of [`Header::flags`].
const FLAGS_TYPE_MASK: u32 = 0xf;
/// A type: the message is a command.
pub(crate) const TYPE_COMMAND: u32 = 0;
/// A type: the message is a reply.
pub(crate) const TYPE_REPLY: u32 = 1;
/// The command requests no reply.
pub(crate) const FLAG_NO_REPLY: u32 = 1 << 4;
/// The reply reports that the command failed.
pub(crate) const FLAG_ERROR: u32 = 1 << 5;

/// First part of every message.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    /// Identifier that the sender gave the command; the reply has the same.
    pub(crate) id: U16,
    pub(crate) command: U16,
    /// Bytes of the whole message.
    pub(crate) size: U32,
    pub(crate) flags: U32,
    /// An errno, in an error reply.
    pub(crate) error: U32,
}

/// Bytes of a [`Header`].
pub(crate) const HEADER_SIZE: usize = size_of::<Header>();
const _: () = assert!(HEADER_SIZE == 16);

impl Header {
    /// Creates the header of a message with a body of `body_size` bytes, at most
    /// [`crate::limit::MESSAGE_SIZE_MAX`].
    pub(crate) fn new(id: u16, command: Command, flags: u32, body_size: usize) -> Self {
        let size = HEADER_SIZE + body_size;
        Self {
            id: id.into(),
            command: command.0.into(),
            size: u32::try_from(size).unwrap_or(u32::MAX).into(),
            flags: flags.into(),
            error: 0.into(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        Command(self.command.get())
    }

    pub(crate) fn kind(&self) -> u32 {
        self.flags.get() & FLAGS_TYPE_MASK
    }

    pub(crate) fn wants_reply(&self) -> bool {
        self.flags.get() & FLAG_NO_REPLY == 0
    }

    pub(crate) fn is_error(&self) -> bool {
        self.flags.get() & FLAG_ERROR != 0
    }
}

/// A whole received message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
    /// Errno, if some of its file descriptors were lost.
    pub(crate) lost_fds: Option<Errno>,
}

/// `VERSION`, both ways; JSON follows.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Version {
    pub(crate) major: U16,
    pub(crate) minor: U16,
}

/// `DMA_MAP`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DmaMapRequest {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) offset: U64,
    pub(crate) iova: U64,
    pub(crate) length: U64,
}

/// `DMA_UNMAP`, both ways.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DmaUnmap {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) iova: U64,
    pub(crate) length: U64,
}

/// `DEVICE_GET_INFO`, both ways.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DeviceInfoFields {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) regions: U32,
    pub(crate) irqs: U32,
}

/// `DEVICE_GET_REGION_INFO`, both ways; capabilities may follow in the reply.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RegionInfoFields {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) index: U32,
    pub(crate) cap_offset: U32,
    pub(crate) size: U64,
    pub(crate) offset: U64,
}

/// First part of each capability of a region.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CapabilityHeader {
    pub(crate) id: U16,
    pub(crate) version: U16,
    /// Offset of the next one from the beginning of the region's description. 0: this is the last.
    pub(crate) next: U32,
}

/// Follows the header of a sparse-mmap capability; the areas come next.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SparseMmap {
    pub(crate) area_count: U32,
    pub(crate) reserved: U32,
}

/// One area of a sparse-mmap capability.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SparseArea {
    pub(crate) offset: U64,
    pub(crate) size: U64,
}

/// `DEVICE_GET_IRQ_INFO`, both ways.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct IrqInfoFields {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) index: U32,
    pub(crate) count: U32,
}

/// `DEVICE_SET_IRQS`; booleans may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct IrqSet {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) index: U32,
    pub(crate) start: U32,
    pub(crate) count: U32,
}

/// `REGION_READ` and `REGION_WRITE`, both ways; data may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RegionAccess {
    pub(crate) offset: U64,
    pub(crate) region: U32,
    pub(crate) count: U32,
}

/// `REGION_WRITE_MULTI`, both ways; the writes follow in the request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct WriteMulti {
    pub(crate) count: U64,
}

/// One write of a `REGION_WRITE_MULTI`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SingleWrite {
    pub(crate) access: RegionAccess,
    pub(crate) data: [u8; 8],
}

/// `DMA_READ` and `DMA_WRITE`, both ways; data may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DmaAccess {
    pub(crate) iova: U64,
    pub(crate) count: U64,
}

const _: () = assert!(
    size_of::<Version>() == 4
        && size_of::<DmaMapRequest>() == 32
        && size_of::<DmaUnmap>() == 24
        && size_of::<DeviceInfoFields>() == 16
        && size_of::<RegionInfoFields>() == 32
        && size_of::<CapabilityHeader>() == 8
        && size_of::<SparseMmap>() == 8
        && size_of::<SparseArea>() == 16
        && size_of::<IrqInfoFields>() == 16
        && size_of::<IrqSet>() == 20
        && size_of::<RegionAccess>() == 16
        && size_of::<SingleWrite>() == 24
        && size_of::<DmaAccess>() == 16
);

/// Returns the structure at the beginning of `body`, and the bytes after it.
pub(crate) fn split<T>(body: &[u8]) -> Result<(T, &[u8]), Errno>
where
    T: FromBytes,
{
    T::read_from_prefix(body).map_err(|_| Errno::INVAL)
}

/// Returns `body` as a structure.
pub(crate) fn whole<T>(body: &[u8]) -> Result<T, Errno>
where
    T: FromBytes,
{
    T::read_from_bytes(body).map_err(|_| Errno::INVAL)
}
