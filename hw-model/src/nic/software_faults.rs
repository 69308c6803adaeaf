//! Failures of the software that uses a function, as its peers see them, and addresses that its
//! host takes away: fault injection.

use ferroce_spec::eqe::EventType;
use ferroce_transport::{QpState, Transition};
use ferroce_units::Instant;

use super::Nic;
use crate::blocks::Blocks;
use crate::contexts::queue_pair_table::GSI_INDEX;
use crate::host_interface::event_queue::{ASYNC_EQN, Event};
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;
use crate::time::turn::Turn;

/// A failure of the software that uses a function, or an action of its host.
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
    /// The host removes the IPv4 addresses of the port.
    RemoveAddresses,
    /// The port has these addresses again.
    ReturnAddresses,
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Fault injection: the software that uses the function fails. The next [`Nic::advance`] brings
    /// about what moves queue pairs or raises events.
    pub fn suffer(&mut self, fault: SoftwareFault) {
        match fault {
            SoftwareFault::FailQueuePairs
            | SoftwareFault::RemoveAddresses
            | SoftwareFault::ReturnAddresses => self.waiting_faults.push(fault),
            SoftwareFault::RevokeRegions => self.blocks.translation.revoke_all(),
            SoftwareFault::WithholdReceives => self.blocks.contexts.withholds_receives = true,
            SoftwareFault::ReturnReceives => self.blocks.contexts.withholds_receives = false,
        }
    }

    /// Brings about the faults that have waited for [`Nic::advance`].
    #[cold]
    pub(super) fn suffer_waiting<H: Host>(&mut self, now: Instant, host: &mut H) {
        for fault in std::mem::take(&mut self.waiting_faults) {
            match fault {
                SoftwareFault::FailQueuePairs => self.fail_queue_pairs(now, host),
                SoftwareFault::RemoveAddresses => {
                    let gone = self.blocks.contexts.remove_addresses();
                    self.announce_gids(now, host, gone);
                }
                SoftwareFault::ReturnAddresses => {
                    let marks = self.blocks.congestion.is_some();
                    let back = self.blocks.contexts.return_addresses(marks);
                    self.announce_gids(now, host, back);
                }
                _ => {}
            }
        }
    }

    /// Raises an event for each of these entries of the GID table.
    fn announce_gids<H: Host>(&mut self, now: Instant, host: &mut H, indices: Vec<u32>) {
        let turn = &mut Turn {
            now,
            host,
            timing: &mut self.timing,
            counters: &mut self.counters,
        };
        for number in indices {
            let (eqn, kind) = (ASYNC_EQN, EventType::GID_CHANGE);
            let event = Event::new(eqn, kind, number);
            self.blocks.host_interface.raise(turn, now, event);
        }
    }

    /// Moves all queue pairs that are in use to ERR, as MODIFY_QP does. QP 1 belongs to RDMA CM,
    /// and not to the program.
    fn fail_queue_pairs<H: Host>(&mut self, now: Instant, host: &mut H) {
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
