//! Who wants to know what takes which time.

use std::sync::Arc;

use ferroce_model::Counters;
use ferroce_model::pcie::{PcieCounters, Units};
use ferroce_units::Instant;
use parking_lot::Mutex;

/// What somebody was busy with, or waited for.
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
    /// A frame was on its way from the card to that of the host, its last bit.
    Link,
}

/// What happened from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// On which host; of a frame, the one that has sent it.
    pub host: usize,
    /// What.
    pub activity: Activity,
    /// From when.
    pub start: Instant,
    /// To when.
    pub end: Instant,
    /// For which queue pair, as far as known. Of a frame, the one that receives it.
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
}

/// How a host's card and slot are after an event.
#[derive(Debug)]
pub struct Observation<'a> {
    /// The host.
    pub host: usize,
    /// The time of the event.
    pub now: Instant,
    /// How many items there are in the queues of the NIC, which [`levels`] names.
    ///
    /// [`levels`]: ferroce_model::observe::levels
    pub levels: &'a [u64],
    /// Counters of the NIC.
    pub counters: &'a Counters,
    /// The slot; `None` in a functional world.
    pub pcie: Option<PcieObservation>,
}

/// How a PCIe link is after an event.
#[derive(Debug, Clone, Copy)]
pub struct PcieObservation {
    /// Tags and bytes of the completion buffer in use.
    pub reads: Units,
    /// Posted credits in use.
    pub posted: Units,
    /// When the wire to the host, and that from the host, are free.
    pub free_at: (Instant, Instant),
    /// What has gone over the link.
    pub counters: PcieCounters,
}

/// Somebody who wants to know.
pub trait Recorder {
    /// Something has happened, or will.
    fn record(&mut self, span: &Span);

    /// A frame was sent.
    fn frame(&mut self, _frame: &FrameSeen<'_>) {}

    /// Whether [`Recorder::observe`] is to be called.
    fn observes(&self) -> bool {
        false
    }

    /// A NIC has handled an event.
    fn observe(&mut self, _observation: &Observation<'_>) {}
}

/// A recorder that the parts of the world share.
pub type SharedRecorder = Arc<Mutex<dyn Recorder + Send>>;
