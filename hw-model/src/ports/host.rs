//! The NIC's view of the PCIe link: host memory, interrupts and doorbell writes.

use ferroce_units::Instant;

/// Reason why a DMA access failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaFault {
    /// The completion has the status Unsupported Request or Completer Abort (PCIe 6.0, 2.2.9): the
    /// IOVA is not mapped, or not with the required rights. A posted write has no completion: it is
    /// dropped, and the IOMMU logs a fault.
    Refused,
    /// No completion arrived before the completion timeout (PCIe 6.0, 2.8).
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
    /// Length of the access.
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
    /// Returns the new content of memory that holds `original`.
    #[inline]
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            DmaAtomic::CompareSwap { compare, swap } if original == compare => swap,
            DmaAtomic::CompareSwap { .. } => original,
            DmaAtomic::FetchAdd { add } => original.wrapping_add(add),
        }
    }
}

/// A write to BAR2 that has arrived: slot number (byte offset / 8) and the 64-bit value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doorbell {
    /// Byte offset / 8: a doorbell slot, or from [`ferroce_spec::doorbell::SLOTS`] on a word of a
    /// push page.
    pub slot: u32,
    /// The newest value that was written; it may have overwritten older ones in the same slot.
    pub value: u64,
}

/// The order of a posted write, which the card requests with each TLP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PostedOrder {
    /// It is not visible before older ones.
    #[default]
    Strict,
    /// It may pass older ones (PCIe base specification, 2.4: Relaxed Ordering).
    Relaxed,
}

/// Time of issue of a posted write, and the writes that it must not overtake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOrder {
    /// When the NIC issues it.
    pub at: Instant,
    /// When the host sees the earlier writes of the same flow: posted writes do not overtake each
    /// other.
    pub after: Instant,
    /// The order to which the memory region has a right.
    pub posted: PostedOrder,
}

/// The host's side of the PCIe link, used by the NIC's DMA engine and interrupt logic.
///
/// The implementation is the bus: in process it copies from the application's memory, behind
/// vfio-user it copies from shared file descriptors, in a simulated world it is a simulated host.
///
/// Every access has the time `at` at which the NIC issues it, and returns when it is done. A host
/// without simulated time completes everything immediately and returns the given instant.
pub trait Host {
    /// Reads host memory (a PCIe memory read). Fills `destination` or fails as a whole. Returns
    /// when the last completion has arrived.
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError>;

    /// Writes host memory (a PCIe posted write): all of `source` or nothing. Returns when the host
    /// sees it, not before `order.after`.
    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError>;

    /// As [`Host::dma_read`], for bytes that the NIC does not use: `scratch`, which has the same
    /// length, need not contain them afterwards.
    #[inline]
    fn dma_read_unused(
        &mut self,
        at: Instant,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        self.dma_read(at, iova, scratch)
    }

    /// As [`Host::dma_write`], with the current contents of host memory: nothing changes. `scratch`
    /// has the same length and need not contain them afterwards.
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

    /// Reads host memory as software does, not as an access of the NIC: it takes no time.
    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError>;

    /// Writes a descriptor whose last word carries an owner bit.
    ///
    /// `iova` is 8-byte aligned. Words become visible in order, each one whole, and the last one is
    /// a release store: an observer of the flipped owner bit also observes everything written
    /// before, by this call and by all earlier [`Host::dma_write`] calls (PCIe ordering of posted
    /// writes).
    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError>;

    /// Performs an atomic on eight bytes of host memory, also with respect to the host's
    /// processors; returns the old value, and when it has arrived.
    ///
    /// `iova` is 8-byte aligned. The value has the host's byte order. A host whose PCIe root
    /// complex does not complete AtomicOps refuses; [`crate::NicConfig::global_atomics`] is then
    /// false.
    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        let _ = (at, operation);
        Err(DmaError::refused(iova, 8))
    }

    /// Makes the content of `length` bytes at `iova` persistent: what FLUSH with placement
    /// PERSISTENT needs (IBTA annex A19). Called after a read that has pushed the earlier posted
    /// writes. Returns when all of it is in the persistence domain. A host without persistent
    /// memory does nothing; [`crate::NicConfig::persistent_flush`] is then false.
    fn persist(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let _ = (iova, length);
        at
    }

    /// Sends the MSI-X message of `vector`.
    ///
    /// The host must not call back into the NIC from this method.
    fn interrupt(&mut self, order: WriteOrder, vector: u16);

    /// Returns when the link will have taken all posted writes issued so far. Until then the card
    /// keeps what it receives, and it takes no more when it has enough.
    fn posted_until(&self) -> Instant {
        Instant::ZERO
    }

    /// Returns when the link will have delivered all reads requested so far. The card requests no
    /// more while enough is in flight.
    fn requested_until(&self) -> Instant {
        Instant::ZERO
    }

    /// Takes the next doorbell write that has arrived; there is no order between slots.
    fn next_doorbell(&mut self) -> Option<Doorbell>;

    /// Returns all words of the write that [`Host::next_doorbell`] has returned last, if it had
    /// several: a push. Blocks that belong together are one write, once all have arrived.
    fn pushed(&self) -> &[u64] {
        &[]
    }

    /// Sets the current clock cycle of the function. Only a card in RTL has a clock; only a
    /// recorder of its accesses uses this.
    #[inline]
    fn set_cycle(&mut self, cycle: u64) {
        let _ = cycle;
    }
}

/// A [`Host`] without simulated time: every access completes immediately.
pub trait UntimedHost {
    /// As [`Host::dma_read`].
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError>;

    /// As [`Host::peek`].
    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.read(iova, destination)
    }

    /// As [`Host::dma_write`].
    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError>;

    /// As [`Host::dma_write`] with [`PostedOrder::Relaxed`]: it may become visible after later
    /// relaxed writes, but before any other access.
    fn write_relaxed(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        self.write(iova, source)
    }

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
        match order.posted {
            PostedOrder::Strict => self.write(iova, source)?,
            PostedOrder::Relaxed => self.write_relaxed(iova, source)?,
        }
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
