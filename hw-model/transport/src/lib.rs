//! The RDMA transport as a machine without bytes, keys, clocks or threads (sans-io).
//!
//! A [`Qp`] decides what is sent and what a received packet means; it never touches memory. The
//! caller, a NIC model or a test, carries payload, looks up keys and knows the time:
//!
//! 1. Commands: [`Qp::modify`], [`Qp::post_send`].
//! 2. Inputs: [`Qp::handle_packet`], then [`Qp::handle_memory`] until [`Step::Done`];
//!    [`Qp::handle_timeout`] when [`Qp::next_timeout`] has come.
//! 3. Outputs, after each of the above: [`Qp::poll_transmit`], [`Qp::poll_completion`],
//!    [`Qp::poll_event`], each until it has nothing more. A packet that was given to the wire is
//!    reported with [`Qp::packet_left`].
//! 4. Local operations (binding a window, invalidating a key) are the caller's, but keep their
//!    place in the send queue: [`Qp::poll_local`], [`Qp::finish_local`].
//!
//! 5. With [`Recovery`] beyond go-back-N: a packet for which the answer is [`Step::Hold`] is kept,
//!    and handled again when [`Qp::take_held`] names it; [`Step::Arrivals`] wants the payload.
//!
//! Reading order: `qp` routes; `rc` is the reliable connected service made of `requester` (what is
//! sent next), `completer` (what responses mean), `retry` (how often again) and `responder` (the
//! checks of an inbound request, in order) with its `resource`s for READs and atomics; `xrc`
//! translates for an RC machine; `recovery` is what goes beyond go-back-N; `unreliable` is UC and
//! UD; `attributes` and `transition` are the
//! control side, over the table of `ferroce_qp`.
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
pub use config::Config;
pub use event::Event;
pub use ferroce_qp::{
    Attribute, AttributeSet, PathMtu, QpState, Service, TransitionError, check_attributes,
};
pub use qp::Qp;
pub use recovery::{AdaptiveTimer, Recovery, RecoveryMode, TimeoutDecrement, TimeoutRange};
pub use request::{
    Destination, LocalKind, MAX_MESSAGE_LENGTH, MAX_OUTSTANDING_SEND_REQUESTS, Remote, SendKind,
    SendOperation, SendRequest,
};
pub use statistics::Statistics;
pub use step::{Access, AtomicOperation, MemoryAnswer, MemoryOp, Step};
pub use train::Train;
pub use transition::{ModifyError, Transition};
pub use transmit::{Payload, Transmit};
