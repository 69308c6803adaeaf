//! The RDMA connection manager of the kernel, as user space sees it, without I/O.
//!
//! [`RdmaCm`] is what stands behind `/dev/infiniband/rdma_cm` (`rdma_ucm`) and below it
//! (`rdma_cm`) for one process or one simulated host: ids, channels and their events, over the
//! messages and time-outs of [`ferroce_cm::Cm`]. Each `open` of the device file is a channel, each
//! `write` a [`RdmaCm::command`], and `poll` looks at [`RdmaCm::waiting_events`]. Time is an
//! argument, datagrams of QP 1 go in and out; what else the kernel knows, the [`Host`] answers.
//!
//! After each call take [`RdmaCm::poll_mad`] until it is empty; call [`RdmaCm::handle_timeout`]
//! when [`RdmaCm::next_timeout`] has come.
//!
//! Reading order: `abi`, `body` and `command` are what user space writes; `rdma_cm` has the tables,
//! `id` and `event` are what they hold; `lifetime`, `bind`, `resolve`, `connect` and `multicast`
//! are what an id goes through, `incoming` what the network adds, `event_queue` how it is reported;
//! `query`, `attributes` and `option` are the rest.
//! `port_table` serves hosts that share their ports with no other process.
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
