//! The card as software sees it on PCIe: BARs and interrupts.
//!
//! - [`bar`], `recovery`: BAR0. [`device_memory`]: BAR4. BAR2 is decoded by `doorbells`.
//! - [`event_queue`], [`msix`]: events and interrupts to software.

pub mod bar;
pub mod device_memory;
pub mod event_queue;
pub mod msix;
mod recovery;

use ferroce_spec::counter::Counter;
use ferroce_spec::eqe::EventType;
use ferroce_spec::personality::Personality;
use ferroce_spec::register::{FatalSyndrome, PageFaultAnswer};
use ferroce_transport::Recovery;
use ferroce_units::Instant;

use crate::config::NicConfig;
use crate::counters::Counters;
use crate::host_interface::bar::{Bar, CommandQueueRegisters};
use crate::host_interface::event_queue::{ASYNC_EQN, Event, EventQueues};
use crate::ports::host::{Host, WriteOrder};
use crate::time::edge::Edge;
use crate::time::timing::{Stage, Timing, Work};
use crate::time::turn::Turn;

/// The only port.
const PORT_NUMBER: u32 = 1;
/// Maximum number of pending events.
const EVENT_CAPACITY: usize = 4096;

/// Registers, event queues and interrupts of the function.
#[derive(Debug)]
pub(crate) struct HostInterface {
    bar: Bar,
    queues: EventQueues,
    /// Events on their way to their event queues.
    events: Edge<Event>,
    /// Fault injection: commands no longer complete.
    commands_hang: bool,
}

impl HostInterface {
    /// Returns the interface after power-on.
    pub fn new(config: &NicConfig) -> Self {
        Self {
            bar: Bar::new(config),
            queues: EventQueues::new(config.interrupt_moderation),
            events: Edge::new(EVENT_CAPACITY),
            commands_hang: false,
        }
    }

    /// Reads 4 bytes of BAR0.
    pub fn read32(&self, offset: u32, now: Instant, counters: &Counters) -> u32 {
        self.bar.read32(offset & !3, now, counters)
    }

    /// Reads 8 bytes of BAR0.
    pub fn read64(&self, offset: u32, now: Instant, counters: &Counters) -> u64 {
        self.bar.read64(offset & !7, now, counters)
    }

    /// Writes 4 bytes of BAR0.
    pub fn write32(&mut self, offset: u32, value: u32) {
        self.bar.write32(offset & !3, value);
    }

    /// Writes 8 bytes of BAR0.
    pub fn write64(&mut self, offset: u32, value: u64) {
        self.bar.write64(offset & !7, value);
    }

    /// Returns the recovery state for a queue pair that goes to RTR now.
    pub fn recovery(&self, seed: u64) -> Recovery {
        self.bar.recovery.recovery(seed)
    }

    /// Returns whose failures the function shows.
    #[inline]
    pub fn personality(&self) -> Personality {
        self.bar.personality()
    }

    /// Returns true if software has asked for a reset.
    #[inline]
    pub fn wants_reset(&self) -> bool {
        self.bar.control.reset()
    }

    /// Clears all state but the MSI-X table.
    pub fn reset(&mut self) {
        self.queues.clear();
        self.events.clear(drop);
        self.bar.reset();
        self.commands_hang = false;
    }

    /// Stops the function without an event: nothing more is written to host memory.
    pub fn stop(&mut self, syndrome: FatalSyndrome) {
        self.bar.stop(syndrome);
    }

    /// Fault injection: no command completes from the next one on.
    pub fn hang_commands(&mut self) {
        self.commands_hang = true;
    }

    /// Returns true if the function has stopped.
    #[inline]
    pub fn has_stopped(&self) -> bool {
        self.bar.fatal != FatalSyndrome::NONE
    }

    /// Returns true if the port has a link in this turn.
    #[inline]
    pub fn link_is_up(&self) -> bool {
        self.bar.link_up
    }

    /// Returns the registers of the command queue if a command is pending.
    #[inline]
    pub fn next_command(&self) -> Option<CommandQueueRegisters> {
        let queue = self.bar.commands;
        let waits = queue.consumer != queue.producer && self.bar.is_enabled();
        (waits && !self.commands_hang).then_some(queue)
    }

    /// Returns the entry of the first command to software.
    pub fn finish_command(&mut self) {
        self.bar.commands.consumer = self.bar.commands.consumer.wrapping_add(1);
    }

    /// Returns the event queues, for commands on them.
    pub fn event_queues(&mut self) -> &mut EventQueues {
        &mut self.queues
    }

    /// Detects that the link went up or down, and raises the event.
    #[inline]
    pub fn watch_link<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        link_up: bool,
    ) -> bool {
        if link_up == self.bar.link_up {
            return false;
        }
        self.bar.link_up = link_up;
        let kind = if link_up {
            EventType::PORT_ACTIVE
        } else {
            EventType::PORT_ERROR
        };
        let (eqn, number) = (ASYNC_EQN, PORT_NUMBER);
        self.raise(turn, turn.now, Event::new(eqn, kind, number));
        true
    }

    /// Stops the function with the event DEVICE_FATAL; it needs a reset.
    #[cold]
    pub fn fail(&mut self, now: Instant, timing: &mut impl Timing, syndrome: FatalSyndrome) {
        if self.has_stopped() {
            return;
        }
        let (eqn, kind, number) = (ASYNC_EQN, EventType::DEVICE_FATAL, 0);
        let ready = timing.reserve(now, now, Stage::Event, Work::default());
        if self.takes_events() {
            self.events.push(ready, Event::new(eqn, kind, number));
        }
        self.bar.stop(syndrome);
    }

    /// Returns true if another event can be raised.
    #[inline]
    pub fn takes_events(&self) -> bool {
        !self.events.is_full()
    }

    /// Returns the number of pending events.
    pub fn events_waiting(&self) -> usize {
        self.events.len()
    }

    /// Queues an event that occurs at `at`.
    pub fn raise<H: Host, T: Timing>(
        &mut self,
        turn: &mut Turn<'_, H, T>,
        at: Instant,
        event: Event,
    ) {
        if self.events.is_full() {
            // Software has not emptied its event queue for thousands of events.
            self.bar.stop(FatalSyndrome::EVENT_QUEUE_DMA);
            return;
        }
        let ready = turn.reserve(at, Stage::Event, Work::default());
        self.events.push(ready, event);
    }

    /// Drops the events of an object that is reset or destroyed.
    pub fn withdraw(&mut self, number: u32, is_of_object: impl Fn(EventType) -> bool) {
        let stays = |event: &Event| event.number != number || !is_of_object(event.kind);
        self.events.retain(stays);
    }

    /// Handles writes to the MSI-X table and to the doorbells of event queues. Returns true if
    /// there was a doorbell.
    #[inline]
    pub fn handle_writes<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>) -> bool {
        if self.bar.unmasked_vectors != 0 {
            self.raise_unmasked(turn);
        }
        if !self.bar.has_event_queue_doorbells {
            return false;
        }
        self.bar.has_event_queue_doorbells = false;
        let mut worked = false;
        for (eqn, doorbell) in (0..).zip(&mut self.bar.event_queue_doorbells) {
            if let Some(doorbell) = doorbell.take() {
                let mut dma = turn.dma();
                self.queues
                    .ring(eqn, doorbell, &mut self.bar.msix, &mut dma);
                worked = true;
            }
        }
        worked
    }

    /// Takes the answers of software to page faults.
    #[inline]
    pub fn take_page_fault_answers(&mut self) -> impl Iterator<Item = PageFaultAnswer> {
        self.bar.page_fault_answers.drain(..)
    }

    /// Sends the interrupts that were pending when their vectors were unmasked.
    #[cold]
    fn raise_unmasked<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>) {
        let order = WriteOrder {
            at: turn.now,
            after: turn.now,
            ..WriteOrder::default()
        };
        let unmasked = std::mem::take(&mut self.bar.unmasked_vectors);
        for vector in (0..u64::BITS as u16).filter(|vector| unmasked >> vector & 1 != 0) {
            turn.counters.add(Counter::interrupts, 1);
            turn.host.interrupt(order, vector);
        }
    }

    /// Writes EQEs, and raises the interrupts for coalesced events. Events of a full event queue
    /// stay here until software makes room.
    #[inline]
    pub fn write_events<H: Host, T: Timing>(&mut self, turn: &mut Turn<'_, H, T>) -> bool {
        let mut worked = false;
        let Self {
            bar,
            queues,
            events,
            ..
        } = self;
        while let Some(event) = events.pop_if(turn.now, |e| queues.has_room(e.eqn)) {
            if queues
                .write(&event, &mut bar.msix, &mut turn.dma())
                .is_err()
            {
                bar.stop(FatalSyndrome::EVENT_QUEUE_DMA);
            }
            worked = true;
        }
        worked | queues.expire(turn.now, &mut bar.msix, &mut turn.dma())
    }

    /// Returns the time at which an event can be written.
    pub fn next_event(&self) -> Option<Instant> {
        self.events
            .next_delivery_if(|event| self.queues.has_room(event.eqn))
    }

    /// Returns the time at which an interrupt for coalesced events is due.
    #[inline]
    pub fn next_interrupt(&self) -> Option<Instant> {
        self.queues.next_timeout()
    }
}
