//! Functions behind sockets. One program: the crate is compiled once for all.

#[path = "../../../embed/tests/common/mod.rs"]
mod common;
#[path = "../serve_support/mod.rs"]
mod serve_support;

mod addresses;
mod client;
