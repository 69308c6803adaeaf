//! What a queue pair has to report after it has worked, and where it goes.

use ferroce_units::Instant;

use crate::contexts::Contexts;
use crate::contexts::completion_writer::CompletionWriter;
use crate::contexts::cqe_builder;
use crate::contexts::queue_pair::QueuePair;
use crate::host_interface::HostInterface;
use crate::host_interface::event_queue::{ASYNC_EQN, Event};
use crate::limits::FLUSH_PER_TURN;
use crate::ports::host::Host;
use crate::time::timing::{Stage, Timing, Work};
use crate::time::turn::Turn;
use crate::transmit::scheduler::Scheduler;

/// The blocks that take the results of a queue pair's work.
pub(crate) struct Results<'a> {
    /// Completions.
    pub completions: &'a mut CompletionWriter,
    /// Events.
    pub host_interface: &'a mut HostInterface,
    /// Turns: the queue pair has more to do.
    pub scheduler: &'a mut Scheduler,
}

impl Contexts {
    /// Passes on the results of a queue pair's work: completions, events, its timer, its place in
    /// the scheduler.
    #[inline]
    pub fn settle<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        results: &mut Results<'_>,
    ) {
        let Some(qp) = self.qps.get_mut(index) else {
            return;
        };
        let has_more = take_completions(turn, qp, results.completions);
        while results.host_interface.takes_events() {
            let Some(event) = qp.transport.poll_event() else {
                break;
            };
            if let Some(kind) = cqe_builder::event_type(qp, event) {
                let (eqn, number) = (ASYNC_EQN, qp.qpn.value());
                let event = Event { eqn, kind, number };
                results.host_interface.raise(turn, turn.now, event);
            }
        }
        if let Some(statistics) = qp.transport.take_statistics() {
            cqe_builder::count(&statistics, turn.counters);
        }
        self.timers.set(index, qp.transport.next_timeout());
        if qp.transport.pending_acknowledge() && !qp.holds_acknowledge {
            qp.holds_acknowledge = true;
            self.delayed_acks.push(index);
        }
        if has_more || qp.has_work() {
            results.scheduler.activate(qp);
        }
    }

    /// Does the same as [`Contexts::settle`] after a command, or after a fetch of WQEs: the queue
    /// pair may have been flushed, or may send now.
    pub fn settle_active<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        index: u32,
        results: &mut Results<'_>,
    ) {
        if let Some(qp) = self.qps.get_mut(index) {
            results.scheduler.activate(qp);
        }
        self.settle(turn, index, results);
    }
}

/// Passes completions of a queue pair on, as far as there is room. Returns true if more are left.
#[inline(always)]
fn take_completions<H: Host, T: Timing>(
    turn: &mut Turn<'_, H, T>,
    qp: &mut QueuePair,
    completions: &mut CompletionWriter,
) -> bool {
    for _ in 0..FLUSH_PER_TURN {
        if completions.is_full() {
            break;
        }
        let Some(completion) = qp.transport.poll_completion() else {
            return false;
        };
        let mut entry = cqe_builder::completion_entry(qp, &completion);
        let mut ready = qp.progress.ready.max(turn.now);
        if completion.is_send() {
            entry.wqe = Some(qp.send.address(entry.cqe.wqe_index));
            if qp.is_unreliable() {
                ready = ready.max(qp.progress.left);
            }
        }
        let ready: Instant = turn.reserve(ready, Stage::Completion, Work::default());
        completions.push(ready, entry);
    }
    true
}
