//! Atomic operations of peers on registered memory.

use crate::dma::{ATOMIC_BYTES, Dma};
use crate::host::{DmaAtomic, Host};
use crate::memory::{MemoryUnit, count_fault, is_in_host_memory};
use crate::mpt::Access;
use crate::protection::ProtectionFault;
use ferroce_spec::counter::Counter;
use ferroce_transport::AtomicOperation;

/// The DMA engine's name of an atomic operation.
pub fn dma_atomic(operation: AtomicOperation) -> DmaAtomic {
    match operation {
        AtomicOperation::CompareSwap { compare, swap } => DmaAtomic::CompareSwap { compare, swap },
        AtomicOperation::FetchAdd { add } => DmaAtomic::FetchAdd { add },
    }
}

impl MemoryUnit {
    /// Carries an atomic operation out; returns what was in memory before.
    ///
    /// The access is of eight bytes. Memory holds the value in the host's byte order, also the
    /// device's own memory: the program on the host reads it. A null region always holds zero.
    pub fn atomic<H: Host>(
        &mut self,
        access: &Access,
        operation: DmaAtomic,
        dma: &mut Dma<'_, H>,
    ) -> Result<u64, ProtectionFault> {
        let result = self.atomic_checked(access, operation, dma);
        if result.is_ok() {
            dma.counters.add(Counter::atomics, 1);
        }
        count_fault(result, dma)
    }

    fn atomic_checked<H: Host>(
        &mut self,
        access: &Access,
        operation: DmaAtomic,
        dma: &mut Dma<'_, H>,
    ) -> Result<u64, ProtectionFault> {
        let address = access.address;
        let entry = self.mpt.check(access, dma)?;
        if !is_in_host_memory(&entry) {
            return match self.on_chip(&entry, access)? {
                Some((offset, bytes)) if offset % ATOMIC_BYTES as u64 == 0 => {
                    Ok(apply(operation, bytes))
                }
                Some(_) => Err(ProtectionFault::Alignment { address }),
                None => Ok(0),
            };
        }
        // The virtual address is a multiple of eight; the region or window need not begin at one.
        // A page does, and so an aligned operand does not cross its end.
        let run = self.mtt.translate(&entry, address, dma)?;
        if run.iova % ATOMIC_BYTES as u64 != 0 {
            return Err(ProtectionFault::Alignment { address });
        }
        Ok(dma.atomic(run.iova, operation, self.global_atomics)?)
    }
}

/// Changes eight bytes of the device's memory; returns what they were.
fn apply(operation: DmaAtomic, bytes: &mut [u8]) -> u64 {
    let mut value = [0; ATOMIC_BYTES];
    value.copy_from_slice(bytes);
    let original = u64::from_ne_bytes(value);
    bytes.copy_from_slice(&operation.apply(original).to_ne_bytes());
    original
}
