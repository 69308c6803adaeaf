//! The blocks of one NIC function, connected to each other.

use ferroce_spec::counter::Counter;
use ferroce_units::Instant;

use crate::blocks::Blocks;
use crate::completion::Results;
use crate::completion::completion_writer::CompletionWriter;
use crate::config::NicConfig;
use crate::congestion::Congestion;
use crate::contexts::Contexts;
use crate::doorbells::Doorbells;
use crate::host_interface::HostInterface;
use crate::host_interface::event_queue::Event;
use crate::mac::Mac;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::receive::stride_marks::Marks;
use crate::receive::{Receive, ReceivePorts};
use crate::time::timing::Timing;
use crate::time::turn::Turn;
use crate::translation::memory_unit::MemoryUnit;
use crate::transmit::{Transmit, TransmitPorts};

/// All blocks of a function. Each has private state; a block reaches another one only through the
/// ports that it gets here.
#[derive(Debug)]
pub(crate) struct Datapath<P: Port, B: Blocks> {
    /// Registers, events and interrupts.
    pub host_interface: HostInterface,
    /// Decoder of doorbells.
    pub doorbells: Doorbells,
    /// Context tables.
    pub contexts: Contexts,
    /// Keys and addresses.
    pub translation: MemoryUnit<B::Mtt>,
    /// From queue pairs to frames.
    pub transmit: Transmit,
    /// From frames to queue pairs.
    pub receive: Receive<P::Frame>,
    /// CQE writer.
    pub completions: CompletionWriter,
    /// Between the packet engines and the wire.
    pub mac: Mac<P::Frame>,
    /// Stride ends of long messages.
    pub marks: Marks,
    /// Congestion control; `None`: the card has none.
    pub congestion: Option<Box<Congestion>>,
}

impl<P: Port, B: Blocks> Datapath<P, B> {
    /// Returns the blocks after power-on, with `units` processing units.
    pub fn new(config: &NicConfig, units: u8) -> Self {
        Self {
            host_interface: HostInterface::new(config),
            doorbells: Doorbells::new(config.push_blocks),
            contexts: Contexts::new(config),
            translation: MemoryUnit::new(config),
            transmit: Transmit::new(config, units),
            receive: Receive::new(config),
            completions: CompletionWriter::new(),
            mac: Mac::new(config.edge_capacity, config.egress_packets.max(1)),
            marks: Marks::default(),
            congestion: config.congestion.as_ref().map(|congestion| {
                let line_rate_mbps = f64::from(config.line_rate_mbps);
                Box::new(Congestion::new(congestion, line_rate_mbps))
            }),
        }
    }

    /// Clears all state but the MSI-X table.
    pub fn reset(&mut self, now: Instant, port: &mut P) {
        self.host_interface.reset();
        self.doorbells.clear();
        self.contexts.reset();
        self.translation.reset();
        self.transmit.reset();
        self.receive.reset(port);
        port.set_gsi(false);
        self.completions.clear();
        self.mac.reset(now, port);
        self.marks.clear();
        if let Some(congestion) = &mut self.congestion {
            congestion.reset();
        }
    }

    /// Takes external input of the data path: frames and doorbells. Returns true if there was any.
    #[inline]
    pub fn take_input<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        port: &mut P,
    ) -> bool {
        // Frames are taken off the wire before doorbells are drained: a receive WQE that was rung
        // before its SEND could arrive is visible when the SEND is processed.
        let mut worked = self.host_interface.watch_link(turn, port.link_is_up());
        if self.host_interface.link_is_up() {
            worked |= self.mac.receive(turn.now, turn.timing, port);
        } else {
            self.mac.discard(turn.now, port);
        }
        let results = &mut Results {
            completions: &mut self.completions,
            host_interface: &mut self.host_interface,
            scheduler: self.transmit.scheduler(),
        };
        worked | self.doorbells.step(turn, &mut self.contexts, results)
    }

    /// Steps the blocks from the receive buffer to the wire and to host memory, in the direction of
    /// the data. Returns true if something moved.
    #[inline]
    pub fn step<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>, port: &mut P) -> bool {
        let mut worked = false;
        // An empty poll of a program runs this, too: an idle block costs one comparison.
        if self.mac.has_received() || !self.receive.is_idle() {
            worked |= self.receive(turn, port);
        }
        if !self.transmit.fetches_nothing() {
            let (transmit, mut ports) = self.transmit(port);
            worked |= transmit.complete_fetches(turn, &mut ports);
        }
        worked |= self.expire(turn, port);
        let (transmit, mut ports) = self.transmit(port);
        worked |= transmit.step(turn, &mut ports);
        let (contexts, events) = (&mut self.contexts, &mut self.host_interface);
        worked |= self.completions.step(turn, contexts, events);
        if self.translation.has_page_fault() {
            self.raise_page_faults(turn);
        }
        worked | self.host_interface.write_events(turn)
    }

    /// Raises the events of page faults.
    #[cold]
    fn raise_page_faults<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>) {
        while self.host_interface.takes_events() {
            let Some(absent) = self.translation.take_page_fault() else {
                break;
            };
            turn.counters.add(Counter::page_faults, 1);
            let event = Event::page_fault(absent.key, absent.page);
            self.host_interface.raise(turn, turn.now, event);
        }
    }

    /// Handles the answers of software to page faults. Returns true if there were some.
    #[inline]
    pub fn take_page_fault_answers(&mut self) -> bool {
        let mut has_answers = false;
        for answer in self.host_interface.take_page_fault_answers() {
            has_answers |= self.translation.answer_page_faults(answer);
        }
        if has_answers {
            let qps = &mut self.contexts.qps;
            self.transmit.resume_page_waiters(qps);
        }
        has_answers
    }

    /// Steps the receive path. Returns true if something moved.
    #[inline]
    fn receive<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>, port: &mut P) -> bool {
        let results = Results {
            completions: &mut self.completions,
            host_interface: &mut self.host_interface,
            scheduler: self.transmit.scheduler(),
        };
        let ports = &mut ReceivePorts {
            contexts: &mut self.contexts,
            translation: &mut self.translation,
            results,
            mac: &mut self.mac,
            marks: &mut self.marks,
            congestion: self.congestion.as_deref_mut(),
            port,
        };
        self.receive.step(turn, ports)
    }

    /// Returns the transmit path and the blocks that it uses.
    #[inline]
    pub fn transmit<'a>(
        &'a mut self,
        port: &'a mut P,
    ) -> (&'a mut Transmit, TransmitPorts<'a, P, B::Mtt>) {
        let ports = TransmitPorts {
            contexts: &mut self.contexts,
            translation: &mut self.translation,
            completions: &mut self.completions,
            host_interface: &mut self.host_interface,
            mac: &mut self.mac,
            congestion: self.congestion.as_deref_mut(),
            port,
        };
        (&mut self.transmit, ports)
    }

    /// Returns the context tables and the blocks that take the results of a queue pair's work.
    #[inline]
    pub fn contexts(&mut self) -> (&mut Contexts, Results<'_>) {
        let results = Results {
            completions: &mut self.completions,
            host_interface: &mut self.host_interface,
            scheduler: self.transmit.scheduler(),
        };
        (&mut self.contexts, results)
    }

    /// Handles expired timers and due moderated events. Returns true if there were some.
    #[inline]
    fn expire<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>, port: &mut P) -> bool {
        let (contexts, mut results) = self.contexts();
        let timers = results.expire_timers(turn, contexts, port);
        let moderation = results.expire_moderation(turn, contexts);
        timers | moderation | self.resume_limited(turn.now)
    }

    /// Activates queue pairs whose rate lets them send again. Returns true if there were some.
    #[inline]
    fn resume_limited(&mut self, now: Instant) -> bool {
        let Some(congestion) = &mut self.congestion else {
            return false;
        };
        let mut worked = false;
        while let Some(index) = congestion.reaction.pop_due(now) {
            if let Some(qp) = self.contexts.qps.get_mut(index) {
                qp.scheduled = false;
                self.transmit.scheduler().activate(qp);
                worked = true;
            }
        }
        worked
    }

    /// Fails requests to functions that no longer exist. Returns true if there were any.
    #[cold]
    pub fn give_up_lost_peers<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        port: &mut P,
    ) -> bool {
        let (contexts, mut results) = self.contexts();
        results.give_up_lost_peers(turn, contexts, port)
    }

    /// Returns true if received frames wait for nothing: the block that had no room for them has
    /// made some in the last step.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.mac.has_room_again() || (self.mac.has_received() && self.receive.has_room())
    }

    /// Returns the time of the first timer or interrupt; [`Instant::MAX`]: there is none.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let interrupt = self.host_interface.next_interrupt();
        let congestion = self.congestion.as_ref();
        let limited = congestion.and_then(|congestion| congestion.reaction.next_due());
        let first = self.contexts.next_timeout();
        let first = first.min(interrupt.unwrap_or(Instant::MAX));
        first.min(limited.unwrap_or(Instant::MAX))
    }

    /// Returns the time of the next delivery on an edge, or the time at which a block may continue.
    pub fn next_delivery(&self, timing: &impl Timing) -> Option<Instant> {
        // Blocks that make completions wait while many completions are pending; an event waits for
        // software.
        let completes = !self.completions.is_nearly_full();
        let times = [
            self.receive.next_step().filter(|_| completes),
            self.transmit.next_fetch(),
            self.completions.next_step(),
            self.host_interface.next_event(),
            self.mac.next_transmit(timing),
            self.transmit.next_step(timing).filter(|_| completes),
        ];
        Instant::first(times)
    }
}
