//! Operations of the send queue that are executed locally and send no packet: binds of windows,
//! invalidation of local keys, NOPs.

use ferroce_transport::CompletionStatus;
use ferroce_units::Instant;

use crate::contexts::queue_pair::QueuePair;
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::translation::memory_unit::MemoryUnit;
use crate::translation::memory_unit::window::Binder;
use crate::translation::mtt::TranslationTable;
use crate::wqe::SendPayload;

/// Maximum number of local operations of one queue pair before others are served.
const LOCALS_PER_TURN: usize = 16;

/// Executes the next local operations of `qp`. Returns true if there were some.
#[inline]
pub fn execute<H: Host>(
    now: Instant,
    qp: &mut QueuePair,
    memory: &mut MemoryUnit<impl TranslationTable>,
    dma: &mut Dma<'_, H>,
) -> bool {
    let mut worked = false;
    for _ in 0..LOCALS_PER_TURN {
        let Some(id) = qp.transport.poll_local() else {
            break;
        };
        let result = execute_one(id, qp, memory, dma);
        qp.transport.finish_local(now, id, result);
        worked = true;
    }
    worked
}

fn execute_one<H: Host>(
    id: u32,
    qp: &mut QueuePair,
    memory: &mut MemoryUnit<impl TranslationTable>,
    dma: &mut Dma<'_, H>,
) -> Result<(), CompletionStatus> {
    let binder = Binder {
        pd: qp.pd(),
        qpn: qp.qpn.value(),
    };
    let executed = match qp.send.payload(id) {
        Some(SendPayload::Bind(segment)) => memory.bind(binder, segment, dma),
        Some(SendPayload::Invalidate(key)) => memory.invalidate(binder, *key, dma),
        Some(_) => return Ok(()),
        None => return Err(CompletionStatus::LocalQpOperation),
    };
    executed.map_err(|fault| {
        qp.faults.note_local(binder.qpn, &fault, None, None);
        // For both operations: IBTA's memory management operation error (vol 1, 11.6.2) is the text
        // that `ibv_wc_status_str` returns for IBV_WC_MW_BIND_ERR.
        CompletionStatus::WindowBind
    })
}
