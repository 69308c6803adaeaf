//! Userspace driver of the Ferroce RDMA NIC.
//!
//! The driver translates verbs to the hardware/software contract (`ferroce_spec`): objects to
//! commands and contexts, work requests to WQEs and doorbells, CQEs and EQEs to work completions
//! and events. It accesses the device only through the trait [`bus::Bus`], so the same code drives
//! a card behind VFIO, a model in another process and a model in this one.
//!
//! Objects form a tree with [`Device`] at the root; each keeps its parents alive, and a parent
//! cannot be destroyed while it has children. All of them may be used from any thread. Each queue
//! has its own lock, and no lock is shared between queues on the data path.
//!
//! The modules `objects`, `rings` and `control` use each other in this order only. Each queue of
//! `rings` is memory that the driver and the device share; `control` is everything else that
//! accesses the device.
//!
//! Everything that the device writes is checked before use: a device that answers garbage causes
//! errors and increments counters, but never a panic, a hang or memory corruption.

pub mod bus;

mod attributes;
mod capabilities;
mod completion;
mod control;
#[expect(unsafe_code, reason = "views of memory that the device reaches")]
mod dma;
mod errno;
mod error;
mod identifier;
mod objects;
mod range;
mod request;
mod rings;
mod service;
mod use_count;

pub use attributes::{
    AddressVector, GidEntry, InitAttributes, InitUpdate, ModifyQp, QpAccess, QueuePairAttributes,
    RtrAttributes, RtsAttributes, RtsUpdate, SqdUpdate, UcRtr, UcRts, UdInit, UdRtr, UdRts,
    XrcTargetRts,
};
pub use capabilities::Capabilities;
pub use completion::{CompletionOpcode, CompletionStatus, WorkCompletion, failed_completions};
pub use control::bring_up::{port_mac, read_counters};
pub use control::device_config::DeviceConfig;
pub use control::event::{AsyncEvent, AsyncEventHandler, CqHandler};
pub use dma::{DmaBuffer, DmaSpace, Keeper};
pub use error::{Error, PostError};
pub use ferroce_qp::{
    Attribute, AttributeSet, PathMtu, QpState, Service, TransitionError, check_attributes,
};
pub use ferroce_spec::context::GSI_Q_KEY;
pub use ferroce_spec::wqe::SendOpcode;
pub use identifier::{Cqn, LKey, Qpn, RKey, Srqn};
pub use objects::cq::{CompletionQueue, CompletionQueueConfig, Poller};
pub use objects::device::Device;
pub use objects::dm::DeviceMemory;
pub use objects::memory::{MemoryAccess, MemoryRange};
pub use objects::mr::{MemoryRegion, Reregistration, Translation};
pub use objects::mw::{MemoryWindow, WindowType};
pub use objects::on_demand::OnDemandMemory;
pub use objects::pd::ProtectionDomain;
pub use objects::qp::QueuePair;
pub use objects::qp_config::{QueuePairCapacity, QueuePairConfig, ReceiveSource};
pub use objects::srq::{
    SharedReceiveBatch, SharedReceiveQueue, SharedReceiveQueueAttributes, SharedReceiveQueueConfig,
};
pub use objects::xrcd::XrcDomain;
pub use request::{
    DataSegment, Destination, FlushKind, RemoteAddress, SendData, SendOperation, SendRequest,
    WindowAccess, WindowBinding,
};
pub use rings::batch::{Batch, QueueState};
pub use rings::receive_queue::{ReceiveBatch, ReceiveQueue};
pub use rings::send_queue::{SendBacklog, SendBatch, SendQueue};
pub use service::{Addressing, SendOperations};
pub use use_count::{Lease, UseCount};
