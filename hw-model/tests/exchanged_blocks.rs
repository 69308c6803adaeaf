//! Tests of whole NICs once more, with other implementations of the exchangeable blocks behind the
//! same ports: see `common/blocks.rs`.

#[path = "common/mod.rs"]
mod common;

#[path = "nic/datagrams.rs"]
mod datagrams;
#[path = "nic/operations.rs"]
mod operations;
#[path = "nic/queue_pairs.rs"]
mod queue_pairs;
#[path = "nic/regions.rs"]
mod regions;
#[path = "nic/send_wqe.rs"]
mod send_wqe;
#[path = "nic/shared_receive.rs"]
mod shared_receive;
#[path = "nic/unreliable.rs"]
mod unreliable;
#[path = "nic/vanishing.rs"]
mod vanishing;
#[path = "nic/window_operations.rs"]
mod window_operations;
#[path = "nic/xrc.rs"]
mod xrc;
