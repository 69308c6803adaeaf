//! The kernel's RDMA connection manager with its interface to user space, without I/O.
//!
//! [`RdmaCm`] implements the kernel modules `rdma_ucm` (`/dev/infiniband/rdma_cm`) and `rdma_cm`
//! for one process or one simulated host: ids, channels and their events, on top of the messages
//! and time-outs of [`ferroce_cm::Cm`]. Each `open` of the device file is a channel, each `write` a
//! [`RdmaCm::command`], and `poll` checks [`RdmaCm::waiting_events`]. The caller passes the time,
//! and carries the datagrams of QP 1; the trait [`Host`] provides all other information.
//!
//! After each call, call [`RdmaCm::poll_mad`] until it returns nothing. Call
//! [`RdmaCm::handle_timeout`] at the time [`RdmaCm::next_timeout`].
//!
//! Reading order: `abi`, `body` and `command` parse what user space writes. `rdma_cm` has the
//! tables, `id` and `event` their entries. `lifetime`, `bind`, `resolve`, `connect` and `multicast`
//! execute the commands in the life of an id; `incoming` handles messages, and `event_queue`
//! reports events. `query`, `attributes` and `option` are the other commands. `port_table` is for
//! hosts that do not share their ports with other processes.
#![forbid(unsafe_code)]

mod abi;
mod attributes;
mod bind;
mod body;
mod channel;
mod command;
mod connect;
mod errno;
mod event;
mod event_queue;
mod host;
mod id;
mod incoming;
mod lifetime;
mod multicast;
mod option;
mod port_table;
mod query;
mod rdma_cm;
mod resolve;
mod sockaddr;

pub use abi::ABI_VERSION;
pub use body::Reply;
pub use channel::ChannelId;
pub use command::Command;
pub use errno::Errno;
pub use host::{Address, Device, Host};
pub use id::State;
pub use port_table::{MAX_PORTS, PortTable};
pub use rdma_cm::{
    ConnectionInfo, ListenerInfo, MAX_CHANNELS, MAX_EVENTS, MAX_IDS, MAX_MULTICASTS,
    MAX_REJECTIONS, RdmaCm, Rejection,
};

pub use ferroce_cm::{Config, Disposition, ListenAddress, PortSpace, Statistics, Transmit};
