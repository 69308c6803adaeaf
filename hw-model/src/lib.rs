//! The hardware model: blocks of an RDMA NIC, and the NIC made of them.
//!
//! ```text
//!  BAR2 ── doorbell ──► scheduler ──► WQE fetch ──► processing unit ──► packetizer ──► MAC ─► wire
//!                                                   │ (transport)  ▲        │
//!  BAR0 ── registers, command processor             ▼              │        ▼
//!                                            CQE writer      depacketizer   MPT ─► MTT ─► DMA
//!                                                   │              ▲
//!                              MSI-X ◄── event queue               MAC ◄────────────────── wire
//! ```
//!
//! Each block is a struct with private state and a step over its ports; `datapath` connects them,
//! and [`nic`] has the time, the counters and the calls from outside. Items pass between blocks
//! over bounded [`time::edge`]s, on which [`time::timing`] charges the cost of the block's work.
//! The NIC accesses the outside through two traits: [`Host`] (PCIe) and [`Port`] (the cable). The
//! model knows no clock, no thread and no address of a process.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod cache;
mod command;
mod completion;
pub mod config;
pub mod congestion;
pub mod contexts;
pub mod counters;
mod datapath;
pub mod dma;
mod doorbells;
pub mod fast_forward;
pub mod function;
pub mod host_interface;
pub mod levels;
pub mod limits;
pub mod mac;
pub mod nic;
pub mod numbering;
pub mod pcie;
pub mod ports;
pub mod preset;
pub mod processing_unit;
pub mod receive;
pub mod scheduler;
pub mod time;
pub mod translation;
pub mod transmit;
pub mod usage;
pub mod wqe;

pub use blocks::Blocks;
pub use config::NicConfig;
pub use counters::Counters;
pub use function::Function;
pub use nic::{Nic, Progress, SoftwareFault};
pub use ports::host::{DmaAtomic, DmaError, DmaFault, Doorbell, Host, UntimedHost, WriteOrder};
pub use ports::port::{Port, Reservation, Route};
