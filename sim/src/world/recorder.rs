//! Who wants to know what takes which time.

use std::sync::Arc;

use ferroce_transport::Instant;
use parking_lot::Mutex;

/// What somebody was busy with, or waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// A thread posted a work request.
    Post,
    /// A thread polled.
    Poll,
    /// A thread did something else.
    Compute,
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

/// Somebody who wants to know.
pub trait Recorder {
    /// Something has happened, or will.
    fn record(&mut self, span: &Span);
}

/// A recorder that the parts of the world share.
pub type SharedRecorder = Arc<Mutex<dyn Recorder + Send>>;
