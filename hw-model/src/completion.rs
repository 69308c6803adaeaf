//! Results of a queue pair's work, and the blocks that take them.
//!
//! - `cqe_builder`, `completion_writer`: completions. `expiry`: work that a timer starts.

pub(crate) mod completion_writer;
pub(crate) mod cqe_builder;
mod expiry;

use ferroce_spec::cqe::CqeStatus;
use ferroce_spec::personality::Personality;
use ferroce_units::Instant;

use crate::completion::completion_writer::CompletionWriter;
use crate::contexts::Contexts;
use crate::contexts::queue_pair::QueuePair;
use crate::host_interface::HostInterface;
use crate::host_interface::event_queue::{ASYNC_EQN, Event};
use crate::limits::FLUSH_PER_TURN;
use crate::ports::host::Host;
use crate::scheduler::Scheduler;
use crate::time::timing::{Stage, Timing, Work};
use crate::time::turn::Turn;

/// The blocks that take the results of a queue pair's work.
pub(crate) struct Results<'a> {
    /// Completions.
    pub completions: &'a mut CompletionWriter,
    /// Events.
    pub host_interface: &'a mut HostInterface,
    /// Activates the queue pair if it has more to do.
    pub scheduler: &'a mut Scheduler,
}

impl Results<'_> {
    /// Passes on the results of a queue pair's work: completions, events, its timer, its place in
    /// the scheduler.
    #[inline]
    pub fn settle<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        index: u32,
    ) {
        let Some(qp) = contexts.qps.get_mut(index) else {
            return;
        };
        let personality = self.host_interface.personality();
        // Before the completions, which end waits.
        if let Some(note) = qp.transport.take_note() {
            let rnr_retry = qp.transport.attributes().rnr_retry;
            qp.notes.log(qp.qpn.value(), note, rnr_retry);
        }
        let has_more = take_completions(turn, qp, self.completions, personality);
        contexts.wqe_records.give_back(qp.send.take_released());
        while self.host_interface.takes_events() {
            let Some(event) = qp.transport.poll_event() else {
                break;
            };
            if let Some(kind) = cqe_builder::event_type(qp, event) {
                let (eqn, number) = (ASYNC_EQN, qp.qpn.value());
                let event = Event::new(eqn, kind, number);
                self.host_interface.raise(turn, turn.now, event);
            }
        }
        if let Some(statistics) = qp.transport.take_statistics() {
            cqe_builder::count(&statistics, turn.counters);
        }
        let timeout = qp.transport.next_timeout();
        let delays_ack = qp.transport.pending_acknowledge() && !qp.holds_acknowledge;
        qp.holds_acknowledge |= delays_ack;
        if has_more || qp.has_work() {
            self.scheduler.activate(qp);
        }
        contexts.set_timer(index, timeout);
        if delays_ack {
            contexts.delay_ack(index);
        }
    }

    /// Does the same as [`Results::settle`] after a command or a fetch of WQEs: the queue pair may
    /// have been flushed, or may now send.
    pub fn settle_active<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        contexts: &mut Contexts,
        index: u32,
    ) {
        if let Some(qp) = contexts.qps.get_mut(index) {
            self.scheduler.activate(qp);
        }
        self.settle(turn, contexts, index);
    }
}

/// Passes completions of a queue pair on while there is room. Returns true if more are left.
#[inline]
fn take_completions<H: Host, T: Timing>(
    turn: &mut Turn<'_, H, T>,
    qp: &mut QueuePair,
    completions: &mut CompletionWriter,
    personality: Personality,
) -> bool {
    for _ in 0..FLUSH_PER_TURN {
        if completions.is_full() {
            break;
        }
        let Some(completion) = qp.transport.poll_completion() else {
            return false;
        };
        let entry = cqe_builder::completion_entry(qp, &completion);
        let status = CqeStatus(entry.cqe.word.status());
        if status != CqeStatus::SUCCESS {
            let is_send = completion.is_send();
            cqe_builder::count_error(status, is_send, personality, turn.counters);
        }
        let mut ready = qp.progress.ready.max(turn.now);
        if completion.is_send() && qp.is_unreliable() {
            ready = ready.max(qp.progress.left);
        }
        let ready: Instant = turn.reserve(ready, Stage::Completion, Work::default());
        completions.push(ready, entry);
    }
    true
}
