//! The way from a doorbell to a frame.
//!
//! - `wqe_fetch`: reads WQEs of the next queue pair. `local_operation`: WQEs that need no packet.
//!   `datagram`: the path of each datagram.
//! - `serve`: serves the queue pairs of the processing units. `egress`: makes frames of their
//!   packets with [`packetizer`], and reports packets that have left the card.

mod datagram;
pub(crate) mod egress;
pub(crate) mod local_operation;
pub mod packetizer;
mod serve;
pub(crate) mod wqe_fetch;

use ferroce_units::{Duration, Instant};

use crate::completion::Results;
use crate::completion::completion_writer::CompletionWriter;
use crate::config::NicConfig;
use crate::congestion::Congestion;
use crate::contexts::Contexts;
use crate::contexts::queue_pair_table::QueuePairs;
use crate::host_interface::HostInterface;
use crate::mac::Mac;
use crate::ports::port::Port;
use crate::processing_unit::ProcessingUnit;
use crate::processing_unit::executing::Executing;
use crate::scheduler::Scheduler;
use crate::time::timing::Timing;
use crate::translation::memory_unit::MemoryUnit;
use crate::transmit::wqe_fetch::WqeFetch;

/// The transmit path: scheduler, WQE fetch and processing units.
#[derive(Debug)]
pub(crate) struct Transmit {
    scheduler: Scheduler,
    fetch: WqeFetch,
    units: Vec<ProcessingUnit>,
    executing: Executing,
    /// Packets of one queue pair per turn.
    quantum_packets: u32,
    /// The processing unit that is served first in the next step.
    first_unit: usize,
    /// Packets that found no room on the wire in this step.
    refused: u32,
    /// True if the MAC cannot take more frames: none are made.
    egress_blocked: bool,
    /// True if a processing unit has packets for the packetizer.
    outbound_waits: bool,
    /// Queue pairs that wait for a page of an on-demand region, each once.
    page_waiters: Vec<u32>,
}

/// The blocks that the transmit path uses.
pub(crate) struct TransmitPorts<'a, P: Port, M> {
    /// Queue pairs, shared receive queues and addresses.
    pub contexts: &'a mut Contexts,
    /// Keys and addresses of payload.
    pub translation: &'a mut MemoryUnit<M>,
    /// Completions.
    pub completions: &'a mut CompletionWriter,
    /// Events, and the state of the link.
    pub host_interface: &'a mut HostInterface,
    /// Frames.
    pub mac: &'a mut Mac<P::Frame>,
    /// Congestion control, if the card has any.
    pub congestion: Option<&'a mut Congestion>,
    /// The cable, in whose buffers frames are made.
    pub port: &'a mut P,
}

impl Transmit {
    /// Returns an idle transmit path with `units` processing units.
    pub fn new(config: &NicConfig, units: u8) -> Self {
        let capacity = config.edge_capacity;
        let unit = |number| ProcessingUnit::new(number, capacity);
        Self {
            scheduler: Scheduler::new(usize::from(units)),
            fetch: WqeFetch::new(config.fetch_blocks, config.fetch_slots),
            units: (0..units).map(unit).collect(),
            executing: Executing::new(),
            quantum_packets: config.quantum_packets,
            first_unit: 0,
            refused: 0,
            egress_blocked: false,
            outbound_waits: false,
            page_waiters: Vec::new(),
        }
    }

    /// Returns the scheduler, in which blocks activate queue pairs.
    #[inline]
    pub fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Returns true if packets wait for room on the wire.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.refused > 0
    }

    /// Forgets all work (reset).
    pub fn reset(&mut self) {
        self.scheduler.clear();
        self.fetch.clear();
        for unit in &mut self.units {
            unit.outbound.clear(drop);
            unit.stands_until = Instant::ZERO;
        }
        self.executing.clear();
        self.first_unit = 0;
        self.refused = 0;
        self.page_waiters.clear();
    }

    /// Activates the queue pairs that wait for pages: software has answered page faults.
    pub fn resume_page_waiters(&mut self, qps: &mut QueuePairs) {
        for index in self.page_waiters.drain(..) {
            if let Some(qp) = qps.get_mut(index).filter(|qp| qp.awaits_page) {
                qp.awaits_page = false;
                self.scheduler.activate(qp);
            }
        }
    }

    /// Drops the packets of a queue pair that is reset or destroyed.
    pub fn forget(&mut self, index: u32) {
        for unit in &mut self.units {
            unit.outbound.retain(|packet| packet.qp != index);
        }
        self.executing.forget(index);
        self.page_waiters.retain(|waiter| *waiter != index);
    }

    /// Returns the time at which the next fetch of WQEs ends.
    pub fn next_fetch(&self) -> Option<Instant> {
        self.fetch.next_delivery()
    }

    /// Returns the time at which the next processing unit with work may continue.
    pub fn next_step(&self, timing: &impl Timing) -> Option<Instant> {
        if self.is_stalled() || self.egress_blocked {
            return None;
        }
        let executed = self.executing.next_release(|unit| self.has_room(unit));
        Instant::first([self.next_turn(timing), executed])
    }

    /// Returns the time at which the next processing unit with packets or queue pairs may continue.
    fn next_turn(&self, timing: &impl Timing) -> Option<Instant> {
        if self.scheduler.is_idle() && !self.outbound_waits {
            return None;
        }
        let turn = |unit: usize| self.units[unit].next_turn(timing);
        if !self.outbound_waits {
            return self.scheduler.units_with_work().map(turn).min();
        }
        let waits =
            |unit: &usize| !self.units[*unit].outbound.is_empty() || self.scheduler.has_work(*unit);
        (0..self.units.len()).filter(waits).map(turn).min()
    }

    /// Returns true if a processing unit has room for a packet.
    #[inline]
    fn has_room(&self, unit: u8) -> bool {
        !self.units[usize::from(unit)].outbound.is_full()
    }

    /// Returns the maximum number of concurrent fetches, and the time for which they ran.
    pub fn fetch_usage(&self) -> (usize, Duration) {
        self.fetch.usage()
    }

    /// Returns the number of WQE fetches in flight, and of queue pairs that wait for one.
    pub fn fetches(&self) -> (usize, usize) {
        (self.fetch.under_way(), self.fetch.waiting())
    }

    /// Returns for each processing unit the number of queue pairs that wait to be served, and of
    /// packets for the packetizer.
    pub fn unit_levels(&self) -> impl Iterator<Item = (usize, usize)> {
        let units = self.units.iter().enumerate();
        units.map(|(index, unit)| (self.scheduler.len(index), unit.outbound.len()))
    }
}

impl<P: Port, M> TransmitPorts<'_, P, M> {
    /// Returns the blocks that take the results of a queue pair's work.
    #[inline]
    fn results<'a>(&'a mut self, scheduler: &'a mut Scheduler) -> (&'a mut Contexts, Results<'a>) {
        let results = Results {
            completions: self.completions,
            host_interface: self.host_interface,
            scheduler,
        };
        (self.contexts, results)
    }
}
