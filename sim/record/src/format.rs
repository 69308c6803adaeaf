//! The file format: a header of 64 bytes, then records, each a header of 40 bytes and its data.
//!
//! All integers are little-endian. Records are in the order in which the function made them, and
//! numbered from 0. The last record of a closed file is [`Kind::END`]; the file of a killed process
//! ends after its last flush, or in the middle of it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of a record file.
pub const MAGIC: [u8; 8] = *b"FERROREC";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Maximum bytes of data of one record. Longer accesses become several records.
pub const MAX_DATA: usize = 64 << 10;
/// Maximum bytes of a file: recording ends there.
pub const MAX_FILE_BYTES: u64 = 1 << 30;
/// [`RecordHeader::cycle`] of a function without a clock.
pub const NO_CYCLE: u64 = u64::MAX;

/// The source of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The model's NIC.
    Model,
    /// The card in SystemVerilog.
    Rtl,
    /// The driver's side of a bus: registers, doorbells, commands, CQEs and EQEs.
    Driver,
}

impl Source {
    /// Returns its number in the file.
    pub const fn code(self) -> u32 {
        match self {
            Self::Model => 1,
            Self::Rtl => 2,
            Self::Driver => 3,
        }
    }

    /// Returns the source with a number.
    pub const fn of_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Model),
            2 => Some(Self::Rtl),
            3 => Some(Self::Driver),
            _ => None,
        }
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Rtl => "card in SystemVerilog",
            Self::Driver => "driver's side of the bus",
        }
    }
}

/// The start of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FileHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of this header.
    pub header_bytes: u32,
    /// A [`Source`].
    pub source: u32,
    /// Major version of the contract in bits 31:16, minor version in bits 15:0.
    pub contract: u32,
    /// Start of the recording, in nanoseconds since 1970.
    pub started_ns: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// The start of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHeader {
    /// Number of the record.
    pub sequence: u64,
    /// Time of the function, in nanoseconds since its start.
    pub time_ns: u64,
    /// Clock cycle of a card in RTL, or [`NO_CYCLE`].
    pub cycle: u64,
    /// Offset, slot or IOVA: see [`Kind`].
    pub address: u64,
    /// Bytes of data that follow.
    pub length: u32,
    /// Its kind.
    pub kind: Kind,
    /// See [`flags`].
    pub flags: u8,
    /// Vector or reason: see [`Kind`].
    pub detail: u16,
}

/// Bytes of a record's header.
pub const RECORD_HEADER: usize = size_of::<RecordHeader>();

const _: () = assert!(size_of::<FileHeader>() == 64);
const _: () = assert!(RECORD_HEADER == 40);

/// The kind of a record. Readers skip values without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Kind(pub u8);

impl Kind {
    /// Software reads BAR0 at `address`: 4 or 8 bytes.
    pub const REGISTER_READ: Self = Self(1);
    /// Software writes BAR0 at `address`: 4 or 8 bytes.
    pub const REGISTER_WRITE: Self = Self(2);
    /// Software reads BAR4 from byte `address` on.
    pub const MEMORY_READ: Self = Self(3);
    /// Software writes BAR4 from byte `address` on.
    pub const MEMORY_WRITE: Self = Self(4);
    /// A write to slot `address` of BAR2 has arrived: 8 bytes, or the words of a push.
    pub const DOORBELL: Self = Self(5);
    /// The function reads host memory at IOVA `address`.
    pub const DMA_READ: Self = Self(6);
    /// The function writes host memory at IOVA `address`.
    pub const DMA_WRITE: Self = Self(7);
    /// The function changes 8 bytes at IOVA `address`: the old value, then the new one.
    pub const DMA_ATOMIC: Self = Self(8);
    /// The function sends the MSI-X message of vector `detail`.
    pub const INTERRUPT: Self = Self(9);
    /// The function sends a frame, without FCS.
    pub const FRAME_SENT: Self = Self(10);
    /// The function receives a frame, without FCS.
    pub const FRAME_RECEIVED: Self = Self(11);
    /// The function loses its power.
    pub const POWER_OFF: Self = Self(12);
    /// A section begins; the data is its name, UTF-8.
    pub const SECTION: Self = Self(13);
    /// The record ends; `detail` is the reason: 0, the function was closed; 1, the file is full.
    pub const END: Self = Self(14);

    /// Returns its name in the output, and for `--kind`.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::REGISTER_READ => "register-read",
            Self::REGISTER_WRITE => "register-write",
            Self::MEMORY_READ => "memory-read",
            Self::MEMORY_WRITE => "memory-write",
            Self::DOORBELL => "doorbell",
            Self::DMA_READ => "dma-read",
            Self::DMA_WRITE => "dma-write",
            Self::DMA_ATOMIC => "dma-atomic",
            Self::INTERRUPT => "interrupt",
            Self::FRAME_SENT => "sent",
            Self::FRAME_RECEIVED => "received",
            Self::POWER_OFF => "power-off",
            Self::SECTION => "section",
            Self::END => "end",
            _ => return None,
        })
    }
}

/// [`RecordHeader::detail`] of [`Kind::END`]: the function was closed.
pub const END_CLOSED: u16 = 0;
/// [`RecordHeader::detail`] of [`Kind::END`]: the file has [`MAX_FILE_BYTES`].
pub const END_FULL: u16 = 1;

/// Flags of a record.
pub mod flags {
    /// A DMA access that the host refused. The data is its length, 8 bytes.
    pub const FAILED: u8 = 1;
    /// A frame whose ICRC was not computed: it has not left this machine.
    pub const NO_ICRC: u8 = 2;
    /// Not seen on the bus, but read from memory on the driver's side.
    pub const OBSERVED: u8 = 4;
    /// The completion of a command that the driver's side has not seen: its slot in the ring was
    /// reused before it was read.
    pub const UNSEEN: u8 = 8;
}
