//! RDMA communication management as a machine without clocks, threads or sockets (sans-io).
//!
//! A [`Cm`] keeps the listeners and connections of one process, or of one simulated host. The
//! caller has QP 1 and the clock:
//!
//! 1. Commands: [`Cm::listen`], [`Cm::connect`], [`Cm::accept`], [`Cm::reject`], [`Cm::establish`],
//!    [`Cm::disconnect`], [`Cm::resolve_service`], [`Cm::respond`], [`Cm::destroy`].
//! 2. Inputs: [`Cm::handle_mad`]; [`Cm::handle_timeout`] at [`Cm::next_timeout`].
//! 3. Outputs, after each of the above: [`Cm::poll_mad`] and [`Cm::poll_event`], each until it
//!    returns nothing.
//!
//! Life of a connection: [`Event::ConnectRequest`] or [`Event::ConnectResponse`], then
//! [`Event::Established`] on the passive side; at most one of [`Event::Rejected`],
//! [`Event::Unreachable`], [`Event::Disconnected`]; last [`Event::TimewaitExit`], which ends its
//! identifier and frees its queue pair number.
//!
//! Reading order: `command` and `event` are the interface to the caller; `cm` has the tables, the
//! timers and the dispatch of datagrams to their handlers; `active`, `passive`, `release` and
//! `sidr` are the states of IBTA vol 1, 12.9 to 12.11; `connection` is the state of one connection.
#![forbid(unsafe_code)]

mod active;
mod cm;
mod command;
mod config;
mod connection;
mod event;
mod parameters;
mod passive;
mod release;
mod sidr;
mod state;

pub use cm::{Cm, Disposition, Statistics, Transmit};
pub use command::{
    Accept, CommandError, Connect, Ece, Listen, ListenAddress, ListenerId, Path, PortSpace, Reject,
    SidrRequest, SidrResponse,
};
pub use config::{Config, MAX_BACKLOG, MAX_CONNECTIONS, MAX_LISTENERS};
pub use event::Event;
pub use parameters::QpParameters;
pub use state::State;
