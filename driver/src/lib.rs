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
//! Everything that the device writes is checked before use: a device that answers garbage causes
//! errors and increments counters, but never a panic, a hang or memory corruption.

pub mod bus;

mod attributes;
mod batch;
mod bring_up;
mod capabilities;
mod command;
mod completion;
mod cq;
mod cq_ring;
mod demux;
mod device;
mod device_config;
mod dm;
#[expect(unsafe_code, reason = "views of memory that the device reaches")]
mod dma;
mod doorbell;
mod doorbell_check;
mod errno;
mod error;
mod event;
mod flush;
mod health;
mod health_check;
mod identifier;
mod mmio;
mod mr;
mod mw;
mod numbers;
mod pd;
mod push;
mod qp;
mod qp_config;
mod range;
mod receive_queue;
mod request;
mod ring;
mod send_queue;
mod service;
mod shadow;
mod srq;
mod tags;
mod transition;
mod translation;
mod translation_range;
mod use_count;
mod xrcd;

pub use attributes::{
    AddressVector, GidEntry, InitAttributes, InitUpdate, ModifyQp, QpAccess, QueuePairAttributes,
    RtrAttributes, RtsAttributes, RtsUpdate, SqdUpdate, UcRtr, UcRts, UdInit, UdRtr, UdRts,
    XrcTargetRts,
};
pub use batch::{Batch, QueueState};
pub use bring_up::{port_mac, read_counters};
pub use capabilities::Capabilities;
pub use completion::{CompletionOpcode, CompletionStatus, WorkCompletion};
pub use cq::{CompletionQueue, CompletionQueueConfig, Poller};
pub use device::Device;
pub use device_config::DeviceConfig;
pub use dm::DeviceMemory;
pub use dma::{DmaBuffer, DmaSpace, Keeper};
pub use error::{Error, PostError};
pub use event::{AsyncEvent, AsyncEventHandler, CqHandler};
pub use ferroce_qp::{
    Attribute, AttributeSet, PathMtu, QpState, Service, TransitionError, check_attributes,
};
pub use ferroce_spec::context::GSI_Q_KEY;
pub use ferroce_spec::wqe::SendOpcode;
pub use identifier::{Cqn, LKey, Qpn, RKey, Srqn};
pub use mr::{MemoryAccess, MemoryRange, MemoryRegion, Reregistration, Translation};
pub use mw::{MemoryWindow, WindowType};
pub use pd::ProtectionDomain;
pub use qp::QueuePair;
pub use qp_config::{QueuePairCapacity, QueuePairConfig, ReceiveSource};
pub use receive_queue::{ReceiveBatch, ReceiveQueue};
pub use request::{
    DataSegment, Destination, RemoteAddress, SendData, SendOperation, SendRequest, WindowAccess,
    WindowBinding,
};
pub use send_queue::{SendBatch, SendQueue};
pub use service::{Addressing, SendOperations};
pub use srq::{
    SharedReceiveBatch, SharedReceiveQueue, SharedReceiveQueueAttributes, SharedReceiveQueueConfig,
};
pub use use_count::{Lease, UseCount};
pub use xrcd::XrcDomain;
