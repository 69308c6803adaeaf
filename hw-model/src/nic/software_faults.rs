//! Failures of the software that uses a function, as its peers see them: fault injection.

use ferroce_transport::{QpState, Transition};
use ferroce_units::Instant;

use super::Nic;
use crate::blocks::Blocks;
use crate::contexts::queue_pair_table::GSI_INDEX;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;
use crate::time::turn::Turn;

/// A failure of the software that uses a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoftwareFault {
    /// It moves all queue pairs that are in use to ERR.
    FailQueuePairs,
    /// It deregisters all memory regions and windows.
    RevokeRegions,
    /// Its receives are not fetched from now on.
    WithholdReceives,
    /// Its receives are fetched again.
    ReturnReceives,
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Fault injection: the software that uses the function fails. The next [`Nic::advance`] moves
    /// queue pairs.
    pub fn suffer(&mut self, fault: SoftwareFault) {
        match fault {
            SoftwareFault::FailQueuePairs => self.fails_queue_pairs = true,
            SoftwareFault::RevokeRegions => self.blocks.translation.revoke_all(),
            SoftwareFault::WithholdReceives => self.blocks.contexts.withholds_receives = true,
            SoftwareFault::ReturnReceives => self.blocks.contexts.withholds_receives = false,
        }
    }

    /// Moves all queue pairs that are in use to ERR, as MODIFY_QP does. QP 1 belongs to RDMA CM,
    /// and not to the program.
    #[cold]
    pub(super) fn fail_queue_pairs<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.fails_queue_pairs = false;
        let turn = &mut Turn {
            now,
            host,
            timing: &mut self.timing,
            counters: &mut self.counters,
        };
        let (contexts, mut results) = self.blocks.contexts();
        let (_, used) = contexts.qps.all();
        for index in (0..used).filter(|index| *index != GSI_INDEX) {
            let Some(qp) = contexts.qps.get_mut(index) else {
                continue;
            };
            if matches!(qp.transport.state(), QpState::Reset | QpState::Err) {
                continue;
            }
            qp.faults.note_moved();
            if qp.transport.modify(now, Transition::Err).is_err() {
                continue;
            }
            results.settle_active(turn, contexts, index);
            // If the table cannot be written, the state of the card counts.
            let _ = contexts.qps.store(index, &mut turn.dma());
        }
    }
}
