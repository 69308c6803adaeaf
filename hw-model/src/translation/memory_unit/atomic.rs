//! Atomic operations of peers on registered memory.

use ferroce_spec::counter::Counter;
use ferroce_transport::AtomicOperation;
use ferroce_units::{Duration, Instant};

use super::{MemoryUnit, is_in_host_memory, locate, on_chip};
use crate::config::NicConfig;
use crate::dma::{ATOMIC_BYTES, Dma};
use crate::ports::host::{DmaAtomic, DmaError, Host};
use crate::time::registers::Registers;
use crate::time::timing::pipeline_stage::PipelineStage;
use crate::translation::mpt::Access;
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;

/// Number of locks; atomics on the same address wait for each other. It is large, so that
/// concurrent atomics rarely share a lock: a card compares addresses.
const LOCKS: usize = 4096;

/// An atomic that was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// The old value. The flow has it before `until`.
    pub original: u64,
    /// When the new value is written: until then no other atomic of the queue pair, or on this
    /// address, begins.
    pub until: Instant,
}

/// The unit that executes atomics, one at a time on each address.
#[derive(Debug)]
pub struct AtomicsUnit {
    /// Uses PCIe AtomicOps; see [`NicConfig::global_atomics`].
    global: bool,
    /// How long an operand that has arrived locks its address: execution and locked write.
    execution: Duration,
    /// By hash of the address: one atomic at a time.
    locks: Box<[PipelineStage]>,
    /// One register for each concurrent atomic.
    registers: Registers,
}

impl AtomicsUnit {
    /// Returns an idle unit.
    pub fn new(config: &NicConfig) -> Self {
        Self {
            global: config.global_atomics,
            execution: config.atomic_execution,
            locks: vec![PipelineStage::default(); LOCKS].into_boxed_slice(),
            registers: Registers::new(usize::from(config.atomic_units)),
        }
    }

    /// Returns the maximum number of concurrent atomics, the time for which they ran, and how long
    /// the busiest address was in use.
    pub fn usage(&self) -> ((usize, Duration), Duration) {
        let busiest = self.locks.iter().map(PipelineStage::busy).max();
        (self.registers.usage(), busiest.unwrap_or(Duration::ZERO))
    }

    /// Executes an atomic in host memory, after those on the same address and when a register is
    /// free.
    ///
    /// The flow continues when the operand has been read, because the response carries the old
    /// value. The address stays locked until the new value is written.
    fn execute<H: Host>(
        &mut self,
        iova: u64,
        operation: DmaAtomic,
        dma: &mut Dma<'_, H>,
    ) -> Result<Executed, DmaError> {
        let execution = self.execution_behind_read();
        let lease = self.registers.take(dma.begun, dma.at);
        let lock = &mut self.locks[lock_of(iova)];
        dma.at = lock.wait(dma.begun, lease.at);
        let start = dma.at;
        let original = dma.atomic(iova, operation, self.global)?;
        let until = dma.at + execution;
        lock.reserve(dma.begun, start, until - start);
        self.registers.give_back(lease, until);
        Ok(Executed { original, until })
    }

    /// Executes an atomic in the device's memory; the flow continues when it is done.
    fn execute_on_chip<H: Host>(&mut self, offset: u64, dma: &mut Dma<'_, H>) {
        let lock = &mut self.locks[lock_of(offset)];
        dma.at = lock.reserve(dma.begun, dma.at, self.execution) + self.execution;
    }

    /// Returns how long an address of host memory stays locked after its read. With PCIe AtomicOps
    /// the host executes.
    fn execution_behind_read(&self) -> Duration {
        if self.global {
            Duration::ZERO
        } else {
            self.execution
        }
    }
}

/// Returns the lock of an address. Fibonacci hashing: addresses with the same page offset, as those
/// of different queue pairs often are, have different locks.
const fn lock_of(address: u64) -> usize {
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - LOCKS.ilog2())) as usize
}

/// Converts an atomic operation for the DMA engine.
pub fn dma_atomic(operation: AtomicOperation) -> DmaAtomic {
    match operation {
        AtomicOperation::CompareSwap { compare, swap } => DmaAtomic::CompareSwap { compare, swap },
        AtomicOperation::FetchAdd { add } => DmaAtomic::FetchAdd { add },
    }
}

impl<M: TranslationTable> MemoryUnit<M> {
    /// Executes an atomic operation.
    ///
    /// The access has eight bytes. Memory holds the value in the host's byte order, even the
    /// device's own memory, because the program on the host reads it. A null region always holds
    /// zero.
    pub fn atomic<H: Host>(
        &mut self,
        access: &Access,
        operation: DmaAtomic,
        dma: &mut Dma<'_, H>,
    ) -> Result<Executed, ProtectionFault> {
        let result = self.atomic_checked(access, operation, dma);
        if result.is_ok() {
            dma.counters.add(Counter::atomics, 1);
        }
        self.judge(access, result, dma)
    }

    fn atomic_checked<H: Host>(
        &mut self,
        access: &Access,
        operation: DmaAtomic,
        dma: &mut Dma<'_, H>,
    ) -> Result<Executed, ProtectionFault> {
        let address = access.address;
        let entry = self.mpt.check(access, dma)?;
        if !is_in_host_memory(entry) {
            let (offset, original) = match on_chip(entry, access)? {
                Some(offset) if offset % ATOMIC_BYTES as u64 == 0 => {
                    (offset, self.device.atomic(offset, operation))
                }
                Some(_) => return Err(ProtectionFault::Alignment { address }),
                None => {
                    let (original, until) = (0, dma.at);
                    return Ok(Executed { original, until });
                }
            };
            self.atomics.execute_on_chip(offset, dma);
            let until = dma.at;
            return Ok(Executed { original, until });
        }
        // The virtual address is a multiple of eight, but the region or window need not begin at
        // one. A page does, so an aligned operand does not cross its end.
        let run = locate(&mut self.mtt, &self.page_faults, entry, address, dma)?;
        if run.iova % ATOMIC_BYTES as u64 != 0 {
            return Err(ProtectionFault::Alignment { address });
        }
        Ok(self.atomics.execute(run.iova, operation, dma)?)
    }
}
