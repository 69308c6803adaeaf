//! Clients and servers, of which one may be hostile or another project's. One program: the crate is
//! compiled once for all.

#[path = "../common/mod.rs"]
mod common;

mod corpus;
mod foreign;
mod hostile_server;
mod pair;
