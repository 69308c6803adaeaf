//! The DMA engine: the blocks' access to host memory, which counts every access.

use ferroce_spec::counter::Counter;
use ferroce_units::Instant;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::counters::Counters;
use crate::ports::host::{DmaAtomic, DmaError, DmaFault, Host, PostedOrder, WriteOrder};

/// Maximum number of words that [`Dma::write_descriptor`] writes.
const MAX_DESCRIPTOR_WORDS: usize = 8;
/// Bytes that an atomic operation changes.
pub const ATOMIC_BYTES: usize = 8;

/// A flow of DMA accesses: the host at the other end of the PCIe link, the counters, and the
/// simulated time that the flow has reached.
///
/// A block works at the time of its event. Data that it reads from host memory arrives later: each
/// read advances the cursor `at`, and the next access of the block happens then. A write is posted
/// and advances only the time at which the host has seen all of it.
pub struct Dma<'a, H: Host> {
    /// The other side of the link.
    pub host: &'a mut H,
    /// The function's counters.
    pub counters: &'a mut Counters,
    /// Time of the event that began the flow.
    pub begun: Instant,
    /// When the data read so far has arrived.
    pub at: Instant,
    /// When the host sees the data that the flow has written so far.
    pub visible: Instant,
    /// When the flow got a miss register for which it waited. Until then the pipeline before the
    /// cache stalls.
    pub stands_until: Instant,
}

impl<'a, H: Host> Dma<'a, H> {
    /// Returns a flow of accesses that begins at `at`.
    #[inline]
    pub fn new(host: &'a mut H, counters: &'a mut Counters, at: Instant) -> Self {
        Self::planned(host, counters, at, at)
    }

    /// Returns a flow of accesses that begins at `at`, planned by an event at `now`.
    #[inline]
    pub fn planned(host: &'a mut H, counters: &'a mut Counters, now: Instant, at: Instant) -> Self {
        Self {
            host,
            counters,
            begun: now,
            at,
            visible: Instant::ZERO,
            stands_until: Instant::ZERO,
        }
    }
}

impl<H: Host> Dma<'_, H> {
    /// Reads `destination.len()` bytes at `iova`.
    #[inline]
    pub fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.at = self.request(iova, destination)?;
        Ok(())
    }

    /// Requests `destination.len()` bytes at `iova`, and returns when they arrive. The cursor does
    /// not move: the block does not wait for them.
    #[inline]
    pub fn request(&mut self, iova: u64, destination: &mut [u8]) -> Result<Instant, DmaError> {
        self.count_read(destination.len());
        let result = self.host.dma_read(self.at, iova, destination);
        self.count_error(result)
    }

    /// Writes `source` at `iova`.
    #[inline]
    pub fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        self.write_as(PostedOrder::Strict, iova, source)
    }

    /// Writes `source` at `iova`, in the order to which its memory region has a right.
    #[inline]
    pub fn write_as(
        &mut self,
        posted: PostedOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<(), DmaError> {
        self.count_write(source.len());
        let order = WriteOrder {
            posted,
            ..self.order()
        };
        let result = self.host.dma_write(order, iova, source);
        self.visible = self.count_error(result)?;
        Ok(())
    }

    /// Reads `scratch.len()` bytes at `iova` as [`Dma::read`] does, but uses none of them.
    #[inline]
    pub fn read_unused(&mut self, iova: u64, scratch: &mut [u8]) -> Result<(), DmaError> {
        self.count_read(scratch.len());
        let result = self.host.dma_read_unused(self.at, iova, scratch);
        self.at = self.count_error(result)?;
        Ok(())
    }

    /// Writes to `scratch.len()` bytes at `iova`, as [`Dma::write`] does, the contents that they
    /// have.
    #[inline]
    pub fn write_unchanged(&mut self, iova: u64, scratch: &mut [u8]) -> Result<(), DmaError> {
        self.count_write(scratch.len());
        let result = self.host.dma_write_unchanged(self.order(), iova, scratch);
        self.visible = self.count_error(result)?;
        Ok(())
    }

    /// Returns the order of a write that is issued now: its time, and the write that it follows.
    #[inline]
    pub fn order(&self) -> WriteOrder {
        WriteOrder {
            at: self.at,
            after: self.visible,
            posted: PostedOrder::Strict,
        }
    }

    /// Performs an atomic on eight bytes at `iova`, a multiple of eight, and returns the old value.
    /// `global`: with a PCIe AtomicOp; otherwise with a read and a write.
    pub fn atomic(
        &mut self,
        iova: u64,
        operation: DmaAtomic,
        global: bool,
    ) -> Result<u64, DmaError> {
        if !global {
            let mut bytes = [0; ATOMIC_BYTES];
            self.read(iova, &mut bytes)?;
            let original = u64::from_ne_bytes(bytes);
            self.write(iova, &operation.apply(original).to_ne_bytes())?;
            return Ok(original);
        }
        self.count_read(ATOMIC_BYTES);
        self.count_write(ATOMIC_BYTES);
        let result = self.host.dma_atomic(self.at, iova, operation);
        let (original, at) = self.count_error(result)?;
        self.at = at;
        Ok(original)
    }

    /// Makes `length` bytes at `iova` persistent. The cursor advances to when they are.
    pub fn persist(&mut self, iova: u64, length: u64) {
        self.at = self.at.max(self.host.persist(self.at, iova, length));
    }

    /// Reads a structure of the contract.
    pub fn read_value<T: FromBytes + IntoBytes + Default>(
        &mut self,
        iova: u64,
    ) -> Result<T, DmaError> {
        let mut value = T::default();
        self.read(iova, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Writes a structure of the contract.
    pub fn write_value<T: IntoBytes + Immutable>(
        &mut self,
        iova: u64,
        value: &T,
    ) -> Result<(), DmaError> {
        self.write(iova, value.as_bytes())
    }

    /// Writes a descriptor whose last word holds an owner bit, that word last.
    #[inline]
    pub fn write_descriptor<T: IntoBytes + Immutable>(
        &mut self,
        iova: u64,
        descriptor: &T,
    ) -> Result<(), DmaError> {
        const { assert!(size_of::<T>() % 8 == 0 && size_of::<T>() <= 8 * MAX_DESCRIPTOR_WORDS) };
        self.count_write(size_of::<T>());
        let mut words = [0u64; MAX_DESCRIPTOR_WORDS];
        let words = &mut words[..size_of::<T>() / 8];
        words.as_mut_bytes().copy_from_slice(descriptor.as_bytes());
        let result = self.host.dma_write_descriptor(self.order(), iova, words);
        self.visible = self.count_error(result)?;
        Ok(())
    }

    #[inline]
    fn count_read(&mut self, bytes: usize) {
        self.counters.add(Counter::dma_reads, 1);
        self.counters.add(Counter::dma_read_bytes, bytes as u64);
    }

    #[inline]
    fn count_write(&mut self, bytes: usize) {
        self.counters.add(Counter::dma_writes, 1);
        self.counters.add(Counter::dma_write_bytes, bytes as u64);
    }

    #[inline]
    fn count_error<T>(&mut self, result: Result<T, DmaError>) -> Result<T, DmaError> {
        if let Err(error) = &result {
            count_fault(self.counters, error.fault);
        }
        result
    }
}

#[cold]
fn count_fault(counters: &mut Counters, fault: DmaFault) {
    counters.add(Counter::dma_errors, 1);
    match fault {
        DmaFault::Refused => {}
        DmaFault::CompletionTimeout => counters.add(Counter::dma_completion_timeouts, 1),
        DmaFault::Poisoned => counters.add(Counter::dma_poisoned, 1),
    }
}
