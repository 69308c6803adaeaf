//! The hardware model: blocks of an RDMA NIC, and the NIC made of them.
//!
//! ```text
//!  BAR2 ── doorbell ──► scheduler ──► WQE fetch ──► processing unit ──► packetizer ──► MAC ──► wire
//!                                                   │ (transport)  ▲        │
//!  BAR0 ── registers, command processor             ▼              │        ▼
//!                                            CQE writer      depacketizer   MPT ─► MTT ─► DMA
//!                                                   │              ▲
//!                              MSI-X ◄── event queue               MAC ◄────────────────── wire
//! ```
//!
//! [`nic`] owns the blocks and all control flow between them (the ways of frames in and out, and
//! what doorbells and commands ask for, are files of `impl Nic`); each block is a file. Items pass
//! between blocks over bounded [`queue`]s, on which [`timing`] charges what the blocks' work
//! costs. The outside is seen through two traits: [`host::Host`] (PCIe) and [`port::Port`] (the
//! cable). The model knows no clock, no thread and no address of a process.

#![forbid(unsafe_code)]

pub mod atomic;
pub mod bar;
pub mod cache;
mod command;
mod command_completion_queue;
mod command_device;
mod command_memory;
mod command_multicast;
mod command_queue_pair;
mod command_shared_receive;
pub mod completion_queue;
pub mod completion_resize;
pub mod config;
pub mod counters;
pub mod datagram;
pub mod depacketizer;
pub mod device_memory;
pub mod dma;
mod doorbells;
pub mod event_queue;
pub mod fast_forward;
pub mod host;
mod local_operation;
pub mod mac;
pub mod memory;
mod memory_operation;
mod modify_qp;
pub mod mpt;
pub mod msix;
pub mod mtt;
pub mod multicast;
pub mod nic;
pub mod numbering;
pub mod observe;
mod outcome;
pub mod packetizer;
pub mod path;
pub mod pcie;
pub mod port;
pub mod preset;
pub mod processing_unit;
pub mod protection;
mod push;
pub mod queue;
pub mod queue_pair;
mod receive_path;
pub mod registers;
pub mod scatter_list;
pub mod scheduler;
pub mod shared_receive_queue;
pub mod timers;
pub mod timing;
mod transmit_path;
pub mod window;
pub mod work_queue;
pub mod wqe;
pub mod wqe_cache;
mod wqe_fetch;

pub use config::NicConfig;
pub use counters::Counters;
pub use host::{DmaAtomic, DmaError, Doorbell, Host, WriteOrder};
pub use nic::{Nic, Progress};
pub use port::{Port, Reservation, Route};
