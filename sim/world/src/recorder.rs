//! The interface to recorders of a world, which measure durations.

use std::sync::Arc;

use ferroce_model::Counters;
use ferroce_model::congestion::LimitedRates;
use ferroce_model::pcie::{PcieCounters, Units};
use ferroce_units::Instant;
use parking_lot::Mutex;

use crate::pause_frame::PauseFrame;

/// An activity of a thread, a card, PCIe or a cable.
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
    /// A store of a processor was in flight to the card.
    Mmio,
    /// The card read host memory.
    PcieRead,
    /// The card wrote host memory; it ends when the write is visible.
    PcieWrite,
    /// An AtomicOp.
    PcieAtomic,
    /// An MSI-X message was in flight.
    Interrupt,
    /// The last bit of a frame was in flight from one card to another.
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
    /// The queue pair, if known; for a frame, the receiving one.
    pub qp: Option<u32>,
    /// Number of moved bytes.
    pub bytes: u32,
}

/// A frame in flight from one card to another.
#[derive(Debug, Clone, Copy)]
pub struct FrameSeen<'a> {
    /// The sending host.
    pub from: usize,
    /// The receiving host.
    pub to: usize,
    /// When its last bit left the card.
    pub sent: Instant,
    /// When its last bit arrives at the other card.
    pub arrival: Instant,
    /// The frame without its frame check sequence. Its ICRC is zero if the world's cards compute
    /// none.
    pub bytes: &'a [u8],
    /// Effect of faults on it.
    pub fault: Option<FaultSeen<'a>>,
}

/// Effect of faults on a frame.
#[derive(Debug, Clone, Copy)]
pub struct FaultSeen<'a> {
    /// A comment that describes the fault.
    pub comment: &'a str,
    /// The form in which it arrives.
    pub received: Received<'a>,
}

/// The form in which a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// It does not arrive.
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
    /// Rates of the queue pairs that received a CNP; `None`: the card has no congestion control.
    pub rates: Option<LimitedRates>,
}

/// State of a port of a switch after an event of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortObservation {
    /// Queued bytes.
    pub queued_bytes: u64,
    /// Bitmap of priorities that the neighbour has paused.
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
    /// Receives an activity, which may be in the past or in the future.
    fn record(&mut self, span: &Span);

    /// Receives a frame that was sent.
    fn frame(&mut self, _frame: &FrameSeen<'_>) {}

    /// Receives a pause frame of a switch at its arrival at a card.
    fn pause(&mut self, _at: Instant, _frame: &PauseFrame) {}

    /// Returns true if [`Recorder::observe`] should be called.
    fn observes(&self) -> bool {
        false
    }

    /// Receives the state of a host after its NIC has handled an event.
    fn observe(&mut self, _observation: &Observation<'_>) {}

    /// Receives the state of all switch ports, in the order of the links, after an event of the
    /// network.
    fn observe_ports(&mut self, _now: Instant, _ports: &[PortObservation]) {}
}

/// A recorder that the parts of the world share.
pub type SharedRecorder = Arc<Mutex<dyn Recorder + Send>>;
