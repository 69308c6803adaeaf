//! State of the objects that software has created, cached from its tables in host memory.
//!
//! - [`queue_pair_table`], [`queue_pair`], [`work_queue`], `pushed_wqes`, [`path`]: QPC.
//!   [`responder_resources`]: READs and atomics of peers. [`shared_receive_queue`]: SRQC.
//!   [`completion_queue`], [`completion_resize`]: CQC.
//! - [`fault_log`]: the reasons for completions in error. [`note_log`]: drops and waits.
//! - [`timers`]: retransmission timers. [`wqe_records`]: WQEs of READs and atomics in flight.
//! - [`gid_table`]: addresses of the port.

pub mod completion_queue;
pub mod completion_resize;
pub mod fault_log;
pub mod gid_table;
pub mod note_log;
pub mod path;
pub(crate) mod pushed_wqes;
pub mod queue_pair;
pub mod queue_pair_table;
pub mod responder_resources;
pub mod shared_receive_queue;
pub mod stalled;
pub mod timers;
pub mod work_queue;
pub mod wqe_records;

use ferroce_spec::command::ContextTables;
use ferroce_units::Instant;

use crate::config::NicConfig;
use crate::contexts::completion_queue::CompletionQueues;
use crate::contexts::gid_table::GidTable;
use crate::contexts::queue_pair::QueuePair;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::contexts::responder_resources::ResponderResources;
use crate::contexts::shared_receive_queue::SharedReceiveQueues;
use crate::contexts::timers::Timers;
use crate::contexts::wqe_records::WqeRecords;

/// The context tables, which all blocks read, and the state that belongs to their queue pairs.
#[derive(Debug)]
pub(crate) struct Contexts {
    /// Queue pairs.
    pub qps: QueuePairs,
    /// Completion queues.
    pub cqs: CompletionQueues,
    /// Shared receive queues.
    pub srqs: SharedReceiveQueues,
    /// Responder resources of the queue pairs.
    pub responder: ResponderResources,
    /// WQEs of READs and atomics in flight.
    pub wqe_records: WqeRecords,
    /// Addresses of the port.
    pub gids: GidTable,
    /// Fault injection: no receives are taken from the queues.
    pub withholds_receives: bool,
    /// Timers of the queue pairs.
    timers: Timers,
    /// Queue pairs with a delayed ACK, including some whose ACK has just been sent; each once.
    delayed_acks: Vec<u32>,
}

impl Contexts {
    /// Returns contexts without tables.
    pub fn new(config: &NicConfig) -> Self {
        Self {
            qps: QueuePairs::new(config.qpn_base, config.qpc_cache)
                .with_numbers(config.number_seed),
            cqs: CompletionQueues::new(config.cqc_cache),
            srqs: SharedReceiveQueues::new(config.srqc_cache),
            responder: ResponderResources::new(config.responder_cache),
            wqe_records: WqeRecords::new(config.wqe_cache),
            gids: GidTable::default(),
            withholds_receives: false,
            timers: Timers::default(),
            delayed_acks: Vec::new(),
        }
    }

    /// Places the context tables at the addresses in `tables`.
    pub fn install_tables(&mut self, tables: &ContextTables) {
        self.qps.reset(tables.qpc_base, tables.log_qps);
        self.cqs.reset(tables.cqc_base, tables.log_cqs);
        self.srqs.reset(tables.srqc_base, tables.log_srqs);
        self.responder.reset(tables.private_base, tables.log_qps);
        self.timers = Timers::new(self.qps.capacity());
    }

    /// Forgets all objects (reset).
    pub fn reset(&mut self) {
        self.install_tables(&ContextTables::default());
        self.gids.clear();
        self.withholds_receives = false;
        self.delayed_acks.clear();
        self.wqe_records.clear();
    }

    /// Sets the timer of the queue pair at `index`; `None`: stops it.
    #[inline]
    pub fn set_timer(&mut self, index: u32, due: Option<Instant>) {
        self.timers.set(index, due);
    }

    /// Takes the next queue pair whose timer has expired.
    #[inline]
    pub fn pop_due_timer(&mut self, now: Instant) -> Option<u32> {
        self.timers.pop_due(now)
    }

    /// Returns the time of the first timer of a queue pair or moderated event; [`Instant::MAX`]:
    /// there is none.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        // Plain numbers, not options: the minimum of options compiles to a comparison with the
        // uninitialised number of an absent one, which memory checkers report.
        let queue_pair = self.timers.next().unwrap_or(Instant::MAX);
        let event = self.cqs.next_timeout().unwrap_or(Instant::MAX);
        queue_pair.min(event)
    }

    /// Returns true if there is a delayed ACK.
    pub fn has_delayed_acks(&self) -> bool {
        !self.delayed_acks.is_empty()
    }

    /// Records that the queue pair at `index` has a delayed ACK.
    #[inline]
    pub fn delay_ack(&mut self, index: u32) {
        self.delayed_acks.push(index);
    }

    /// Makes all queue pairs with a delayed ACK send it when they are next served; `activate` adds
    /// them to the scheduler.
    pub fn flush_delayed_acks(&mut self, mut activate: impl FnMut(&mut QueuePair)) {
        while let Some(index) = self.delayed_acks.pop() {
            if let Some(qp) = self.qps.get_mut(index) {
                qp.holds_acknowledge = false;
                qp.transport.flush_acknowledge();
                activate(qp);
            }
        }
    }
}
