//! Two sides of RDMA CM. One program: the crate is compiled once for all.

mod pair;

mod hostile;
mod seeds;
mod states;
