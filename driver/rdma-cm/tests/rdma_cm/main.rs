//! Programs on hosts with RDMA CM. One program: the crate is compiled once for all.

mod net;

mod commands;
mod hostile;
mod pair;
