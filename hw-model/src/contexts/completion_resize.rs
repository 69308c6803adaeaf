//! Resize of a completion queue: moves its CQEs to another ring.

use ferroce_spec::context::CqContext;
use ferroce_spec::cqe::{Cqe, owner_at};
use zerocopy::IntoBytes;

use crate::dma::Dma;
use crate::ports::host::{DmaError, Host};

/// Reason why a completion queue could not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModifyError {
    /// The pending CQEs do not fit into the new ring.
    DoesNotFit,
    /// The queue has already overrun.
    Failed,
    /// A ring could not be accessed.
    Dma(DmaError),
}

impl From<DmaError> for ModifyError {
    fn from(error: DmaError) -> Self {
        ModifyError::Dma(error)
    }
}

/// Fills the new ring of `cq` with the pending CQEs and then with empty entries.
pub fn move_entries<H: Host>(
    cq: &CqContext,
    new: &CqContext,
    dma: &mut Dma<'_, H>,
) -> Result<(), DmaError> {
    /// CQEs that one DMA access moves.
    const BATCH: u32 = 64;
    let address = |ring: &CqContext, index: u32| {
        let slot = u64::from(index & ((1 << ring.log_size) - 1));
        ring.base.wrapping_add(slot * Cqe::SIZE as u64)
    };
    let until_end = |ring: &CqContext, index: u32| {
        let size = 1u32 << ring.log_size;
        size - (index & (size - 1))
    };
    let end = new.consumer.wrapping_add(1 << new.log_size);
    let mut index = new.consumer;
    while index != end {
        let waiting = cq.producer.wrapping_sub(index) as i32;
        let mut count = BATCH
            .min(end.wrapping_sub(index))
            .min(until_end(new, index));
        let mut batch = [Cqe::default(); BATCH as usize];
        if waiting > 0 {
            count = count.min(waiting as u32).min(until_end(cq, index));
            dma.read(address(cq, index), batch[..count as usize].as_mut_bytes())?;
        }
        for (offset, cqe) in batch[..count as usize].iter_mut().enumerate() {
            let at = index.wrapping_add(offset as u32);
            let valid = owner_at(at, u32::from(new.log_size));
            cqe.word.set_owner(valid == (waiting > 0));
        }
        dma.write(address(new, index), batch[..count as usize].as_bytes())?;
        index = index.wrapping_add(count);
    }
    Ok(())
}
