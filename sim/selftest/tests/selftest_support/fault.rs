//! Faults of a card.

use ferroce_spec::counter::Counter;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    // Configuration space.
    NotEnumerated,
    OtherDevice,
    NoBusMaster,
    NoMemoryDecoding,
    NoMsix,
    MsixElsewhere,
    CapabilityLoop,
    NoBarAddress,
    SmallDoorbellBar,
    // Register block.
    /// Reads of BAR0 are all ones.
    Gone,
    /// The same, after this many reads.
    GoneAfter(u64),
    BigEndian,
    OtherContract,
    NoMac,
    /// The second half of a 64-bit read returns another register.
    ReadHalves,
    /// Occasionally a read is wrong.
    MarginalLink,
    /// Bits of `command_queue_base` that read as one.
    StuckAtOne(u64),
    StuckAtZero(u64),
    UpperWritesLost,
    WritableIdentity,
    /// Address bit 11 is not decoded.
    AliasedRegisters,
    ResetNeverEnds,
    ResetForgetsNothing,
    CountersSurviveReset,
    ClockStands,
    ClockCycles,
    ClockGoesBack,
    // Command queue.
    CommandDoorbellLost,
    CommandReadsLost,
    CommandWritesLost,
    WrongByteOrder,
    /// Commands take time; an entry that is being read at a reset is executed after the reset.
    StaleReadAfterReset,
    /// Commands take time; an outcome in flight at a reset is written after the reset.
    WriteAfterReset,
    NeverEnabled,
    // DMA.
    DmaRefused,
    /// The part of a write after a 4 KiB boundary is lost.
    WritesEndAtPage,
    /// The part of a read after a 4 KiB boundary is zero.
    ReadsEndAtPage,
    /// Writes are rounded up to dwords.
    NoByteEnables,
    /// Writes of payload are cut to this length.
    WritesEndAfter(usize),
    /// Unaligned writes are displaced by this many bytes.
    Misaligned,
    // Interrupts.
    VectorDead(u16),
    VectorSwapped(u16, u16),
    InterruptsTwice,
    // Doorbells.
    DoorbellPageDead(u32),
    DoorbellPagesAliased,
    // Wire.
    NoLoopback,
    CorruptFrames,
    /// One frame in this many is lost.
    LossyLoopback(u32),
    /// The same, but only for reliable connections.
    LossyReliable(u32),
    // Counters and memory.
    CounterStands(Counter),
    CounterTwice(Counter),
    DeviceMemoryAliased,
    DeviceMemoryDwords,
    /// Registers read as random numbers.
    Random(u64),
    /// Everything that the device writes to host memory is random.
    RandomDma(u64),
}
