//! The RDMA transport as a machine without bytes, keys, clocks or threads (sans-io).
//!
//! A [`Qp`] decides what is sent and interprets received packets; it never accesses memory. The
//! caller, a NIC model or a test, carries payload, looks up keys and knows the time:
//!
//! 1. Commands: [`Qp::modify`], [`Qp::post_send`].
//! 2. Inputs: [`Qp::handle_packet`], then [`Qp::handle_memory`] until [`Step::Done`];
//!    [`Qp::handle_timeout`] at [`Qp::next_timeout`].
//! 3. Outputs, after each of the above: [`Qp::poll_transmit`], [`Qp::poll_completion`],
//!    [`Qp::poll_event`], each until it returns nothing. A packet that was given to the wire is
//!    reported with [`Qp::packet_left`].
//! 4. The caller executes local operations (binding a window, invalidating a key), which keep their
//!    place in the send queue: [`Qp::poll_local`], [`Qp::finish_local`].
//! 5. With [`Recovery`] beyond go-back-N: the caller holds a packet on [`Step::Hold`] and handles
//!    it again when [`Qp::take_held`] names it; [`Step::Arrivals`] requests the payload.
//!
//! Reading order: `qp` routes; `rc` is the reliable connected service with its parts `requester`
//! (the next packet to send), `completer` (responses), `retry` (retry counts) and `responder` (the
//! ordered checks of an inbound request) with its `resource`s for READs and atomics; `xrc`
//! translates for an RC machine; `recovery` has the modes beyond go-back-N; `unreliable` is UC and
//! UD; `attributes` and `transition` are the control side, on top of the table of `ferroce_qp`.
#![forbid(unsafe_code)]

mod acknowledge;
mod attributes;
#[cfg(feature = "canary")]
pub mod canary;
mod completer;
mod completion;
mod config;
mod context;
mod event;
mod inbound;
mod message;
mod note;
mod qp;
mod rc;
mod recovery;
mod request;
mod requester;
mod resource;
mod responder;
mod retry;
mod segment;
mod span;
mod statistics;
mod step;
mod timer;
mod train;
mod transition;
mod transmit;
mod unreliable;
mod xrc;

pub use attributes::{
    AttributeUpdate, Attributes, InitAttributes, LocalAckTimeout, RemoteAccess, RetryCount,
    RtrAttributes, RtsAttributes,
};
pub use completion::{Completion, CompletionStatus, ReceiveKind};
pub use config::{Config, RemoteCheck};
pub use event::Event;
pub use ferroce_qp::{
    Attribute, AttributeSet, PathMtu, QpState, Service, TransitionError, check_attributes,
};
pub use note::Note;
pub use qp::Qp;
pub use recovery::{
    AckTimeouts, AdaptiveTimer, ConnectxSchedule, Recovery, RecoveryMode, TimeoutDecrement,
    TimeoutRange,
};
pub use request::{
    Destination, LocalKind, MAX_MESSAGE_LENGTH, MAX_OUTSTANDING_SEND_REQUESTS, Remote, SendKind,
    SendOperation, SendRequest,
};
pub use statistics::Statistics;
pub use step::{Access, AtomicOperation, MemoryAnswer, MemoryOp, Step};
pub use train::Train;
pub use transition::{ModifyError, Transition};
pub use transmit::{Payload, Transmit};
