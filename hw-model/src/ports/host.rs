//! What the NIC sees of the PCIe link: host memory, interrupts and doorbell writes.

use ferroce_units::Instant;

/// Why a DMA access failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaFault {
    /// The completion has the status "unsupported request" or "completer abort" (PCIe 6.0, 2.2.9):
    /// the IOVA is not mapped, or not with the rights needed. A posted write has no completion: it
    /// is dropped, and the IOMMU logs a fault.
    Refused,
    /// No completion came before the completion time-out (PCIe 6.0, 2.8).
    CompletionTimeout,
    /// The data of the completion is poisoned (PCIe 6.0, 2.7.2): it is not used.
    Poisoned,
}

/// A DMA access that failed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("DMA of {length} bytes at IOVA {iova:#x} failed: {fault:?}")]
pub struct DmaError {
    /// First byte of the access.
    pub iova: u64,
    /// Bytes that were to be transferred.
    pub length: usize,
    /// The cause.
    pub fault: DmaFault,
}

impl DmaError {
    /// Returns the error of an access that the host refused.
    #[inline]
    pub const fn refused(iova: u64, length: usize) -> Self {
        Self {
            iova,
            length,
            fault: DmaFault::Refused,
        }
    }
}

/// An atomic operation on eight bytes of host memory (a PCIe AtomicOp).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaAtomic {
    /// Writes `swap` if the memory holds `compare`.
    CompareSwap {
        /// Value to compare with.
        compare: u64,
        /// Value to write.
        swap: u64,
    },
    /// Adds `add`, modulo 2^64.
    FetchAdd {
        /// Value to add.
        add: u64,
    },
}

impl DmaAtomic {
    /// Returns what the memory holds afterwards if it holds `original` now.
    #[inline]
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            DmaAtomic::CompareSwap { compare, swap } if original == compare => swap,
            DmaAtomic::CompareSwap { .. } => original,
            DmaAtomic::FetchAdd { add } => original.wrapping_add(add),
        }
    }
}

/// A write to BAR2 that has landed: slot number (byte offset / 8) and the 64-bit value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doorbell {
    /// Byte offset / 8: a doorbell slot, or behind [`ferroce_spec::doorbell::SLOTS`] a place in a
    /// push page.
    pub slot: u32,
    /// The newest value that was written; older ones to the same slot may have been overwritten.
    pub value: u64,
}

/// When a posted write is issued, and behind what it has to stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOrder {
    /// When the NIC issues it.
    pub at: Instant,
    /// When the host sees what the same flow wrote before: posted writes do not pass each other.
    pub after: Instant,
}

/// The host's side of the PCIe link, as the NIC's DMA engine and interrupt logic see it.
///
/// The implementation is the bus: in process it copies from the application's memory, behind
/// vfio-user it copies from shared file descriptors, in a simulated world it is a simulated host.
///
/// Every access says when the NIC issues it, `at`, and returns when it is done. A host without
/// simulated time does everything at once and answers with the instant that it was given.
pub trait Host {
    /// Reads host memory (a PCIe memory read). Fills `destination` or fails as a whole. Returns
    /// when the last completion has arrived.
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError>;

    /// Writes host memory (a PCIe posted write). All of `source` or nothing. Returns when the host
    /// sees it, which is not before `order.after`.
    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError>;

    /// As [`Host::dma_read`], for bytes that the NIC does not use: `scratch`, which is as long, may
    /// or may not contain them afterwards.
    #[inline]
    fn dma_read_unused(
        &mut self,
        at: Instant,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        self.dma_read(at, iova, scratch)
    }

    /// As [`Host::dma_write`], of what host memory contains already: nothing changes. `scratch` is
    /// as long, and may or may not contain it afterwards.
    #[inline]
    fn dma_write_unchanged(
        &mut self,
        order: WriteOrder,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        self.peek(iova, scratch)?;
        self.dma_write(order, iova, scratch)
    }

    /// Reads host memory as software does, without an access of the NIC: it takes no time.
    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError>;

    /// Writes a descriptor whose last word carries an owner bit.
    ///
    /// `iova` is 8-byte aligned. Words become visible in order, each one whole, and the last one is
    /// a release store: an observer of the flipped owner bit observes everything written before, by
    /// this call and by all earlier [`Host::dma_write`] calls (PCIe ordering of posted writes).
    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError>;

    /// Reads, changes and writes eight bytes of host memory, atomically also with respect to the
    /// host's processors; returns what was there before, and when that has arrived.
    ///
    /// `iova` is 8-byte aligned. The value has the host's byte order. A host whose PCIe root
    /// does not complete AtomicOps refuses; [`crate::NicConfig::global_atomics`] is then false.
    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        let _ = (at, operation);
        Err(DmaError::refused(iova, 8))
    }

    /// Sends the MSI-X message of `vector`.
    ///
    /// The host must not call back into the NIC from here.
    fn interrupt(&mut self, order: WriteOrder, vector: u16);

    /// Returns when the link will have taken all posted writes that it was given so far: the card
    /// keeps what it receives until then, and takes no more when it has enough.
    fn posted_until(&self) -> Instant {
        Instant::ZERO
    }

    /// Returns when the link will have brought all that reads have requested so far: the card
    /// requests no more when enough is on its way.
    fn requested_until(&self) -> Instant {
        Instant::ZERO
    }

    /// Takes the next doorbell write that has landed, in no particular order between slots.
    fn next_doorbell(&mut self) -> Option<Doorbell>;

    /// All words of the write that [`Host::next_doorbell`] has given last, when it was more than
    /// one: a push. Blocks that belong together come as one write, when all have landed.
    fn pushed(&self) -> &[u64] {
        &[]
    }

    /// The function is in this cycle of its clock. Only a card in RTL has one; only a record of its
    /// accesses needs to know.
    #[inline]
    fn set_cycle(&mut self, cycle: u64) {
        let _ = cycle;
    }
}

/// A [`Host`] without simulated time: every access is done at once.
pub trait UntimedHost {
    /// As [`Host::dma_read`].
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError>;

    /// As [`Host::peek`].
    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.read(iova, destination)
    }

    /// As [`Host::dma_write`].
    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError>;

    /// As [`Host::dma_write_descriptor`].
    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError>;

    /// As [`Host::dma_atomic`].
    fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        let _ = operation;
        Err(DmaError::refused(iova, 8))
    }

    /// As [`Host::interrupt`].
    fn interrupt(&mut self, vector: u16) {
        let _ = vector;
    }

    /// As [`Host::next_doorbell`].
    fn next_doorbell(&mut self) -> Option<Doorbell> {
        None
    }

    /// As [`Host::pushed`].
    fn pushed(&self) -> &[u64] {
        &[]
    }
}

impl<T: UntimedHost> Host for T {
    #[inline]
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError> {
        self.read(iova, destination)?;
        Ok(at)
    }

    #[inline]
    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError> {
        self.write(iova, source)?;
        Ok(order.at)
    }

    #[inline]
    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        UntimedHost::peek(self, iova, destination)
    }

    #[inline]
    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError> {
        self.write_descriptor(iova, words)?;
        Ok(order.at)
    }

    #[inline]
    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        Ok((self.atomic(iova, operation)?, at))
    }

    #[inline]
    fn interrupt(&mut self, _order: WriteOrder, vector: u16) {
        UntimedHost::interrupt(self, vector);
    }

    #[inline]
    fn next_doorbell(&mut self) -> Option<Doorbell> {
        UntimedHost::next_doorbell(self)
    }

    #[inline]
    fn pushed(&self) -> &[u64] {
        UntimedHost::pushed(self)
    }
}
