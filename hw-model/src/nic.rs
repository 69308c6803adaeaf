//! One NIC function: owns the blocks and passes items from one to the next.

use ferroce_spec::command::ContextTables;
use ferroce_spec::context::AddressEntry;
use ferroce_spec::counter::Counter;
use ferroce_spec::eqe::EventType;
use ferroce_spec::register::FatalSyndrome;
use ferroce_spec::wqe::BLOCK_SIZE;
use ferroce_units::{Duration, Instant};
use ferroce_wire::Qpn;

use crate::blocks::{Blocks, Model};
use crate::config::NicConfig;
use crate::contexts::completion_queue::{CompletionEntry, CompletionQueues};
use crate::contexts::cqe_builder;
use crate::contexts::queue_pair::QueuePairs;
use crate::contexts::shared_receive_queue::SharedReceiveQueues;
use crate::contexts::timers::Timers;
use crate::counters::Counters;
use crate::fast_forward::Marks;
use crate::host_interface::bar::Bar;
use crate::host_interface::dma::Dma;
use crate::host_interface::event_queue::{ASYNC_EQN, Event, EventQueues};
use crate::limits::{FLUSH_PER_TURN, MAX_GIDS};
use crate::mac::Mac;
use crate::ports::host::{Doorbell, Host, WriteOrder};
use crate::ports::port::Port;
use crate::processing_unit::{Inbound, ProcessingUnit};
use crate::receive::multicast::MulticastTable;
use crate::time::edge::Edge;
use crate::time::timing::{Functional, PLANNING_HORIZON, Stage, Timing, Work, horizon};
use crate::translation::memory_unit::MemoryUnit;
use crate::transmit::scheduler::Scheduler;
use crate::transmit::wqe_cache::WqeCache;
use crate::transmit::wqe_fetch::WqeFetch;

/// The only port.
const PORT_NUMBER: u32 = 1;
/// Largest number of steps of all blocks in one call of [`Nic::advance`], so that it always
/// returns.
const MAX_STEPS: usize = 64;
/// Largest number of doorbells that are drained in one step.
const DOORBELLS_PER_STEP: usize = 256;
/// Delay before the next attempt while frames wait for room on the wire.
const STALL_RETRY: Duration = Duration::from_us(5);
/// CQEs, and events, that wait to be written. A step handles at most `edge_capacity` packets and a
/// flush of two full rings, in pieces of [`FLUSH_PER_TURN`].
const COMPLETION_CAPACITY: usize = 4096;

/// Result of a call of [`Nic::advance`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// True if something moved.
    pub worked: bool,
    /// True if nothing more can be done now. Else the call has used up its budget of steps.
    pub rests: bool,
    /// True if packets wait for room on the wire.
    pub stalled: bool,
}

/// One NIC function behind a port, with the timing of its blocks.
#[derive(Debug)]
pub struct Nic<P: Port, T: Timing = Functional, B: Blocks = Model> {
    pub(crate) config: NicConfig,
    pub(crate) timing: T,
    /// Time of the event that is being handled.
    pub(crate) now: Instant,
    pub(crate) bar: Bar,
    pub(crate) counters: Counters,
    pub(crate) gids: Box<[AddressEntry; MAX_GIDS]>,
    pub(crate) qps: QueuePairs,
    pub(crate) cqs: CompletionQueues,
    pub(crate) srqs: SharedReceiveQueues,
    pub(crate) multicast: MulticastTable,
    pub(crate) events: EventQueues,
    pub(crate) memory: MemoryUnit<B::Mtt>,
    pub(crate) scheduler: Scheduler,
    pub(crate) timers: Timers,
    pub(crate) doorbells: Edge<Doorbell>,
    pub(crate) fetch: WqeFetch,
    pub(crate) wqes: WqeCache,
    pub(crate) units: Vec<ProcessingUnit>,
    /// Packets from the depacketizer to the processing units.
    pub(crate) inbound: Edge<Inbound<P::Frame>>,
    pub(crate) mac: Mac<P::Frame>,
    pub(crate) completion_edge: Edge<CompletionEntry>,
    pub(crate) event_edge: Edge<Event>,
    /// Queue pairs with a delayed ACK, or with one until a moment ago; each once.
    pub(crate) delayed_acks: Vec<u32>,
    pub(crate) stalled: bool,
    /// True if the MAC holds as many frames to send as it may: no more are made.
    pub(crate) egress_blocked: bool,
    /// True if a processing unit has packets that are not frames yet.
    pub(crate) outbound_waits: bool,
    /// Until this time packets stay in the receive buffer, because the host is slow to take their
    /// data.
    pub(crate) receive_resumes_at: Instant,
    /// True if registers or commands were handled in this step.
    pub(crate) runs_registers: bool,
    /// Stride ends of long messages.
    pub(crate) marks: Marks,
    /// Time of the next delivery, as of the last step; of a timed NIC only.
    pub(crate) next: Option<Instant>,
}

impl<P: Port> Nic<P> {
    /// Returns a function after power-on that takes no time.
    pub fn new(config: NicConfig) -> Self {
        Self::with_timing(config, Functional)
    }
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Returns a function after power-on whose blocks take the time that `timing` charges.
    pub fn with_timing(config: NicConfig, timing: T) -> Self {
        let capacity = config.edge_capacity;
        // Without time, units work one after the other, so that one is enough.
        let units = match T::IS_TIMED {
            true => config.processing_units.max(1),
            false => 1,
        };
        Self {
            timing,
            now: Instant::ZERO,
            bar: Bar::new(&config),
            counters: Counters::new(),
            gids: Box::new([AddressEntry::default(); MAX_GIDS]),
            qps: QueuePairs::new(config.qpn_base, config.qpc_cache)
                .with_numbers(config.number_seed),
            cqs: CompletionQueues::new(config.cqc_cache),
            srqs: SharedReceiveQueues::new(config.srqc_cache),
            multicast: MulticastTable::default(),
            events: EventQueues::new(config.interrupt_moderation),
            memory: MemoryUnit::new(&config),
            scheduler: Scheduler::new(usize::from(units)),
            timers: Timers::default(),
            doorbells: Edge::new(DOORBELLS_PER_STEP),
            wqes: WqeCache::new(config.wqe_cache),
            fetch: WqeFetch::new(config.fetch_blocks, config.fetch_slots),
            units: (0..units)
                .map(|number| ProcessingUnit::new(number, capacity))
                .collect(),
            inbound: Edge::new(capacity),
            mac: Mac::new(capacity, config.egress_packets.max(1)),
            completion_edge: Edge::new(COMPLETION_CAPACITY),
            event_edge: Edge::new(COMPLETION_CAPACITY),
            delayed_acks: Vec::new(),
            stalled: false,
            egress_blocked: false,
            outbound_waits: false,
            receive_resumes_at: Instant::ZERO,
            runs_registers: false,
            marks: Marks::default(),
            next: None,
            config,
        }
    }

    /// Reads 4 bytes of BAR0.
    pub fn read32(&self, now: Instant, offset: u32) -> u32 {
        self.bar.read32(offset & !3, now, &self.counters)
    }

    /// Reads 8 bytes of BAR0.
    pub fn read64(&self, now: Instant, offset: u32) -> u64 {
        self.bar.read64(offset & !7, now, &self.counters)
    }

    /// Writes 4 bytes of BAR0. The next [`Nic::advance`] acts on them.
    pub fn write32(&mut self, offset: u32, value: u32) {
        self.bar.write32(offset & !3, value);
    }

    /// Writes 8 bytes of BAR0. The next [`Nic::advance`] acts on them.
    pub fn write64(&mut self, offset: u32, value: u64) {
        self.bar.write64(offset & !7, value);
    }

    /// Reads the device's own memory (BAR4).
    pub fn read_device_memory(&mut self, offset: u64, destination: &mut [u8]) {
        self.memory.device.read(offset, destination);
    }

    /// Writes the device's own memory (BAR4).
    pub fn write_device_memory(&mut self, offset: u64, source: &[u8]) {
        self.memory.device.write(offset, source);
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the time at which the NIC has to run again if nothing else happens.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if self.bar.fatal != FatalSyndrome::NONE {
            return None;
        }
        let retry = self.stalled.then(|| now + STALL_RETRY);
        let times = [
            self.timers.next(),
            self.cqs.next_timeout(),
            self.next_interrupt(),
            retry,
            self.next,
        ];
        // Plain numbers, not options: the minimum of options is compiled to a comparison with the
        // uninitialised number of an absent one, which memory checkers report.
        let never = Instant(u64::MAX);
        let first = times
            .into_iter()
            .map(|time| time.unwrap_or(never))
            .fold(never, Instant::min);
        (first != never).then_some(first)
    }

    /// Returns the time at which an interrupt for coalesced events is due.
    #[inline]
    fn next_interrupt(&self) -> Option<Instant> {
        T::IS_TIMED.then(|| self.events.next_timeout()).flatten()
    }

    /// Returns the time of the next delivery on an edge, or at which a block may continue.
    fn next_delivery(&self) -> Option<Instant> {
        // Blocks that make completions wait while many completions wait; an event waits for
        // software.
        let completes = !self.completion_edge.is_nearly_full();
        let inbound = self.inbound.next_delivery().filter(|_| completes);
        let edges = [
            inbound.map(|ready| ready.max(self.receive_resumes_at)),
            self.fetch.next_delivery(),
            self.completion_edge
                .next_delivery()
                .map(|ready| ready - PLANNING_HORIZON),
            self.event_edge
                .next_delivery_if(|event| self.events.has_room(event.eqn)),
            self.mac.next_transmit(&self.timing),
        ];
        let units = completes.then(|| self.next_unit_turn()).flatten();
        edges.into_iter().chain([units]).flatten().min()
    }

    /// Returns the time at which the next processing unit with something to send may continue.
    fn next_unit_turn(&self) -> Option<Instant> {
        if self.stalled || self.egress_blocked || self.scheduler.is_idle() && !self.outbound_waits {
            return None;
        }
        let waits = |unit: &&ProcessingUnit| {
            self.scheduler.len(usize::from(unit.number)) > 0 || !unit.outbound.is_empty()
        };
        let units = self.units.iter().filter(waits);
        units.map(|unit| unit.next_turn(&self.timing)).min()
    }

    /// Runs all blocks until nothing moves any more, or the budget of this call is used up.
    #[inline]
    pub fn advance<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> Progress {
        let mut progress = Progress::default();
        self.now = now;
        if self.bar.control.reset() {
            self.reset(port);
        }
        let mut turns = 0;
        for _ in 0..MAX_STEPS {
            let mut worked = self.step(now, host, port);
            // A lost peer is handled only after all that it has sent is taken: its last ACK may be
            // among that, and this step may have polled before the ACK came.
            if !worked && port.take_loss() {
                while self.step(now, host, port) && turns < MAX_STEPS {
                    turns += 1;
                }
                worked = self.give_up_lost_peers(now, port);
            }
            progress.worked |= worked;
            let has_more = !T::IS_TIMED || self.has_more(now);
            if !worked || !has_more {
                progress.rests = true;
                break;
            }
        }
        progress.stalled = self.stalled;
        progress
    }

    /// Returns true if another step would find work at `now`: a timed NIC knows without trying.
    fn has_more(&mut self, now: Instant) -> bool {
        self.next = self.next_delivery();
        let timers = [
            self.next,
            self.timers.next(),
            self.cqs.next_timeout(),
            self.next_interrupt(),
        ];
        self.runs_registers || timers.into_iter().flatten().any(|due| due <= now)
    }

    /// Steps each block once, in the direction of the data. Returns true if something moved.
    ///
    /// The functions that it calls have one caller each and are `inline(always)`: the compiler does
    /// not inline into a function as large as this one by itself, and the latency of a message is
    /// then a tenth higher.
    #[inline(always)]
    fn step<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        // Frames are taken off the wire before doorbells are drained: a receive WQE that was rung
        // before its SEND could arrive is seen when the SEND is processed.
        let mut worked = self.watch_link(now, port);
        if self.bar.link_up {
            worked |= self.mac.receive(now, &mut self.timing, port);
        } else {
            self.mac.discard(now, port);
        }
        worked |= self.drain_doorbells(now, host);
        self.runs_registers = self.run_registers(now, host, port);
        worked |= self.runs_registers;
        if self.bar.fatal != FatalSyndrome::NONE {
            self.mac.ingress.clear(|frame| port.release(frame));
            return worked | self.write_events(now, host);
        }
        worked |= self.receive(now, host, port);
        worked |= self.complete_fetches(now);
        worked |= self.expire_timers(now, port);
        worked |= self.expire_moderation(now, host);
        worked |= self.transmit(now, host, port);
        worked |= self.write_completions(now, host);
        worked |= self.write_events(now, host);
        worked
    }

    /// Fault injection: stops the function with DEVICE_FATAL, as an internal error would.
    pub fn fail(&mut self, now: Instant) {
        if self.bar.fatal == FatalSyndrome::NONE {
            let event = Event {
                eqn: ASYNC_EQN,
                kind: EventType::DEVICE_FATAL,
                number: 0,
            };
            self.raise(now, event);
            self.bar.stop(FatalSyndrome::INJECTED);
        }
    }

    /// Detects that the link went up or down, and raises the event.
    #[inline]
    fn watch_link(&mut self, now: Instant, port: &P) -> bool {
        let link_up = port.link_is_up();
        if link_up == self.bar.link_up {
            return false;
        }
        self.bar.link_up = link_up;
        let kind = match link_up {
            true => EventType::PORT_ACTIVE,
            false => EventType::PORT_ERROR,
        };
        let event = Event {
            eqn: ASYNC_EQN,
            kind,
            number: PORT_NUMBER,
        };
        self.raise(now, event);
        true
    }

    /// Executes what register writes have requested.
    #[inline(always)]
    fn run_registers<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        let mut worked = self.run_commands(now, host, port);
        if self.bar.unmasked_vectors != 0 {
            for vector in 0..u64::BITS as u16 {
                if self.bar.unmasked_vectors >> vector & 1 != 0 {
                    self.counters.add(Counter::interrupts, 1);
                    host.interrupt(
                        WriteOrder {
                            at: now,
                            after: now,
                        },
                        vector,
                    );
                }
            }
            self.bar.unmasked_vectors = 0;
        }
        if self.bar.has_event_queue_doorbells {
            self.bar.has_event_queue_doorbells = false;
            for eqn in 0..self.bar.event_queue_doorbells.len() {
                if let Some(doorbell) = self.bar.event_queue_doorbells[eqn].take() {
                    let mut dma = Dma::new(host, &mut self.counters, self.now);
                    self.events
                        .ring(eqn as u32, doorbell, &mut self.bar.msix, &mut dma);
                    worked = true;
                }
            }
        }
        worked
    }

    /// Handles the timers of queue pairs that are due.
    #[inline(always)]
    fn expire_timers(&mut self, now: Instant, port: &mut P) -> bool {
        let mut worked = false;
        for _ in 0..self.config.edge_capacity {
            let Some(index) = self.timers.pop_due(now) else {
                break;
            };
            worked = true;
            if let Some(qp) = self.qps.get_mut(index) {
                if qp.transport.retransmission_is_due(now)
                    && qp.peer().is_some_and(|route| port.is_behind(&route))
                {
                    qp.transport.postpone_retransmission(now);
                }
                qp.transport.handle_timeout(now);
                self.settle(now, index);
            }
        }
        worked
    }

    /// Fails what queue pairs have sent to functions that no longer exist. Returns true if there
    /// was any.
    #[cold]
    fn give_up_lost_peers(&mut self, now: Instant, port: &mut P) -> bool {
        let mut worked = false;
        let (_, used) = self.qps.all();
        for index in 0..used {
            let Some(qp) = self.qps.get_mut(index) else {
                continue;
            };
            let is_lost = qp.transport.has_unacknowledged()
                && qp.peer().is_some_and(|route| port.is_gone(&route));
            if is_lost {
                qp.transport.give_up();
                self.settle(now, index);
                worked = true;
            }
        }
        worked
    }

    /// Raises the events of CQs whose moderation time has passed.
    #[inline(always)]
    fn expire_moderation<H: Host>(&mut self, now: Instant, host: &mut H) -> bool {
        let mut worked = false;
        for _ in 0..self.config.edge_capacity {
            let Some(cqn) = self.cqs.pop_due(now) else {
                break;
            };
            worked = true;
            let mut dma = Dma::new(host, &mut self.counters, self.now);
            if let Some(event) = self.cqs.expire(cqn, &mut dma) {
                self.raise(now, event);
            }
        }
        worked
    }

    /// Processes the results of a queue pair's work: completions, events, its timer, its place in
    /// the scheduler.
    #[inline]
    pub(crate) fn settle(&mut self, now: Instant, index: u32) {
        let Some(qp) = self.qps.get_mut(index) else {
            return;
        };
        let mut has_more = true;
        for _ in 0..FLUSH_PER_TURN {
            if self.completion_edge.is_full() {
                break;
            }
            let Some(completion) = qp.transport.poll_completion() else {
                has_more = false;
                break;
            };
            let mut entry = cqe_builder::completion_entry(qp, &completion);
            let mut ready = qp.progress.ready.max(now);
            if T::IS_TIMED && completion.is_send() {
                if self.wqes.is_limited() {
                    entry.wqe = Some(qp.send.address(entry.cqe.wqe_index));
                }
                if qp.is_unreliable() {
                    ready = ready.max(qp.progress.left);
                }
            }
            let ready = self
                .timing
                .reserve(now, ready, Stage::Completion, Work::default());
            self.completion_edge.push(ready, entry);
        }
        while !self.event_edge.is_full() {
            let Some(event) = qp.transport.poll_event() else {
                break;
            };
            let Some(kind) = cqe_builder::event_type(qp, event) else {
                continue;
            };
            let event = Event {
                eqn: ASYNC_EQN,
                kind,
                number: qp.qpn.value(),
            };
            let ready = self.timing.reserve(now, now, Stage::Event, Work::default());
            self.event_edge.push(ready, event);
        }
        if let Some(statistics) = qp.transport.take_statistics() {
            cqe_builder::count(&statistics, &mut self.counters);
        }
        self.timers.set(index, qp.transport.next_timeout());
        if qp.transport.pending_acknowledge() && !qp.holds_acknowledge {
            qp.holds_acknowledge = true;
            self.delayed_acks.push(index);
        }
        if has_more || qp.has_work() {
            self.scheduler.activate(qp);
        }
    }

    /// Runs [`Nic::settle`] after a command: the QP may have been flushed, or may send now.
    pub(crate) fn after_command(&mut self, now: Instant, index: u32) {
        if let Some(qp) = self.qps.get_mut(index) {
            self.scheduler.activate(qp);
        }
        self.settle(now, index);
    }

    /// Queues an event that happens at `at`.
    pub(crate) fn raise(&mut self, at: Instant, event: Event) {
        if self.event_edge.is_full() {
            // Software has left its event queue full for thousands of events.
            self.bar.stop(FatalSyndrome::EVENT_QUEUE_DMA);
            return;
        }
        let ready = self
            .timing
            .reserve(self.now, at, Stage::Event, Work::default());
        self.event_edge.push(ready, event);
    }

    /// Writes CQEs.
    #[inline(always)]
    fn write_completions<H: Host>(&mut self, now: Instant, host: &mut H) -> bool {
        let mut worked = false;
        let until = horizon::<T>(now);
        while let Some((at, mut entry)) = self.completion_edge.pop_until(until) {
            let mut dma = Dma::planned(host, &mut self.counters, now, at);
            if T::IS_TIMED && !entry.in_order {
                entry.in_order = true;
                let mut ready = at;
                if let Some(qp) = self.qps.find(Qpn::new(entry.cqe.qpn)) {
                    if let Some(iova) = entry.wqe {
                        let index = entry.cqe.wqe_index;
                        if !self.wqes.remove(qp.index, index) {
                            ready = read_again(&mut self.wqes, iova, &mut dma);
                        }
                    }
                    // CQEs of one queue pair are written in order.
                    ready = ready.max(qp.progress.completed);
                    qp.progress.completed = ready;
                }
                if ready > at {
                    self.completion_edge.push(ready, entry);
                    continue;
                }
            }
            dma.visible = entry.after;
            if let Some(event) = self.cqs.write(&entry, now, &mut dma) {
                let at = dma.at;
                self.raise(at, event);
            }
            worked = true;
        }
        worked
    }

    /// Writes EQEs. Events of a full event queue stay here until software has made room.
    #[inline(always)]
    fn write_events<H: Host>(&mut self, now: Instant, host: &mut H) -> bool {
        let mut worked = false;
        while let Some(event) = self.event_edge.pop_if(now, |e| self.events.has_room(e.eqn)) {
            let mut dma = Dma::new(host, &mut self.counters, self.now);
            if self
                .events
                .write(&event, &mut self.bar.msix, &mut dma)
                .is_err()
            {
                self.bar.stop(FatalSyndrome::EVENT_QUEUE_DMA);
            }
            worked = true;
        }
        if T::IS_TIMED {
            let mut dma = Dma::new(host, &mut self.counters, now);
            worked |= self.events.expire(now, &mut self.bar.msix, &mut dma);
        }
        worked
    }

    /// Places the context tables at the addresses in `tables`.
    pub(crate) fn install_tables(&mut self, tables: &ContextTables) {
        self.qps.reset(tables.qpc_base, tables.log_qps);
        self.cqs.reset(tables.cqc_base, tables.log_cqs);
        self.srqs.reset(tables.srqc_base, tables.log_srqs);
        self.memory.install_tables(tables);
        self.timers = Timers::new(self.qps.capacity());
    }

    /// Clears all state but the MSI-X table.
    fn reset(&mut self, port: &mut P) {
        self.install_tables(&ContextTables::default());
        self.memory.reset();
        self.multicast.clear().for_each(|group| port.leave(group));
        self.events.clear();
        self.scheduler.clear();
        self.fetch.clear();
        self.delayed_acks.clear();
        *self.gids = [AddressEntry::default(); MAX_GIDS];
        self.counters = Counters::new();
        self.doorbells.clear(drop);
        self.completion_edge.clear(drop);
        self.event_edge.clear(drop);
        self.mac.egress.clear(|departing| {
            if let Some(frame) = departing.frame {
                port.transmit(self.now, frame);
            }
        });
        self.mac.left.clear();
        self.mac.ingress.clear(|frame| port.release(frame));
        self.inbound.clear(|packet| port.release(packet.frame));
        for unit in &mut self.units {
            unit.outbound.clear(drop);
        }
        self.stalled = false;
        self.marks.clear();
        self.bar.reset();
    }
}

/// Reads the WQE at `iova` again and returns the time at which it is there. Its content is known,
/// so that a failed read changes nothing.
#[cold]
fn read_again<H: Host>(wqes: &mut WqeCache, iova: u64, dma: &mut Dma<'_, H>) -> Instant {
    dma.counters.add(Counter::wqe_refetches, 1);
    let lease = wqes.registers.take(dma.begun, dma.at);
    dma.at = lease.at;
    let mut block = [0; BLOCK_SIZE];
    let _ = dma.read(iova, &mut block);
    wqes.registers.give_back(lease, dma.at);
    dma.at
}
