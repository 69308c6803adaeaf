//! One NIC function: its time, its counters, and the calls from outside.

mod software_faults;
mod usage;

use std::sync::Arc;

use ferroce_spec::register::FatalSyndrome;
use ferroce_units::{Duration, Instant};
use ferroce_wire::Qpn;

use crate::blocks::{Blocks, Model};
use crate::command::CommandProcessor;
use crate::config::NicConfig;
use crate::congestion::LimitedRates;
use crate::contexts::queue_pair::QueuePair;
use crate::counters::Counters;
use crate::datapath::Datapath;
use crate::host_interface::device_memory::LentMemory;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::{Functional, Timing};
use crate::time::turn::Turn;

pub use software_faults::SoftwareFault;

/// Maximum number of steps of all blocks in one call of [`Nic::advance`], so that it always
/// returns.
const MAX_STEPS: usize = 64;
/// Delay of the next attempt while frames wait for room on the wire.
const STALL_RETRY: Duration = Duration::from_us(5);

/// Result of a call of [`Nic::advance`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// True if something moved.
    pub worked: bool,
    /// True if nothing more can be done now. Otherwise the call has used up its budget of steps.
    pub rests: bool,
    /// True if packets wait for room on the wire.
    pub stalled: bool,
}

/// One NIC function with a port and the timing of its blocks.
#[derive(Debug)]
pub struct Nic<P: Port, T: Timing = Functional, B: Blocks = Model> {
    config: NicConfig,
    timing: T,
    /// Time of the event that is being handled.
    pub(crate) now: Instant,
    pub(crate) counters: Counters,
    pub(crate) blocks: Datapath<P, B>,
    /// True if a peer is lost and some of its frames have not been taken yet.
    lost_peer: bool,
    /// Faults that the next [`Nic::advance`] brings about.
    waiting_faults: Vec<SoftwareFault>,
    /// True if registers or commands were handled in this step.
    runs_registers: bool,
    /// Time of the next delivery, as of the last step.
    next: Option<Instant>,
}

impl<P: Port> Nic<P> {
    /// Returns a function after power-on without timing.
    pub fn new(config: NicConfig) -> Self {
        Self::with_timing(config, Functional)
    }
}

impl<P: Port, T: Timing, B: Blocks> Nic<P, T, B> {
    /// Returns a function after power-on whose blocks take the time that `timing` charges.
    pub fn with_timing(config: NicConfig, timing: T) -> Self {
        let units = timing.processing_units(config.processing_units);
        Self {
            timing,
            now: Instant::ZERO,
            counters: Counters::new(),
            blocks: Datapath::new(&config, units),
            lost_peer: false,
            waiting_faults: Vec::new(),
            runs_registers: false,
            next: None,
            config,
        }
    }

    /// Returns the clocks of all blocks.
    pub(crate) fn timing(&self) -> &T {
        &self.timing
    }

    /// Reads 4 bytes of BAR0.
    pub fn read32(&self, now: Instant, offset: u32) -> u32 {
        self.blocks
            .host_interface
            .read32(offset, now, &self.counters)
    }

    /// Reads 8 bytes of BAR0.
    pub fn read64(&self, now: Instant, offset: u32) -> u64 {
        self.blocks
            .host_interface
            .read64(offset, now, &self.counters)
    }

    /// Writes 4 bytes of BAR0. The next [`Nic::advance`] acts on them.
    pub fn write32(&mut self, offset: u32, value: u32) {
        self.blocks.host_interface.write32(offset, value);
    }

    /// Writes 8 bytes of BAR0. The next [`Nic::advance`] acts on them.
    pub fn write64(&mut self, offset: u32, value: u64) {
        self.blocks.host_interface.write64(offset, value);
    }

    /// Reads the device's own memory (BAR4).
    pub fn read_device_memory(&mut self, offset: u64, destination: &mut [u8]) {
        let memory = &mut self.blocks.translation;
        memory.read_device_memory(offset, destination);
    }

    /// Writes the device's own memory (BAR4).
    pub fn write_device_memory(&mut self, offset: u64, source: &[u8]) {
        let memory = &mut self.blocks.translation;
        memory.write_device_memory(offset, source);
    }

    /// Keeps the device's own memory in `memory`, which has the same content, until the next reset.
    pub fn lend_memory(&mut self, memory: Arc<dyn LentMemory>) {
        self.blocks.translation.lend_memory(memory);
    }

    /// Returns the queue pair with number `qpn`.
    #[inline]
    pub fn queue_pair(&self, qpn: Qpn) -> Option<&QueuePair> {
        self.blocks.contexts.qps.get(qpn)
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the rates of the queue pairs that received a CNP; `None`: the card has no congestion
    /// control.
    pub fn limited_rates(&self) -> Option<LimitedRates> {
        let congestion = self.blocks.congestion.as_ref()?;
        Some(congestion.reaction.limited())
    }

    /// Returns true if it has congestion control.
    pub fn controls_congestion(&self) -> bool {
        self.blocks.congestion.is_some()
    }

    /// Returns true if there is a delayed ACK.
    pub fn holds_acknowledges(&self) -> bool {
        self.blocks.contexts.has_delayed_acks()
    }

    /// Sends delayed ACKs with the next [`Nic::advance`]. The caller does this on an empty poll:
    /// the application will not post the requests for which the ACKs were delayed.
    pub fn flush_acknowledges(&mut self) {
        let scheduler = self.blocks.transmit.scheduler();
        let contexts = &mut self.blocks.contexts;
        contexts.flush_delayed_acks(|qp| scheduler.activate(qp));
    }

    /// Fault injection: stops the function with DEVICE_FATAL, as an internal error would.
    pub fn fail(&mut self, now: Instant) {
        let syndrome = FatalSyndrome::INJECTED;
        let host_interface = &mut self.blocks.host_interface;
        host_interface.fail(now, &mut self.timing, syndrome);
    }

    /// Fault injection: no command completes from the next one on, until a reset.
    pub fn hang_commands(&mut self) {
        self.blocks.host_interface.hang_commands();
    }

    /// Returns true if the function has stopped.
    pub fn has_stopped(&self) -> bool {
        self.blocks.host_interface.has_stopped()
    }

    /// Removes the power: all state is lost, and nothing more is read, written or sent. Incoming
    /// frames are dropped. A reset brings the function up again.
    pub fn power_off(&mut self, now: Instant, port: &mut P) {
        self.now = now;
        self.reset(port);
        self.blocks.host_interface.stop(FatalSyndrome::INJECTED);
    }

    /// Returns the time at which the NIC has to run again if nothing else happens.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if self.blocks.host_interface.has_stopped() {
            return None;
        }
        // The wire does not signal when it has room.
        let retry = if self.blocks.transmit.is_stalled() {
            now + STALL_RETRY
        } else {
            Instant::MAX
        };
        let delivery = self.next.unwrap_or(Instant::MAX);
        let first = self.blocks.next_timer().min(retry).min(delivery);
        (first != Instant::MAX).then_some(first)
    }

    /// Runs all blocks until nothing moves, or the budget of this call is used up.
    #[inline]
    pub fn advance<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> Progress {
        let mut progress = Progress::default();
        self.now = now;
        if self.blocks.host_interface.wants_reset() {
            self.reset(port);
        }
        if !self.waiting_faults.is_empty() {
            self.suffer_waiting(now, host);
        }
        for _ in 0..MAX_STEPS {
            if !self.step(now, host, port) {
                self.note_next_delivery();
                progress.rests = true;
                break;
            }
            progress.worked = true;
            if self.timing.has_delays() && !self.has_more(now) {
                progress.rests = true;
                break;
            }
        }
        if !progress.rests {
            self.next = Some(now);
        }
        progress.stalled = self.blocks.transmit.is_stalled();
        progress
    }

    /// Records the next delivery after a step that moved nothing. A functional NIC without delays
    /// on the cable has none, and skips the query because it comes here on each empty poll.
    fn note_next_delivery(&mut self) {
        self.next = if self.timing.has_delays() || P::LOOKS_AHEAD {
            self.blocks.next_delivery(&self.timing)
        } else {
            None
        };
    }

    /// Returns true if another step would find work at `now`.
    fn has_more(&mut self, now: Instant) -> bool {
        self.next = self.blocks.next_delivery(&self.timing);
        let delivers = self.next.is_some_and(|due| due <= now);
        delivers
            || self.runs_registers
            || self.lost_peer
            || self.blocks.has_input()
            || self.blocks.next_timer() <= now
    }

    /// Steps each block once, in the direction of the data. Returns true if something moved.
    #[inline]
    fn step<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        let turn = &mut Turn {
            now,
            host,
            timing: &mut self.timing,
            counters: &mut self.counters,
        };
        let blocks = &mut self.blocks;
        let mut worked = blocks.take_input(turn, port);
        self.runs_registers = false;
        if blocks.host_interface.next_command().is_some() {
            self.runs_registers = CommandProcessor::new(turn, &self.config, blocks, port).step();
        }
        self.runs_registers |= blocks.host_interface.handle_writes(turn);
        self.runs_registers |= blocks.take_page_fault_answers();
        worked |= self.runs_registers;
        if blocks.host_interface.has_stopped() {
            blocks.mac.drop_received(port);
            return worked | blocks.host_interface.write_events(turn);
        }
        worked |= blocks.step(turn, port);
        if worked {
            return true;
        }
        // Frames of a lost peer are taken first: its last ACK may be among them, and this step may
        // have polled before the ACK arrived.
        if self.lost_peer {
            self.lost_peer = false;
            return blocks.give_up_lost_peers(turn, port);
        }
        self.lost_peer = port.take_loss();
        self.lost_peer
    }

    /// Clears all state but the MSI-X table.
    fn reset(&mut self, port: &mut P) {
        self.blocks.reset(self.now, port);
        self.counters = Counters::new();
        self.lost_peer = false;
        self.waiting_faults.clear();
    }
}
