//! The card in SystemVerilog as a [`Function`]: Verilated RTL with the driver's interface of the
//! model's NIC.
//!
//! The card has no thread: each call runs its clock until the card is quiet or the call's budget is
//! used up. A quiet card costs nothing.
//!
//! With `FERROCE_RTL_TLP=MPS:MRRS` it is the card with its PCIe endpoint: [`slot`] is the other
//! side of the endpoint's streams.

mod clock;
mod edge;
mod host_link;
mod memory;
mod slot;
mod slot_sizes;
mod wave;
mod wire;

use ferroce_model::ports::host::Host;
use ferroce_model::ports::port::Port;
use ferroce_model::{Counters, Function, NicConfig, Progress};
use ferroce_spec::counter::COUNTER_COUNT;
use ferroce_spec::register::{COUNTERS_OFFSET, Capability, Control, offset};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Gid, Qpn};

use clock::TimerClock;
use edge::Edge;
use ferroce_rtl_harness::Simulation;
pub use host_link::HostLink;
pub use slot::Configuration;
use slot::Slot;
pub use slot_sizes::SlotSizes;
use wave::Wave;
pub use wire::Sent;
use wire::Wire;

/// The Verilated card, alone and with its PCIe endpoint.
#[allow(
    missing_docs,
    reason = "generated: card.sv and pcie_card.sv describe their ports"
)]
pub mod verilated {
    mod card {
        include!(concat!(env!("OUT_DIR"), "/card.rs"));
    }
    mod pcie_card {
        include!(concat!(env!("OUT_DIR"), "/pcie_card.rs"));
    }
    pub use card::Card;
    pub use pcie_card::PcieCard;
}

/// Maximum number of clock cycles of one call of [`Function::advance`].
pub const CYCLES_PER_ADVANCE: u64 = 2048;
/// Cycles of the reset at power-on.
const POWER_ON_CYCLES: u64 = 4;
/// Entries of the card's GID table.
const GIDS: usize = 16;

/// A report of the card to the network.
#[derive(Debug)]
enum Report {
    /// An entry of its GID table.
    Address(usize, Gid),
    /// A QP that can receive.
    Begins(Qpn),
}

/// The card with its port.
#[derive(Debug)]
pub struct RtlNic<P: Port> {
    rtl: Edge,
    wire: Wire<P>,
    /// What the card has reported to the network since the last run.
    reports: Vec<Report>,
    wave: Wave,
    timers: TimerClock,
    /// The clock register at the last run.
    now_ns: u64,
    /// True if registers were written since the last run.
    was_written: bool,
    /// True if the network must remove the addresses of the card.
    forgets_addresses: bool,
    /// True if the card was being reset in the last cycle.
    was_resetting: bool,
    /// True if the network delivers frames to the GSI.
    gsi_is_open: bool,
    /// True if the doorbell pages are memory that this process polls.
    polls_doorbells: bool,
}

impl<P: Port> RtlNic<P> {
    /// Returns the card in a slot, after power-on.
    pub fn in_slot(config: &NicConfig, sizes: SlotSizes) -> Self {
        Self::on_edge(config, Edge::slot(Slot::new(sizes)))
    }

    fn on_edge(config: &NicConfig, rtl: Edge) -> Self {
        let mut card = Self {
            rtl,
            wire: Wire::default(),
            reports: Vec::new(),
            wave: Wave::default(),
            timers: TimerClock::default(),
            now_ns: 0,
            was_written: true,
            forgets_addresses: false,
            was_resetting: false,
            gsi_is_open: false,
            polls_doorbells: config.polled_doorbells,
        };
        let octets = config.mac.iter();
        let mac = octets.fold(0, |value, octet| value << 8 | u64::from(*octet));
        card.rtl.set_mac(mac);
        card.rtl.set_qpn_base((config.qpn_base >> 8) as u16);
        card.rtl.set_link_up(1);
        card.set_link(HostLink::of_environment());
        card.wave = Wave::of_environment(card.rtl.simulation());
        card.reset_at_power_on();
        card
    }

    /// Returns the module, for its clock cycles and waveforms.
    pub fn rtl(&mut self) -> &mut Simulation {
        self.rtl.simulation()
    }

    /// Returns the frames that the card has sent.
    pub fn sent(&self) -> Sent {
        self.wire.sent()
    }

    /// Sets the fields of configuration space that the card sees in a slot.
    ///
    /// # Panics
    /// If the card is in no slot.
    pub fn configure(&mut self, configuration: Configuration) {
        self.slot().configure(configuration);
        self.was_written = true;
    }

    /// Begins a function-level reset, which clears configuration space, too.
    ///
    /// # Panics
    /// If the card is in no slot.
    pub fn begin_function_reset(&mut self) {
        self.slot().begin_function_reset();
        self.was_written = true;
    }

    /// Returns true until the card has reported the end of the function-level reset.
    pub fn resets_function(&self) -> bool {
        matches!(&self.rtl, Edge::Slot(_, slot) if slot.resets_function())
    }

    fn slot(&mut self) -> &mut Slot {
        match &mut self.rtl {
            Edge::Slot(_, slot) => slot,
            Edge::Lines(..) => panic!("the card is in no slot"),
        }
    }

    /// The MAC finds the next received frames damaged: their FCS is wrong.
    pub fn damage_received(&mut self, frames: u64) {
        self.wire.damage(frames);
    }

    /// Sets how long host memory takes: cycles from the request of a line to the line.
    pub fn set_line_latency_cycles(&mut self, cycles: u64) {
        match &mut self.rtl {
            Edge::Lines(_, lines) => lines.set_latency_cycles(cycles),
            Edge::Slot(_, slot) => slot.set_latency_cycles(cycles),
        }
    }

    /// Delays lines like this slot and host.
    pub fn set_host_link(&mut self, link: HostLink) {
        self.set_link(Some(link));
    }

    fn set_link(&mut self, link: Option<HostLink>) {
        match &mut self.rtl {
            Edge::Lines(_, lines) => lines.set_link(link),
            Edge::Slot(_, slot) => slot.set_link(link),
        }
    }

    /// Runs like [`Function::advance`], but at most this number of clock cycles.
    pub fn run<H: Host>(
        &mut self,
        now: Instant,
        host: &mut H,
        port: &mut P,
        cycles: u64,
    ) -> Progress {
        self.begin(now, port);
        self.wave.report_end(self.rtl.cycles());
        let mut worked = std::mem::take(&mut self.was_written);
        let end = self.rtl.cycles() + cycles;
        loop {
            host.set_cycle(self.rtl.cycles());
            worked |= self.offer(now, host, port);
            self.rtl.simulation().settle();
            if self.is_quiet() {
                break;
            }
            if self.rtl.cycles() >= end {
                return self.progress(true, false);
            }
            self.cycle(now, host, port);
            worked = true;
        }
        self.timers.rest(now);
        self.progress(worked, true)
    }

    fn progress(&self, worked: bool, rests: bool) -> Progress {
        Progress {
            worked,
            rests,
            stalled: self.wire.is_stalled(),
        }
    }

    /// Sets the inputs that are constant while the card runs.
    fn begin(&mut self, now: Instant, port: &mut P) {
        self.report(port);
        let is_behind = self.wire.peer_is_behind(port);
        self.timers.resume(now, is_behind);
        self.now_ns = now.as_ns();
        self.rtl.set_now_ns(self.now_ns);
        self.rtl.set_link_up(u8::from(port.link_is_up()));
    }

    /// Sets the inputs of a cycle. Returns true if one of them is new.
    fn offer<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> bool {
        self.rtl.set_timer_ns(self.timers.now_ns());
        let has_doorbell = self.rtl.offer(now, host);
        let has_frame = self.wire.offer(&mut self.rtl, now, port);
        has_doorbell | has_frame
    }

    /// Takes the outputs of a cycle, and ends it.
    fn cycle<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) {
        self.rtl.take(now, host);
        self.wire.take(&mut self.rtl, now, port);
        self.note_reports();
        self.report(port);
        self.rtl.simulation().cycle();
        self.timers.count_cycle();
    }

    /// Notes what the card reports in this cycle, and the begin of a reset.
    fn note_reports(&mut self) {
        if self.rtl.gid_valid() != 0 {
            let words = self.rtl.gid();
            let octets = core::array::from_fn(|at| words[at / 4].to_le_bytes()[at % 4]);
            let report = Report::Address(self.rtl.gid_index().into(), Gid(octets));
            self.reports.push(report);
        }
        if self.rtl.begins_valid() != 0 {
            let qpn = Qpn::new(self.rtl.begins_qpn());
            self.reports.push(Report::Begins(qpn));
        }
        // Without an endpoint, the reset begins with the write of its register.
        let is_resetting = matches!(self.rtl, Edge::Slot(..)) && self.rtl.resetting() != 0;
        if is_resetting && !self.was_resetting {
            self.begin_reset();
        }
        self.was_resetting = is_resetting;
    }

    /// The card drops its work: neither its frames nor its addresses remain.
    fn begin_reset(&mut self) {
        self.rtl.set_hang_commands(0);
        if let Edge::Slot(_, slot) = &mut self.rtl {
            slot.note_reset();
        }
        self.reports.clear();
        self.forgets_addresses = true;
        self.wire.reset();
    }

    /// Passes on what the card has reported.
    fn report(&mut self, port: &mut P) {
        if std::mem::take(&mut self.forgets_addresses) {
            (0..GIDS).for_each(|index| port.set_gid(index, Gid([0; 16])));
        }
        for report in self.reports.drain(..) {
            match report {
                Report::Address(index, gid) => port.set_gid(index, gid),
                Report::Begins(qpn) => port.queue_pair_ready(qpn),
            }
        }
        let gsi_is_open = self.rtl.gsi_is_open() != 0;
        if gsi_is_open != self.gsi_is_open {
            self.gsi_is_open = gsi_is_open;
            port.set_gsi(gsi_is_open);
        }
    }

    /// Returns true if another cycle would change nothing.
    fn is_quiet(&self) -> bool {
        let is_due = self.wall_ns_left() == Some(0) || self.timer_ns_left() == Some(0);
        // A card that has stopped reads no payload: the frame that it is sending may never end.
        let has_frame = match self.rtl.stopped() != 0 {
            true => self.wire.is_receiving(),
            false => !self.wire.is_empty(),
        };
        self.rtl.quiet() != 0 && self.rtl.is_empty() && !has_frame && !is_due
    }

    /// Nanoseconds until the card's next action by the machine's clock: moderation of events.
    fn wall_ns_left(&self) -> Option<u64> {
        let is_valid = self.rtl.deadline_valid() != 0;
        is_valid.then(|| self.rtl.deadline_ns().saturating_sub(self.now_ns))
    }

    /// Nanoseconds until the next protocol timer, by the timers' clock.
    fn timer_ns_left(&self) -> Option<u64> {
        let is_valid = self.rtl.timer_deadline_valid() != 0;
        let now_ns = self.timers.now_ns();
        is_valid.then(|| self.rtl.timer_deadline_ns().saturating_sub(now_ns))
    }

    /// Runs one cycle without frames, in which the host serves no DMA.
    fn cycle_alone(&mut self) {
        self.rtl.set_rx_valid(0);
        self.rtl.set_tx_ready(0);
        self.rtl.offer_alone();
        self.rtl.take_alone();
        self.note_reports();
        self.rtl.simulation().cycle();
    }

    fn read(&mut self, now: Instant, at: u32, is_wide: bool) -> u64 {
        let Ok(at) = u16::try_from(at) else {
            return u64::MAX;
        };
        if at >> 14 != 0 {
            return u64::MAX;
        }
        self.rtl.set_now_ns(now.as_ns());
        let tag = self.rtl.begin_read(at, is_wide);
        for _ in 0..slot::ANSWER_CYCLES_MAX {
            self.cycle_alone();
            if let Some(value) = self.rtl.end_read(tag) {
                // The next run has the host: it executes the writes that left before the answer.
                self.was_written |= matches!(self.rtl, Edge::Slot(..));
                return value | self.polled_doorbells(at.into(), is_wide);
            }
        }
        u64::MAX
    }

    /// Returns the bits that this process adds to a register: doorbell pages that it polls for the
    /// card.
    fn polled_doorbells(&self, at: u32, is_wide: bool) -> u64 {
        let mut capability = Capability::default();
        capability.set_polled_doorbells(self.polls_doorbells);
        match (at, is_wide) {
            (offset::capability, true) => capability.bits(),
            (offset::capability, false) => capability.bits() & u64::from(u32::MAX),
            (at, _) if at == offset::capability + 4 => capability.bits() >> 32,
            _ => 0,
        }
    }

    fn write(&mut self, at: u32, value: u64, is_wide: bool) {
        let Some(at) = u16::try_from(at).ok().filter(|at| at >> 14 == 0) else {
            return;
        };
        self.rtl.begin_write(at, value, is_wide);
        if matches!(self.rtl, Edge::Lines(..)) {
            self.cycle_alone();
            if u32::from(at) == offset::control && Control::from_bits(value as u32).reset() {
                self.begin_reset();
            }
        }
        self.rtl.end_write();
        self.was_written = true;
    }

    /// Sets an input for one cycle.
    fn pulse(&mut self, set: fn(&mut Edge, u8)) {
        set(&mut self.rtl, 1);
        self.cycle_alone();
        set(&mut self.rtl, 0);
        self.was_written = true;
    }

    fn reset_at_power_on(&mut self) {
        self.rtl.set_rx_valid(0);
        self.rtl.set_tx_ready(0);
        self.rtl.reset_at_power_on(POWER_ON_CYCLES);
        self.wire.reset();
        self.forgets_addresses = true;
    }
}

impl<P: Port> Function<P> for RtlNic<P>
where
    P: std::fmt::Debug,
    P::Frame: Send,
{
    /// Returns the card after power-on. It uses only the MAC address and the first QPN of the
    /// configuration; its sizes are fixed in the build.
    fn new(config: NicConfig) -> Self {
        match SlotSizes::of_environment() {
            Some(sizes) => Self::in_slot(&config, sizes),
            None => Self::on_edge(&config, Edge::lines()),
        }
    }

    fn read32(&mut self, now: Instant, offset: u32) -> u32 {
        self.read(now, offset, false) as u32
    }

    fn read64(&mut self, now: Instant, offset: u32) -> u64 {
        self.read(now, offset & !7, true)
    }

    fn write32(&mut self, offset: u32, value: u32) {
        self.write(offset & !3, value.into(), false);
    }

    fn write64(&mut self, offset: u32, value: u64) {
        self.write(offset & !7, value, true);
    }

    /// QUERY_DEVICE reports that the card has no memory.
    fn read_device_memory(&mut self, _offset: u64, destination: &mut [u8]) {
        destination.fill(0xff);
    }

    fn write_device_memory(&mut self, _offset: u64, _source: &[u8]) {}

    fn counters(&mut self) -> Counters {
        let mut values = [0; COUNTER_COUNT];
        for (at, value) in (COUNTERS_OFFSET..).step_by(8).zip(&mut values) {
            *value = self.read(Instant::from_ns(self.now_ns), at, true);
        }
        Counters::from_values(values)
    }

    fn cycles(&self) -> Option<u64> {
        Some(self.rtl.cycles())
    }

    fn advance<H: Host>(&mut self, now: Instant, host: &mut H, port: &mut P) -> Progress {
        self.run(now, host, port, CYCLES_PER_ADVANCE)
    }

    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if self.has_stopped() {
            return None;
        }
        let event = self.wall_ns_left();
        let timer = self.timer_ns_left().map(|ns| self.timers.wall_ns(ns));
        let waits = event.into_iter().chain(timer);
        let instants = waits.map(|ns| now + Duration::from_ns(ns));
        instants.chain(self.wire.next_attempt(now)).min()
    }

    fn holds_acknowledges(&self) -> bool {
        false
    }

    fn flush_acknowledges(&mut self) {}

    fn fail(&mut self, _now: Instant) {
        self.pulse(Edge::set_fail_injected);
    }

    fn hang_commands(&mut self) {
        self.rtl.set_hang_commands(1);
    }

    fn has_stopped(&self) -> bool {
        self.rtl.stopped() != 0
    }

    fn power_off(&mut self, now: Instant, _port: &mut P) {
        self.reset_at_power_on();
        self.fail(now);
    }
}
