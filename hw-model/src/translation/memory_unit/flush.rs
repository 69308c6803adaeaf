//! FLUSH and ATOMIC WRITE of peers (IBTA annex A19).

use std::ops::Range;

use ferroce_spec::counter::Counter;

use super::{MemoryUnit, is_in_host_memory, locate, on_chip};
use crate::dma::{ATOMIC_BYTES, Dma};
use crate::ports::host::Host;
use crate::translation::mpt::Access;
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;

/// Bytes of the read that pushes posted writes before it.
const PUSH_BYTES: u64 = 8;

impl<M: TranslationTable> MemoryUnit<M> {
    /// Returns an access without bytes to the region of `access`: what a FLUSH of a whole region
    /// needs. It always lies in the region, so only key, domain and rights can be wrong.
    pub fn whole_region<H: Host>(
        &mut self,
        access: Access,
        dma: &mut Dma<'_, H>,
    ) -> Result<Access, ProtectionFault> {
        let start = self.mpt.lookup(access.key, dma)?.start;
        Ok(Access {
            address: start,
            length: 0,
            ..access
        })
    }

    /// Makes earlier writes visible to all readers, and persistent if the right for that is needed.
    ///
    /// Writes to host memory are posted. A read of the same memory, or for a whole region of its
    /// entry, pushes them (PCIe: a completion does not pass posted writes), so the flow continues
    /// when its data are here. Writes to the device's own memory are visible at once. What is
    /// visible may still lie in a cache of the processor, so the host is asked to write it back.
    pub fn flush<H: Host>(
        &mut self,
        access: &Access,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let result = self.flush_checked(access, dma);
        self.judge(access, result, dma)
    }

    fn flush_checked<H: Host>(
        &mut self,
        access: &Access,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let entry = self.mpt.check(access, dma)?;
        if !is_in_host_memory(entry) {
            return Ok(());
        }
        // Any address of a whole region may be without memory, if it is on demand.
        if access.length == 0 {
            let (start, length) = (entry.start, entry.length);
            self.mpt.push_writes(access.key, dma)?;
            return self.persist(access, start..start.saturating_add(length), dma);
        }
        let bytes = access.length.min(PUSH_BYTES);
        // The last bytes: they are written last.
        let last = access.address + (access.length - bytes);
        let run = locate(&mut self.mtt, &self.page_faults, entry, last, dma)?;
        let bytes = bytes.min(run.length) as usize;
        let arrival = dma.request(run.iova, &mut [0; PUSH_BYTES as usize][..bytes])?;
        dma.at = dma.at.max(arrival);
        let end = access.address + access.length;
        self.persist(access, access.address..end, dma)
    }

    /// Makes a range of a region persistent, if the access needs the right for that. The range is
    /// inside of the region. It takes no time beyond the translation of its pages: no card and no
    /// host has it, so there is no figure for the write-back.
    fn persist<H: Host>(
        &mut self,
        access: &Access,
        range: Range<u64>,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        if !access.rights.flush_persistent() {
            return Ok(());
        }
        let entry = self.mpt.lookup(access.key, dma)?;
        let mut next = range.start;
        // At most once for each page of the region.
        while next < range.end {
            let run = locate(&mut self.mtt, &self.page_faults, entry, next, dma)?;
            let length = run.length.min(range.end - next);
            dma.persist(run.iova, length);
            next += length;
        }
        Ok(())
    }

    /// Writes eight bytes at once: no reader sees a part of them.
    pub fn write_atomically<H: Host>(
        &mut self,
        access: &Access,
        value: [u8; ATOMIC_BYTES],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let result = self.write_atomically_checked(access, value, dma);
        self.judge(access, result, dma)
    }

    fn write_atomically_checked<H: Host>(
        &mut self,
        access: &Access,
        value: [u8; ATOMIC_BYTES],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let address = access.address;
        let entry = self.mpt.check(access, dma)?;
        if !is_in_host_memory(entry) {
            return match on_chip(entry, access)? {
                Some(offset) if offset % ATOMIC_BYTES as u64 == 0 => {
                    self.device.store(offset, u64::from_ne_bytes(value));
                    Ok(())
                }
                Some(_) => Err(ProtectionFault::Alignment { address }),
                None => Ok(()),
            };
        }
        // As with atomics, the region need not begin at a multiple of eight.
        let run = locate(&mut self.mtt, &self.page_faults, entry, address, dma)?;
        if run.iova % ATOMIC_BYTES as u64 != 0 {
            return Err(ProtectionFault::Alignment { address });
        }
        dma.write_descriptor(run.iova, &value)?;
        dma.counters.add(Counter::atomics, 1);
        Ok(())
    }
}
