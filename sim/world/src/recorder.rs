//! The interface to recorders of a world, which measure what takes how long.

use std::sync::Arc;

use ferroce_model::Counters;
use ferroce_model::congestion::LimitedRates;
use ferroce_model::pcie::{PcieCounters, Units};
use ferroce_units::Instant;
use parking_lot::Mutex;

use crate::pause_frame::PauseFrame;

/// What a thread, a card, PCIe or a cable did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// A thread posted a work request.
    Post,
    /// A thread posted a receive.
    PostReceive,
    /// A thread rang a doorbell, or pushed a WQE.
    Doorbell,
    /// A thread polled.
    Poll,
    /// A thread did something else.
    Compute,
    /// A thread was woken: from the interrupt until it ran.
    WakeUp,
    /// A store of a processor was on its way to the card.
    Mmio,
    /// The card read host memory.
    PcieRead,
    /// The card wrote host memory: until it was visible.
    PcieWrite,
    /// An AtomicOp.
    PcieAtomic,
    /// An MSI-X message was on its way.
    Interrupt,
    /// The last bit of a frame was on its way from the card to another one.
    Link,
}

/// An activity and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The host; of a frame, its sender.
    pub host: usize,
    /// The activity.
    pub activity: Activity,
    /// Its start.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// The queue pair, if known; of a frame, the one that receives it.
    pub qp: Option<u32>,
    /// Bytes that were moved.
    pub bytes: u32,
}

/// A frame on its way from one card to another.
#[derive(Debug, Clone, Copy)]
pub struct FrameSeen<'a> {
    /// Host that has sent it.
    pub from: usize,
    /// Host that receives it.
    pub to: usize,
    /// When its last bit has left the card.
    pub sent: Instant,
    /// When its last bit is at the other card.
    pub arrival: Instant,
    /// The frame without its frame check sequence. Its ICRC is zero if the world's cards compute
    /// none.
    pub bytes: &'a [u8],
    /// What faults have done to it.
    pub fault: Option<FaultSeen<'a>>,
}

/// What faults have done to a frame.
#[derive(Debug, Clone, Copy)]
pub struct FaultSeen<'a> {
    /// A comment that says so.
    pub comment: &'a str,
    /// How it arrives.
    pub received: Received<'a>,
}

/// How a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// It does not.
    Lost,
    /// As it was sent.
    Intact,
    /// With a wrong bit.
    Damaged(&'a [u8]),
}

/// State of a host's card and slot after an event.
#[derive(Debug)]
pub struct Observation<'a> {
    /// The host.
    pub host: usize,
    /// The time of the event.
    pub now: Instant,
    /// Items in the queues of the NIC, which [`levels`] names.
    ///
    /// [`levels`]: ferroce_model::levels::levels
    pub levels: &'a [u64],
    /// Counters of the NIC.
    pub counters: &'a Counters,
    /// The slot; `None` in a functional world.
    pub pcie: Option<PcieObservation>,
    /// Rates of the queue pairs that were notified of congestion; `None`: the card has no
    /// congestion control.
    pub rates: Option<LimitedRates>,
}

/// State of a port of a switch after an event of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortObservation {
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// Priorities that its neighbour has paused, a bit each.
    pub paused: u8,
}

/// State of a PCIe link after an event.
#[derive(Debug, Clone, Copy)]
pub struct PcieObservation {
    /// Tags and bytes of the completion buffer in use.
    pub reads: Units,
    /// Posted credits in use.
    pub posted: Units,
    /// Times at which the wires to the host and from the host become free.
    pub free_at: (Instant, Instant),
    /// Counters of the link.
    pub counters: PcieCounters,
}

/// A receiver of everything that happens in a world.
pub trait Recorder {
    /// Receives an activity, which may lie in the past or in the future.
    fn record(&mut self, span: &Span);

    /// Receives a frame that was sent.
    fn frame(&mut self, _frame: &FrameSeen<'_>) {}

    /// Receives a pause frame of a switch that has arrived at a card.
    fn pause(&mut self, _at: Instant, _frame: &PauseFrame) {}

    /// Returns true if [`Recorder::observe`] is to be called.
    fn observes(&self) -> bool {
        false
    }

    /// Receives the state of a host after its NIC has handled an event.
    fn observe(&mut self, _observation: &Observation<'_>) {}

    /// Receives the state of all ports of switches, in the order of the links, after an event of
    /// the network.
    fn observe_ports(&mut self, _now: Instant, _ports: &[PortObservation]) {}
}

/// A recorder that the parts of the world share.
pub type SharedRecorder = Arc<Mutex<dyn Recorder + Send>>;
